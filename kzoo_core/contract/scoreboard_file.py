"""``bench_result.yaml`` between bytes and a frozen record (guide, section on the seed)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kzoo_core.clock import format_time, parse_time
from kzoo_core.contract.formats.yaml_fields import read_fields
from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.records import Correctness, Scoreboard, ScoreCase, ScoreEntry
from kzoo_core.errors import Problem
from kzoo_core.ids import KernelId, kernel_id_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./@-]*", re.ASCII)
_WORDS_WITH_A_MEANING = frozenset({"y", "n", "yes", "no", "true", "false", "on", "off", "null"})
"""What YAML 1.1 takes for something other than text, in any letter case."""


def parse_scoreboard(
    data: bytes, file: str = SCOREBOARD_PATH
) -> tuple[Scoreboard | None, list[Problem]]:
    """Return the scoreboard and every problem of its file; ``None`` when a problem is an error."""
    document, problems = read_fields(data, "bench_result", file)
    if document is None:
        return None, problems
    bad_id = kernel_id_problem(document["kernel_id"], file=file)
    problems = [] if bad_id is None else [bad_id]
    problems.extend(_repeated_cases(document["cases"], file))
    return (None if problems else _scoreboard(document)), problems


def _repeated_cases(cases: list[Mapping[str, Any]], file: str) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for position, case in enumerate(cases):
        name = case["test_case_id"]
        if name in seen:
            problems.append(
                Problem(
                    code="duplicate_test_case",
                    message=f"{file} has the test case {name} twice",
                    file=file,
                    pointer=f"/cases/{position}/test_case_id",
                    found=f"{name} again",
                    expected="every test case once",
                )
            )
        seen.add(name)
    return problems


def _scoreboard(document: Mapping[str, Any]) -> Scoreboard:
    return Scoreboard(
        schema_version=document["schema_version"],
        kernel_id=KernelId(document["kernel_id"]),
        cases=tuple(_case(case) for case in document["cases"]),
        contract_id=document.get("contract_id"),
        class_key=document.get("class_key"),
    )


def _case(fields: Mapping[str, Any]) -> ScoreCase:
    return ScoreCase(
        test_case_id=fields["test_case_id"],
        metrics_best=_entries(fields["metrics_best"]),
        metrics_current=_entries(fields["metrics_current"]),
        correctness_current=Correctness(fields["correctness_current"]),
    )


def _entries(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, ScoreEntry]:
    return {
        name: ScoreEntry(
            value=float(entry["value"]),
            submitter=entry["submitter"],
            commit_sha=entry["commit_sha"],
            recorded_at=_moment(entry["recorded_at"]),
        )
        for name, entry in metrics.items()
    }


def _moment(value: str | datetime) -> datetime:
    """Return the time of a quoted or an unquoted timestamp; both are valid here (D8)."""
    return value.astimezone(UTC) if isinstance(value, datetime) else parse_time(value)


def dump_scoreboard(board: Scoreboard) -> bytes:
    """Return the file's bytes: the same board gives the same bytes, and parses to itself.

    Times are written in whole seconds, in UTC. The lines are written here and not by a YAML
    library: the form is fixed, and the library took a quarter of an accept's time.
    """
    lines = [
        f"schema_version: {_quoted(board.schema_version)}",
        f"kernel_id: {_plain(board.kernel_id)}",
        "cases:" if board.cases else "cases: []",
    ]
    for case in board.cases:
        lines.append(f"- test_case_id: {_plain(case.test_case_id)}")
        for name, entries in (
            ("metrics_best", case.metrics_best),
            ("metrics_current", case.metrics_current),
        ):
            lines.append(f"  {name}:" if entries else f"  {name}: {{}}")
            for metric, entry in entries.items():
                lines += _entry_lines(metric, entry)
        lines.append(f"  correctness_current: {case.correctness_current.value}")
    if board.contract_id is not None:
        lines.append(f"contract_id: {_plain(board.contract_id)}")
    if board.class_key is not None:
        lines.append(f"class_key: {_plain(board.class_key)}")
    return ("\n".join(lines) + "\n").encode("utf-8")


def _entry_lines(metric: str, entry: ScoreEntry) -> list[str]:
    return [
        f"    {_plain(metric)}:",
        f"      value: {_number(entry.value)}",
        f"      submitter: {_plain(entry.submitter)}",
        f"      commit_sha: {_quoted(entry.commit_sha)}",
        f"      recorded_at: {_quoted(format_time(entry.recorded_at))}",
    ]


def _number(value: float) -> str:
    """Return a float as YAML 1.1 reads it: with a point, also before an exponent (D8)."""
    text = repr(float(value))
    mantissa, exponent, power = text.partition("e")
    return text if "." in mantissa or not exponent else f"{mantissa}.0e{power}"


def _plain(text: str) -> str:
    """Return a word as it is where nothing else can be read into it, else in quotes."""
    is_plain = _PLAIN.fullmatch(text) and text.casefold() not in _WORDS_WITH_A_MEANING
    return text if is_plain else _quoted(text)


def _quoted(text: str) -> str:
    """Return a double-quoted scalar; whatever is not plainly visible is escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    escaped = (
        character if character.isprintable() and character not in '"\\' else _escape(character)
        for character in text
    )
    return f'"{"".join(escaped)}"'


def _escape(character: str) -> str:
    return f"\\U{ord(character):08x}"

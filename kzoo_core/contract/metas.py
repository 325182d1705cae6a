"""``KERNEL_ZOO_TEST_CASE_METAS`` from the source of benchmark.py, without importing it (D4).

Cases, metrics, units and directions can so be told from git alone, for any commit, by anyone.
"""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kzoo_core.contract.layout import BENCHMARK_PATH
from kzoo_core.contract.quoting import describe, listed, printable
from kzoo_core.contract.records import Direction, MetricMeta, TestCaseMeta
from kzoo_core.contract.schema_problems import pointer
from kzoo_core.contract.schemas import validate
from kzoo_core.contract.static.module import constant, is_bound, last_assignment
from kzoo_core.contract.static.operations import NotStatic
from kzoo_core.contract.static.sources import parse_python
from kzoo_core.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

METAS_NAME = "KERNEL_ZOO_TEST_CASE_METAS"

NOT_STATIC = "metas_not_static"
"""Code of the problem that metas cannot be read without running the file."""

MAX_DEPTH = 16
MAX_NODES = 50_000
"""Values in all metas together, shared ones at each of their places."""


def read_metas(
    source: bytes, file: str = BENCHMARK_PATH
) -> tuple[tuple[TestCaseMeta, ...] | None, list[Problem]]:
    """Return the test cases that a benchmark declares, in source order, and every problem.

    ``None`` when a problem is an error. ``NOT_STATIC`` says which line cannot be read without
    running the file, and what to write instead.
    """
    tree, problems = parse_python(source, file)
    return (None, problems) if tree is None else metas_of(tree, file)


def metas_of(tree: ast.Module, file: str) -> tuple[tuple[TestCaseMeta, ...] | None, list[Problem]]:
    """Like ``read_metas``, of a file that is parsed already."""
    if not is_bound(tree, METAS_NAME):
        return None, [_missing(file)]
    try:
        value = constant(tree, METAS_NAME)
    except NotStatic as error:
        return None, [_not_static(error, file)]
    places = _Places(last_assignment(tree, METAS_NAME), file)
    if not isinstance(value, list):
        return None, [places.problem("metas_not_a_list", describe(value), "a list of dicts")]
    if not value:
        return None, [places.problem("metas_empty", "an empty list", "at least one test case")]
    problems = list(_json_problems(value, places))
    if problems:
        return None, problems
    entries = [_json(entry) for entry in value]
    for number, entry in enumerate(entries):
        problems.extend(_entry_problems(number, entry, places))
    problems.extend(_repeated_ids(entries, places))
    if problems:
        return None, problems
    return tuple(_meta(entry) for entry in entries), []


class _Places:
    """Where each entry of the list stands, as far as the source shows it."""

    def __init__(self, node: ast.expr | None, file: str) -> None:
        self._node = node
        self.file = file

    def line(self, number: int | None) -> int | None:
        """Return the line of one entry, or of the whole list."""
        node = self._node
        if number is not None and isinstance(node, ast.List) and number < len(node.elts):
            node = node.elts[number]
        return node.lineno if node is not None else None

    def problem(
        self,
        code: str,
        found: str,
        expected: str,
        *,
        path: tuple[str | int, ...] = (),
        hint: str | None = None,
    ) -> Problem:
        """Return a problem of the value at ``path`` in the list."""
        steps = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        number = path[0] if path and isinstance(path[0], int) else None
        return Problem(
            code=code,
            message=f"{METAS_NAME}{printable(steps)} is {found}; expected {expected}",
            file=self.file,
            pointer=pointer(path),
            line=self.line(number),
            found=found,
            expected=expected,
            hint=hint,
        )


def _json_problems(value: list[Any], places: _Places) -> Iterator[Problem]:
    """Find what JSON cannot say: other types, keys that are no strings, numbers without end."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    for _ in range(MAX_NODES):
        if not waiting:
            return
        path, item = waiting.pop()
        if len(path) > MAX_DEPTH:
            yield places.problem("metas_not_json", "nested too deeply", "plain values", path=path)
            return
        if isinstance(item, dict):
            bad_keys = [key for key in item if not isinstance(key, str)]
            for key in bad_keys[:1]:
                found = f"a mapping with the key {describe(key)}"
                hint = f'quote the key: "{describe(key)}"'
                yield places.problem("metas_not_json", found, "string keys", path=path, hint=hint)
            if not bad_keys:
                waiting.extend(((*path, key), item[key]) for key in reversed(item))
        elif isinstance(item, list | tuple):
            waiting.extend(((*path, at), item[at]) for at in reversed(range(len(item))))
        elif isinstance(item, float) and not math.isfinite(item):
            yield places.problem("non_finite_number", repr(item), "a finite number", path=path)
        elif not isinstance(item, str | int | float | None):
            yield places.problem("metas_not_json", describe(item), "a value of JSON", path=path)
    if waiting:
        yield places.problem("metas_not_json", "larger than metas may be", "a few test cases")


def _json(value: Any) -> Any:
    """Return ``value`` as JSON has it: tuples as lists."""
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return value


def _entry_problems(number: int, entry: Any, places: _Places) -> Iterator[Problem]:
    found = validate("test_case_meta", entry, file=places.file)
    for problem in found:
        yield replace(
            problem,
            message=f"{METAS_NAME}[{number}]: {problem.message}",
            pointer=f"/{number}{problem.pointer}",
            line=places.line(number),
        )
    if found:
        return
    names = [metric["name"] for metric in entry["metrics"]]
    if entry["primary_metric"] not in names:
        yield places.problem(
            "primary_metric_unknown",
            describe(entry["primary_metric"]),
            f"one of its metrics: {listed(names)}",
            path=(number, "primary_metric"),
        )
    for at, name in _repeated(names):
        yield places.problem(
            "duplicate_metric",
            f"{describe(name)} again",
            "every metric once",
            path=(number, "metrics", at, "name"),
        )


def _repeated_ids(entries: list[Any], places: _Places) -> Iterator[Problem]:
    ids = [entry.get("test_case_id") if isinstance(entry, dict) else None for entry in entries]
    for number, name in _repeated(ids):
        yield places.problem(
            "duplicate_test_case",
            f"{describe(name)} again",
            "every test case once",
            path=(number, "test_case_id"),
        )


def _repeated(names: list[Any]) -> Iterator[tuple[int, str]]:
    """Give each string that stood in ``names`` before, with its place."""
    seen: set[str] = set()
    for at, name in enumerate(names):
        if isinstance(name, str):
            if name in seen:
                yield at, name
            seen.add(name)


def _meta(entry: Mapping[str, Any]) -> TestCaseMeta:
    return TestCaseMeta(
        test_case_id=entry["test_case_id"],
        params=entry["params"],
        primary_metric=entry["primary_metric"],
        metrics=tuple(
            MetricMeta(metric["name"], metric["unit"], Direction(metric["direction"]))
            for metric in entry["metrics"]
        ),
        tolerance=entry.get("tolerance", {}),
        work=entry.get("work"),
    )


def _missing(file: str) -> Problem:
    return Problem(
        code="metas_missing",
        message=f"{file} does not define {METAS_NAME}",
        file=file,
        found=f"no {METAS_NAME} at module level",
        expected=f"{METAS_NAME}: a list with one dict for each test case",
    )


def _not_static(error: NotStatic, file: str) -> Problem:
    return Problem(
        code=NOT_STATIC,
        message=f"{METAS_NAME} cannot be read without running {file}: it needs {error.found}",
        file=file,
        line=error.line,
        column=error.column,
        found=error.found,
        expected="literals, constants of this file, comprehensions and f-strings",
        hint=error.hint,
    )

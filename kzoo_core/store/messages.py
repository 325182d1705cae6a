"""The messages of the two commits of an accept: written for people, read back by machines (D22).

What is read back are the trailers of the last paragraph alone. The free text of a submitter stands
above it, indented, so it can never look like a trailer.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from kzoo_core.ids import CommitId, KernelId, RunnerId, Sha256, SubmissionId, SubmitterId

SUBJECT_SUMMARY_CHARACTERS = 72
SHORT_SHA = 12
INDENT = "    "

_KNOWN = {
    "Kernel-Id": "kernel_id",
    "Submission-Id": "submission_id",
    "Attempt": "attempt",
    "Submitter": "submitter",
    "Runner": "runner_id",
    "Arch": "arch",
    "Package-Sha256": "package_sha256",
    "Contract-Id": "contract_id",
    "Class-Key": "class_key",
    "Confirmation": "confirmation",
    "Isolation": "isolation",
    "Source-Commit": "source_commit",
}
"""Our trailers in the order in which they are written, and the fields that they fill."""

_SUMMARY_HEADING = "optimization_summary:"
_BIDIRECTIONAL = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_REMOVED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailers:
    """What both commits of an accept say of it; ``source_commit`` only in the second one, R.

    ``contract_id``, ``class_key`` and ``confirmation`` are written where they are known.
    """

    kernel_id: KernelId
    submission_id: SubmissionId
    attempt: int
    submitter: SubmitterId
    runner_id: RunnerId
    arch: str
    package_sha256: Sha256
    isolation: str
    contract_id: str | None = None
    class_key: str | None = None
    confirmation: str | None = None
    source_commit: CommitId | None = None


def source_message(trailers: Trailers, summary: str | None, desc_summary: str) -> str:
    """Return the message of S, the commit of the sources.

    The subject takes the first line of ``summary``, else of the datasheet's summary.
    """
    lines = _lines(summary or "")
    first = lines[0] if lines else _one_line(desc_summary)
    paragraphs = [f"accept({trailers.kernel_id}): {_cut(first)}".rstrip()]
    if lines:
        block = [f"{INDENT}{line}" if line else "" for line in lines]
        paragraphs.append("\n".join([_SUMMARY_HEADING, *block]))
    return "\n\n".join([*paragraphs, _paragraph(trailers)]) + "\n"


def bench_message(trailers: Trailers) -> str:
    """Return the message of R, the commit of the scoreboard; needs ``source_commit``."""
    if trailers.source_commit is None:
        raise ValueError("the scoreboard's commit names its source commit")
    subject = f"bench_result update (source {trailers.source_commit[:SHORT_SHA]})"
    return f"{subject}\n\n{_paragraph(trailers)}\n"


def parse_trailers(message: str) -> Trailers | None:
    """Return the trailers of an accept's commit, ``None`` for any other message.

    Lines that this product does not know (a ``Signed-off-by``) are skipped; a trailer of ours that
    is given twice makes the message none of ours.
    """
    found: dict[str, str] = {}
    for line in message.rstrip().rsplit("\n\n", 1)[-1].split("\n"):
        key, separator, value = line.partition(":")
        if not separator or key not in _KNOWN:
            continue
        if key in found:
            return None
        found[key] = value.strip()
    try:
        return Trailers(
            kernel_id=KernelId(found["Kernel-Id"]),
            submission_id=SubmissionId(found["Submission-Id"]),
            attempt=int(found["Attempt"]),
            submitter=SubmitterId(found["Submitter"]),
            runner_id=RunnerId(found["Runner"]),
            arch=found["Arch"],
            package_sha256=Sha256(found["Package-Sha256"]),
            isolation=found["Isolation"],
            contract_id=found.get("Contract-Id"),
            class_key=found.get("Class-Key"),
            confirmation=found.get("Confirmation"),
            source_commit=CommitId(found["Source-Commit"]) if "Source-Commit" in found else None,
        )
    except (KeyError, ValueError):
        return None


def parse_summary(message: str) -> str | None:
    """Return the submitter's own text from the message of S, ``None`` when there was none."""
    body = message.partition("\n\n")[2]
    if not body.startswith(f"{_SUMMARY_HEADING}\n"):
        return None
    block = body[len(_SUMMARY_HEADING) + 1 :].rpartition("\n\n")[0]
    return "\n".join(line.removeprefix(INDENT) for line in block.split("\n"))


def parse_subject(message: str) -> str:
    """Return the summary in the subject of S: what follows ``accept(<kernel_id>):``."""
    return message.partition("\n")[0].partition("): ")[2]


def _paragraph(trailers: Trailers) -> str:
    values = ((key, getattr(trailers, field)) for key, field in _KNOWN.items())
    return "\n".join(
        f"{key}: {_one_line(str(value))}" for key, value in values if value is not None
    )


def _lines(text: str) -> list[str]:
    plain = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", INDENT)
    lines = [_printable(line).rstrip() for line in plain.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def _one_line(text: str) -> str:
    return " ".join(_printable(line).strip() for line in text.splitlines()).strip()


def _printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        character
        for character in line
        if unicodedata.category(character) not in _REMOVED_CATEGORIES
        and character not in _BIDIRECTIONAL
    )


def _cut(line: str) -> str:
    line = line.strip()
    if len(line) <= SUBJECT_SUMMARY_CHARACTERS:
        return line
    return line[: SUBJECT_SUMMARY_CHARACTERS - 1].rstrip() + "…"

"""Identifiers: one ``NewType`` each, and the one place where text becomes one of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NewType

from kzoo_core.errors import BadInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

KernelId = NewType("KernelId", str)
SubmissionId = NewType("SubmissionId", str)
SubmitterId = NewType("SubmitterId", str)
RunnerId = NewType("RunnerId", str)
ClaimId = NewType("ClaimId", str)
CommitId = NewType("CommitId", str)
"""A full git object name, 40 lower-case hex digits."""
Sha256 = NewType("Sha256", str)
"""64 lower-case hex digits."""

SENTINEL_SHA = "0000000"
"""``commit_sha`` of a placeholder score: never compared, never ranked (D20)."""

KERNEL_ID_MAX_BYTES = 255
KERNEL_ID_SEGMENT_MAX_BYTES = 64
KERNEL_ID_RESERVED_LAST = frozenset(
    {"bench-history", "claim", "package", "diff", "files", "log", "status"}
)
"""Words of the API's own paths below ``/api/kernels/{kernel_id}/``."""

_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_SUBMITTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CLAIM = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def kernel_id_problem(text: str, *, file: str | None = None) -> Problem | None:
    """Say what keeps ``text`` from being a kernel_id, or ``None`` when nothing does.

    Rule D1 of the package contract: POSIX relative path, segments ``^[A-Za-z0-9._-]+$`` of at most
    64 bytes, at most 255 bytes in all; no ``.``, ``..``, ``.git`` or ``.kernel_package`` in any
    letter case; the last segment is not a word of the API's own paths.
    """

    def problem(found: str, expected: str, hint: str | None = None) -> Problem:
        return Problem(
            code="bad_kernel_id",
            message=f"kernel_id {text!r} is not valid: {found}",
            file=file,
            found=found,
            expected=expected,
            hint=hint or "name it <arch>/<op_class>/<sub_class>/<quant>/<your_name>",
        )

    if not text:
        return problem("it is empty", "at least one path segment")
    if len(text.encode("utf-8", "surrogatepass")) > KERNEL_ID_MAX_BYTES:
        return problem(f"{len(text)} characters", f"at most {KERNEL_ID_MAX_BYTES} bytes")
    segments = text.split("/")
    for segment in segments:
        if not _SEGMENT.fullmatch(segment):
            found = f"segment {segment!r}" if segment else "an empty segment"
            return problem(found, "segments that match ^[A-Za-z0-9._-]+$")
        if len(segment) > KERNEL_ID_SEGMENT_MAX_BYTES:
            return problem(
                f"segment of {len(segment)} bytes", f"at most {KERNEL_ID_SEGMENT_MAX_BYTES} bytes"
            )
        if segment in {".", ".."} or segment.casefold() in {".git", ".kernel_package"}:
            return problem(f"segment {segment!r}", "no '.', '..', '.git' or '.kernel_package'")
    if segments[-1] in KERNEL_ID_RESERVED_LAST:
        return problem(
            f"last segment {segments[-1]!r}",
            "a last segment that is no word of the API's own paths",
            hint=f"not one of: {' '.join(sorted(KERNEL_ID_RESERVED_LAST))}",
        )
    return None


def parse_kernel_id(text: str) -> KernelId:
    """Return ``text`` as a kernel_id; raises ``BadInput`` with the rule it breaks (D1)."""
    problem = kernel_id_problem(text)
    if problem is not None:
        raise BadInput("VALIDATION_ERROR", problem.message, details=(problem,))
    return KernelId(text)


def _parser(pattern: re.Pattern[str], what: str, rule: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if pattern.fullmatch(text):
            return text
        message = f"{what} {text[:80]!r} is not valid"
        problem = Problem(code=f"bad_{what}", message=message, found=repr(text[:80]), expected=rule)
        raise BadInput("VALIDATION_ERROR", message, hint=f"{what} {rule}", details=(problem,))

    return parse


_parse_submitter = _parser(_SUBMITTER, "submitter_id", "matches ^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")
_parse_uuid = _parser(_UUID, "uuid", "is a lower-case UUID such as the submission's answer gave")
_parse_claim = _parser(_CLAIM, "claim_id", "matches ^[A-Za-z0-9._-]{1,64}$")
_parse_name = _parser(_NAME, "runner_name", "matches ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


def parse_submitter_id(text: str) -> SubmitterId:
    """Return ``text`` as a submitter_id (D22); raises ``BadInput``."""
    return SubmitterId(_parse_submitter(text))


def parse_submission_id(text: str) -> SubmissionId:
    """Return ``text`` as a submission's uuid; raises ``BadInput``."""
    return SubmissionId(_parse_uuid(text))


def parse_claim_id(text: str) -> ClaimId:
    """Return ``text`` as a client-made claim_id; raises ``BadInput``."""
    return ClaimId(_parse_claim(text))


def parse_runner_name(text: str) -> str:
    """Return ``text`` as a runner's name; raises ``BadInput``."""
    return _parse_name(text)

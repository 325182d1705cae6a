"""Errors and problems: the words in which every room says what is wrong.

A ``Problem`` is one finding about one artifact. A ``KzooError`` is one reason why a call did not do
what was asked; its subclasses are named by what the caller can do about it. The server renders a
``KzooError`` as the error envelope, the commands as ``error: …`` and ``hint: …``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a problem weighs: an error refuses the artifact, a warning only says so."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding (``schemas/problem.json``): where, what was found, what was expected, what to do.

    ``code`` is a stable lower_case word. ``pointer`` is an RFC 6901 JSON pointer into ``file``;
    ``line`` and ``column`` count from 1.
    """

    code: str
    message: str
    severity: Severity = Severity.ERROR
    file: str | None = None
    pointer: str | None = None
    line: int | None = None
    column: int | None = None
    found: str | None = None
    expected: str | None = None
    hint: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the JSON form; fields that say nothing are left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def lines(self) -> list[str]:
        """Return the problem for people: severity, place, message and code; then what to do."""
        parts = (self.file, self.line, self.column)
        place = ":".join(str(part) for part in parts if part is not None) or self.pointer
        where = f" {place}:" if place else ""
        lines = [f"{self.severity}:{where} {self.message} [{self.code}]"]
        if self.expected and self.expected not in self.message:
            lines.append(f"  expected: {self.expected}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return lines


class KzooError(Exception):
    """Root of every expected error: an UPPER_CASE code, one sentence, a hint, the findings.

    ``status`` and ``request_id`` are set by the HTTP client on an error that a server answered.
    """

    status: int | None = None
    request_id: str | None = None

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        details: tuple[Problem, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.details = details
        self.retry_after_s = retry_after_s

    def as_json(self, request_id: str = "") -> dict[str, object]:
        """Return what stands under ``error`` in the error envelope (``schemas/error.json``)."""
        body: dict[str, object] = {
            "code": self.code,
            "message": self.message,
            "details": [problem.as_json() for problem in self.details],
            "request_id": request_id or self.request_id or "",
            "retry": isinstance(self, Retryable),
        }
        if self.hint is not None:
            body["hint"] = self.hint
        return body

    def lines(self) -> list[str]:
        """Return ``error: …``, a block for each problem, and ``hint: …``; nothing is said twice."""
        lines = [f"error: {self.message}"]
        for problem in self.details:
            if problem.message == self.message:
                lines += problem.lines()[1:]
            else:
                lines += [f"  {line}" for line in problem.lines()]
        if self.hint and f"  hint: {self.hint}" not in lines:
            lines.append(f"hint: {self.hint}")
        return lines


class BadInput(KzooError):
    """The caller's input breaks a rule; sending the same again cannot help."""


class Unauthorized(KzooError):
    """The caller's identity is missing or not known."""


class Forbidden(KzooError):
    """The caller is known and may not do this."""


class NotFound(KzooError):
    """There is no such thing."""


class Gone(KzooError):
    """There was such a thing; only what git keeps of it is left."""


class Conflict(KzooError):
    """The thing is in a state that does not allow this now."""


class TooLarge(KzooError):
    """The input is over a bound that the message names."""


class Retryable(KzooError):
    """Nothing is wrong with the call; it may go through later."""


class Broken(KzooError):
    """The product's own fault or its environment's: a person has to look."""


def of_system(error: OSError) -> Broken:
    """Return what the operating system refused, by the name of the file where it has one."""
    where = f"{error.filename}: " if error.filename else ""
    hint = None
    if isinstance(error, PermissionError):
        hint = "this user may not use it: name another path, or change who may"
    elif isinstance(error, NotADirectoryError | FileExistsError):
        hint = "a part of the path is no directory: name another path"
    return Broken(
        "IO_ERROR", f"{where}{error.strerror or str(error) or type(error).__name__}", hint=hint
    )

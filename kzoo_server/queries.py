"""Query parameters: each read once by its rule, all that is wrong told in one answer."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from kzoo_core.config import nearest
from kzoo_core.errors import BadInput, KzooError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import TypeVar

    from multidict import MultiMapping

    Parsed = TypeVar("Parsed")

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?(e-?[0-9]{1,2})?", re.ASCII)
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_SHOWN = 80
"""Characters of a wrong value that an answer repeats."""


class Query:
    """The parameters of one request; a context whose end refuses what was found wrong.

    Made with every name that the call knows: another one is a mistake (a misspelt filter would
    return everything), and so is a parameter given twice. Leaving the block raises ``BadInput``
    with code ``BAD_QUERY`` and one problem a parameter; inside it the readers return a default in
    place of a wrong value.
    """

    def __init__(self, parameters: MultiMapping[str], *names: str) -> None:
        self._parameters = parameters
        self._problems: list[Problem] = []
        for name in dict.fromkeys(parameters):
            if name not in names:
                neighbour = nearest(name, set(names))
                self._refuse(
                    name,
                    f"{name[:_SHOWN]!r} is no parameter of this call",
                    found=name,
                    expected="one of: " + " ".join(sorted(names)) if names else "no parameter",
                    hint=f"did you mean {neighbour!r}?" if neighbour else None,
                )
            elif len(parameters.getall(name)) > 1:
                self._refuse(
                    name,
                    f"{name} is given {len(parameters.getall(name))} times",
                    found=", ".join(parameters.getall(name)),
                    expected="one value",
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None and self._problems:
            first = self._problems[0]
            raise BadInput(
                "BAD_QUERY", first.message, hint=first.hint, details=tuple(self._problems)
            )

    def text(self, name: str) -> str | None:
        """Return a parameter as it came, ``None`` when it is missing or empty."""
        return self._parameters.get(name) or None

    def whole(
        self, name: str, default: int | None, *, low: int = 0, high: int | None = None
    ) -> int | None:
        """Return a whole number within bounds."""
        text = self._parameters.get(name)
        if text is None:
            return default
        if _WHOLE.fullmatch(text) and low <= int(text) and (high is None or int(text) <= high):
            return int(text)
        bounds = f"a whole number from {low}" + (f" to {high}" if high is not None else "")
        self._refuse(name, f"{name} is {text[:_SHOWN]!r}", found=text, expected=bounds)
        return default

    def limit(self, default: int, high: int) -> int:
        """Return ``limit``: how many entries a page has."""
        return self.whole("limit", default, low=1, high=high) or default

    def seconds(self, name: str, default: float, high: float) -> float:
        """Return a time from 0 seconds up to ``high``."""
        text = self._parameters.get(name)
        if text is None:
            return default
        if _DECIMAL.fullmatch(text) and float(text) <= high:
            return float(text)
        expected = f"a number of seconds from 0 to {high:g}"
        self._refuse(name, f"{name} is {text[:_SHOWN]!r}", found=text, expected=expected)
        return default

    def choice(self, name: str, words: Sequence[str], default: str | None = None) -> str | None:
        """Return one of ``words``."""
        text = self._parameters.get(name)
        if text is None:
            return default
        if text in words:
            return text
        neighbour = nearest(text, set(words))
        self._refuse(
            name,
            f"{name} is {text[:_SHOWN]!r}",
            found=text,
            expected="one of: " + " ".join(words),
            hint=f"did you mean {neighbour!r}?" if neighbour else None,
        )
        return default

    def truth(self, name: str) -> bool | None:
        """Return ``true`` or ``false``."""
        text = self._parameters.get(name)
        if text is None:
            return None
        if text not in _TRUTH:
            self._refuse(name, f"{name} is {text[:_SHOWN]!r}", found=text, expected="true or false")
        return _TRUTH.get(text)

    def parsed(self, name: str, parse: Callable[[str], Parsed]) -> Parsed | None:
        """Return what ``parse`` makes of a parameter; its ``KzooError`` becomes a problem."""
        text = self._parameters.get(name)
        if text is None:
            return None
        try:
            return parse(text)
        except KzooError as error:
            rule = error.details[0].expected if error.details else None
            self._refuse(name, error.message, found=text, expected=rule, hint=error.hint)
            return None

    def required(self, name: str) -> None:
        """Refuse the request when a parameter is missing."""
        if name not in self._parameters:
            self._refuse(name, f"{name} is missing", found="nothing", expected=f"?{name}=…")

    def _refuse(
        self,
        name: str,
        message: str,
        *,
        found: str,
        expected: str | None,
        hint: str | None = None,
    ) -> None:
        self._problems.append(
            Problem(
                code="bad_query",
                message=message,
                pointer=f"/query/{name[:_SHOWN]}",
                found=found[:_SHOWN],
                expected=expected,
                hint=hint,
            )
        )


def path_value(values: Mapping[str, str], name: str, parse: Callable[[str], Parsed]) -> Parsed:
    """Return what ``parse`` makes of a part of the path.

    Raises ``BadInput`` with code ``BAD_PATH`` where ``parse`` raises a ``KzooError``.
    """
    try:
        return parse(values[name])
    except KzooError as error:
        raise BadInput("BAD_PATH", error.message, hint=error.hint, details=error.details) from error


@contextmanager
def cursor_checked(cursor: str | None) -> Iterator[None]:
    """Say of a cursor that a room refuses that it is the parameter ``cursor`` that is wrong.

    Raises ``BadInput`` with code ``BAD_QUERY`` in place of the room's ``BadInput``.
    """
    try:
        yield
    except BadInput as error:
        if cursor is None:
            raise
        problem = Problem(
            code="bad_query",
            message=f"cursor is {cursor[:_SHOWN]!r}",
            pointer="/query/cursor",
            found=cursor[:_SHOWN],
            expected="the next_cursor of the page before, with the same filters and order",
            hint="begin again without a cursor",
        )
        raise BadInput(
            "BAD_QUERY", problem.message, hint=problem.hint, details=(problem,)
        ) from error

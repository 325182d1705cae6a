"""Turns a schema's error into problems that say what to write instead.

What is particular to one field stands in the schema beside it, as annotations that validation does
not read: ``x-code``, ``x-expected``, ``x-hint``, ``x-instead`` (found word → right word) and
``x-unknown-hints`` (unknown field → what to do).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, TypeAlias, cast

from kzoo_core.config import nearest
from kzoo_core.contract.quoting import describe, printable
from kzoo_core.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jsonschema import ValidationError


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands in its file, and its own spelling there if it is a scalar."""

    line: int
    column: int
    text: str | None = None


Path: TypeAlias = tuple[str | int, ...]
Locate: TypeAlias = "Callable[[Sequence[str | int]], Place | None]"

_TYPE_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}

_WRITTEN_NUMBER = re.compile(
    r"(?P<mantissa>[+-]?\d+(\.\d*)?)([eE](?P<exponent>[+-]?\d+))?", re.ASCII
)

_LONGEST_IN_MESSAGE = 120


def pointer(path: Sequence[str | int]) -> str:
    """Return ``path`` as an RFC 6901 JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def problems_of(error: ValidationError, file: str | None, locate: Locate | None) -> list[Problem]:
    """Return the problems behind one schema error; a closed object gives one for each field."""
    path: Path = tuple(error.absolute_path)
    if error.validator == "required":
        return _missing(error, path, file, locate)
    if error.validator == "additionalProperties":
        return _unknown(error, path, file, locate)
    explain = _EXPLAIN.get(str(error.validator), _other)
    place = _place(path, locate)
    found = _Found(error.instance, _schema_of(error), error.validator_value, place)
    code, expected, hint = explain(found)
    return [
        _problem(
            code=str(found.schema.get("x-code", code)) if code in _PARTICULAR else code,
            what=f"{_name(path)} is {found.shown}",
            expected=str(found.schema.get("x-expected", expected)),
            hint=hint or _text(found.schema.get("x-hint")),
            found=found.shown,
            path=path,
            file=file,
            place=found.place,
        )
    ]


@dataclass(frozen=True, slots=True)
class _Found:
    value: object
    schema: Mapping[str, object]
    rule: object
    place: Place | None

    @property
    def shown(self) -> str:
        """The value as its file spells it, where that differs from what it loads as."""
        text = self.place.text if self.place else None
        if text and not isinstance(self.value, str) and self.value is not None:
            return printable(text)
        return describe(self.value)


_Explained = tuple[str, str, str | None]


def _type(found: _Found) -> _Explained:
    types = [found.rule] if isinstance(found.rule, str) else list(_strings(found.rule))
    expected = " or ".join(_TYPE_WORDS[name] for name in types)
    return "wrong_type", expected, _type_hint(found, types)


def _type_hint(found: _Found, types: list[str]) -> str | None:
    if found.value is None:
        return "write a value, or leave the field out if it is optional"
    if "string" in types and isinstance(found.value, bool | int | float | date):
        pattern = _text(found.schema.get("pattern")) or ""
        return f'quote it: "{found.shown}"' if re.search(pattern, found.shown) else None
    if isinstance(found.value, str) and not {"number", "integer"}.isdisjoint(types):
        return _number_hint(found.value, whole="number" not in types)
    return None


def _number_hint(text: str, *, whole: bool) -> str | None:
    """Say how to write a number that YAML took for a string: in quotes, or such as ``1e-3``."""
    written = _WRITTEN_NUMBER.fullmatch(text)
    if written is None or len(text) > 40:
        return None
    mantissa, exponent = written["mantissa"], written["exponent"]
    if exponent is None:
        return f"write it without quotes: {text}"
    if whole:
        return f"write the digits: YAML reads {text} as a string"
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    sign = "" if exponent[0] in "+-" else "+"
    return f"write {mantissa}e{sign}{exponent}: YAML reads {text} as a string"


def _enum(found: _Found) -> _Explained:
    words = [str(word) for word in _strings(found.rule)]
    if isinstance(found.value, bool | int | float | date):
        return "not_one_of", f"one of: {', '.join(words)}", f'quote it: "{found.shown}"'
    instead = found.schema.get("x-instead")
    right = instead.get(str(found.value).lower()) if isinstance(instead, dict) else None
    if right is not None:
        return "not_one_of", f"one of: {', '.join(words)}", f"write {right}"
    neighbour = nearest(str(found.value), set(words))
    hint = f"did you mean {neighbour}?" if neighbour else None
    return "not_one_of", f"one of: {', '.join(words)}", hint


def _format(found: _Found) -> _Explained:
    hint = 'write it as "2026-08-02T00:00:00Z", with the zone'
    if isinstance(found.value, datetime):
        hint = f'add the zone: "{found.value.isoformat()}Z"'
    return "bad_time", "an RFC 3339 time with a zone, such as 2026-08-02T00:00:00Z", hint


def _finite(_found: _Found) -> _Explained:
    return "non_finite_number", "a finite number", "NaN, infinities and overflows are no results"


def _other(_found: _Found) -> _Explained:
    return "invalid", "a value that the schema allows", None


_EXPLAIN: dict[str, Callable[[_Found], _Explained]] = {
    "type": _type,
    "enum": _enum,
    "format": _format,
    "finite": _finite,
    "pattern": lambda found: ("bad_format", f"text that matches {found.rule}", None),
    "minLength": lambda _: ("empty", "at least one character", None),
    "maxLength": lambda found: ("too_long", f"at most {found.rule} characters", None),
    "minItems": lambda found: ("too_few", f"at least {found.rule}", None),
    "minProperties": lambda found: ("too_few", f"at least {found.rule}", None),
    "uniqueItems": lambda _: ("duplicate_item", "every item once", None),
    "minimum": lambda found: ("out_of_range", f"at least {found.rule}", None),
}

_PARTICULAR = frozenset({"bad_format", "not_one_of"})
"""Codes that a field's own ``x-code`` replaces."""


def _missing(
    error: ValidationError, path: Path, file: str | None, locate: Locate | None
) -> list[Problem]:
    # jsonschema gives one error for each missing field; its message begins with the name.
    present = cast("dict[str, object]", error.instance)
    named = [name for name in _strings(error.validator_value) if name not in present]
    name = next((name for name in named if error.message.startswith(repr(name))), named[0])
    return [
        _problem(
            code="missing_field",
            what=f"{_name(path)} has no {name}",
            expected=f"the field {name}",
            hint=_text(_property(_schema_of(error), name).get("description")),
            found=f"no {name}",
            path=path,
            file=file,
            place=_place(path, locate),
        )
    ]


def _unknown(
    error: ValidationError, path: Path, file: str | None, locate: Locate | None
) -> list[Problem]:
    schema = cast("dict[str, dict[str, str]]", _schema_of(error))
    known = schema.get("properties", {})
    hints = schema.get("x-unknown-hints", {})
    problems = []
    for name in cast("dict[str, object]", error.instance):
        if name in known:
            continue
        neighbour = nearest(name, set(known))
        spare = f"did you mean {neighbour}?" if neighbour else "remove it"
        problems.append(
            _problem(
                code="unknown_field",
                what=f"{_name(path)} has an unknown field {printable(name)}",
                expected=f"only: {', '.join(known)}",
                hint=hints.get(name, spare),
                found=printable(name),
                path=(*path, name),
                file=file,
                place=_place((*path, name), locate),
            )
        )
    return problems


def _problem(
    *,
    code: str,
    what: str,
    expected: str,
    hint: str | None,
    found: str,
    path: Path,
    file: str | None,
    place: Place | None,
) -> Problem:
    short = len(expected) <= _LONGEST_IN_MESSAGE
    return Problem(
        code=code,
        message=f"{what}; expected {expected}" if short else what,
        file=file,
        pointer=pointer(path),
        line=place.line if place else None,
        column=place.column if place else None,
        found=found,
        expected=expected,
        hint=hint,
    )


def _name(path: Path) -> str:
    if not path:
        return "the document"
    steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return printable("".join(steps).removeprefix("."))


def _place(path: Path, locate: Locate | None) -> Place | None:
    return locate(path) if locate is not None else None


def _schema_of(error: ValidationError) -> Mapping[str, object]:
    return error.schema if isinstance(error.schema, dict) else {}


def _property(schema: Mapping[str, object], name: str) -> Mapping[str, object]:
    properties = schema.get("properties")
    found = properties.get(name) if isinstance(properties, dict) else None
    return found if isinstance(found, dict) else {}


def _strings(value: object) -> list[str]:
    return [item for item in value if item is not None] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None

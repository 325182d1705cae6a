"""The JSON Schemas, read and compiled once, and the one way to validate a value against them."""

from __future__ import annotations

import itertools
import json
import math
from datetime import date, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend
from referencing import Registry, Resource

from kzoo_core.clock import parse_time
from kzoo_core.contract.schema_problems import problems_of
from kzoo_core.errors import NotFound
from kzoo_core.resources import schemas_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema.protocols import Validator

    from kzoo_core.contract.schema_problems import Locate
    from kzoo_core.errors import Problem

MAX_ERRORS = 200
"""Errors reported of one value: a hostile file cannot make an answer without end."""


@lru_cache(maxsize=1)
def schema_names() -> tuple[str, ...]:
    """Return the names of all schemas: the stems of ``schemas/*.json``, sorted."""
    return tuple(sorted(path.stem for path in schemas_directory().glob("*.json")))


@cache
def schema(name: str) -> Mapping[str, object]:
    """Return one schema's document; raises ``NotFound`` with the names that exist."""
    if name not in schema_names():
        raise NotFound(
            "UNKNOWN_SCHEMA",
            f"there is no schema {name!r}",
            hint=f"one of: {' '.join(schema_names())}",
        )
    text = (schemas_directory() / f"{name}.json").read_text(encoding="utf-8")
    document: dict[str, object] = json.loads(text)
    return document


def validate(
    name: str, instance: object, *, file: str | None = None, locate: Locate | None = None
) -> list[Problem]:
    """Return what keeps ``instance`` from matching the schema ``name``: at most 200 problems.

    ``instance`` may come from JSON or from YAML: an aware ``datetime`` is accepted where the schema
    asks for a ``date-time`` and nowhere else, and a number must be finite (D8). ``locate`` turns a
    path into a line of ``file``. Raises ``NotFound`` for an unknown name.
    """
    errors = itertools.islice(validator(name).iter_errors(cast("Any", instance)), MAX_ERRORS)
    return [problem for error in errors for problem in problems_of(error, file, locate)]


@cache
def validator(name: str) -> Validator:
    """Return the compiled validator of one schema, the same object at every call."""
    compiled: Validator = _Validator(
        schema(name), registry=schema_registry(), format_checker=_formats()
    )
    return compiled


@lru_cache(maxsize=1)
def schema_registry() -> Registry[Any]:
    """Return all schemas by their ``$id``, so that references between them resolve here."""
    resources = [Resource.from_contents(dict(schema(name))) for name in schema_names()]
    return Registry[Any]().with_resources((resource.id() or "", resource) for resource in resources)


@lru_cache(maxsize=1)
def _formats() -> FormatChecker:
    formats = FormatChecker(formats=())
    formats.checks("date-time", raises=(ValueError, OverflowError))(_is_time)
    return formats


def _is_time(value: object) -> bool:
    if isinstance(value, str):
        parse_time(value)
    return True


def _type(
    validator: Any, types: Any, instance: object, schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    """Check ``type``, knowing two things that JSON does not have: YAML's times, and NaN."""
    if isinstance(instance, date):
        zoned = isinstance(instance, datetime) and instance.tzinfo is not None
        if schema.get("format") == "date-time":
            if not zoned:
                yield ValidationError("a time without a zone", validator="format")
            return
    elif isinstance(instance, int | float) and not _is_finite(instance):
        yield ValidationError("not a finite number", validator="finite")
        return
    yield from Draft202012Validator.VALIDATORS["type"](validator, types, instance, schema)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond a double
        return False


_Validator = extend(Draft202012Validator, {"type": _type})  # type: ignore[no-untyped-call]  # jsonschema's own

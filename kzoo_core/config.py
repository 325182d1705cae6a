"""Settings from four places: flags over environment over a YAML file over defaults.

A program describes its settings as one frozen dataclass whose fields are made with ``setting``;
``resolve`` fills it and says where each value came from. This module reads neither ``argv`` nor the
environment: an entry point hands both in.
"""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import yaml

from kzoo_core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

Settings = TypeVar("Settings")

_KIND_WORDS: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Path: "a path",
    str: "text",
}


def setting(
    default: Any,
    *,
    about: str,
    env: str | None = None,
    at_least: float | None = None,
) -> Any:
    """Describe one setting: its default, one sentence on what it does, its environment variable.

    ``at_least`` is the smallest number that makes sense. A unit belongs in the field's name
    (``lease_s``, ``body_limit_bytes``).
    """
    return field(default=default, metadata={"help": about, "env": env, "at_least": at_least})


@dataclass(frozen=True, slots=True)
class Resolved(Generic[Settings]):
    """Filled settings, and by field name where each value came from."""

    settings: Settings
    origin: Mapping[str, str]


def resolve(
    kind: type[Settings],
    *,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    file: Path | None,
) -> Resolved[Settings]:
    """Fill ``kind`` from flags (``None`` means not given), environment, file and defaults.

    Raises ``BadInput`` with code ``CONFIG_ERROR`` that names the file or variable, the key, the
    value found and what was expected; an unknown key names its nearest neighbour.
    """
    fields = {item.name: item for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    types = get_type_hints(kind)
    from_file = _read_file(file, set(fields)) if file is not None else {}
    values: dict[str, object] = {}
    origin: dict[str, str] = {}
    for name, item in fields.items():
        variable = item.metadata.get("env")
        source: tuple[object, str] | None = None
        if flags.get(name) is not None:
            source = (flags[name], f"flag --{name.replace('_', '-')}")
        elif variable and environment.get(variable, "") != "":
            source = (environment[variable], f"environment {variable}")
        elif name in from_file:
            source = (from_file[name], f"file {file}")
        if source is None:
            origin[name] = "default"
            continue
        raw, origin[name] = source
        values[name] = _convert(raw, types[name], item.metadata.get("at_least"), name, origin[name])
    return Resolved(kind(**values), origin)


def nearest(word: str, words: set[str]) -> str | None:
    """Return the word of ``words`` that ``word`` was most likely meant to be, if one is close."""
    close = difflib.get_close_matches(word, sorted(words), n=1, cutoff=0.5)
    return close[0] if close else None


def _read_file(path: Path, known: set[str]) -> dict[str, object]:
    try:
        document = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    except OSError as error:
        raise BadInput(
            "CONFIG_ERROR", f"cannot read the configuration file {path}: {error.strerror}"
        ) from error
    except yaml.YAMLError as error:
        raise BadInput(
            "CONFIG_ERROR", f"the configuration file {path} is not YAML: {error}"
        ) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise BadInput(
            "CONFIG_ERROR",
            f"the configuration file {path} holds a {type(document).__name__}, not a mapping",
            hint="write one 'setting: value' a line",
        )
    for key in document:
        if key not in known:
            neighbour = nearest(str(key), known)
            raise BadInput(
                "CONFIG_ERROR",
                f"{path}: unknown setting {key!r}",
                hint=f"did you mean {neighbour!r}?" if neighbour else "see 'config show'",
            )
    return document


def _convert(raw: object, wanted: object, at_least: float | None, name: str, where: str) -> object:
    kinds = get_args(wanted) if get_origin(wanted) is UnionType else (wanted,)
    if raw is None and NoneType in kinds:
        return None
    kind = next(item for item in kinds if item is not NoneType)
    try:
        value = _cast(raw, kind)
    except (TypeError, ValueError, KeyError) as error:
        raise BadInput(
            "CONFIG_ERROR",
            f"{where}: {name} is {raw!r}, expected {_KIND_WORDS.get(kind, kind)}",
        ) from error
    if at_least is not None and isinstance(value, int | float) and value < at_least:
        raise BadInput("CONFIG_ERROR", f"{where}: {name} is {value}, expected at least {at_least}")
    return value


def _cast(raw: object, kind: object) -> object:
    if kind is bool:
        if isinstance(raw, bool):
            return raw
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
            str(raw).lower()
        ]
    if isinstance(raw, bool):
        raise TypeError("a truth value is no number or text")
    if kind is int:
        if isinstance(raw, float):
            raise TypeError("a whole number is expected")
        return int(str(raw))
    if kind is float:
        return float(str(raw))
    if kind is Path:
        return Path(str(raw)).expanduser()
    if get_origin(kind) is tuple:
        items = raw if isinstance(raw, list | tuple) else str(raw).split(",")
        return tuple(str(item).strip() for item in items if str(item).strip())
    return str(raw)

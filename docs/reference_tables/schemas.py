"""Tables from ``schemas/*.json``: fields, verdict reasons, outcomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference_tables.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]
SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


def load_schema(name: str) -> Schema:
    """Return ``schemas/<name>.json``."""
    document: Schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    return document


def schema_block(name: str) -> str:
    """Return what one schema says: its description and a row for each field, nested ones too."""
    schema = load_schema(name)
    rows = [
        (f"`{path}`", kind, "yes" if required else "no", meaning)
        for path, kind, required, meaning in _fields(schema, schema, "")
    ]
    body = table(("field", "type", "required", "meaning"), rows)
    return f"\n{schema['description']}\n\n{body}\n"


def _fields(node: Schema, root: Schema, prefix: str) -> Iterator[tuple[str, str, bool, str]]:
    """Yield path, type, whether required and meaning of every field below ``node``."""
    required = set(node.get("required", ()))
    for name, child in node.get("properties", {}).items():
        yield from _field(child, root, f"{prefix}{name}", required=name in required)
    values = node.get("additionalProperties")
    if isinstance(values, dict):
        yield from _field(values, root, f"{prefix}<name>", required=False)


def _field(
    child: Schema, root: Schema, path: str, *, required: bool
) -> Iterator[tuple[str, str, bool, str]]:
    target = _resolve(child, root)
    meaning = str(child.get("description", target.get("description", "")))
    yield path, _type(child, root), required, meaning
    if "items" in target:
        item = _resolve(target["items"], root)
        yield from _fields(item, root, f"{path}[].")
    else:
        yield from _fields(target, root, f"{path}.")


def _resolve(node: Schema, root: Schema) -> Schema:
    """Follow a ``$ref`` inside the same file; one to another file is left and shown as a link."""
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        return _resolve(options[0], root)
    reference = str(node.get("$ref", ""))
    if not reference.startswith("#/$defs/"):
        return node
    target: Schema = root["$defs"][reference.removeprefix("#/$defs/")]
    return target


def _type(node: Schema, root: Schema) -> str:
    nullable = any(option.get("type") == "null" for option in node.get("anyOf", ()))
    target = _resolve(node, root)
    if "$ref" in target:
        text = f"[{title(target['$ref'])}](#{anchor(target['$ref'])})"
    elif "enum" in target:
        nullable = nullable or None in target["enum"]
        text = " ".join(f"`{value}`" for value in target["enum"] if value is not None)
    elif "oneOf" in target:
        text = " ".join(f"`{option['const']}`" for option in target["oneOf"])
    else:
        names = target.get("type", "any")
        names = [names] if isinstance(names, str) else names
        nullable = nullable or "null" in names
        text = " or ".join(name for name in names if name != "null")
        if "items" in target:
            text = f"array of {_type(target['items'], root)}"
    bounded = ", ".join(part for part in (text, bounds(target)) if part)
    return bounded + (" or null" if nullable else "")


def bounds(node: Schema) -> str:
    """Return a node's bounds in words."""
    words = []
    if "format" in node:
        words.append(str(node["format"]))
    if "pattern" in node:
        words.append(f"`{node['pattern']}`")
    for key, word in (
        ("minimum", "at least {}"),
        ("maximum", "at most {}"),
        ("maxLength", "at most {} characters"),
    ):
        if key in node:
            words.append(word.format(node[key]))
    if node.get("minLength") == 1 and "pattern" not in node:
        words.append("not empty")
    if node.get("minItems", 0) >= 1:
        words.append(f"{node['minItems']} or more")
    if node.get("uniqueItems"):
        words.append("no value twice")
    return ", ".join(words)


def title(reference: str) -> str:
    """Return what a reference to a file is called."""
    name, _, inner = reference.partition("#/$defs/")
    return inner or Path(name).stem


def anchor(reference: str) -> str:
    """Return the section of kernel_package_format.md that a reference to a file leads to."""
    return Path(reference.partition("#")[0]).stem


def reasons_block() -> str:
    """Return the verdict's reasons in their order: the first that applies is the reason."""
    reasons = load_schema("verdict")["$defs"]["reason"]["oneOf"]
    rows = [
        (str(number), f"`{item['const']}`", item["description"])
        for number, item in enumerate(reasons, start=1)
    ]
    return "\n" + table(("", "reason", "when"), rows) + "\n"


def outcomes_block() -> str:
    """Return the five ways in which a submission ends."""
    outcomes = load_schema("verdict")["$defs"]["outcome"]["oneOf"]
    rows = [(f"`{item['const']}`", item["description"]) for item in outcomes]
    return "\n" + table(("outcome", "meaning"), rows) + "\n"

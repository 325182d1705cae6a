"""Tables from ``schemas/openapi.yaml``: routes, calls, error codes, objects."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import yaml

from reference_tables.markdown import sentence, table
from reference_tables.schemas import SCHEMAS, Schema, anchor, bounds, title

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_METHODS = ("get", "post", "put", "patch", "delete")
_OF_EVERY_CALL = frozenset({"Internal", "Unavailable", "BadQuery"})
_HEADERS_OF_EVERY_CALL = frozenset({"X-Request-Id", "ETag", "Retry-After"})


def load_openapi() -> Schema:
    """Return ``schemas/openapi.yaml``."""
    document: Schema = yaml.load((SCHEMAS / "openapi.yaml").read_bytes(), Loader=yaml.CSafeLoader)
    return document


def operations(document: Schema) -> Iterator[tuple[str, str, Schema, Schema]]:
    """Yield method, path, operation and path item of every route, in the document's order."""
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield method.upper(), path, item[method], item


def routes_block() -> str:
    """Return one row a route, linked to its section."""
    rows = [
        (f"[`{method} {path}`](#{_call_anchor(method, path)})", operation["summary"].rstrip("."))
        for method, path, operation, _ in operations(load_openapi())
    ]
    return "\n" + table(("call", "what it does"), rows) + "\n"


def _call_anchor(method: str, path: str) -> str:
    """Return the anchor that GitHub makes of a call's heading."""
    return re.sub(r"[^\w\- ]", "", f"{method} {path}".lower()).replace(" ", "-")


def errors_block() -> str:
    """Return every error code that the document names, with the statuses it comes with."""
    document = load_openapi()
    statuses: dict[str, set[str]] = {}
    for _, _, operation, _ in operations(document):
        for status, reference in operation["responses"].items():
            if str(status) >= "400":
                text = _component(document, reference)["description"]
                for code in re.findall(r"`([A-Z][A-Z0-9_]+)`", text):
                    statuses.setdefault(code, set()).add(str(status))
    rows = [(f"`{code}`", " ".join(sorted(statuses[code]))) for code in sorted(statuses)]
    return "\n" + table(("code", "status"), rows) + "\n"


def calls_block() -> str:
    """Return one section a route: what it does, its parameters, its body, its answers."""
    document = load_openapi()
    sections = []
    for method, path, operation, item in operations(document):
        parts = [f"### `{method} {path}`\n\n", f"{sentence(operation['summary'])}\n\n"]
        if operation.get("description"):
            parts.append(f"{operation['description'].strip()}\n\n")
        parts.append(
            _parameters(document, [*item.get("parameters", ()), *operation.get("parameters", ())])
        )
        parts.append(_body(document, operation))
        parts.append(_answers(document, operation))
        sections.append("".join(parts))
    return "\n" + "".join(sections)


def _component(document: Schema, node: Schema) -> Schema:
    """Follow ``#/components/...``; anything else is returned as it is."""
    reference = str(node.get("$ref", ""))
    if not reference.startswith("#/"):
        return node
    target: Any = document
    for step in reference.removeprefix("#/").split("/"):
        target = target[step]
    return _component(document, target)


def _parameters(document: Schema, listed: Sequence[Schema]) -> str:
    rows = []
    for reference in listed:
        parameter = _component(document, reference)
        rows.append(
            (
                f"`{parameter['name']}`",
                parameter["in"],
                _api_type(document, parameter.get("schema", {})),
                "yes" if parameter.get("required") else "no",
                parameter.get("description", ""),
            )
        )
    if not rows:
        return ""
    return table(("parameter", "in", "type", "required", "meaning"), rows) + "\n"


def _body(document: Schema, operation: Schema) -> str:
    if "requestBody" not in operation:
        return ""
    body = _component(document, operation["requestBody"])
    about = f" {sentence(body['description'])}" if "description" in body else ""
    kinds = [
        f"Body: `{media}`, {_api_type(document, content['schema'])}.{about}\n\n"
        for media, content in body["content"].items()
    ]
    return "".join(kinds)


def _answers(document: Schema, operation: Schema) -> str:
    """Return the answers that are the call's own; those of every call are said once, in prose."""
    rows = []
    for status, reference in operation["responses"].items():
        if str(reference.get("$ref", "")).rpartition("/")[2] in _OF_EVERY_CALL:
            continue
        answer = _component(document, reference)
        kinds = [
            _api_type(document, content["schema"]) if media == "application/json" else f"`{media}`"
            for media, content in answer.get("content", {}).items()
        ]
        when = answer["description"] + "".join(
            f" `{name}`: {sentence(_component(document, header)['description'])}"
            for name, header in answer.get("headers", {}).items()
            if name not in _HEADERS_OF_EVERY_CALL
        )
        rows.append((str(status), when, ", ".join(kinds)))
    return table(("status", "when", "body"), rows) + "\n"


def objects_block() -> str:
    """Return one section an object that only the API has, with a row for each field."""
    document = load_openapi()
    sections = []
    for name, schema in document["components"]["schemas"].items():
        if "properties" not in schema:
            continue
        required = set(schema.get("required", ()))
        rows = [
            row
            for field, child in schema["properties"].items()
            for row in _api_rows(document, child, field, required=field in required)
        ]
        rows_text = table(("field", "type", "required", "meaning"), rows)
        sections.append(f"### {name}\n\n{sentence(schema['description'])}\n\n{rows_text}\n")
    return "\n" + "".join(sections)


def _api_rows(
    document: Schema, child: Schema, path: str, *, required: bool
) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for a field and one for each field of the objects that lie inside it."""
    meaning = child.get("description") or _component(document, child).get("description", "")
    yield f"`{path}`", _api_type(document, child), "yes" if required else "no", meaning
    options = [option for option in child.get("anyOf", ()) if option.get("type") != "null"]
    inner = options[0] if len(options) == 1 else child
    if "items" in inner:
        inner, path = inner["items"], f"{path}[]"
    for name, grandchild in inner.get("properties", {}).items():
        needed = name in inner.get("required", ())
        yield from _api_rows(document, grandchild, f"{path}.{name}", required=needed)


def _api_type(document: Schema, schema: Schema) -> str:
    """Name a type: a file of ``schemas/`` or an object of the API by its link, else what it is."""
    reference = str(schema.get("$ref", ""))
    if ".json" in reference:
        return f"[{title(reference)}](kernel_package_format.md#{anchor(reference)})"
    if reference:
        target = _component(document, schema)
        if "properties" not in target:
            return _api_type(document, target)
        name = reference.rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    nullable = "anyOf" in schema and any(o.get("type") == "null" for o in schema["anyOf"])
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        text = " or ".join(_api_type(document, option) for option in options)
        return text + (" or null" if nullable else "")
    if "const" in schema:
        text = f"`{schema['const']}`"
    elif "enum" in schema:
        text = " ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    else:
        names = schema.get("type", "any")
        text = " or ".join([names] if isinstance(names, str) else names)
    if "items" in schema:
        text = f"array of {_api_type(document, schema['items'])}"
    default = f"default `{json.dumps(schema['default'])}`" if "default" in schema else ""
    return ", ".join(part for part in (text, bounds(schema), default) if part)

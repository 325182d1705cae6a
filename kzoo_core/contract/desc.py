"""``desc.yaml`` from bytes to a frozen record (authoring guide, section on desc.yaml)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kzoo_core.contract.formats.yaml_fields import read_fields
from kzoo_core.contract.layout import DESC_PATH
from kzoo_core.contract.records import Category, Desc, IoTensor, Quantization, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kzoo_core.errors import Problem


def parse_desc(data: bytes, file: str = DESC_PATH) -> tuple[Desc | None, list[Problem]]:
    """Return the datasheet and every problem of its file; ``None`` when a problem is an error."""
    document, problems = read_fields(data, "desc", file)
    return (_desc(document) if document is not None else None), problems


def _desc(document: Mapping[str, Any]) -> Desc:
    return Desc(
        schema_version=document["schema_version"],
        name=document["name"],
        category=Category(**document["category"]),
        summary=document["summary"],
        description=document["description"],
        io_signature=tuple(_tensor(tensor) for tensor in document["io_signature"]),
        quantization=Quantization(**document["quantization"]),
        reference_sources=tuple(document["reference_sources"]),
        status=Status(document["status"]),
        min_arch_feature=document.get("min_arch_feature"),
        tags=tuple(document.get("tags", ())),
        owner=document.get("owner"),
    )


def _tensor(fields: Mapping[str, Any]) -> IoTensor:
    shape = cast("list[int | str]", fields["shape"])
    return IoTensor(
        name=fields["name"],
        kind=fields["kind"],
        dtype=fields["dtype"],
        shape=tuple(shape),
        shape_desc=fields.get("shape_desc"),
        semantics=fields.get("semantics"),
    )

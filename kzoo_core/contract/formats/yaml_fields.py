"""A YAML file of the contract as validated fields, with each problem's line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kzoo_core.contract.documents import load_yaml_document
from kzoo_core.contract.schemas import validate
from kzoo_core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kzoo_core.errors import Problem


def read_fields(
    data: bytes, schema_name: str, file: str
) -> tuple[Mapping[str, Any] | None, list[Problem]]:
    """Return the mapping in ``data`` if it matches the schema, else ``None`` and why not."""
    try:
        document = load_yaml_document(data, file)
    except BadInput as error:
        return None, list(error.details)
    problems = validate(schema_name, document.value, file=file, locate=document.locate)
    if problems or not isinstance(document.value, dict):
        return None, problems
    return document.value, []

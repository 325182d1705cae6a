"""The two document formats of the contract, as every room reads and writes them."""

from __future__ import annotations

from kzoo_core.contract.formats.json_documents import NonFiniteNumber, NotOneDocument, load_json
from kzoo_core.contract.formats.yaml_documents import (
    YamlDocument,
    dump_yaml,
    load_yaml,
    load_yaml_document,
)

__all__ = [
    "NonFiniteNumber",
    "NotOneDocument",
    "YamlDocument",
    "dump_yaml",
    "load_json",
    "load_yaml",
    "load_yaml_document",
]

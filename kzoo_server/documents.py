"""The OpenAPI document: served as it is, and the one rule by which request bodies are checked."""

from __future__ import annotations

import hashlib
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from referencing.jsonschema import DRAFT202012

from kzoo_core.contract.documents import load_yaml
from kzoo_core.contract.schema_problems import problems_of
from kzoo_core.contract.schemas import schema_registry
from kzoo_core.errors import Broken
from kzoo_core.resources import schemas_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema.protocols import Validator
    from referencing import Registry

    from kzoo_core.errors import Problem

BASE = "https://kernel-zoo.invalid/schemas/"
OPENAPI_FILE = "openapi.yaml"
PROBLEMS_MAX = 50


class ApiDocument:
    """``schemas/openapi.yaml`` with the schemas beside it, parsed once."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._validators: dict[str, Validator] = {}

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The parsed document; raises ``Broken`` when it is not a mapping."""
        document = load_yaml(self.text, OPENAPI_FILE)
        if not isinstance(document, dict):
            raise Broken("API_DOCUMENT_UNREADABLE", f"{OPENAPI_FILE} is no mapping")
        return document

    @cached_property
    def etag(self) -> str:
        """The document's ETag: its own digest."""
        return etag_of(self.text)

    @cached_property
    def registry(self) -> Registry[Any]:
        """All documents by their address, so that references between them resolve here."""
        document = DRAFT202012.create_resource(self.content)
        whole: Registry[Any] = schema_registry().with_resource(BASE + OPENAPI_FILE, document)
        return whole

    def validator(self, pointer: str) -> Validator:
        """Return the compiled validator of the schema at ``pointer``, a JSON pointer into it."""
        if pointer not in self._validators:
            reference = {"$ref": f"{BASE}{OPENAPI_FILE}#{pointer}"}
            self._validators[pointer] = Draft202012Validator(
                reference,
                registry=self.registry,
                format_checker=Draft202012Validator.FORMAT_CHECKER,
            )
        return self._validators[pointer]

    def make_ready(self) -> None:
        """Parse the document now, so that no call has to wait for it; raises as ``content``."""
        self.registry  # noqa: B018 - a cached property: asking is making

    def body_problems(self, component: str, body: Any) -> list[Problem]:
        """Return what keeps a request's body from being a ``components.schemas`` entry.

        A body can be wrong in as many ways as it has items; ``PROBLEMS_MAX`` of them are told.
        """
        errors = self.validator(f"/components/schemas/{component}").iter_errors(body)
        problems = (problem for error in errors for problem in problems_of(error, None, None))
        return list(islice(problems, PROBLEMS_MAX))


@lru_cache(maxsize=1)
def api_document() -> ApiDocument:
    """Return the document that travels with the code."""
    return ApiDocument((schemas_directory() / OPENAPI_FILE).read_bytes())


def etag_of(data: bytes) -> str:
    """Return the ETag of bytes that have no other name."""
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'

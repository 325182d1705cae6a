"""Holds answers against ``schemas/openapi.yaml``: status, headers, content type, body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from openapi_schema_validator import OAS31Validator

from kzoo_server.documents import BASE, OPENAPI_FILE, ApiDocument, api_document

Node = Mapping[str, Any]


class ContractCheck:
    """What is wrong with answers, as sentences; a server that keeps its word gives none."""

    def __init__(self, document: ApiDocument) -> None:
        self._document = document
        self._resolver = document.registry.resolver(BASE + OPENAPI_FILE)
        self._validators: dict[str, OAS31Validator] = {}

    def operation(self, path: str, method: str) -> Node | None:
        """Return the operation of a route; HEAD is answered like GET."""
        item = self._document.content["paths"].get(path, {})
        found: Node | None = item.get("get" if method == "HEAD" else method.lower())
        return found

    def violations(self, request: web.Request, response: web.StreamResponse) -> list[str]:
        """Return what in an answer is not as the document says."""
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else None
        operation = self.operation(route, request.method) if route is not None else None
        where = f"{request.method} {route or request.path} {response.status}"
        body = response.body if isinstance(response, web.Response) else None
        data = body if isinstance(body, bytes) else b""
        if operation is None:
            return self._stranger(where, response, data)
        answer = operation["responses"].get(str(response.status))
        if answer is None:
            return [f"{where}: the status is not documented"]
        answer = self._resolved(answer)
        found = [f"{where}: {item}" for item in self._headers(answer, response)]
        if response.headers.get("Content-Encoding") == "gzip":
            return found
        return found + [f"{where}: {item}" for item in self._content(answer, response, data)]

    def _stranger(self, where: str, response: web.StreamResponse, data: bytes) -> list[str]:
        """Hold an answer to what is no call (404, 405) against the envelope alone."""
        if response.status not in {404, 405}:
            return [f"{where}: no documented operation"]
        problems = self._body({"$ref": "error.json"}, json.loads(data))
        return [f"{where}: {problem}" for problem in problems]

    def _headers(self, answer: Node, response: web.StreamResponse) -> list[str]:
        found = []
        for name, declared in answer.get("headers", {}).items():
            header = self._resolved(declared)
            value = response.headers.get(name)
            if value is None:
                found += [f"no header {name}"] if header.get("required") else []
                continue
            problems = self._body(header["schema"], value)
            found += [f"header {name} {value!r}: {problem}" for problem in problems]
        return found

    def _content(self, answer: Node, response: web.StreamResponse, data: bytes) -> list[str]:
        content = answer.get("content", {})
        if not content:
            return [f"a body of {len(data)} bytes is not documented"] if data else []
        media = content.get(response.content_type)
        if media is None:
            return [f"content type {response.content_type} is not one of {sorted(content)}"]
        if response.content_type.endswith("json"):
            return self._body(media["schema"], json.loads(data))
        return []

    def _body(self, schema: Node, value: object) -> list[str]:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            here = {"$id": f"{BASE}{OPENAPI_FILE}", **schema}
            if "$ref" in schema:
                reference = schema["$ref"]
                target = reference if not reference.startswith("#") else OPENAPI_FILE + reference
                here = {"$ref": BASE + target}
            self._validators[key] = OAS31Validator(
                here,
                registry=self._document.registry,
                format_checker=OAS31Validator.FORMAT_CHECKER,
            )
        errors = self._validators[key].iter_errors(value)
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]

    def _resolved(self, node: Node) -> Node:
        reference = node.get("$ref")
        if reference is None:
            return node
        resolved: Node = self._resolver.lookup(reference).contents
        return resolved


def contract_check() -> ContractCheck:
    """Return the check against the document that travels with the code."""
    return ContractCheck(api_document())

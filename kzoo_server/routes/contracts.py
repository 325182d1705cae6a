"""The contracts as files: the JSON Schemas and the OpenAPI document."""

from __future__ import annotations

from aiohttp import web

from kzoo_core.contract.schemas import schema
from kzoo_core.resources import schemas_directory
from kzoo_server.answers import prepared_answer
from kzoo_server.documents import etag_of
from kzoo_server.keys import DOCUMENT
from kzoo_server.queries import Query

ROUTES = web.RouteTableDef()


@ROUTES.get("/api/openapi.yaml")
async def openapi(request: web.Request) -> web.StreamResponse:
    """Answer with the document that this server is held to."""
    with Query(request.query):
        document = request.app[DOCUMENT]
    return prepared_answer(
        request,
        document.text,
        etag=document.etag,
        content_type="application/yaml",
        charset="utf-8",
    )


@ROUTES.get("/api/schemas/{name}")
async def schema_file(request: web.Request) -> web.StreamResponse:
    """Answer with one schema, byte for byte as it lies in ``schemas/``."""
    with Query(request.query):
        name = request.match_info["name"].removesuffix(".json")
    schema(name)  # raises NotFound for a name that is none, so the path below is one of ours
    data = (schemas_directory() / f"{name}.json").read_bytes()
    return prepared_answer(
        request, data, etag=etag_of(data), content_type="application/schema+json"
    )

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kzoo_core.clock import SystemClock
from kzoo_core.resources import schemas_directory
from kzoo_server.app import create_app
from kzoo_server.documents import BASE, OPENAPI_FILE, PROBLEMS_MAX, ApiDocument, api_document
from kzoo_server.settings import ServerSettings
from tests.server.conftest import CHECK, Served
from tests.server.stub_runner import registration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.server.api_client import ApiClient

DOCUMENT = api_document().content
VERBS = {"get", "post", "patch", "put", "delete"}
UUID = "00000000-0000-4000-8000-000000000000"


def test_a_document_that_was_made_ready_parses_nothing_later() -> None:
    document = ApiDocument(api_document().text)
    assert "content" not in vars(document)
    document.make_ready()
    assert {"content", "registry"} <= vars(document).keys()


def test_a_body_with_thousands_of_faults_hears_of_the_first_ones() -> None:
    body = registration(features=[1] * 5000)
    problems = api_document().body_problems("RegisterRequest", body)
    assert len(problems) == PROBLEMS_MAX
    assert "/features/0" in {problem.pointer for problem in problems}


def operations() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for verb in sorted(item.keys() & VERBS):
            yield path, verb.upper(), item[verb]


def resolved(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return CHECK._resolved(node)


def parameters(operation: Mapping[str, Any], where: str) -> set[str]:
    declared = [resolved(item) for item in operation.get("parameters", [])]
    return {item["name"] for item in declared if item["in"] == where}


async def test_every_route_is_documented_and_every_documented_call_is_routed() -> None:
    app = create_app(ServerSettings(), SystemClock(), new_request_id=lambda: "r", token_bytes=bytes)
    routed = {
        (route.resource.canonical, route.method)
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert routed == {(path, method) for path, method, _ in operations()}


async def test_only_what_reads_answers_head() -> None:
    app = create_app(ServerSettings(), SystemClock(), new_request_id=lambda: "r", token_bytes=bytes)
    heads = {
        route.resource.canonical
        for route in app.router.routes()
        if route.resource is not None and route.method == "HEAD"
    }
    gets = {path for path, method, _ in operations() if method == "GET"}
    assert heads == gets - {"/api/runner/claim"}


def test_every_reference_leads_somewhere() -> None:
    resolver = api_document().registry.resolver(BASE + OPENAPI_FILE)
    references = set(_references(DOCUMENT))
    assert len(references) > 50
    for reference in references:
        resolver.lookup(reference)


def test_every_component_is_used() -> None:
    references = set(_references(DOCUMENT))
    for kind in ("headers", "parameters", "responses", "schemas"):
        for name in DOCUMENT["components"][kind]:
            used = f"#/components/{kind}/{name}"
            assert any(item == used or item.startswith(f"{used}/") for item in references), used


def test_every_operation_has_a_name_of_its_own_and_documents_a_bug() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    for path, method, operation in operations():
        assert {"400", "500"} <= operation["responses"].keys(), (method, path)
        assert set(operation["tags"]) <= tags


def test_every_answer_has_a_request_id_and_a_body_with_a_schema_or_none() -> None:
    for path, method, operation in operations():
        for status, declared in operation["responses"].items():
            answer = resolved(declared)
            where = (method, path, status)
            assert "X-Request-Id" in answer["headers"], where
            for media in answer.get("content", {}).values():
                assert media["schema"], where
            if int(status) >= 400:
                assert "application/json" in answer["content"], where


def test_every_part_of_a_path_is_a_parameter() -> None:
    for path, method, operation in operations():
        parts = {part.strip("{}") for part in path.split("/") if part.startswith("{")}
        assert parameters(operation, "path") == parts, (method, path)


@pytest.mark.parametrize(
    ("path", "method", "operation"),
    [pytest.param(*item, id=f"{item[1]} {item[0]}") for item in operations()],
)
async def test_a_call_takes_exactly_the_query_parameters_that_are_documented(
    api: ApiClient, path: str, method: str, operation: Mapping[str, Any]
) -> None:
    filled = path.format(kernel_id="a/b/c", uuid=UUID, name="desc")
    answer = await api.request(method, f"{filled}?no_such_parameter=1")
    assert answer.status == 400
    assert answer.error["code"] == "BAD_QUERY"
    [problem] = [item for item in answer.error["details"] if item["found"] == "no_such_parameter"]
    documented = parameters(operation, "query")
    if documented:
        assert problem["expected"] == "one of: " + " ".join(sorted(documented))
    else:
        assert problem["expected"] == "no parameter"


async def test_the_document_is_served_as_it_is(api: ApiClient) -> None:
    answer = await api.get("/api/openapi.yaml")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/yaml; charset=utf-8"
    assert answer.body == (schemas_directory() / "openapi.yaml").read_bytes()
    again = await api.get("/api/openapi.yaml", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("name", ["submission", "submission.json"])
async def test_a_schema_is_served_as_it_is(api: ApiClient, name: str) -> None:
    answer = await api.get(f"/api/schemas/{name}")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/schema+json"
    assert answer.body == (schemas_directory() / "submission.json").read_bytes()


@pytest.mark.parametrize("name", ["submision", "..%2fopenapi", "%00"])
async def test_a_schema_that_does_not_exist_names_those_that_do(api: ApiClient, name: str) -> None:
    answer = await api.get(f"/api/schemas/{name}")
    assert answer.status == 404
    assert answer.error["code"] == "UNKNOWN_SCHEMA"
    assert "submission" in answer.error["hint"]


async def test_the_check_notices_an_answer_that_breaks_the_document(serve: Any) -> None:
    served: Served = await serve()

    async def broken(_: web.Request) -> web.Response:
        return web.json_response({"status": "dead"}, headers={"X-Request-Id": "r"})

    for route in served.app.router.routes():
        if route.resource is not None and route.resource.canonical == "/healthz":
            route._handler = broken
    await served.api.get("/healthz")
    assert served.violations == ["GET /healthz 200: status: 'alive' was expected"]
    served.violations.clear()


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)

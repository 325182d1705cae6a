from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_core.clock import SystemClock
from kzoo_core.store.packages import add_packages
from kzoo_core.store.repository import KernelRepository
from tests.packages import KERNEL_ID, output_document, package_tarball, valid_package
from tests.server.conftest import SEEDED
from tests.server.eventually import eventually
from tests.server.stub_runner import StubRunner

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.api_client import ApiClient
    from tests.server.conftest import Served


async def accepted(api: ApiClient, *, latency: float = 1.5, **arguments: Any) -> Any:
    """Submit the demo kernel with this latency, let it be accepted, return its status."""
    cases = {"n4": latency, "n8": 3.25}
    uuid = await api.submitted(package_tarball(valid_package(cases=cases)), **arguments)
    runner = await StubRunner.register(api)
    stdout = json.dumps(output_document(KERNEL_ID, cases)).encode()
    answer = await runner.run_one(stdout)
    assert answer.status == 202, answer.body
    status = await api.done(uuid)
    assert status["outcome"] == "accepted", status
    return status


def commit(repository: Path, *kernel_ids: str, **package: Any) -> None:
    """Commit packages behind the server's back."""
    with KernelRepository(repository) as opened:
        add_packages(
            opened,
            [valid_package(item, scoreboard=True, **package) for item in kernel_ids],
            message="by others",
            author="bob",
            when=SystemClock().now(),
        )


async def listed(api: ApiClient, path: str) -> list[str]:
    answer = await api.get(path)
    assert answer.status == 200, answer.body
    return [item["kernel_id"] for item in answer.json()["items"]]


async def listed_with(api: ApiClient, kernel_id: str) -> None:
    """Wait until a commit of others is on the board."""

    async def is_listed() -> bool:
        return kernel_id in await listed(api, "/api/kernels")

    await eventually(is_listed)


async def test_the_board_lists_every_kernel_as_the_index_has_it(server: Served) -> None:
    page = (await server.api.get("/api/kernels")).json()
    index = (await server.api.get("/api/index.json")).json()
    assert page == {
        "revision": index["revision"],
        "total": 1,
        "items": index["kernels"],
        "next_cursor": None,
    }
    assert page["items"][0]["kernel_id"] == SEEDED
    assert page["items"][0]["cases"][0]["best"] is None


async def test_commits_of_others_appear_with_their_problems(
    server: Served, repository: Path
) -> None:
    commit(repository, "gfx928/Norm/RMSNorm/fp32/broken", files={"src/reference.py": None})
    await listed_with(server.api, "gfx928/Norm/RMSNorm/fp32/broken")
    [entry] = (await server.api.get("/api/kernels?valid=false")).json()["items"]
    assert entry["kernel_id"] == "gfx928/Norm/RMSNorm/fp32/broken"
    assert [problem["severity"] for problem in entry["problems"]] == ["error"]
    assert await listed(server.api, "/api/kernels?valid=true") == [SEEDED]


async def test_filters_order_and_pages(server: Served, repository: Path) -> None:
    names = [f"gfx936/Gemm/Dense/bf16/k{number}" for number in range(5)]
    commit(repository, *names)
    await listed_with(server.api, names[0])
    api = server.api
    assert await listed(api, "/api/kernels?arch=gfx936&sort=-kernel_id") == names[::-1]
    assert await listed(api, "/api/kernels?q=SEEDED") == [SEEDED]
    assert await listed(api, "/api/kernels?tag=norm&owner=alice&limit=1") == [SEEDED]
    assert await listed(api, "/api/kernels?status=frozen") == []
    first = (await api.get("/api/kernels?arch=gfx936&limit=3")).json()
    assert first["total"] == 5
    second = await listed(api, f"/api/kernels?arch=gfx936&limit=3&cursor={first['next_cursor']}")
    assert [item["kernel_id"] for item in first["items"]] + second == names


@pytest.mark.parametrize(
    ("query", "pointer", "found", "expected"),
    [
        ("limit=0", "/query/limit", "0", "a whole number from 1 to 1000"),
        ("limit=1001", "/query/limit", "1001", "a whole number from 1 to 1000"),
        ("status=frosen", "/query/status", "frosen", "one of: normal frozen deprecated"),
        ("valid=maybe", "/query/valid", "maybe", "true or false"),
        (
            "cursor=zzz",
            "/query/cursor",
            "zzz",
            "the next_cursor of the page before, with the same filters and order",
        ),
        (
            "sort=age",
            "/query/sort",
            "age",
            "one of: kernel_id -kernel_id name -name updated_at -updated_at",
        ),
    ],
)
async def test_a_bad_parameter_is_named_with_what_was_found_and_expected(
    api: ApiClient, query: str, pointer: str, found: str, expected: str
) -> None:
    answer = await api.get(f"/api/kernels?{query}")
    assert answer.status == 400
    error = answer.error
    assert error["code"] == "BAD_QUERY"
    assert error["retry"] is False
    [problem] = error["details"]
    problem.pop("hint", None)
    assert problem == {
        "code": "bad_query",
        "message": f"{pointer.removeprefix('/query/')} is {found!r}",
        "severity": "error",
        "pointer": pointer,
        "found": found,
        "expected": expected,
    }
    assert error["message"] == problem["message"]


@pytest.mark.parametrize("path", ["/api/kernels", "/api/kernels?arch=gfx928", "/api/index.json"])
async def test_a_client_that_holds_the_board_is_told_so_until_it_changes(
    server: Served, path: str
) -> None:
    first = await server.api.get(path)
    etag = first.headers["ETag"]
    assert etag == f'"1-{first.json()["revision"]}"'
    held = {"If-None-Match": f'"other", W/{etag}'}
    again = await server.api.get(path, headers=held)
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", etag)
    await accepted(server.api)
    changed = await server.api.get(path, headers=held)
    assert changed.status == 200
    assert changed.headers["ETag"] != etag


async def test_any_state_is_good_enough_for_who_asks_for_any(api: ApiClient) -> None:
    assert (await api.get("/api/kernels", headers={"If-None-Match": "*"})).status == 304


async def test_the_index_comes_compressed_to_who_takes_it(server: Served, repository: Path) -> None:
    commit(repository, "a/one", "a/two")
    await listed_with(server.api, "a/two")
    plain = await server.api.get("/api/index.json", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert plain.headers["Vary"] == "Accept-Encoding"
    async with server.api.session.get(
        server.url + "/api/index.json", auto_decompress=False
    ) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(await response.read()) == plain.body
    refused = await server.api.get("/api/index.json", headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers
    snapshot = server.system.board.snapshot
    assert snapshot is not None
    assert plain.body == snapshot.index_bytes


async def test_one_kernel_shows_desc_cases_scores_and_holders(api: ApiClient) -> None:
    status = await accepted(api)
    kernel = (await api.get(f"/api/kernels/{KERNEL_ID}")).json()
    assert kernel["kernel_id"] == KERNEL_ID
    assert kernel["valid"] is True
    assert kernel["problems"] == []
    assert kernel["running"] is None
    assert kernel["desc"]["owner"] == "alice"
    assert kernel["desc"]["quantization"] == {"scheme": "none"}
    assert [case["test_case_id"] for case in kernel["cases"]] == ["n4", "n8"]
    first = kernel["cases"][0]
    assert first["params"] == {"case": "n4"}
    assert first["tolerance"] == {"atol": 1e-9}
    assert first["correctness"] == "passed"
    latency = first["metrics"][0]
    recorded_at = latency["best"].pop("recorded_at")
    assert recorded_at.endswith("Z")
    assert latency["best"] == {
        "value": 1.5,
        "submitter": "alice",
        "commit_sha": status["commit_sha"],
    }
    assert latency["current"]["value"] == 1.5
    assert (latency["unit"], latency["direction"]) == ("ms", "lower_better")


async def test_a_seeded_kernel_has_no_result(api: ApiClient) -> None:
    kernel = (await api.get(f"/api/kernels/{SEEDED}")).json()
    for case in kernel["cases"]:
        assert case["correctness"] == "unknown"
        for metric in case["metrics"]:
            assert (metric["best"], metric["current"]) == (None, None)


async def test_a_kernel_shows_the_attempt_that_runs_and_its_etag_follows(api: ApiClient) -> None:
    path = f"/api/kernels/{SEEDED}"
    idle = await api.get(path)
    held = {"If-None-Match": idle.headers["ETag"]}
    assert (await api.get(path, headers=held)).status == 304
    uuid = await api.submitted(package_tarball(valid_package(SEEDED)), kernel_id=SEEDED)
    assert (await api.get(path, headers=held)).status == 304
    runner = await StubRunner.register(api)
    attempt = await runner.claim()
    busy = await api.get(path, headers=held)
    assert busy.status == 200
    assert busy.json()["running"] == {
        "uuid": uuid,
        "attempt": attempt.number,
        "runner_id": runner.runner_id,
        "phase": "claimed",
        "submitter_id": "alice",
    }


@pytest.mark.parametrize("suffix", ["", "/bench-history"])
async def test_an_unknown_kernel_is_not_found(api: ApiClient, suffix: str) -> None:
    answer = await api.get(f"/api/kernels/gfx928/Norm/none{suffix}")
    assert answer.status == 404
    assert answer.error == {
        "code": "KERNEL_NOT_FOUND",
        "message": "there is no kernel gfx928/Norm/none",
        "details": [],
        "retry": False,
        "hint": "kzoo kernels --q WORDS, or GET /api/kernels?q=…, finds kernels by words",
    }


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a//b", "an empty segment"),
        ("a%20b/c", "segment 'a b'"),
        ("a/%2e%2e/b", "segment '..'"),
        ("a/.git", "segment '.git'"),
        ("a/claim", "last segment 'claim'"),
        ("%E6%A0%B8", "segment '核'"),
        ("x" * 65, "segment of 65 bytes"),
    ],
)
@pytest.mark.parametrize("suffix", ["", "/bench-history"])
async def test_a_path_that_is_no_kernel_id_says_why(
    api: ApiClient, path: str, found: str, suffix: str
) -> None:
    answer = await api.get(f"/api/kernels/{path}{suffix}")
    assert answer.status == 400
    assert answer.error["code"] == "BAD_PATH"
    [problem] = answer.error["details"]
    assert problem["code"] == "bad_kernel_id"
    assert problem["found"] == found


async def test_slashes_of_a_kernel_id_may_be_escaped(api: ApiClient) -> None:
    escaped = SEEDED.replace("/", "%2F")
    assert (await api.get(f"/api/kernels/{escaped}")).json()["kernel_id"] == SEEDED
    history = await api.get(f"/api/kernels/{escaped}/bench-history")
    assert history.json() == {"kernel_id": SEEDED, "items": [], "next_cursor": None}


async def test_the_history_has_one_entry_for_each_accept_newest_first(api: ApiClient) -> None:
    first = await accepted(api, fields={"optimization_summary": "unrolled twice"})
    second = await accepted(api, latency=1.0)
    path = f"/api/kernels/{KERNEL_ID}/bench-history"
    newest, oldest = (await api.get(path)).json()["items"]
    assert newest["commit_sha"] == second["commit_sha"]
    assert newest["records"] == [
        {"test_case_id": "n4", "metric": "latency_ms", "value": 1.0, "previous": 1.5}
    ]
    assert oldest["commit_sha"] == first["commit_sha"]
    assert oldest["submission_id"] == first["uuid"]
    assert oldest["optimization_summary"] == "unrolled twice"
    assert oldest["summary"] == "unrolled twice"
    assert (oldest["submitter"], oldest["attempt"], oldest["arch"]) == ("alice", 1, "gfx928")
    assert oldest["isolation"] == "none"
    assert [case["test_case_id"] for case in oldest["cases"]] == ["n4", "n8"]
    page = (await api.get(f"{path}?limit=1")).json()
    assert [item["commit_sha"] for item in page["items"]] == [second["commit_sha"]]
    rest = (await api.get(f"{path}?limit=5&cursor={page['next_cursor']}")).json()
    assert [item["commit_sha"] for item in rest["items"]] == [first["commit_sha"]]
    assert rest["next_cursor"] is None


async def test_the_history_narrows_to_a_case_and_a_metric(api: ApiClient) -> None:
    await accepted(api)
    path = f"/api/kernels/{KERNEL_ID}/bench-history?test_case=n8&metric=latency_ms"
    [entry] = (await api.get(path)).json()["items"]
    assert entry["cases"] == [
        {"test_case_id": "n8", "metrics": [{"name": "latency_ms", "value": 3.25}]}
    ]
    assert [record["test_case_id"] for record in entry["records"]] == ["n8"]


async def test_a_history_cursor_that_no_page_gave_is_refused(api: ApiClient) -> None:
    answer = await api.get(f"/api/kernels/{SEEDED}/bench-history?cursor={'0' * 40}")
    assert answer.status == 400
    assert answer.error["code"] == "BAD_QUERY"
    assert answer.error["details"][0]["pointer"] == "/query/cursor"

"""Commands on kernels: kernels, show, and the server's index."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.cli.views import BENCH_SHA, KERNEL, SHA, UUID, entry, kernel
from tests.core.scripted_server import Script, answers, fails

if TYPE_CHECKING:
    from tests.cli.console import Console, Ended


async def run(console: Console, *argv: str) -> Ended:
    return await asyncio.to_thread(console.run, *argv)


def cells(ended: Ended) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.split("  ") if cell.strip()]
        for line in ended.out.splitlines()
    ]


def page(*items: object, total: int | None = None, cursor: str | None = None) -> dict[str, object]:
    return {
        "revision": SHA,
        "total": len(items) if total is None else total,
        "items": list(items),
        "next_cursor": cursor,
    }


async def test_kernels_lists_the_best_of_each_case(script: Script, console: Console) -> None:
    cases = entry()["cases"]
    seed = {**cases[0], "test_case_id": "large", "best": None}
    broken = [{"code": "bad_yaml", "message": "no", "severity": "error"}]
    script.then(
        answers(
            200,
            page(
                entry(cases=[*cases, seed]),
                entry(kernel_id="a/b", valid=False, status=None, problems=broken, cases=[]),
                entry(kernel_id="c/d", cases=[], status="frozen"),
            ),
        )
    )
    ended = await run(console, "kernels")
    assert ended.code == 0
    assert cells(ended) == [
        ["KERNEL", "STATUS", "CASE", "METRIC", "BEST", "HOLDER", "WHEN"],
        [KERNEL, "normal", "small", "latency_us", "12.25 us", "alice", "2 h ago"],
        [KERNEL, "normal", "large", "latency_us", "no result", "-", "-"],
        ["a/b", "invalid, 1 problem", "-", "-", "-", "-", "-"],
        ["c/d", "frozen", "-", "-", "no result", "-", "-"],
    ]
    assert ended.err == "3 of 3 kernels\n"


async def test_kernels_hands_every_filter_to_the_server(script: Script, console: Console) -> None:
    script.then(answers(200, page()))
    ended = await run(
        console,
        *["kernels", "--arch", "gfx928", "--op-class", "Norm", "--sub-class", "RMSNorm"],
        *["--quant", "fp32", "--status", "normal", "--tag", "t", "--owner", "o", "--q", "w x"],
        *["--valid", "true", "--sort=-updated_at", "--limit", "7"],
    )
    assert (ended.code, ended.out, ended.err) == (0, "", "0 of 0 kernels\n")
    assert script.calls[0][1] == (
        "/api/kernels?arch=gfx928&op_class=Norm&sub_class=RMSNorm&quant=fp32&status=normal"
        "&tag=t&owner=o&q=w+x&valid=true&sort=-updated_at&limit=7"
    )


async def test_kernels_reads_page_after_page_and_says_what_is_left(
    script: Script, console: Console
) -> None:
    script.then(
        answers(200, page(*[entry()] * 200, total=900, cursor="c1")),
        answers(200, page(*[entry()] * 50, total=900, cursor="c2")),
    )
    ended = await run(console, "kernels", "--limit", "250")
    assert len(ended.out.splitlines()) == 251
    assert ended.err == "250 of 900 kernels; --limit N shows more\n"
    assert [call[1].partition("?")[2] for call in script.calls] == [
        "limit=200",
        "limit=50&cursor=c1",
    ]


async def test_kernels_as_json_is_one_page(script: Script, console: Console) -> None:
    script.then(answers(200, page(entry(), total=2, cursor="c1")), answers(200, page(entry())))
    ended = await run(console, "kernels", "--json")
    assert ended.json() == {
        "revision": SHA,
        "total": 1,
        "items": [entry(), entry()],
        "next_cursor": None,
    }


async def test_show_prints_a_kernel_and_its_metrics(script: Script, console: Console) -> None:
    busy = {
        "uuid": UUID,
        "attempt": 2,
        "runner_id": "node1",
        "phase": "build",
        "submitter_id": "bob",
    }
    script.then(answers(200, kernel(running=busy)))
    ended = await run(console, "show", KERNEL)
    assert ended.code == 0
    assert cells(ended) == [
        ["kernel", KERNEL],
        ["name", "RMSNorm"],
        ["status", "normal"],
        ["summary", "a norm"],
        ["running", f"{UUID} by bob, build, attempt 2 on node1"],
        [],
        ["CASE", "METRIC", "BETTER", "BEST", "HOLDER", "WHEN", "CURRENT"],
        ["small", "latency_us *", "lower", "12.25 us", "alice", "2 h ago", "no result"],
        ["small", "bandwidth", "higher", "12.25 us", "alice", "2 h ago", "no result"],
    ]


async def test_show_of_a_broken_package_names_its_problems(
    script: Script, console: Console
) -> None:
    problem = {"code": "bad_yaml", "message": "no mapping", "severity": "error", "file": "desc"}
    script.then(answers(200, kernel(valid=False, problems=[problem], desc=None, cases=[])))
    ended = await run(console, "show", KERNEL)
    assert ended.out == f"kernel   {KERNEL}\nerror: desc: no mapping [bad_yaml]\n"


async def test_show_with_history_adds_the_newest_attempts(script: Script, console: Console) -> None:
    item = {
        "commit_sha": SHA,
        "bench_commit_sha": BENCH_SHA,
        "recorded_at": "2026-08-01T12:00:00Z",
        "submitter": "alice",
        "submission_id": UUID,
        "attempt": 1,
        "runner_id": "node1",
        "arch": "gfx928",
        "isolation": "none",
        "package_sha256": "c" * 64,
        "summary": "a better\x1b[2J norm",
        "optimization_summary": None,
        "cases": [],
        "records": [{"test_case_id": "small", "metric": "latency_us", "value": 3.5}],
    }
    history = {"kernel_id": KERNEL, "items": [item, {**item, "records": []}], "next_cursor": None}
    script.then(*[answers(200, kernel()), answers(200, history)] * 2)
    ended = await run(console, "show", KERNEL, "--history", "2")
    assert cells(ended)[-3:] == [
        ["COMMIT", "WHEN", "SUBMITTER", "RECORDS", "SUMMARY"],
        ["aaaaaaaaaaaa", "1 d ago", "alice", "small 3.5", "a better norm"],
        ["aaaaaaaaaaaa", "1 d ago", "alice", "-", "a better norm"],
    ]
    assert script.calls[1][1] == f"/api/kernels/{KERNEL}/bench-history?limit=2"
    ended = await run(console, "show", KERNEL, "--history", "2", "--json")
    assert ended.json() == {**kernel(), "history": history["items"]}


async def test_show_as_json_is_the_page_as_the_server_gave_it(
    script: Script, console: Console
) -> None:
    script.then(answers(200, kernel()))
    assert (await run(console, "show", KERNEL, "--json")).json() == kernel()


async def test_show_of_an_unknown_kernel_exits_3(script: Script, console: Console) -> None:
    script.then(fails(404, "UNKNOWN_KERNEL"))
    ended = await run(console, "show", KERNEL)
    assert (ended.code, ended.err) == (3, "error: UNKNOWN_KERNEL said\n")


async def test_show_of_what_is_no_kernel_id_asks_nobody(script: Script, console: Console) -> None:
    ended = await run(console, "show", "../x")
    assert ended.code == 3
    assert "argument KERNEL_ID: kernel_id '../x' is not valid: segment '..' (" in ended.err
    assert script.calls == []

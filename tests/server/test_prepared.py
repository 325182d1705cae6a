from __future__ import annotations

import asyncio
import gzip
import json
from datetime import UTC, datetime

import pytest

from kzoo_core.errors import BadInput
from kzoo_core.lifecycle.board import BoardSnapshot
from kzoo_core.store.entries import IndexEntry
from kzoo_server import prepared
from kzoo_server.listing import KernelFilter
from kzoo_server.prepared import PreparedBoard, etag
from tests.server.test_listing import entry


def snapshot(revision: str, entries: tuple[IndexEntry, ...]) -> BoardSnapshot:
    return BoardSnapshot(
        revision=revision,
        entries=entries,
        by_id={item.kernel_id: item for item in entries},
        index_bytes=json.dumps({"revision": revision, "pad": "x" * 2000}).encode(),
        built_at=datetime(2026, 8, 2, tzinfo=UTC),
    )


MANY = tuple(entry(f"a/{number:03}") for number in range(120))
EVERYTHING = KernelFilter()


async def test_a_page_is_the_entries_between_revision_total_and_cursor() -> None:
    board = PreparedBoard()
    body = await board.page(snapshot("r1", MANY), EVERYTHING, cursor=None, limit=50)
    page = json.loads(body.plain)
    assert page["revision"] == "r1"
    assert page["total"] == 120
    assert page["items"] == [item.as_json() for item in MANY[:50]]
    rest = await board.page(
        snapshot("r1", MANY), EVERYTHING, cursor=page["next_cursor"], limit=1000
    )
    last = json.loads(rest.plain)
    assert last["items"] == [item.as_json() for item in MANY[50:]]
    assert last["next_cursor"] is None


async def test_an_empty_repository_has_a_page_without_a_revision() -> None:
    body = await PreparedBoard().page(snapshot("", ()), EVERYTHING, cursor=None, limit=50)
    assert json.loads(body.plain) == {
        "revision": None,
        "total": 0,
        "next_cursor": None,
        "items": [],
    }
    assert body.compressed is None


async def test_the_same_page_of_a_snapshot_is_made_and_compressed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    compress = gzip.compress

    def counted(data: bytes, *arguments: int, **options: int) -> bytes:
        made.append(len(data))
        return compress(data, *arguments, **options)

    monkeypatch.setattr(gzip, "compress", counted)
    board, shown = PreparedBoard(), snapshot("r1", MANY)
    bodies = await asyncio.gather(
        *(board.page(shown, EVERYTHING, cursor=None, limit=50) for _ in range(20))
    )
    indexes = await asyncio.gather(*(board.index(shown) for _ in range(20)))
    assert len(made) == 2
    assert {id(body) for body in bodies} == {id(bodies[0])}
    compressed = indexes[0].compressed
    assert compressed is not None
    assert gzip.decompress(compressed) == shown.index_bytes


async def test_a_new_snapshot_drops_what_was_made_for_the_old_one() -> None:
    board = PreparedBoard()
    await board.page(snapshot("r1", MANY), EVERYTHING, cursor=None, limit=50)
    body = await board.page(snapshot("r2", MANY[1:]), EVERYTHING, cursor=None, limit=50)
    page = json.loads(body.plain)
    assert (page["revision"], page["total"]) == ("r2", 119)
    assert page["items"][0]["kernel_id"] == "a/001"


async def test_an_entry_that_did_not_change_is_not_serialized_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serialized = []
    to_bytes = IndexEntry.to_bytes

    def counted(self: IndexEntry) -> bytes:
        serialized.append(self.kernel_id)
        return to_bytes(self)

    monkeypatch.setattr(IndexEntry, "to_bytes", counted)
    board = PreparedBoard()
    await board.page(snapshot("r1", MANY), EVERYTHING, cursor=None, limit=1000)
    serialized.clear()
    changed = (entry("a/000", name="New"), *MANY[1:])
    body = await board.page(snapshot("r2", changed), EVERYTHING, cursor=None, limit=1000)
    assert serialized == ["a/000"]
    assert json.loads(body.plain)["items"][0]["name"] == "New"


async def test_a_filtered_page_is_put_together_and_not_compressed() -> None:
    body = await PreparedBoard().page(
        snapshot("r1", MANY), KernelFilter(q="a/01"), cursor=None, limit=50
    )
    assert json.loads(body.plain)["total"] == 10
    assert body.compressed is None


async def test_what_is_kept_for_one_snapshot_is_bounded() -> None:
    board, shown = PreparedBoard(), snapshot("r1", MANY)
    for limit in range(1, prepared.KEPT_PAGES + 20):
        await board.page(shown, EVERYTHING, cursor=None, limit=limit)
    for number in range(prepared.KEPT_SELECTIONS + 20):
        await board.page(shown, KernelFilter(q=f"a/{number}"), cursor=None, limit=5)
    assert len(board._bodies) <= prepared.KEPT_PAGES
    assert len(board._selections) <= prepared.KEPT_SELECTIONS


async def test_a_bad_cursor_is_refused() -> None:
    with pytest.raises(BadInput, match="cursor is 'zzz'"):
        await PreparedBoard().page(snapshot("r1", MANY), EVERYTHING, cursor="zzz", limit=5)


def test_the_etag_is_format_and_revision() -> None:
    assert etag(snapshot("abc", ())) == '"1-abc"'

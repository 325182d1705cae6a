from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.contract.records import Category, Status
from kzoo_core.errors import BadInput
from kzoo_core.ids import KernelId
from kzoo_core.store.entries import IndexEntry
from kzoo_server.listing import SORTS, KernelFilter, Place, page_bounds

START = datetime(2026, 8, 2, tzinfo=UTC)
NORM = Category("gfx928", "Norm", "RMSNorm", "fp32")


def entry(
    kernel_id: str,
    *,
    name: str | None = "Demo",
    category: Category | None = NORM,
    status: Status | None = Status.NORMAL,
    tags: tuple[str, ...] = (),
    owner: str | None = None,
    valid: bool = True,
    updated: int | None = None,
) -> IndexEntry:
    return IndexEntry(
        kernel_id=KernelId(kernel_id),
        name=name,
        category=category,
        summary="Normalizes a vector.",
        status=status,
        tags=tags,
        owner=owner,
        valid=valid,
        problems=(),
        min_arch_feature=None,
        cases=(),
        updated_at=None if updated is None else START + timedelta(minutes=updated),
    )


ENTRIES = (
    entry("a/one", name="Zeta", tags=("norm", "fast"), updated=3),
    entry("b/two", name="Alpha", owner="alice", status=Status.FROZEN, updated=1),
    entry("c/three", name=None, category=None, status=None, valid=False),
    entry("d/four", name="Mid", category=Category("gfx936", "Gemm", "Dense", "bf16"), updated=2),
)


def ids(wanted: KernelFilter) -> list[str]:
    return [item.kernel_id for item in wanted.select(ENTRIES)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (KernelFilter(), ["a/one", "b/two", "c/three", "d/four"]),
        (KernelFilter(arch="gfx936"), ["d/four"]),
        (KernelFilter(op_class="Norm"), ["a/one", "b/two"]),
        (KernelFilter(sub_class="Dense"), ["d/four"]),
        (KernelFilter(quant="fp32", owner="alice"), ["b/two"]),
        (KernelFilter(status="frozen"), ["b/two"]),
        (KernelFilter(tag="fast"), ["a/one"]),
        (KernelFilter(tag="fas"), []),
        (KernelFilter(valid=False), ["c/three"]),
        (KernelFilter(valid=True, arch="gfx928"), ["a/one", "b/two"]),
        (KernelFilter(q="ALPHA"), ["b/two"]),
        (KernelFilter(q="norm zeta"), ["a/one"]),
        (KernelFilter(q="alice"), ["b/two"]),
        (KernelFilter(q="vector four"), ["d/four"]),
        (KernelFilter(arch="gfx"), []),
    ],
)
def test_filters_hold_together(wanted: KernelFilter, found: list[str]) -> None:
    assert ids(wanted) == found


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("kernel_id", ["a/one", "b/two", "c/three", "d/four"]),
        ("-kernel_id", ["d/four", "c/three", "b/two", "a/one"]),
        ("name", ["b/two", "d/four", "a/one", "c/three"]),
        ("-name", ["a/one", "d/four", "b/two", "c/three"]),
        ("updated_at", ["b/two", "d/four", "a/one", "c/three"]),
        ("-updated_at", ["a/one", "d/four", "b/two", "c/three"]),
    ],
)
def test_what_has_no_value_to_sort_by_comes_last_in_either_direction(
    sort: str, found: list[str]
) -> None:
    assert ids(KernelFilter(sort=sort)) == found


entries_of_any_kind = st.lists(
    st.builds(
        entry,
        st.text("abc/", min_size=1, max_size=4),
        name=st.none() | st.sampled_from(["x", "y", "Z"]),
        updated=st.none() | st.integers(0, 3),
    ),
    unique_by=lambda item: item.kernel_id,
    max_size=12,
).map(lambda found: sorted(found, key=lambda item: item.kernel_id))


@given(entries=entries_of_any_kind, sort=st.sampled_from(SORTS), limit=st.integers(1, 5))
def test_pages_put_together_are_the_whole_list_in_order(
    entries: list[IndexEntry], sort: str, limit: int
) -> None:
    chosen = KernelFilter(sort=sort).select(entries)
    seen: list[IndexEntry] = []
    cursor = None
    while True:
        begin, end = page_bounds(chosen, sort, cursor, limit)
        seen += chosen[begin:end]
        if end == len(chosen):
            break
        cursor = Place.of(chosen[end - 1], sort).write()
    assert seen == list(chosen)


@given(entries=entries_of_any_kind, sort=st.sampled_from(SORTS), data=st.data())
def test_a_page_after_one_that_has_vanished_goes_on_where_it_stood(
    entries: list[IndexEntry], sort: str, data: st.DataObject
) -> None:
    chosen = KernelFilter(sort=sort).select(entries)
    if not chosen:
        return
    place = data.draw(st.integers(0, len(chosen) - 1))
    cursor = Place.of(chosen[place], sort).write()
    left = chosen[:place] + chosen[place + 1 :]
    begin, end = page_bounds(left, sort, cursor, 100)
    assert left[begin:end] == chosen[place + 1 :]


@pytest.mark.parametrize("sort", ["kernel_id", "updated_at"])
@pytest.mark.parametrize(
    "cursor",
    ["", "!", "bm9wZQ", "WzEsMiwzXQ", "é", "W10", Place("updated_at", "soon", "a").write()],
)
def test_a_cursor_that_no_page_gave_is_refused(cursor: str, sort: str) -> None:
    with pytest.raises(BadInput) as refused:
        Place.read(cursor, sort)
    assert refused.value.code == "BAD_CURSOR"
    assert refused.value.message == f"cursor is {cursor!r}"


def test_a_cursor_belongs_to_its_order() -> None:
    cursor = Place.of(ENTRIES[0], "name").write()
    assert Place.read(cursor, "name") == Place("name", "Zeta", "a/one")
    with pytest.raises(BadInput) as refused:
        Place.read(cursor, "updated_at")
    assert refused.value.hint == "give the next_cursor of the page before, with the same sort"

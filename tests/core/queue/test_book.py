"""The submissions in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.errors import BadInput
from kzoo_core.ids import ClaimId, RunnerId, Sha256
from kzoo_core.queue.book import Book
from kzoo_core.queue.exchange import QueueCounts
from kzoo_core.queue.records import Idempotency, State, Submission
from tests.core.queue.samples import (
    ALICE,
    BOB,
    KERNEL,
    accepted,
    at,
    confirmed,
    pending,
    reported,
    uuid_of,
)

RUNNER = RunnerId("node.12345678")


def book_of(*submissions: Submission) -> Book:
    book = Book()
    for submission in submissions:
        book.put(submission)
    return book


def keyed(submission: Submission, key: str) -> Submission:
    return replace(submission, idempotency=Idempotency(key=key, body_sha256=Sha256("1" * 64)))


def numbers(book: Book, **filters: object) -> list[int]:
    """Return the submissions' numbers over all pages."""
    wanted: dict[str, Any] = dict.fromkeys(("submitter_id", "kernel_id", "status", "cursor"))
    wanted |= {"limit": 2, **filters}
    found = []
    while True:
        page = book.page(**wanted)
        found += [int(item.uuid[-4:]) for item in page.items]
        if page.next_cursor is None:
            return found
        wanted["cursor"] = page.next_cursor


def test_a_submission_is_found_as_its_newest_record() -> None:
    book = book_of(pending(), confirmed(), reported())
    assert book.get(uuid_of(1)) == reported()
    assert book.get(uuid_of(2)) is None
    assert book.in_state(State.PENDING) == ()
    assert book.in_state(State.REPORTED) == (reported(),)


def test_each_state_is_counted() -> None:
    book = book_of(
        pending(1), pending(2), confirmed(pending(3)), reported(pending(4)), accepted(pending(5))
    )
    assert book.counts() == QueueCounts(pending=2, running=1, reported=1, done=1)


def test_a_claim_is_found_while_its_attempt_is_open() -> None:
    book = book_of(pending(), confirmed())
    assert book.claimed(RUNNER, ClaimId("claim-1")) == confirmed()
    assert book.claimed(RunnerId("other"), ClaimId("claim-1")) is None
    book.put(reported())
    assert book.claimed(RUNNER, ClaimId("claim-1")) is None


def test_a_key_outlives_its_evicted_submission() -> None:
    book = book_of(keyed(accepted(), "k"))
    book.remove(uuid_of(1))
    assert book.get(uuid_of(1)) is None
    use = book.keys.find(ALICE, "k", since=at(0))
    assert use is not None
    assert use.uuid == uuid_of(1)


def test_no_two_submissions_carry_the_same_instant() -> None:
    book = Book()
    assert book.next_instant(at(1)) == at(1)
    book.put(pending(1, submitted_at=at(1)))
    assert book.next_instant(at(1)) == at(1) + timedelta(microseconds=1)
    assert book.next_instant(at(2)) == at(2)
    assert book.next_instant(at(-60)) == at(-60)


def test_a_list_is_newest_first_over_all_pages() -> None:
    assert numbers(book_of(*(pending(n) for n in (3, 1, 5, 2, 4)))) == [5, 4, 3, 2, 1]


def test_a_page_that_ends_exactly_has_no_next() -> None:
    book = book_of(pending(1), pending(2))
    page = book.page(submitter_id=None, kernel_id=None, status=None, limit=2, cursor=None)
    assert len(page.items) == 2
    assert page.next_cursor is None


def test_a_list_is_filtered_by_submitter_kernel_and_status() -> None:
    book = book_of(
        pending(1),
        pending(2, submitter=BOB),
        pending(3, kernel_id="a/other"),
        confirmed(pending(4)),
        reported(pending(5)),
        accepted(pending(6)),
    )
    assert numbers(book, submitter_id=BOB) == [2]
    assert numbers(book, kernel_id=KERNEL) == [6, 5, 4, 2, 1]
    assert numbers(book, status="queued") == [3, 2, 1]
    assert numbers(book, status="running") == [5, 4]
    assert numbers(book, status="done") == [6]
    assert numbers(book, status="done", submitter_id=BOB) == []


@given(
    gone=st.sets(st.integers(1, 20)),
    limit=st.integers(1, 7),
)
def test_a_cursor_stays_good_while_others_come_and_go(gone: set[int], limit: int) -> None:
    book = book_of(*(accepted(pending(n)) for n in range(1, 21)))
    first = book.page(submitter_id=None, kernel_id=None, status=None, limit=limit, cursor=None)
    shown = {int(item.uuid[-4:]) for item in first.items}
    for number in gone:
        book.remove(uuid_of(number))
    book.put(pending(21))
    rest = numbers(book, cursor=first.next_cursor, limit=limit)
    assert rest == sorted(set(range(1, 21)) - shown - gone, reverse=True)


@pytest.mark.parametrize("cursor", ["", "x", "%", "MjAyNg==", "é", "\ud800"])
def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(BadInput) as caught:
        numbers(book_of(pending()), cursor=cursor)
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.message == "the cursor is not one that a page gave"
    assert caught.value.hint == "begin again without a cursor"
    (problem,) = caught.value.details
    assert problem.code == "bad_cursor"
    assert problem.found == repr(cursor)
    assert problem.expected == "the next_cursor of an earlier page, unchanged"


def done_book(*sizes: int) -> Book:
    book = Book()
    for number, size in enumerate(sizes, start=1):
        book.put(accepted(pending(number)))
        book.put_size(uuid_of(number), size)
    return book


def test_nothing_is_over_the_bounds_at_the_bounds() -> None:
    assert done_book(5, 5, 5).overflow(keep=3, keep_bytes=15) == ()


def test_what_ended_first_is_over_the_bound_of_count() -> None:
    assert done_book(5, 5, 5).overflow(keep=1, keep_bytes=99) == (uuid_of(1), uuid_of(2))


def test_what_ended_first_is_over_the_bound_of_bytes() -> None:
    book = done_book(5, 5, 5)
    assert book.overflow(keep=9, keep_bytes=14) == (uuid_of(1),)
    book.remove(uuid_of(1))
    assert book.overflow(keep=9, keep_bytes=14) == ()
    book.put_size(uuid_of(2), 50)
    assert book.overflow(keep=9, keep_bytes=14) == (uuid_of(2),)


def test_what_has_not_ended_is_never_over_the_bounds() -> None:
    assert book_of(pending(), reported(pending(2))).overflow(keep=0, keep_bytes=0) == ()

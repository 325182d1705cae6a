"""Idempotency keys in memory: the newest use counts, for a while."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.ids import Sha256
from kzoo_core.queue.codec import read_keys, write_keys
from kzoo_core.queue.keys import Keys, KeyUse
from kzoo_core.queue.records import Idempotency
from tests.core.queue.samples import ALICE, BOB, at, pending, uuid_of

if TYPE_CHECKING:
    from kzoo_core.queue.records import Submission


def keyed(number: int, key: str) -> Submission:
    idempotency = Idempotency(key=key, body_sha256=Sha256(f"{number:064x}"))
    return replace(pending(number), idempotency=idempotency)


def use_of(number: int, key: str) -> KeyUse:
    submission = keyed(number, key)
    return KeyUse(submission.submitted_at, submission.uuid, ALICE, key, Sha256(f"{number:064x}"))


def keys_of(*submissions: Submission) -> Keys:
    keys = Keys()
    for submission in submissions:
        keys.put(submission)
    return keys


def test_a_key_stands_for_the_newest_submission_made_under_it_until_it_is_old() -> None:
    keys = keys_of(keyed(2, "k"), keyed(1, "k"), keyed(3, "other"), pending(4))
    assert keys.find(ALICE, "k", since=at(0)) == use_of(2, "k")
    assert keys.find(BOB, "k", since=at(0)) is None
    assert keys.find(ALICE, "k", since=at(3)) is None
    keys.forget(at(3))
    assert keys.find(ALICE, "k", since=at(0)) is None
    assert keys.find(ALICE, "other", since=at(0)) == use_of(3, "other")


def test_what_outlives_an_eviction_is_what_is_still_young() -> None:
    keys = keys_of(keyed(1, "a"), keyed(2, "b"), keyed(3, "c"))
    keys.evict(uuid_of(1))
    assert keys.outliving((uuid_of(3),)) == (use_of(1, "a"), use_of(3, "c"))
    keys.forget(at(2))
    assert keys.outliving(()) == ()


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from("abc")), max_size=12))
def test_keys_are_read_back_as_they_were_written(made: list[tuple[int, str]]) -> None:
    uses = tuple(sorted({use_of(number, key) for number, key in made}))
    assert read_keys(write_keys(uses)) == uses
    keys = Keys()
    for use in uses:
        keys.put_evicted(use)
    newest = {use.key: use for use in uses}
    assert keys.outliving(()) == tuple(sorted(newest.values()))

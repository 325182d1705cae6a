"""What is derived from the secret."""

from __future__ import annotations

from uuid import UUID

import pytest

from kzoo_core.ids import SubmissionId, parse_submission_id
from kzoo_core.queue.tokens import QueueSecret, token_matches, token_sha256
from tests.core.queue.samples import seeded_bytes, uuid_of

SECRET = QueueSecret(b"k" * 32)
OTHER = QueueSecret(b"o" * 32)


def test_an_attempt_has_one_token_for_ever_and_every_attempt_its_own() -> None:
    tokens = {
        secret.attempt_token(uuid_of(uuid), number)
        for secret in (SECRET, OTHER, QueueSecret(b"k" * 32))
        for uuid in (1, 2)
        for number in (1, 2)
    }
    assert len(tokens) == 8
    assert all(len(token) == 43 and token.isascii() for token in tokens)


def test_a_token_matches_its_own_digest_alone() -> None:
    kept = token_sha256("right")
    assert token_matches("right", kept)
    assert not token_matches("wrong", kept)
    assert not token_matches("", kept)
    assert not token_matches("\ud800", kept)


def test_an_id_is_a_random_uuid_that_its_maker_recognises() -> None:
    source = seeded_bytes().randbytes
    made = [SECRET.new_submission_id(source) for _ in range(100)]
    assert len(set(made)) == 100
    for uuid in made:
        assert parse_submission_id(uuid) == uuid
        assert UUID(uuid).version == 4
        assert SECRET.made(uuid)
        assert not OTHER.made(uuid)


@pytest.mark.parametrize("text", [uuid_of(1), "", "no uuid"])
def test_an_id_that_was_never_given_out_is_not_recognised(text: str) -> None:
    assert not SECRET.made(SubmissionId(text))


def test_a_secret_of_another_length_is_none() -> None:
    with pytest.raises(ValueError, match="the secret has 3 bytes, expected 32"):
        QueueSecret(b"abc")

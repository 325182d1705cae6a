"""What the queue derives from its one secret: attempt tokens, and ids that show they are its own.

Deriving instead of storing has two uses. A claim that is asked again, even after a restart, gets
the same token though the record holds only the token's digest. And an id that was given out can be
told from one that never was after its submission is evicted, without a list that grows for ever.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING
from uuid import UUID

from kzoo_core.ids import Sha256, SubmissionId

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET_BYTES = 32
_SEAL_BYTES = 6


class QueueSecret:
    """The key that lies in the state directory, and what is made with it."""

    def __init__(self, key: bytes) -> None:
        if len(key) != SECRET_BYTES:
            raise ValueError(f"the secret has {len(key)} bytes, expected {SECRET_BYTES}")
        self._key = key

    def attempt_token(self, uuid: SubmissionId, number: int) -> str:
        """Return the token of one attempt: the same for ever, and good for nothing else."""
        digest = self._mac(f"attempt {uuid} {number}".encode())
        return urlsafe_b64encode(digest).rstrip(b"=").decode()

    def new_submission_id(self, token_bytes: Callable[[int], bytes]) -> SubmissionId:
        """Return a version 4 UUID of 74 random bits that ends in 48 bits of our seal."""
        draft = UUID(bytes=token_bytes(16), version=4).bytes[:-_SEAL_BYTES]
        return SubmissionId(str(UUID(bytes=draft + self._seal(draft))))

    def made(self, uuid: SubmissionId) -> bool:
        """Whether this id was given out under this secret."""
        try:
            raw = UUID(uuid).bytes
        except ValueError:
            return False
        return hmac.compare_digest(self._seal(raw[:-_SEAL_BYTES]), raw[-_SEAL_BYTES:])

    def _seal(self, draft: bytes) -> bytes:
        return self._mac(b"submission " + draft)[:_SEAL_BYTES]

    def _mac(self, message: bytes) -> bytes:
        return hmac.digest(self._key, message, hashlib.sha256)


def token_sha256(token: str) -> Sha256:
    """Return the digest under which a token is kept."""
    return Sha256(hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest())


def token_matches(token: str, kept: Sha256) -> bool:
    """Compare a token with a kept digest, in a time that tells nothing."""
    return hmac.compare_digest(token_sha256(token), kept)

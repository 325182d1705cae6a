"""The submitter's side of the queue: submit and cancel."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from kzoo_core.errors import BadInput, Conflict, Problem
from kzoo_core.ids import Sha256
from kzoo_core.queue import states
from kzoo_core.queue.core import QueueCore
from kzoo_core.queue.records import Idempotency, Submission

if TYPE_CHECKING:
    from kzoo_core.ids import SubmissionId
    from kzoo_core.queue.exchange import NewSubmission

_KEY_CHARACTERS = 255


class Intake(QueueCore):
    """What a submitter asks of the queue."""

    async def submit(self, new: NewSubmission, idempotency_key: str | None = None) -> Submission:
        """Keep a new submission durably and return it, pending.

        Under a submitter's key of the last 24 hours the same content returns the submission made
        then, as it is now; other content raises ``Conflict`` ``IDEMPOTENCY_MISMATCH``. Raises
        ``Retryable`` ``DISK_FULL``, and then nothing was kept; ``BadInput`` for a key that is none;
        ``Gone`` when the submission made then is evicted; ``SpoolFailed``.
        """
        key = None
        if idempotency_key is not None:
            key = Idempotency(key=_parse_key(idempotency_key), body_sha256=_content_digest(new))
        return await self._ledger.add(partial(self._make, new, key), new.package)

    async def cancel(self, uuid: SubmissionId, by: str) -> Submission:
        """End a submission that waits in the queue, and return it.

        Raises ``Conflict`` ``NOT_CANCELLABLE`` once it has been claimed or is over.
        """
        transition = partial(states.cancel, now=self._clock.now(), by=by)
        _, after = await self._ledger.change(uuid, transition)
        return after

    def _make(self, new: NewSubmission, key: Idempotency | None) -> Submission:
        held = None if key is None else self._made_under(new, key)
        if held is not None:
            return held
        return Submission(
            uuid=self._ledger.secret.new_submission_id(self._token_bytes),
            kernel_id=new.kernel_id,
            submitter_id=new.submitter_id,
            mode=new.mode,
            arch=new.arch,
            min_arch_feature=new.min_arch_feature,
            package_sha256=new.package_sha256,
            package_bytes=len(new.package),
            submitted_at=self._ledger.book.next_instant(self._clock.now()),
            optimization_summary=new.optimization_summary,
            warnings=new.warnings,
            idempotency=key,
        )

    def _made_under(self, new: NewSubmission, key: Idempotency) -> Submission | None:
        oldest = self._clock.now() - timedelta(seconds=self._settings.idempotency_s)
        use = self._ledger.book.keys.find(new.submitter_id, key.key, since=oldest)
        if use is None:
            return None
        if use.body_sha256 == key.body_sha256:
            return self._ledger.get(use.uuid)
        message = f"the Idempotency-Key was used for submission {use.uuid}, which has other content"
        hint = "a key stands for one submission: use a new key for new content"
        problem = Problem(
            code="idempotency_mismatch",
            message=message,
            found=f"content with sha256 {key.body_sha256}",
            expected=f"content with sha256 {use.body_sha256}",
            hint=hint,
        )
        raise Conflict("IDEMPOTENCY_MISMATCH", message, hint=hint, details=(problem,))


def _parse_key(text: str) -> str:
    if 0 < len(text) <= _KEY_CHARACTERS and text.isprintable() and text.isascii():
        return text
    problem = Problem(
        code="bad_idempotency_key",
        message="the Idempotency-Key is not valid",
        found=repr(text[:80]),
        expected=f"1 to {_KEY_CHARACTERS} printable ASCII characters",
        hint="a UUID made for this submission does well",
    )
    raise BadInput("VALIDATION_ERROR", problem.message, hint=problem.hint, details=(problem,))


def _content_digest(new: NewSubmission) -> Sha256:
    content = [
        new.kernel_id,
        new.submitter_id,
        new.mode,
        new.optimization_summary,
        new.package_sha256,
    ]
    return Sha256(hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest())

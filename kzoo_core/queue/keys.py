"""Idempotency keys of the last day: what each submitter's key stands for, evicted or not."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from kzoo_core.ids import Sha256, SubmissionId, SubmitterId
    from kzoo_core.queue.records import Submission

KEPT_EVICTED = 100_000
"""Keys of evicted submissions that are kept on disk, the newest ones."""


@dataclass(frozen=True, slots=True, order=True)
class KeyUse:
    """One use of a key: by whom, for what content, and which submission it made."""

    made_at: datetime
    uuid: SubmissionId
    submitter_id: SubmitterId
    key: str
    body_sha256: Sha256


class Keys:
    """The newest use of each key; forgetting costs only what is forgotten."""

    def __init__(self) -> None:
        self._uses: dict[tuple[SubmitterId, str], KeyUse] = {}
        self._by_age: list[KeyUse] = []
        self._evicted: set[SubmissionId] = set()

    def put(self, submission: Submission) -> None:
        """Take note of the key under which a submission was made, if it had one."""
        if submission.idempotency is not None:
            self._put(
                KeyUse(
                    submission.submitted_at,
                    submission.uuid,
                    submission.submitter_id,
                    submission.idempotency.key,
                    submission.idempotency.body_sha256,
                )
            )

    def put_evicted(self, use: KeyUse) -> None:
        """Take note of a key whose submission is no longer held."""
        self._evicted.add(use.uuid)
        self._put(use)

    def find(self, submitter_id: SubmitterId, key: str, *, since: datetime) -> KeyUse | None:
        """Return the newest use of a submitter's key, unless it was before ``since``."""
        use = self._uses.get((submitter_id, key))
        return use if use is not None and use.made_at >= since else None

    def forget(self, before: datetime) -> None:
        """Forget the uses made before that time."""
        while self._by_age and self._by_age[0].made_at < before:
            use = heapq.heappop(self._by_age)
            self._evicted.discard(use.uuid)
            name = (use.submitter_id, use.key)
            if self._uses.get(name) is use:
                del self._uses[name]

    def outliving(self, evicted: tuple[SubmissionId, ...]) -> tuple[KeyUse, ...]:
        """Return the uses whose submissions are evicted, these ones too, oldest first."""
        gone = self._evicted.union(evicted)
        return tuple(sorted(use for use in self._uses.values() if use.uuid in gone))[-KEPT_EVICTED:]

    def evict(self, uuid: SubmissionId) -> None:
        """Take note that a submission is no longer held; its key goes on standing for it."""
        self._evicted.add(uuid)

    def _put(self, use: KeyUse) -> None:
        name = (use.submitter_id, use.key)
        held = self._uses.get(name)
        if held is None or held < use:
            self._uses[name] = use
            heapq.heappush(self._by_age, use)

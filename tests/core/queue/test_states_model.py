"""Every order of events against a model of a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kzoo_core.errors import KzooError
from kzoo_core.ids import Sha256
from kzoo_core.queue import states
from kzoo_core.queue.codec import read_submission, write_submission
from kzoo_core.queue.records import Outcome, Phase, Reason, State, Submission
from tests.core.queue.samples import BENCH, SETTINGS, SOURCE, at, claimed, pending

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = st.integers(min_value=1, max_value=4)
DIGESTS = st.sampled_from([Sha256("1" * 64), Sha256("2" * 64)])


class SubmissionMachine(RuleBasedStateMachine):
    """The model: the state, how each attempt ended, which digest it reported."""

    @initialize()
    def begin(self) -> None:
        self.submission: Submission = pending()
        self.now = 10.0
        self.state = State.PENDING
        self.ends: list[str | None] = []
        self.results: list[Sha256 | None] = []
        self.revisions = [0]

    def change(self, act: Callable[[], Submission]) -> str | None:
        """Take the next record, or return the code of the refusal."""
        try:
            self.submission = act()
        except KzooError as error:
            return error.code
        return None

    def spent(self) -> bool:
        charged = sum(end in {"lost", "infrastructure"} for end in self.ends)
        counts = [self.ends.count(end) for end in ("unconfirmed", "released", "requeued")]
        return charged >= 3 or max(counts) > 5

    def hand_back(self, end: str) -> None:
        self.ends[-1] = end
        self.state = State.DONE if self.spent() else State.PENDING

    @rule(seconds=st.sampled_from([1.0, 31.0, 91.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def claim(self) -> None:
        code = self.change(lambda: claimed(self.submission, now=at(self.now)))
        assert code == (None if self.state is State.PENDING else "NOT_PENDING")
        if code is None:
            self.state = State.RUNNING
            self.ends.append(None)
            self.results.append(None)

    @rule(number=NUMBERS, phase=st.sampled_from([None, *Phase]))
    def heartbeat(self, number: int, phase: Phase | None) -> None:
        code = self.change(
            lambda: states.heartbeat(
                self.submission,
                number=number,
                now=at(self.now),
                settings=SETTINGS,
                phase=phase,
            )
        )
        if number > len(self.ends):
            assert code == "UNKNOWN_ATTEMPT"
        elif number < len(self.ends) or self.state is not State.RUNNING:
            assert code == "STALE_ATTEMPT"
        else:
            assert code is None

    @rule(number=NUMBERS, digest=DIGESTS)
    def report(self, number: int, digest: Sha256) -> None:
        before = self.submission
        code = self.change(
            lambda: states.report(before, number=number, digest=digest, now=at(self.now))
        )
        if number > len(self.ends):
            assert code == "UNKNOWN_ATTEMPT"
        elif self.results[number - 1] is not None:
            same = self.results[number - 1] == digest
            assert code == (None if same else "RESULT_CONFLICT")
            assert self.submission is before
        elif number < len(self.ends) or self.state is State.DONE:
            assert code == "STALE_ATTEMPT"
        else:
            assert code is None
            self.results[number - 1] = digest
            self.ends[number - 1] = "reported"
            self.state = State.REPORTED

    @precondition(lambda self: self.state is State.RUNNING)
    @rule()
    def expire(self) -> None:
        attempt = self.submission.attempts[-1]
        if not states.lease_ran_out(self.submission, now=at(self.now)):
            return
        self.submission = states.expire(self.submission, now=at(self.now), settings=SETTINGS)
        self.hand_back("lost" if attempt.confirmed else "unconfirmed")

    @precondition(lambda self: self.state in {State.RUNNING, State.REPORTED})
    @rule()
    def infrastructure_fails(self) -> None:
        self.submission = states.infrastructure_failure(
            self.submission, now=at(self.now), settings=SETTINGS, kind="gpu_fault", detail=""
        )
        self.hand_back("infrastructure")

    @precondition(lambda self: self.state is State.REPORTED)
    @rule()
    def kernel_moves(self) -> None:
        self.submission = states.requeue_moved(
            self.submission, now=at(self.now), settings=SETTINGS, detail="moved"
        )
        self.hand_back("requeued")

    @precondition(lambda self: self.state is State.RUNNING)
    @rule()
    def release(self) -> None:
        begun = self.submission.phase is not Phase.CLAIMED
        code = self.change(
            lambda: states.release(
                self.submission,
                number=len(self.ends),
                now=at(self.now),
                settings=SETTINGS,
                why="drain",
            )
        )
        assert code == ("ATTEMPT_BEGUN" if begun else None)
        if code is None:
            self.hand_back("released")

    @rule()
    def restart(self) -> None:
        self.submission = read_submission(write_submission(self.submission))
        if self.state is State.RUNNING:
            self.submission = states.resume(self.submission, now=at(self.now), settings=SETTINGS)

    @precondition(lambda self: self.state is State.REPORTED)
    @rule(accept=st.booleans())
    def finish(self, accept: bool) -> None:
        self.submission = states.finish(
            self.submission,
            now=at(self.now),
            outcome=Outcome.ACCEPTED if accept else Outcome.REJECTED,
            reason=None if accept else Reason(code="schema", message="no"),
            commit_sha=SOURCE if accept else None,
            bench_commit_sha=BENCH if accept else None,
        )
        self.state = State.DONE

    @rule()
    def cancel(self) -> None:
        code = self.change(lambda: states.cancel(self.submission, now=at(self.now), by="alice"))
        assert code == (None if self.state is State.PENDING else "NOT_CANCELLABLE")
        if code is None:
            self.state = State.DONE

    @invariant()
    def record_equals_model(self) -> None:
        if not hasattr(self, "submission"):
            return
        submission = self.submission
        assert submission.state is self.state
        assert [attempt.end for attempt in submission.attempts] == self.ends
        assert [attempt.result_sha256 for attempt in submission.attempts] == self.results
        charged = sum(end in {"lost", "infrastructure"} for end in self.ends)
        assert submission.charged == charged <= 3
        for end in ("unconfirmed", "released", "requeued"):
            assert submission.uncharged.get(end, 0) == self.ends.count(end) <= 6

    @invariant()
    def revision_never_falls(self) -> None:
        if hasattr(self, "submission"):
            self.revisions.append(self.submission.revision)
            assert self.revisions[-2] <= self.revisions[-1]

    @invariant()
    def an_end_has_its_time_and_outcome(self) -> None:
        if hasattr(self, "submission"):
            done = self.state is State.DONE
            assert (self.submission.outcome is not None) == done
            assert (self.submission.finished_at is not None) == done


SubmissionMachine.TestCase.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestSubmission = SubmissionMachine.TestCase

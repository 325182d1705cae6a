"""Who runs next."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.ids import KernelId, SubmitterId
from kzoo_core.queue.scheduler import Load, RunnerCapability, Waiting, choose, position
from tests.core.queue.samples import ALICE, BOB, pending

if TYPE_CHECKING:
    from kzoo_core.queue.records import Submission

NODE = RunnerCapability("gfx928", frozenset({"mfma"}))


def line(*submissions: Submission) -> dict[SubmitterId, list[Submission]]:
    waiting: dict[SubmitterId, list[Submission]] = {}
    for submission in sorted(submissions, key=lambda item: item.submitted_at):
        waiting.setdefault(submission.submitter_id, []).append(submission)
    return waiting


def own_kernel(
    number: int, submitter: str = ALICE, *, arch: str = "gfx928", feature: str | None = None
) -> Submission:
    return pending(
        number, submitter=submitter, kernel_id=f"a/k{number}", arch=arch, feature=feature
    )


def served_order(waiting: Waiting, load: Load) -> list[Submission]:
    """Serve again and again, as if every submission found a runner at once."""
    left = {submitter: list(own) for submitter, own in waiting.items()}
    running = Counter(load.running)
    served = dict(load.served)
    order = []
    for turn in range(sum(map(len, left.values()))):
        found = choose(left, Load(running, {}, served), RunnerCapability("gfx928"))
        assert found is not None
        order.append(found)
        left[found.submitter_id].remove(found)
        running[found.submitter_id] += 1
        served[found.submitter_id] = 1_000_000 + turn
    return order


def test_nothing_waits_nothing_runs() -> None:
    assert choose({}, Load(), NODE) is None


def test_the_oldest_goes_first_among_those_never_served() -> None:
    assert choose(line(own_kernel(2, BOB), own_kernel(1)), Load(), NODE) == own_kernel(1)


def test_the_submitter_with_the_fewest_running_goes_first() -> None:
    load = Load(running={ALICE: 1})
    assert choose(line(own_kernel(1), own_kernel(2, BOB)), load, NODE) == own_kernel(2, BOB)


def test_the_submitter_served_longest_ago_goes_first() -> None:
    load = Load(served={ALICE: 9, BOB: 4})
    assert choose(line(own_kernel(1), own_kernel(2, BOB)), load, NODE) == own_kernel(2, BOB)


def test_another_arch_is_not_for_this_runner() -> None:
    assert choose(line(own_kernel(1, arch="gfx936")), Load(), NODE) is None


def test_a_feature_that_is_asked_for_must_be_there() -> None:
    assert choose(line(own_kernel(1, feature="mfma")), Load(), NODE) is not None
    assert choose(line(own_kernel(1, feature="wmma")), Load(), NODE) is None


def test_one_attempt_of_a_kernel_at_a_time_unless_more_are_allowed() -> None:
    load = Load(kernels={KernelId("a/k1"): 1})
    assert choose(line(own_kernel(1)), load, NODE) is None
    assert choose(line(own_kernel(1)), load, NODE, per_kernel=2) == own_kernel(1)


def test_what_cannot_run_now_is_passed_over() -> None:
    load = Load(kernels={KernelId("a/k1"): 1})
    assert choose(line(own_kernel(1), own_kernel(2)), load, NODE) == own_kernel(2)


@given(
    crowd=st.integers(min_value=1, max_value=100),
    place=st.integers(min_value=0, max_value=99),
    finishes=st.booleans(),
    history=st.integers(min_value=-1, max_value=50),
)
def test_one_among_a_hundred_of_another_is_served_within_two_claims(
    crowd: int, place: int, finishes: bool, history: int
) -> None:
    single = own_kernel(place * 2 + 1, BOB)
    waiting = line(*(own_kernel(2 * n) for n in range(crowd)), single)
    served = {ALICE: 50} | ({BOB: history} if history >= 0 else {})
    running: Counter[SubmitterId] = Counter()
    for turn in range(2):
        found = choose(waiting, Load(running, {}, served), NODE)
        assert found is not None
        if found == single:
            return
        waiting[found.submitter_id].remove(found)
        served[found.submitter_id] = 100 + turn
        if not finishes:
            running[found.submitter_id] += 1
    raise AssertionError("bob was not served within two claims")


LOADS = st.tuples(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)),
    st.permutations("abcd").flatmap(
        lambda names: st.integers(0, 4).map(lambda n: {s: i for i, s in enumerate(names[:n])})
    ),
)


@given(submitters=st.lists(st.sampled_from("abcd"), min_size=1, max_size=25), load=LOADS)
def test_a_position_is_the_place_in_the_order_of_service(
    submitters: list[str], load: tuple[dict[str, int], dict[str, int]]
) -> None:
    waiting = line(*(own_kernel(n, name) for n, name in enumerate(submitters)))
    running = {SubmitterId(name): count for name, count in load[0].items()}
    served = {SubmitterId(name): turn for name, turn in load[1].items()}
    now = Load(running, {}, served)
    order = served_order(waiting, now)
    assert [position(waiting, now, item) for item in order] == list(range(1, len(order) + 1))

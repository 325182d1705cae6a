"""The laws of the scoreboard merge (D20), of records (D21) and of the projection (D13)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.contract.records import (
    Correctness,
    Direction,
    MetricMeta,
    Record,
    Scoreboard,
    ScoreCase,
    ScoreEntry,
)
from kzoo_core.ids import SENTINEL_SHA, CommitId, SubmitterId
from kzoo_core.store.scoreboard import merge, projection
from tests.core.store.samples import KERNEL, LATENCY, T0, THROUGHPUT, metas, output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kzoo_core.contract.records import TestCaseMeta

VALUES = st.floats(min_value=1e-6, max_value=1e6)


def sha(number: int) -> CommitId:
    return CommitId(f"{number + 1:040x}")


def step(
    board: Scoreboard | None,
    values: Mapping[str, Mapping[str, float]],
    number: int = 1,
    *,
    cases: Sequence[TestCaseMeta] | None = None,
    before: Sequence[TestCaseMeta] | None = None,
) -> tuple[Scoreboard, tuple[Record, ...]]:
    return merge(
        board,
        output(values),
        metas() if cases is None else cases,
        before,
        kernel_id=KERNEL,
        submitter=SubmitterId("alice"),
        recorded_at=T0 + timedelta(minutes=number),
        commit_sha=sha(number),
    )


def entry(value: float, number: int, submitter: str = "alice") -> ScoreEntry:
    return ScoreEntry(value, submitter, sha(number), T0 + timedelta(minutes=number))


def seed(value: float) -> ScoreEntry:
    return ScoreEntry(value, "seed", SENTINEL_SHA, T0)


def board_of(
    best: Mapping[str, ScoreEntry], current: Mapping[str, ScoreEntry] | None = None
) -> Scoreboard:
    case = ScoreCase("small", best, best if current is None else current, Correctness.PASSED)
    return Scoreboard("1.0.0", KERNEL, (case,))


def test_a_first_output_is_best_and_current_and_a_record_without_a_previous_one() -> None:
    board, records = step(None, {"small": {"latency_ms": 2.0, "throughput": 5.0}})

    entries = {"latency_ms": entry(2.0, 1), "throughput": entry(5.0, 1)}
    assert board == board_of(entries)
    assert records == (Record("small", "latency_ms", "ms", 2.0, None),)


def test_a_better_value_takes_best_and_current_and_names_the_previous_best() -> None:
    board, records = step(
        board_of({"latency_ms": entry(2.0, 1)}), {"small": {"latency_ms": 1.5}}, 2
    )

    assert board == board_of({"latency_ms": entry(1.5, 2)})
    assert records == (Record("small", "latency_ms", "ms", 1.5, 2.0),)


def test_a_worse_value_changes_current_alone() -> None:
    board, records = step(
        board_of({"latency_ms": entry(2.0, 1)}), {"small": {"latency_ms": 2.5}}, 2
    )

    assert board == board_of({"latency_ms": entry(2.0, 1)}, {"latency_ms": entry(2.5, 2)})
    assert records == ()


def test_an_equal_value_leaves_the_holder() -> None:
    board, records = step(
        board_of({"latency_ms": entry(2.0, 1)}), {"small": {"latency_ms": 2.0}}, 2
    )

    assert board.cases[0].metrics_best == {"latency_ms": entry(2.0, 1)}
    assert records == ()


def test_a_better_secondary_metric_is_best_but_no_record() -> None:
    before = board_of({"latency_ms": entry(2.0, 1), "throughput": entry(5.0, 1)})

    board, records = step(before, {"small": {"latency_ms": 3.0, "throughput": 6.0}}, 2)

    assert board.cases[0].metrics_best == {"latency_ms": entry(2.0, 1), "throughput": entry(6.0, 2)}
    assert records == ()


def test_a_sentinel_gives_way_to_a_worse_value_and_is_no_previous_record() -> None:
    board, records = step(board_of({"latency_ms": seed(0.1)}), {"small": {"latency_ms": 7.0}}, 1)

    assert board == board_of({"latency_ms": entry(7.0, 1)})
    assert records == (Record("small", "latency_ms", "ms", 7.0, None),)


def test_a_metric_left_out_leaves_current_and_keeps_its_best() -> None:
    before = board_of({"latency_ms": entry(2.0, 1), "throughput": entry(5.0, 1)})

    board, _ = step(before, {"small": {"latency_ms": 1.0}}, 2)

    assert board.cases[0].metrics_best == {"latency_ms": entry(1.0, 2), "throughput": entry(5.0, 1)}
    assert board.cases[0].metrics_current == {"latency_ms": entry(1.0, 2)}


def test_cases_and_metrics_that_the_metas_no_longer_name_are_dropped() -> None:
    before = board_of({"latency_ms": entry(2.0, 1), "throughput": entry(5.0, 1)})
    cases = metas("large", metrics=(LATENCY,))

    board, _ = step(before, {"large": {"latency_ms": 3.0}}, 2, cases=cases, before=metas())

    assert [case.test_case_id for case in board.cases] == ["large"]
    assert board.cases[0].metrics_best == {"latency_ms": entry(3.0, 2)}


def test_a_metric_dropped_from_a_case_that_stays_is_dropped_from_its_best() -> None:
    before = board_of({"latency_ms": entry(2.0, 1), "throughput": entry(5.0, 1)})

    board, _ = step(
        before, {"small": {"latency_ms": 3.0}}, 2, cases=metas(metrics=(LATENCY,)), before=metas()
    )

    assert board.cases[0].metrics_best == {"latency_ms": entry(2.0, 1)}


def test_a_changed_direction_starts_anew() -> None:
    turned = MetricMeta("latency_ms", "ms", Direction.HIGHER)
    before = board_of({"latency_ms": entry(2.0, 1)})

    board, records = step(
        before,
        {"small": {"latency_ms": 1.0}},
        2,
        cases=metas(metrics=(turned,)),
        before=metas(metrics=(LATENCY,)),
    )

    assert board.cases[0].metrics_best == {"latency_ms": entry(1.0, 2)}
    assert records == (Record("small", "latency_ms", "ms", 1.0, None),)


def test_a_changed_unit_starts_anew_and_drops_the_best_of_a_metric_left_out() -> None:
    in_us = MetricMeta("throughput", "TFlops", Direction.HIGHER)
    before = board_of({"latency_ms": entry(2.0, 1), "throughput": entry(5.0, 1)})

    board, _ = step(
        before,
        {"small": {"latency_ms": 3.0}},
        2,
        cases=metas(metrics=(LATENCY, in_us)),
        before=metas(),
    )

    assert board.cases[0].metrics_best == {"latency_ms": entry(2.0, 1)}


def test_unreadable_previous_metas_count_as_unchanged() -> None:
    before = board_of({"latency_ms": entry(2.0, 1)})

    board, _ = step(before, {"small": {"latency_ms": 3.0}}, 2, before=None)

    assert board.cases[0].metrics_best == {"latency_ms": entry(2.0, 1)}


def test_cases_stand_in_the_order_of_the_metas() -> None:
    cases = metas("b", "a")

    board, records = step(None, {"a": {"latency_ms": 1.0}, "b": {"latency_ms": 2.0}}, cases=cases)

    assert [case.test_case_id for case in board.cases] == ["b", "a"]
    assert [record.test_case_id for record in records] == ["b", "a"]


def test_a_case_without_a_measurement_keeps_its_best_and_is_unknown() -> None:
    before = board_of({"latency_ms": entry(2.0, 1)})

    board, records = step(before, {}, 2)

    assert board == Scoreboard(
        "1.0.0",
        KERNEL,
        (ScoreCase("small", {"latency_ms": entry(2.0, 1)}, {}, Correctness.UNKNOWN),),
    )
    assert records == ()


def test_optional_fields_of_the_file_are_kept() -> None:
    before = Scoreboard("1.2.0", KERNEL, (), contract_id="c1", class_key="k1")

    board, _ = step(before, {"small": {"latency_ms": 1.0}})

    assert (board.schema_version, board.contract_id, board.class_key) == ("1.2.0", "c1", "k1")


@given(first=VALUES, rest=st.lists(VALUES, max_size=6))
def test_best_is_the_first_of_the_best_values_in_either_direction(
    first: float, rest: list[float]
) -> None:
    board: Scoreboard | None = None
    values = [first, *rest]
    for number, value in enumerate(values):
        board, records = step(
            board, {"small": {"latency_ms": value, "throughput": value}}, number, before=metas()
        )
        is_record = all(value < earlier for earlier in values[:number])
        assert bool(records) == is_record

    assert board is not None
    best = board.cases[0].metrics_best
    assert best["latency_ms"] == entry(min(values), values.index(min(values)))
    assert best["throughput"] == entry(max(values), values.index(max(values)))
    last = entry(values[-1], len(values) - 1)
    assert board.cases[0].metrics_current == {"latency_ms": last, "throughput": last}


@given(value=VALUES, placeholder=VALUES)
def test_whatever_a_sentinel_says_the_outcome_is_that_of_an_empty_board(
    value: float, placeholder: float
) -> None:
    values = {"small": {"latency_ms": value, "throughput": value}}
    seeded = board_of({"latency_ms": seed(placeholder), "throughput": seed(placeholder)})

    assert step(seeded, values) == step(None, values)


@given(values=st.dictionaries(st.sampled_from(["small", "large", "gone"]), VALUES, max_size=3))
def test_the_board_has_exactly_the_cases_and_metrics_of_the_metas(values: dict[str, float]) -> None:
    cases = metas("small", "large", metrics=(LATENCY, THROUGHPUT))

    board, _ = step(
        None, {name: {"latency_ms": value} for name, value in values.items()}, cases=cases
    )

    assert [case.test_case_id for case in board.cases] == ["small", "large"]
    assert all(set(case.metrics_best) <= {"latency_ms", "throughput"} for case in board.cases)


def test_the_projection_leaves_out_sentinels_and_cases_that_had_nothing_else() -> None:
    board = Scoreboard(
        "1.0.0",
        KERNEL,
        (
            ScoreCase(
                "empty", {"latency_ms": seed(1.0)}, {"latency_ms": seed(1.0)}, Correctness.PASSED
            ),
            ScoreCase(
                "half",
                {"latency_ms": entry(2.0, 1), "throughput": seed(1.0)},
                {"latency_ms": seed(1.0)},
                Correctness.PASSED,
            ),
        ),
    )

    assert projection(board) == Scoreboard(
        "1.0.0", KERNEL, (ScoreCase("half", {"latency_ms": entry(2.0, 1)}, {}, Correctness.PASSED),)
    )

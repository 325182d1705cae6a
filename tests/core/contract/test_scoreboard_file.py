from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.records import Correctness, Scoreboard, ScoreCase, ScoreEntry
from kzoo_core.contract.scoreboard_file import dump_scoreboard, parse_scoreboard
from kzoo_core.errors import Problem
from kzoo_core.ids import KernelId
from tests.packages import KERNEL_ID, seed_scoreboard

SEED = b"""\
schema_version: "1.0.0"
kernel_id: gfx928/Attention/MHA/fp16/demo
cases:
  - test_case_id: small
    metrics_best:
      latency_ms:
        {value: 0.20, submitter: seed, commit_sha: "0000000", recorded_at: "2026-08-02T00:00:00Z"}
    metrics_current:
      latency_ms:
        {value: 1, submitter: seed, commit_sha: "0000000", recorded_at: 2026-08-02T02:00:00+02:00}
    correctness_current: unknown
"""


def test_a_seed_is_read_with_quoted_and_unquoted_times() -> None:
    moment = datetime(2026, 8, 2, tzinfo=UTC)
    board, problems = parse_scoreboard(SEED)
    assert problems == []
    assert board == Scoreboard(
        schema_version="1.0.0",
        kernel_id=KernelId("gfx928/Attention/MHA/fp16/demo"),
        cases=(
            ScoreCase(
                test_case_id="small",
                metrics_best={"latency_ms": ScoreEntry(0.2, "seed", "0000000", moment)},
                metrics_current={"latency_ms": ScoreEntry(1.0, "seed", "0000000", moment)},
                correctness_current=Correctness.UNKNOWN,
            ),
        ),
    )
    assert board.cases[0].metrics_best["latency_ms"].is_seed


def test_a_board_without_cases_is_that_of_a_new_kernel() -> None:
    board, problems = parse_scoreboard(b'schema_version: "1.0.0"\nkernel_id: a/b\ncases: []\n')
    assert problems == []
    assert board == Scoreboard("1.0.0", KernelId("a/b"), ())


def test_an_unquoted_sentinel_is_told_with_the_spelling_of_the_file() -> None:
    board, problems = parse_scoreboard(SEED.replace(b'"0000000"', b"0000000", 1))
    assert board is None
    assert problems == [
        Problem(
            code="wrong_type",
            message=(
                "cases[0].metrics_best.latency_ms.commit_sha is 0000000; expected a commit's "
                'lower-case hex name, or "0000000" for a seed'
            ),
            file=SCOREBOARD_PATH,
            pointer="/cases/0/metrics_best/latency_ms/commit_sha",
            line=7,
            column=40,
            found="0000000",
            expected='a commit\'s lower-case hex name, or "0000000" for a seed',
            hint='quote it: "0000000"',
        )
    ]


def test_a_number_that_yaml_reads_as_text_is_told_how_to_be_written() -> None:
    _, problems = parse_scoreboard(SEED.replace(b"value: 0.20", b"value: 2e-1"))
    assert [(problem.code, problem.hint) for problem in problems] == [
        ("wrong_type", "write 2.0e-1: YAML reads 2e-1 as a string")
    ]


def test_a_case_given_twice_is_refused() -> None:
    text = seed_scoreboard(KERNEL_ID, {"n4": 1.0}).decode()
    head, case = text.split("cases:\n")
    board, problems = parse_scoreboard(f"{head}cases:\n{case}{case}".encode())
    assert board is None
    assert problems == [
        Problem(
            code="duplicate_test_case",
            message=f"{SCOREBOARD_PATH} has the test case n4 twice",
            file=SCOREBOARD_PATH,
            pointer="/cases/1/test_case_id",
            found="n4 again",
            expected="every test case once",
        )
    ]


def test_a_kernel_id_that_is_none_is_refused() -> None:
    board, problems = parse_scoreboard(b'schema_version: "1.0.0"\nkernel_id: a/../b\ncases: []\n')
    assert board is None
    assert [problem.code for problem in problems] == ["bad_kernel_id"]
    assert problems[0].file == SCOREBOARD_PATH


def test_a_board_is_written_with_times_and_commits_in_quotes() -> None:
    moment = datetime(2026, 8, 2, 12, 30, tzinfo=UTC)
    entry = ScoreEntry(1e-05, "alice", "1e5" + "0" * 37, moment)
    board = Scoreboard(
        "1.0.0",
        KernelId("a/b"),
        (ScoreCase("n4", {"t": entry}, {}, Correctness.PASSED),),
        contract_id="c1",
        class_key="gfx928/K100/1",
    )
    assert dump_scoreboard(board).decode() == (
        'schema_version: "1.0.0"\n'
        "kernel_id: a/b\n"
        "cases:\n"
        "- test_case_id: n4\n"
        "  metrics_best:\n"
        "    t:\n"
        "      value: 1.0e-05\n"
        "      submitter: alice\n"
        '      commit_sha: "1e50000000000000000000000000000000000000"\n'
        '      recorded_at: "2026-08-02T12:30:00Z"\n'
        "  metrics_current: {}\n"
        "  correctness_current: passed\n"
        "contract_id: c1\n"
        "class_key: gfx928/K100/1\n"
    )


names = st.text("abcxyz019._-", min_size=1, max_size=12)
texts = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1)
hexes = st.text("0123456789abcdef", min_size=7, max_size=40).filter(lambda text: text.strip("0"))
entries = st.builds(
    ScoreEntry,
    st.floats(allow_nan=False, allow_infinity=False),
    texts.map(lambda text: text[:64]),
    hexes | st.just("0000000"),
    st.integers(0, 4_000_000_000).map(lambda second: datetime.fromtimestamp(second, UTC)),
)
metrics = st.dictionaries(texts.map(lambda text: text[:128]), entries, max_size=3)
cases = st.builds(
    ScoreCase,
    names,
    metrics,
    metrics,
    st.sampled_from([Correctness.PASSED, Correctness.FAILED, Correctness.UNKNOWN]),
)
boards = st.builds(
    Scoreboard,
    st.just("1.0.0"),
    names.filter(lambda name: name.strip(".")).map(lambda name: KernelId(f"gfx928/{name}x")),
    st.lists(cases, max_size=3, unique_by=lambda case: case.test_case_id).map(tuple),
    st.none() | names,
    st.none() | names,
)


@given(boards)
def test_every_board_is_read_as_it_was_written(board: Scoreboard) -> None:
    written = dump_scoreboard(board)
    assert parse_scoreboard(written) == (board, [])
    assert dump_scoreboard(board) == written

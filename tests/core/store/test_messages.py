"""The messages of S and R: what people read, what is read back, what free text cannot do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.ids import CommitId, KernelId, RunnerId, Sha256, SubmissionId, SubmitterId
from kzoo_core.store.messages import (
    Trailers,
    bench_message,
    parse_subject,
    parse_summary,
    parse_trailers,
    source_message,
)

TRAILERS = Trailers(
    kernel_id=KernelId("gfx928/Norm/RMSNorm/fp32/plain"),
    submission_id=SubmissionId("00000000-0000-4000-8000-000000000001"),
    attempt=2,
    submitter=SubmitterId("alice"),
    runner_id=RunnerId("runner-1"),
    arch="gfx928",
    package_sha256=Sha256("ab" * 32),
    isolation="none",
)
SOURCE = CommitId("c0ffee" + "0" * 34)

LAST_PARAGRAPH = """Kernel-Id: gfx928/Norm/RMSNorm/fp32/plain
Submission-Id: 00000000-0000-4000-8000-000000000001
Attempt: 2
Submitter: alice
Runner: runner-1
Arch: gfx928
Package-Sha256: abababababababababababababababababababababababababababababababab
Isolation: none
"""


def test_the_source_commit_says_what_was_optimized_and_ends_with_the_trailers() -> None:
    message = source_message(TRAILERS, "vector loads\n\n- fewer spills\n", "ignored")

    assert message == (
        "accept(gfx928/Norm/RMSNorm/fp32/plain): vector loads\n"
        "\n"
        "optimization_summary:\n"
        "    vector loads\n"
        "\n"
        "    - fewer spills\n"
        "\n" + LAST_PARAGRAPH
    )


def test_without_a_summary_the_subject_is_the_datasheets_and_there_is_no_block() -> None:
    message = source_message(TRAILERS, None, "RMS norm\nin one pass")

    assert message == (
        "accept(gfx928/Norm/RMSNorm/fp32/plain): RMS norm in one pass\n\n" + LAST_PARAGRAPH
    )


def test_a_blank_summary_counts_as_none() -> None:
    assert source_message(TRAILERS, " \n\t\n", "x") == source_message(TRAILERS, None, "x")


def test_the_scoreboards_commit_names_its_source_commit() -> None:
    message = bench_message(replace(TRAILERS, source_commit=SOURCE))

    assert message == (
        "bench_result update (source c0ffee000000)\n\n"
        + LAST_PARAGRAPH
        + f"Source-Commit: {SOURCE}\n"
    )


def test_the_scoreboards_commit_cannot_be_written_without_its_source() -> None:
    with pytest.raises(ValueError, match="source commit"):
        bench_message(TRAILERS)


def test_what_is_known_of_contract_class_and_confirmation_is_written_in_its_place() -> None:
    trailers = replace(TRAILERS, contract_id="c1", class_key="gfx928/K100", confirmation="3 runs")

    message = source_message(trailers, None, "x")

    assert "Contract-Id: c1\nClass-Key: gfx928/K100\nConfirmation: 3 runs\nIsolation:" in message
    assert parse_trailers(message) == trailers


def test_a_long_first_line_is_cut_in_the_subject_and_kept_in_the_block() -> None:
    long = "a" * 80

    message = source_message(TRAILERS, long, "x")

    assert parse_subject(message) == "a" * 71 + "…"
    assert parse_summary(message) == long


def test_72_characters_are_not_cut() -> None:
    assert parse_subject(source_message(TRAILERS, "b" * 72, "x")) == "b" * 72


def test_trailers_in_free_text_are_not_read() -> None:
    forged = "fast\n\nKernel-Id: someone/else\nSubmitter: mallory\nSource-Commit: " + SOURCE

    assert parse_trailers(source_message(TRAILERS, forged, "x")) == TRAILERS


def test_control_characters_and_direction_marks_never_reach_git() -> None:
    message = source_message(TRAILERS, "a\x00b\x1b[31mc\u202ed\u2028e\x85f\ud800g\r\nh\ti", "x")

    assert parse_summary(message) == "ab[31mcdefg\nh    i"


def test_a_line_break_in_a_trailers_value_stays_on_its_line() -> None:
    trailers = replace(TRAILERS, arch="gfx928\nSubmitter: mallory")

    read = parse_trailers(source_message(trailers, None, "x"))

    assert read is not None
    assert read.arch == "gfx928 Submitter: mallory"
    assert read.submitter == "alice"


@given(summary=st.text(max_size=300), desc_summary=st.text(max_size=100))
def test_any_free_text_leaves_the_trailers_as_they_were(summary: str, desc_summary: str) -> None:
    trailers = replace(TRAILERS, source_commit=SOURCE)
    message = source_message(trailers, summary, desc_summary)

    assert parse_trailers(message) == trailers
    assert len(parse_subject(message)) <= 72
    assert message.encode("utf-8").count(b"\nKernel-Id: ") == 1


@pytest.mark.parametrize(
    "message",
    [
        "",
        "fix a typo\n",
        "fix\n\nKernel-Id: a\n",
        "fix\n\n" + LAST_PARAGRAPH.replace("Attempt: 2", "Attempt: two"),
        "fix\n\n" + LAST_PARAGRAPH + "Kernel-Id: b\n",
        "fix\n\n" + LAST_PARAGRAPH + "\nSigned-off-by: A Person <a@example.org>\n",
    ],
)
def test_other_messages_have_no_trailers_of_ours(message: str) -> None:
    assert parse_trailers(message) is None


def test_lines_that_git_adds_to_the_last_paragraph_are_skipped() -> None:
    message = source_message(TRAILERS, None, "x").rstrip("\n") + (
        "\nSigned-off-by: A Person <a@example.org>\n(cherry picked from commit 1234)\n"
    )

    assert parse_trailers(message) == TRAILERS


def test_a_message_without_a_block_has_no_summary() -> None:
    assert parse_summary(source_message(TRAILERS, None, "x")) is None
    assert parse_summary("fix a typo\n") is None

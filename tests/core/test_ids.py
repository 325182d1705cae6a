"""Identifiers: what becomes one and what is said of what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.errors import BadInput
from kzoo_core.ids import (
    kernel_id_problem,
    parse_claim_id,
    parse_kernel_id,
    parse_runner_name,
    parse_submission_id,
    parse_submitter_id,
)


@pytest.mark.parametrize(
    "text",
    ["a", "gfx928/Attention/MHA/fp16/my_impl", "a.b/c-d/e_f", "x" * 64, "a/...", "status/x"],
)
def test_a_posix_relative_path_of_plain_segments_is_a_kernel_id(text: str) -> None:
    assert parse_kernel_id(text) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "it is empty"),
        ("/a/b", "an empty segment"),
        ("a//b", "an empty segment"),
        ("a/b/", "an empty segment"),
        ("a/../b", "segment '..'"),
        ("a/./b", "segment '.'"),
        ("a b/c", "segment 'a b'"),
        ("a/核", "segment '核'"),
        ("a\n", "segment 'a\\n'"),
        ("a/.GIT", "segment '.GIT'"),
        ("a/.Kernel_Package/b", "segment '.Kernel_Package'"),
        ("x" * 65, "segment of 65 bytes"),
        ("/".join(["abcdefg"] * 33), "263 characters"),
        ("a/bench-history", "last segment 'bench-history'"),
        ("a/claim", "last segment 'claim'"),
    ],
)
def test_a_path_that_breaks_a_rule_is_refused_with_what_was_found(text: str, found: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_kernel_id(text)
    (problem,) = caught.value.details
    assert caught.value.code == "VALIDATION_ERROR"
    assert (problem.code, problem.found) == ("bad_kernel_id", found)
    assert problem.expected
    assert problem.hint


@given(st.text(max_size=300))
def test_any_text_is_judged_without_an_exception(text: str) -> None:
    problem = kernel_id_problem(text)
    assert problem is None or problem.code == "bad_kernel_id"


@pytest.mark.parametrize("text", ["alice", "a.b_c@lab-1", "9", "A" * 64])
def test_a_submitter_id_is_a_word_that_fits_a_mail_address(text: str) -> None:
    assert parse_submitter_id(text) == text


@pytest.mark.parametrize("text", ["", "-a", "a b", "a" * 65, "é", "a\n"])
def test_a_bad_submitter_id_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_submitter_id(text)
    (problem,) = caught.value.details
    assert problem.code == "bad_submitter_id"
    assert problem.expected == "matches ^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"


def test_the_other_identifiers_take_their_form_and_nothing_else() -> None:
    uuid = "0b5a7c1e-1111-4222-8333-944445555666"
    assert parse_submission_id(uuid) == uuid
    assert parse_claim_id("claim-1") == "claim-1"
    assert parse_runner_name("node-7.gpu") == "node-7.gpu"
    for parse, text, code in (
        (parse_submission_id, uuid.upper(), "bad_uuid"),
        (parse_claim_id, "a/b", "bad_claim_id"),
        (parse_runner_name, ".hidden", "bad_runner_name"),
    ):
        with pytest.raises(BadInput) as caught:
            parse(text)
        assert caught.value.details[0].code == code

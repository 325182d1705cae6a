"""The history of a kernel: its accepted submissions as git keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.records import Record
from kzoo_core.errors import BadInput
from kzoo_core.ids import CommitId, KernelId
from kzoo_core.store.history import HistoryEntry, HistoryPage, history
from tests.core.store.samples import (
    KERNEL,
    OTHER,
    T0,
    accepted,
    git,
    metas,
    package,
    seed,
    submission_id,
)

if TYPE_CHECKING:
    from kzoo_core.store.repository import KernelRepository


def numbers(page: HistoryPage) -> list[int]:
    return [int(entry.submission_id[-12:], 16) for entry in page.items]


def by_hand(checkout: KernelRepository, path: str, text: str) -> None:
    git(checkout.path, "reset", "-q", "--hard")
    (checkout.path / path).parent.mkdir(parents=True, exist_ok=True)
    (checkout.path / path).write_text(text)
    git(checkout.path, "add", path)
    git(checkout.path, "commit", "-qm", "by hand")


def test_an_entry_says_all_that_the_two_commits_say(repository: KernelRepository) -> None:
    seed(repository)
    accepted(repository, 1, latency=2.0)
    done = accepted(
        repository, 2, latency=1.0, summary="vector loads\n\nfewer spills", submitter="bob"
    )

    page = history(repository, KERNEL, limit=1)

    assert isinstance(page.items[0], HistoryEntry)
    assert page.items[0].as_json() == {
        "commit_sha": done.source_commit,
        "bench_commit_sha": done.bench_commit,
        "recorded_at": "2026-08-02T12:02:00Z",
        "submitter": "bob",
        "submission_id": submission_id(2),
        "attempt": 1,
        "runner_id": "runner-1",
        "arch": "gfx928",
        "isolation": "none",
        "package_sha256": "ab" * 32,
        "summary": "vector loads",
        "optimization_summary": "vector loads\n\nfewer spills",
        "cases": [
            {
                "test_case_id": "small",
                "metrics": [
                    {"name": "latency_ms", "value": 1.0},
                    {"name": "throughput", "value": 1.0},
                ],
            }
        ],
        "records": [
            {"test_case_id": "small", "metric": "latency_ms", "value": 1.0, "previous": 2.0}
        ],
    }


def test_entries_come_newest_first_for_this_kernel_alone(repository: KernelRepository) -> None:
    for number, kernel in enumerate([KERNEL, OTHER, KERNEL, OTHER, OTHER, KERNEL], start=1):
        accepted(repository, number, submitted=package(kernel, b"%d\n" % number))

    assert numbers(history(repository, KERNEL, limit=10)) == [6, 3, 1]
    assert numbers(history(repository, OTHER, limit=10)) == [5, 4, 2]
    assert history(repository, KernelId("gfx928/none"), limit=10) == HistoryPage((), None)


def test_a_kernel_whose_name_begins_with_anothers_is_another(repository: KernelRepository) -> None:
    longer = KernelId(f"{KERNEL}.v2")
    accepted(repository, 1)
    accepted(repository, 2, submitted=package(longer))

    assert numbers(history(repository, KERNEL, limit=10)) == [1]
    assert numbers(history(repository, longer, limit=10)) == [2]


def test_records_are_those_that_the_accept_reported(repository: KernelRepository) -> None:
    seed(repository)
    reported = [
        accepted(repository, number, latency=latency).records
        for number, latency in enumerate([2.0, 3.0, 1.5, 1.5], start=1)
    ]

    page = history(repository, KERNEL, limit=10)

    assert [entry.records for entry in reversed(page.items)] == reported
    assert reported == [
        (Record("small", "latency_ms", "ms", 2.0, None),),
        (),
        (Record("small", "latency_ms", "ms", 1.5, 2.0),),
        (),
    ]


def test_pages_go_on_from_the_cursor_until_the_root(repository: KernelRepository) -> None:
    for number in range(1, 6):
        accepted(repository, number)

    first = history(repository, KERNEL, limit=2)
    second = history(repository, KERNEL, limit=2, cursor=first.next_cursor)
    third = history(repository, KERNEL, limit=2, cursor=second.next_cursor)

    assert [numbers(page) for page in (first, second, third)] == [[5, 4], [3, 2], [1]]
    assert third.next_cursor is None


def test_a_cursor_holds_while_new_attempts_are_accepted(repository: KernelRepository) -> None:
    for number in range(1, 4):
        accepted(repository, number)
    first = history(repository, KERNEL, limit=2)
    accepted(repository, 4)

    assert numbers(history(repository, KERNEL, limit=2, cursor=first.next_cursor)) == [1]


def test_a_bounded_walk_hands_out_a_cursor_with_a_short_page(repository: KernelRepository) -> None:
    accepted(repository, 1)
    for number in range(2, 5):
        accepted(repository, number, submitted=package(OTHER, b"%d\n" % number))

    first = history(repository, KERNEL, limit=5, max_commits=4)
    second = history(repository, KERNEL, limit=5, max_commits=4, cursor=first.next_cursor)

    assert (numbers(first), first.next_cursor is None) == ([], False)
    assert (numbers(second), second.next_cursor) == ([1], None)


def test_a_history_may_begin_at_an_earlier_head(repository: KernelRepository) -> None:
    earlier = accepted(repository, 1).bench_commit
    accepted(repository, 2)

    assert numbers(history(repository, KERNEL, limit=5, head=earlier)) == [1]


def test_a_repository_without_a_commit_has_an_empty_history(repository: KernelRepository) -> None:
    assert history(repository, KERNEL, limit=5) == HistoryPage((), None)


def test_what_others_commit_is_no_attempt(checkout: KernelRepository) -> None:
    accepted(checkout, 1)
    board = git(checkout.path, "show", f"HEAD:{KERNEL}/{SCOREBOARD_PATH}")
    by_hand(checkout, f"{KERNEL}/{SCOREBOARD_PATH}", board + "# seen\n")
    by_hand(checkout, f"{KERNEL}/src/kernel.py", "by hand\n")
    accepted(checkout, 2)

    assert numbers(history(checkout, KERNEL, limit=5)) == [2, 1]


def test_a_copied_message_without_a_new_scoreboard_is_no_attempt(
    checkout: KernelRepository,
) -> None:
    accepted(checkout, 1)
    message = git(checkout.path, "log", "-1", "--format=%B")
    git(checkout.path, "reset", "-q", "--hard")
    git(checkout.path, "commit", "-q", "--allow-empty", "-F", "-", given=message)

    assert numbers(history(checkout, KERNEL, limit=5)) == [1]


def test_only_first_parents_are_walked(checkout: KernelRepository) -> None:
    accepted(checkout, 1)
    git(checkout.path, "reset", "-q", "--hard")
    git(checkout.path, "branch", "side")
    accepted(checkout, 2)
    git(checkout.path, "reset", "-q", "--hard")
    git(checkout.path, "checkout", "-q", "side")
    by_hand(checkout, "README.md", "hello\n")
    git(checkout.path, "merge", "-q", "--no-edit", "main")

    assert numbers(history(checkout, KERNEL, limit=5)) == [1]


def test_a_scoreboard_that_became_unreadable_later_does_not_hide_the_attempts(
    checkout: KernelRepository,
) -> None:
    accepted(checkout, 1)
    by_hand(checkout, f"{KERNEL}/{SCOREBOARD_PATH}", "cases: [\n")

    assert numbers(history(checkout, KERNEL, limit=5)) == [1]


def test_an_attempt_whose_cases_changed_shows_its_own_values(repository: KernelRepository) -> None:
    accepted(repository, 1, cases=metas("small", "large"))
    accepted(repository, 2, cases=metas("large"), latency=0.5)

    newest, oldest = history(repository, KERNEL, limit=5).items

    assert [case.test_case_id for case in newest.cases] == ["large"]
    assert [case.test_case_id for case in oldest.cases] == ["small", "large"]
    assert newest.records == (Record("large", "latency_ms", "ms", 0.5, 1.0),)


def test_history_goes_on_when_the_kernel_is_gone(checkout: KernelRepository) -> None:
    accepted(checkout, 1)
    git(checkout.path, "reset", "-q", "--hard")
    git(checkout.path, "rm", "-qr", KERNEL)
    git(checkout.path, "commit", "-qm", "retired")

    assert numbers(history(checkout, KERNEL, limit=5)) == [1]


@pytest.mark.parametrize("cursor", ["", "HEAD", "12" * 20, "1234", "G" * 40])
def test_a_cursor_that_is_no_commit_is_refused(repository: KernelRepository, cursor: str) -> None:
    accepted(repository, 1)

    with pytest.raises(BadInput) as caught:
        history(repository, KERNEL, limit=5, cursor=CommitId(cursor))

    assert caught.value.code == "BAD_CURSOR"
    assert caught.value.message == f"cursor {cursor!r} is no commit of this repository"
    assert caught.value.hint == "give the next_cursor of the page before, unchanged"


def test_a_cursor_that_names_a_tree_is_refused(repository: KernelRepository) -> None:
    accepted(repository, 1)
    tree = git(repository.path, "rev-parse", "HEAD^{tree}").strip()

    with pytest.raises(BadInput, match="is no commit of this repository"):
        history(repository, KERNEL, limit=5, cursor=CommitId(tree))


def test_times_come_from_the_commit(repository: KernelRepository) -> None:
    accepted(repository, 1)

    assert (history(repository, KERNEL, limit=1).items[0].recorded_at - T0).total_seconds() == 60

"""The two commits of an accept, as stock git sees them."""

from __future__ import annotations

import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.layout import DESC_PATH, SCOREBOARD_PATH
from kzoo_core.contract.records import Direction, MetricMeta, PackageFile, Record
from kzoo_core.contract.scoreboard_file import parse_scoreboard
from kzoo_core.errors import Broken
from kzoo_core.ids import KernelId
from kzoo_core.store import publish
from kzoo_core.store.accept import (
    FrozenAtHead,
    KernelIdConflict,
    KernelMoved,
    accept,
    find_accept,
)
from kzoo_core.store.publish import HeadMoved
from kzoo_core.store.repository import KernelRepository
from tests.core.store.samples import (
    KERNEL,
    OTHER,
    T0,
    accepted,
    fsck,
    git,
    metas,
    package,
    request,
    seed,
    submission_id,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.ids import CommitId

BOARD = f"{KERNEL}/{SCOREBOARD_PATH}"


def changed(repository: KernelRepository, commit: str) -> list[str]:
    """Return status and path, a tab between them, of what a commit changed against its parent."""
    out = git(
        repository.path, "diff-tree", "--root", "-r", "--no-commit-id", "--name-status", commit
    )
    return out.splitlines()


def test_an_accept_is_two_commits_and_the_second_is_the_head(repository: KernelRepository) -> None:
    base = seed(repository)

    done = accepted(repository)

    log = git(repository.path, "log", "--first-parent", "--format=%H").split()
    assert log == [done.bench_commit, done.source_commit, base]
    assert repository.head() == done.bench_commit


def test_the_source_commit_never_touches_the_scoreboard(repository: KernelRepository) -> None:
    seed(repository)

    done = accepted(repository)

    assert changed(repository, done.source_commit) == [f"M\t{KERNEL}/src/kernel.py"]


def test_the_scoreboards_commit_touches_nothing_else(repository: KernelRepository) -> None:
    seed(repository)

    done = accepted(repository)

    assert changed(repository, done.bench_commit) == [f"M\t{BOARD}"]


def test_the_scoreboard_is_stamped_with_the_source_commit(repository: KernelRepository) -> None:
    seed(repository)

    done = accepted(repository, latency=2.0)

    board, problems = parse_scoreboard(git(repository.path, "show", f"HEAD:{BOARD}").encode())
    assert problems == []
    assert board == done.scoreboard
    entry = done.scoreboard.cases[0].metrics_best["latency_ms"]
    assert (entry.value, entry.submitter, entry.commit_sha, entry.recorded_at) == (
        2.0,
        "alice",
        done.source_commit,
        request(repository).recorded_at,
    )
    assert done.records == (Record("small", "latency_ms", "ms", 2.0, None),)


def test_the_first_accept_of_a_new_kernel_adds_everything_but_the_scoreboard(
    repository: KernelRepository,
) -> None:
    seed(repository, package(OTHER, seeded=True))

    done = accepted(repository)

    assert changed(repository, done.source_commit) == [
        f"A\t{KERNEL}/.kernel_package/benchmark.py",
        f"A\t{KERNEL}/.kernel_package/build_test_env.py",
        f"A\t{KERNEL}/.kernel_package/desc.yaml",
        f"A\t{KERNEL}/src/kernel.py",
    ]
    assert changed(repository, done.bench_commit) == [f"A\t{BOARD}"]


def test_an_unborn_branch_gets_a_root_commit(repository: KernelRepository) -> None:
    done = accepted(repository)

    parents = git(repository.path, "log", "--format=%P").splitlines()
    assert parents == [done.source_commit, ""]
    assert git(repository.path, "symbolic-ref", "HEAD") == "refs/heads/main\n"


def test_a_scoreboard_in_the_package_is_not_what_is_committed(repository: KernelRepository) -> None:
    submitted = package(extra={SCOREBOARD_PATH: PackageFile(b"forged: true\n")})

    done = accepted(repository, submitted=submitted)

    assert changed(repository, done.bench_commit) == [f"A\t{BOARD}"]
    assert "forged" not in git(repository.path, "show", f"HEAD:{BOARD}")


def test_the_package_replaces_the_whole_directory_with_its_modes(
    repository: KernelRepository,
) -> None:
    seed(repository, package(seeded=True, extra={"old/notes.md": PackageFile(b"old\n")}))
    extra = {"tools/run.sh": PackageFile(b"#!/bin/sh\n", executable=True)}

    accepted(repository, submitted=package(extra=extra))

    tree = git(repository.path, "ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD", KERNEL)
    assert tree.splitlines() == [
        f"100644 {KERNEL}/.kernel_package/bench_result.yaml",
        f"100644 {KERNEL}/.kernel_package/benchmark.py",
        f"100644 {KERNEL}/.kernel_package/build_test_env.py",
        f"100644 {KERNEL}/.kernel_package/desc.yaml",
        f"100644 {KERNEL}/src/kernel.py",
        f"100755 {KERNEL}/tools/run.sh",
    ]


def test_a_file_may_become_a_directory_and_the_other_way_round(
    repository: KernelRepository,
) -> None:
    before = {"a": PackageFile(b"1"), "b/c": PackageFile(b"2"), "b.txt": PackageFile(b"3")}
    after = {"a/c": PackageFile(b"1"), "b": PackageFile(b"2"), "b.txt": PackageFile(b"3")}
    accepted(repository, 1, submitted=package(extra=before))

    accepted(repository, 2, submitted=package(extra=after))

    names = git(repository.path, "ls-tree", "-r", "--name-only", f"HEAD:{KERNEL}").split()
    assert names[-4:] == ["a/c", "b", "b.txt", "src/kernel.py"]
    assert fsck(repository.path) == ""


def test_an_unchanged_source_still_makes_both_commits(repository: KernelRepository) -> None:
    submitted = package()
    first = accepted(repository, 1, submitted=submitted, latency=2.0)

    second = accepted(repository, 2, submitted=submitted, latency=1.0)

    assert changed(repository, second.source_commit) == []
    assert changed(repository, second.bench_commit) == [f"M\t{BOARD}"]
    assert second.records == (Record("small", "latency_ms", "ms", 1.0, 2.0),)
    assert (
        git(repository.path, "rev-parse", f"{second.source_commit}~") == f"{first.bench_commit}\n"
    )


def test_both_commits_carry_the_submitter_the_platform_and_one_time(
    repository: KernelRepository,
) -> None:
    accepted(repository, 1, submitter="alice@lab")

    lines = git(repository.path, "log", "--format=%an <%ae> | %cn <%ce> | %aI | %cI").splitlines()

    line = (
        "alice@lab <alice@lab@kernel-zoo.invalid> | kernel_zoo <kernel_zoo@kernel-zoo.invalid>"
        " | 2026-08-02T12:01:00+00:00 | 2026-08-02T12:01:00+00:00"
    )
    assert lines == [line, line]


def test_the_messages_are_those_of_the_contract(repository: KernelRepository) -> None:
    done = accepted(repository, summary="vector loads\nfewer spills")

    source, bench = (
        git(repository.path, "log", "-1", "--format=%B", sha)
        for sha in (done.source_commit, done.bench_commit)
    )
    assert source.startswith(
        f"accept({KERNEL}): vector loads\n\n"
        "optimization_summary:\n    vector loads\n    fewer spills\n\n"
    )
    assert bench.startswith(f"bench_result update (source {done.source_commit[:12]})\n\n")
    read = git(repository.path, "log", "-1", "--format=%(trailers:key=Source-Commit)", "HEAD")
    assert read.strip() == f"Source-Commit: {done.source_commit}"


def test_everything_new_lies_in_one_pack_and_git_finds_no_fault(
    repository: KernelRepository,
) -> None:
    seed(repository)
    packs = set((repository.git_directory / "objects/pack").iterdir())

    accepted(repository)

    new = set((repository.git_directory / "objects/pack").iterdir()) - packs
    assert sorted(path.suffix for path in new) == [".idx", ".pack"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o444 for path in new)
    assert git(repository.path, "count-objects").startswith("0 objects")
    assert fsck(repository.path) == ""


def test_a_clone_has_both_commits_and_every_file(
    repository: KernelRepository, tmp_path: Path
) -> None:
    seed(repository)
    done = accepted(repository, submitted=package(source=b"fast\n"))

    git(tmp_path, "clone", "-q", str(repository.path), "clone")

    assert git(tmp_path / "clone", "rev-parse", "HEAD") == f"{done.bench_commit}\n"
    assert (tmp_path / "clone" / KERNEL / "src/kernel.py").read_bytes() == b"fast\n"
    assert fsck(tmp_path / "clone") == ""


def test_hooks_and_the_users_configuration_have_no_influence(
    repository: KernelRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text(
        "[commit]\n\tgpgsign = true\n[user]\n\tname = Mallory\n[core]\n\tautocrlf = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Mallory")
    hooks = repository.git_directory / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-commit"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)

    done = accepted(repository, submitted=package(source=b"a\r\nb\n"))

    raw = git(repository.path, "cat-file", "commit", done.source_commit)
    assert "gpgsig" not in raw
    assert "Mallory" not in raw
    assert repository.read_file(done.bench_commit, f"{KERNEL}/src/kernel.py") == b"a\r\nb\n"


def test_a_changed_direction_is_read_from_the_heads_own_benchmark(
    repository: KernelRepository,
) -> None:
    turned = metas(metrics=(MetricMeta("latency_ms", "ms", Direction.HIGHER),))
    accepted(repository, 1, latency=2.0)

    done = accepted(repository, 2, cases=turned, values={"small": {"latency_ms": 1.0}})

    assert done.records == (Record("small", "latency_ms", "ms", 1.0, None),)


def test_a_scoreboard_written_by_hand_is_merged_into(repository: KernelRepository) -> None:
    accepted(repository, 1, latency=2.0)
    board = git(repository.path, "show", f"HEAD:{BOARD}")
    push(repository, BOARD, board.replace("value: 2.0", "value: 0.25"))

    done = accepted(repository, 2, latency=1.0)

    assert done.records == ()
    assert done.scoreboard.cases[0].metrics_best["latency_ms"].value == 0.25


def push(repository: KernelRepository, path: str, text: str | None) -> CommitId | None:
    """Commit one file (``None``: removed) from a clone, as another person would."""
    clone = repository.path.parent / "somebody"
    if not clone.exists():
        git(repository.path.parent, "clone", "-q", str(repository.path), "somebody")
    git(clone, "pull", "-q", "--rebase")
    if text is None:
        git(clone, "rm", "-qr", path)
    else:
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_text(text)
        git(clone, "add", path)
    git(clone, "commit", "-qm", "by hand")
    git(clone, "push", "-q", "origin", "HEAD:main")
    return repository.head()


def test_a_kernel_that_changed_since_the_claim_is_refused(repository: KernelRepository) -> None:
    first = accepted(repository, 1)
    base = repository.kernel_tree(first.bench_commit, KERNEL)
    late = request(repository, 3, base_tree=base)
    accepted(repository, 2)
    now = repository.kernel_tree(repository.head() or first.bench_commit, KERNEL)

    with pytest.raises(KernelMoved) as caught:
        accept(repository, late)

    assert caught.value.code == "KERNEL_MOVED"
    assert caught.value.message == (
        f"{KERNEL} changed after the attempt was claimed: its directory was {base}, now it is {now}"
    )
    assert caught.value.hint == "the submission runs again against the new head"


def test_a_kernel_that_was_removed_since_the_claim_is_refused(repository: KernelRepository) -> None:
    accepted(repository, 1)
    late = request(repository, 2)
    push(repository, KERNEL, None)

    with pytest.raises(KernelMoved, match=r"now it is gone$"):
        accept(repository, late)


def test_a_new_kernel_that_someone_else_added_meanwhile_is_refused(
    repository: KernelRepository,
) -> None:
    late = request(repository, 2, base_tree=None)
    accepted(repository, 1)

    with pytest.raises(KernelMoved, match="its directory was not there, now it is"):
        accept(repository, late)


def test_the_same_request_again_returns_what_was_committed(repository: KernelRepository) -> None:
    once = request(repository, 1)
    first = accept(repository, once)

    assert accept(repository, once) == first
    assert repository.head() == first.bench_commit


def test_a_frozen_kernel_is_refused_whatever_the_submission_says(
    repository: KernelRepository,
) -> None:
    head = seed(repository, package(seeded=True, status="frozen"))

    with pytest.raises(FrozenAtHead) as caught:
        accepted(repository)

    assert caught.value.code == "KERNEL_FROZEN"
    assert caught.value.message == f"{KERNEL} was frozen while the submission was on its way"
    assert caught.value.hint is not None
    assert repository.head() == head


def test_a_submission_may_freeze_its_kernel_for_those_after_it(
    repository: KernelRepository,
) -> None:
    accepted(repository, 1, submitted=package(status="frozen"))

    with pytest.raises(FrozenAtHead):
        accepted(repository, 2)


def test_a_datasheet_that_cannot_be_read_freezes_nothing(repository: KernelRepository) -> None:
    seed(repository, package(seeded=True, extra={DESC_PATH: PackageFile(b"status: [frozen\n")}))

    assert accepted(repository).records


def test_a_kernel_inside_another_is_refused_with_what_it_collides_with(
    repository: KernelRepository,
) -> None:
    head = seed(repository)
    inner = KernelId(f"{KERNEL}/inner")

    with pytest.raises(KernelIdConflict) as caught:
        accept(repository, request(repository, submitted=package(inner), base_tree=None))

    assert caught.value.code == "KERNEL_ID_CONFLICT"
    assert caught.value.message == f"{inner} cannot be added: it lies inside the kernel {KERNEL}"
    assert caught.value.hint is not None
    assert repository.head() == head


def test_a_scoreboard_at_the_head_that_cannot_be_read_is_left_for_a_person(
    repository: KernelRepository,
) -> None:
    seed(repository)
    head = push(repository, BOARD, "cases: [\n")

    with pytest.raises(Broken) as caught:
        accepted(repository)

    assert caught.value.code == "SCOREBOARD_UNREADABLE"
    assert caught.value.message == f"the head's bench_result.yaml of {KERNEL} is not valid"
    assert caught.value.hint == "mend it with a commit: merging into it would lose the best values"
    assert repository.head() == head


def test_a_foreign_commit_between_build_and_swap_is_built_upon(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(repository)
    swap = repository.refs.compare_and_swap
    pushed: list[CommitId | None] = []

    def swap_after_a_push(name: str, old: CommitId | None, new: CommitId) -> bool:
        if not pushed:
            pushed.append(push(repository, "README.md", "hello\n"))
        return swap(name, old, new)

    monkeypatch.setattr(repository.refs, "compare_and_swap", swap_after_a_push)
    done = accepted(repository)

    assert git(repository.path, "rev-parse", f"{done.source_commit}~") == f"{pushed[0]}\n"
    assert git(repository.path, "show", "HEAD:README.md") == "hello\n"
    board, _ = parse_scoreboard(git(repository.path, "show", f"HEAD:{BOARD}").encode())
    assert board is not None
    assert board.cases[0].metrics_current["latency_ms"].commit_sha == done.source_commit
    assert fsck(repository.path) == ""


@pytest.mark.parametrize("tidy", [("repack", "-qad"), ("gc", "-q", "--prune=now")])
def test_a_repack_between_pack_and_swap_does_not_take_the_new_objects_away(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch, tidy: tuple[str, ...]
) -> None:
    seed(repository)
    swap = repository.refs.compare_and_swap

    def swap_after_a_repack(name: str, old: CommitId | None, new: CommitId) -> bool:
        git(repository.path, *tidy)
        return swap(name, old, new)

    monkeypatch.setattr(repository.refs, "compare_and_swap", swap_after_a_repack)
    accepted(repository)

    assert fsck(repository.path) == ""
    assert list((repository.git_directory / "objects/pack").glob("*.keep")) == []


def test_a_swap_that_fails_leaves_no_pack_that_is_kept_for_ever(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(repository.refs, "compare_and_swap", no_space)
    with pytest.raises(OSError, match="No space left"):
        accepted(repository)

    assert list((repository.git_directory / "objects/pack").glob("*.keep")) == []


def test_a_head_that_moves_every_time_is_given_up_with_nothing_left(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = seed(repository)
    files = sorted((repository.git_directory / "objects/pack").iterdir())
    monkeypatch.setattr(repository.refs, "compare_and_swap", lambda *_: False)

    with pytest.raises(HeadMoved) as caught:
        accepted(repository)

    assert caught.value.code == "HEAD_MOVED"
    assert caught.value.message == (
        f"the branch of {repository.path} moved {publish.TRIES} times while a commit was being made"
    )
    assert caught.value.hint is not None
    assert repository.head() == head
    assert sorted((repository.git_directory / "objects/pack").iterdir()) == files


def test_a_failure_before_the_swap_leaves_the_head_where_it_was(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = seed(repository)
    wanted = request(repository)

    def no_space(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kzoo_core.store.packs.write_pack", no_space)
    with pytest.raises(OSError, match="No space left"):
        accept(repository, wanted)
    monkeypatch.undo()

    assert repository.head() == head
    assert find_accept(repository, wanted.submission_id, since=T0) is None
    assert accept(repository, wanted).records


def test_an_accept_is_found_again_by_its_submission(repository: KernelRepository) -> None:
    seed(repository)
    first = accepted(repository, 1, latency=2.0)
    second = accepted(repository, 2, latency=1.0)
    push(repository, "README.md", "later\n")

    with KernelRepository(repository.path) as reopened:
        assert find_accept(reopened, submission_id(1), since=T0) == first
        assert find_accept(reopened, submission_id(2), since=T0) == second
        assert find_accept(reopened, submission_id(3), since=T0) is None


def test_an_unborn_branch_has_no_accept(repository: KernelRepository) -> None:
    assert find_accept(repository, submission_id(1), since=T0) is None


def test_the_search_for_an_accept_ends_at_commits_from_before_it(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kzoo_core.store.accept.OLDER_COMMITS", 2)
    for number in (1, 2, 3):
        accepted(repository, number)
    since = request(repository, 4).recorded_at

    assert find_accept(repository, submission_id(3), since=since) is not None
    assert find_accept(repository, submission_id(1), since=since) is None


def test_a_message_copied_by_someone_is_no_accept(repository: KernelRepository) -> None:
    done = accepted(repository, 1)
    message = git(repository.path, "log", "-1", "--format=%B", done.bench_commit)
    copied = message.replace(str(submission_id(1)), str(submission_id(7)))
    push(repository, "README.md", "hello\n")
    clone = repository.path.parent / "somebody"
    git(clone, "commit", "-q", "--amend", "-F", "-", given=copied)
    git(clone, "push", "-qf", "origin", "HEAD:main")

    assert find_accept(repository, submission_id(7), since=T0) is None


def test_growth_is_a_small_multiple_of_the_changed_source(repository: KernelRepository) -> None:
    neighbours = (KernelId(f"gfx928/Norm/RMSNorm/fp32/n{number}") for number in range(100))
    seed(repository, package(seeded=True), *(package(name, seeded=True) for name in neighbours))
    before = size(repository)

    for number in range(1, 11):
        accepted(repository, number)

    assert (size(repository) - before) / 10 < 20 * 1024


def size(repository: KernelRepository) -> int:
    return sum(
        path.stat().st_blocks * 512
        for path in (repository.git_directory / "objects").rglob("*")
        if path.is_file()
    )


def test_times_are_cut_to_whole_seconds(repository: KernelRepository) -> None:
    wanted = request(repository)
    done = accept(
        repository, replace(wanted, recorded_at=wanted.recorded_at.replace(microsecond=999_999))
    )

    stamp = git(repository.path, "log", "-1", "--format=%cI", done.bench_commit)
    assert stamp == "2026-08-02T12:01:00+00:00\n"

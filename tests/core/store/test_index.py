"""The index: what it says of each kernel, and that no way of building it changes a byte."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kzoo_core.contract import schemas
from kzoo_core.contract.layout import BENCHMARK_PATH, BUILD_PATH, DESC_PATH, SCOREBOARD_PATH
from kzoo_core.contract.records import PackageFile
from kzoo_core.errors import Broken, Conflict, Retryable
from kzoo_core.ids import KernelId
from kzoo_core.store import index as index_module
from kzoo_core.store.entries import entry_from_json
from kzoo_core.store.index import Index, IndexBuilder, IndexEntry
from kzoo_core.store.index_cache import SAVE_AFTER
from kzoo_core.store.repository import KernelRepository
from tests.core.store.samples import KERNEL, OTHER, accepted, git, metas, package, seed

if TYPE_CHECKING:
    from dulwich.objects import ObjectID

    from kzoo_core.contract.records import Package
    from kzoo_core.errors import Problem
    from kzoo_core.ids import CommitId
    from kzoo_core.store.listing import Listed


def build(repository: KernelRepository, cache: Path | None = None) -> Index:
    return IndexBuilder(cache).build(repository, repository.head())


def entries(index: Index) -> dict[str, IndexEntry]:
    return {entry.kernel_id: entry for entry in index.entries}


def codes(entry: IndexEntry) -> list[str]:
    return [problem.code for problem in entry.problems]


def commit(checkout: KernelRepository, files: dict[str, str | None]) -> CommitId | None:
    """Change files as a person would, and commit them with git."""
    git(checkout.path, "reset", "-q", "--hard")
    for name, text in files.items():
        path = checkout.path / name
        if text is None:
            git(checkout.path, "rm", "-qr", name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    git(checkout.path, "add", "-A")
    git(checkout.path, "commit", "-qm", "by hand")
    return checkout.head()


def test_an_entry_says_what_the_files_say(repository: KernelRepository) -> None:
    seed(repository)
    first = accepted(repository, 1, latency=1.0)
    second = accepted(repository, 2, latency=2.0, submitter="bob")

    (entry,) = build(repository).entries

    assert entry.as_json() == {
        "kernel_id": KERNEL,
        "name": "RMSNorm",
        "category": {
            "arch": "gfx928",
            "op_class": "Norm",
            "sub_class": "RMSNorm",
            "quant": "fp32",
        },
        "summary": "One row at a time.",
        "status": "normal",
        "tags": ["norm"],
        "owner": "eli",
        "valid": True,
        "problems": [],
        "min_arch_feature": None,
        "cases": [
            {
                "test_case_id": "small",
                "primary_metric": "latency_ms",
                "unit": "ms",
                "direction": "lower_better",
                "best": {
                    "value": 1.0,
                    "submitter": "alice",
                    "commit_sha": first.source_commit,
                    "recorded_at": "2026-08-02T12:01:00Z",
                },
                "current": {
                    "value": 2.0,
                    "submitter": "bob",
                    "commit_sha": second.source_commit,
                    "recorded_at": "2026-08-02T12:02:00Z",
                },
                "correctness": "passed",
            }
        ],
        "updated_at": "2026-08-02T12:02:00Z",
    }


def test_a_seeds_placeholder_is_no_result(repository: KernelRepository) -> None:
    seed(repository)

    (entry,) = build(repository).entries

    case = entry.cases[0]
    assert (case.best, case.current, case.correctness.value) == (None, None, "unknown")
    assert entry.updated_at is None


def test_the_file_is_valid_and_sorted_with_one_line_a_kernel(repository: KernelRepository) -> None:
    names = ["gfx928/a", "gfx928/a.b", "gfx928/a-b", "gfx928/b/c", "gfx928/Z", "lone"]
    head = seed(repository, *(package(KernelId(name), seeded=True) for name in names))
    accepted(repository, 1)

    data = build(repository).to_bytes()

    document = json.loads(data)
    assert schemas.validate("index", document) == []
    assert document["revision"] == repository.head() != head
    assert [entry["kernel_id"] for entry in document["kernels"]] == sorted([*names, KERNEL])
    assert len(data.splitlines()) == len(names) + 3


def test_a_repository_without_a_commit_has_an_empty_index(repository: KernelRepository) -> None:
    index = build(repository)

    assert (index.revision, index.entries) == ("", ())
    assert json.loads(index.to_bytes()) == {
        "schema_version": "1.0.0",
        "revision": None,
        "kernels": [],
    }
    assert schemas.validate("index", json.loads(index.to_bytes())) == []


def test_a_missing_file_makes_a_kernel_invalid_and_listed(checkout: KernelRepository) -> None:
    seed(checkout, package(seeded=True), package(OTHER, seeded=True))
    commit(checkout, {f"{KERNEL}/{SCOREBOARD_PATH}": None})

    listed = entries(build(checkout))

    assert listed[KERNEL].valid is False
    assert "missing_file" in codes(listed[KERNEL])
    assert listed[KERNEL].cases[0].best is None
    assert "missing_file" not in codes(listed[OTHER])


def test_what_a_damaged_file_would_say_is_null_and_the_rest_stands(
    checkout: KernelRepository,
) -> None:
    seed(checkout)
    commit(checkout, {f"{KERNEL}/{DESC_PATH}": "name: [\n"})

    (entry,) = build(checkout).entries

    assert (entry.valid, entry.name, entry.category, entry.summary, entry.status) == (
        False,
        None,
        None,
        None,
        None,
    )
    assert [case.test_case_id for case in entry.cases] == ["small"]
    assert schemas.validate("index", json.loads(build(checkout).to_bytes())) == []


def test_metas_that_cannot_be_read_leave_the_kernel_without_cases(
    checkout: KernelRepository,
) -> None:
    seed(checkout)
    commit(checkout, {f"{KERNEL}/{BENCHMARK_PATH}": "KERNEL_ZOO_TEST_CASE_METAS = load()\n"})

    (entry,) = build(checkout).entries

    assert (entry.valid, entry.cases) == (False, ())


def test_a_kernel_inside_another_is_a_problem_of_both(checkout: KernelRepository) -> None:
    seed(checkout, package(seeded=True), package(OTHER, seeded=True))
    files = package(KernelId("inner"), seeded=True).files
    commit(checkout, {f"{KERNEL}/inner/{path}": file.data.decode() for path, file in files.items()})

    listed = entries(build(checkout))

    inner = listed[f"{KERNEL}/inner"]
    assert "kernel_inside_kernel" in codes(inner)
    assert inner.problems[-1].message == f"{KERNEL}/inner lies inside the kernel {KERNEL}"
    assert "kernel_inside_kernel" in codes(listed[KERNEL])
    assert not any(listed[name].valid for name in (KERNEL, f"{KERNEL}/inner"))
    assert "kernel_inside_kernel" not in codes(listed[OTHER])


def test_names_that_differ_in_letter_case_are_a_problem_of_both(
    checkout: KernelRepository,
) -> None:
    seed(checkout, package(seeded=True), package(OTHER, seeded=True))
    twin = KERNEL.replace("/Norm/", "/NORM/")
    commit(
        checkout,
        {
            f"{twin}/{path}": file.data.decode()
            for path, file in package(KernelId(twin), seeded=True).files.items()
        },
    )

    listed = entries(build(checkout))

    assert listed[twin].problems[-1].as_json() == {
        "code": "kernel_id_case_twin",
        "message": f"{twin} lies in a directory that differs only in letter case from gfx928/Norm",
        "severity": "error",
        "found": "gfx928/Norm",
        "expected": "names that differ by more than letter case",
        "hint": "rename one of them in the repository",
    }
    assert all("kernel_id_case_twin" in codes(entry) for entry in listed.values())
    assert not any(entry.valid for entry in listed.values())


def test_directories_without_kernels_are_nobodys_twin(checkout: KernelRepository) -> None:
    seed(checkout)
    commit(checkout, {"GFX928/notes.md": "x\n", "docs/a.md": "x\n"})

    (entry,) = build(checkout).entries

    assert "kernel_id_case_twin" not in codes(entry)


def test_a_link_in_a_package_is_a_problem(checkout: KernelRepository) -> None:
    seed(checkout)
    git(checkout.path, "reset", "-q", "--hard")
    (checkout.path / KERNEL / "src/link.py").symlink_to("kernel.py")
    commit_all(checkout)

    (entry,) = build(checkout).entries

    assert entry.valid is False
    assert entry.problems[-1].as_json() == {
        "code": "not_a_regular_file",
        "message": "src/link.py is neither a file nor a directory",
        "severity": "error",
        "file": "src/link.py",
        "found": "git mode 120000",
        "expected": "regular files and directories",
        "hint": "put the file itself there, in place of a link or a nested repository",
    }


def commit_all(checkout: KernelRepository) -> None:
    git(checkout.path, "add", "-A")
    git(checkout.path, "commit", "-qm", "by hand")


def test_an_accept_reads_only_the_changed_kernel_again(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [KernelId(f"gfx928/Norm/RMSNorm/fp32/n{number}") for number in range(20)]
    seed(repository, *(package(name, seeded=True) for name in names))
    builder = IndexBuilder()
    builder.build(repository, repository.head())
    done = accepted(repository, 1, submitted=package(names[7]))
    read: list[str] = []
    real = repository.objects.blob

    def blob(sha: ObjectID) -> bytes:
        read.append(sha.decode())
        return real(sha)

    monkeypatch.setattr(repository.objects, "blob", blob)
    index = builder.build(repository, done.bench_commit)
    monkeypatch.undo()

    assert len(read) == len(package(seeded=True).files)
    assert index.to_bytes() == build(repository).to_bytes()


def test_a_restart_reads_nothing_again(
    repository: KernelRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(repository, package(seeded=True), package(OTHER, seeded=True))
    accepted(repository, 1)
    first = IndexBuilder(tmp_path / "cache" / "index")
    expected = first.build(repository, repository.head())
    first.save(force=True)

    def no_reading(_: object) -> bytes:
        raise AssertionError("a file was read again")

    monkeypatch.setattr(repository.objects, "blob", no_reading)
    again = build(repository, tmp_path / "cache" / "index")

    assert again == expected
    assert again.to_bytes() == expected.to_bytes()


def test_a_cache_is_saved_now_and_then_or_when_forced(
    repository: KernelRepository, tmp_path: Path
) -> None:
    cache = tmp_path / "index"
    builder = IndexBuilder(cache)
    builder.save(force=True)
    seed(repository)
    builder.build(repository, repository.head())
    builder.save()
    assert not cache.exists()
    names = [KernelId(f"gfx928/Norm/RMSNorm/fp32/n{number}") for number in range(SAVE_AFTER)]
    seed(repository, *(package(name, seeded=True) for name in names))
    builder.build(repository, repository.head())

    builder.save()

    assert cache.exists()
    written = cache.stat().st_mtime_ns
    builder.save(force=True)
    assert cache.stat().st_mtime_ns == written


def test_a_builder_without_a_cache_saves_nothing(repository: KernelRepository) -> None:
    seed(repository)
    builder = IndexBuilder()
    builder.build(repository, repository.head())

    builder.save(force=True)


@pytest.mark.parametrize("damage", ["empty", "cut", "garbled", "directory", "other rules"])
def test_a_damaged_cache_is_ignored(
    repository: KernelRepository, tmp_path: Path, damage: str
) -> None:
    seed(repository, package(seeded=True), package(OTHER, seeded=True))
    cache = tmp_path / "index"
    builder = IndexBuilder(cache)
    expected = builder.build(repository, repository.head()).to_bytes()
    builder.save(force=True)
    data = cache.read_bytes()
    if damage == "directory":
        cache.unlink()
        cache.mkdir()
    else:
        cache.write_bytes(
            {
                "empty": b"",
                "cut": data[:-20],
                "garbled": data.replace(b"RMSNorm", b"XMSNorm"),
                "other rules": data.replace(b"index cache ", b"index cache 0"),
            }[damage]
        )

    assert build(repository, cache).to_bytes() == expected


def test_a_kernel_that_is_gone_leaves_the_index_and_the_cache(
    checkout: KernelRepository, tmp_path: Path
) -> None:
    seed(checkout, package(seeded=True), package(OTHER, seeded=True))
    builder = IndexBuilder(tmp_path / "index")
    builder.build(checkout, checkout.head())
    head = commit(checkout, {OTHER: None})
    accepted(checkout, 1)

    index = builder.build(checkout, checkout.head())
    builder.save(force=True)

    assert head is not None
    assert [entry.kernel_id for entry in index.entries] == [KERNEL]
    assert OTHER.encode() not in (tmp_path / "index").read_bytes()


def test_a_directory_moved_to_another_path_is_judged_there(checkout: KernelRepository) -> None:
    seed(checkout)
    builder = IndexBuilder()
    builder.build(checkout, checkout.head())
    git(checkout.path, "reset", "-q", "--hard")
    (checkout.path / "gfx950").mkdir()
    git(checkout.path, "mv", "gfx928/Norm", "gfx950/Norm")
    commit_all(checkout)

    index = builder.build(checkout, checkout.head())

    assert [entry.kernel_id for entry in index.entries] == [KERNEL.replace("gfx928", "gfx950")]
    assert index.to_bytes() == build(checkout).to_bytes()


def test_an_entry_survives_its_json_form(repository: KernelRepository) -> None:
    seed(repository, package(cases=metas("small", "large")), package(OTHER, seeded=True))
    accepted(repository, 1)

    for entry in build(repository).entries:
        assert entry_from_json(json.loads(entry.to_bytes())) == entry


@pytest.mark.parametrize("change", [{"more": 1}, {"status": "gone"}, {"cases": [{}]}])
def test_a_document_that_is_no_entry_is_refused(
    repository: KernelRepository, change: dict[str, object]
) -> None:
    seed(repository)
    (entry,) = build(repository).entries

    with pytest.raises((KeyError, TypeError, ValueError)):
        entry_from_json({**entry.as_json(), **change})


KERNELS = [KERNEL, OTHER, KernelId("gfx928/norm/RMSNorm/fp32/other"), KernelId(f"{KERNEL}/inner")]
PATHS = [DESC_PATH, SCOREBOARD_PATH, BUILD_PATH, BENCHMARK_PATH, "src/kernel.py", "README.md"]

steps = st.one_of(
    st.tuples(st.just("accept"), st.sampled_from(KERNELS[:2]), st.integers(1, 9)),
    st.tuples(st.just("add"), st.sampled_from(KERNELS), st.integers(1, 9)),
    st.tuples(st.just("break"), st.sampled_from(KERNELS), st.sampled_from(PATHS)),
    st.tuples(st.just("remove"), st.sampled_from(KERNELS), st.sampled_from(PATHS)),
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(sequence=st.lists(steps, min_size=1, max_size=5))
def test_whatever_happened_the_index_equals_a_rebuild_byte_for_byte(
    sequence: list[tuple[str, KernelId, int | str]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with KernelRepository.init(root / "k", bare=False) as repository:
            seed(repository, package(seeded=True), package(OTHER, seeded=True))
            builder = IndexBuilder(root / "cache")
            for number, step in enumerate(sequence, start=1):
                apply(repository, number, step)
                index = builder.build(repository, repository.head())
                builder.save(force=True)

                rebuilt = build(repository)
                assert index == rebuilt
                assert index.to_bytes() == rebuilt.to_bytes()
                assert build(repository, root / "cache").to_bytes() == rebuilt.to_bytes()
                assert schemas.validate("index", json.loads(rebuilt.to_bytes())) == []


def apply(repository: KernelRepository, number: int, step: tuple[str, KernelId, int | str]) -> None:
    what, kernel, detail = step
    if what == "accept":
        source = package(kernel, b"%d\n" % number, extra={"n": PackageFile(b"%d" % number)})
        with contextlib.suppress(Broken, Conflict):
            accepted(repository, number, submitted=source, latency=float(detail))
    elif what == "add":
        added = package(kernel, f"{detail}\n".encode(), seeded=True)
        commit_allowing_nothing(
            repository, {f"{kernel}/{path}": file.data for path, file in added.files.items()}
        )
    else:
        text = None if what == "remove" else b"[ broken\n"
        commit_allowing_nothing(repository, {f"{kernel}/{detail}": text})


def commit_allowing_nothing(repository: KernelRepository, files: dict[str, bytes | None]) -> None:
    git(repository.path, "reset", "-q", "--hard")
    for name, data in files.items():
        path = repository.path / name
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    git(repository.path, "add", "-A")
    git(repository.path, "commit", "-q", "--allow-empty", "-m", "by hand")


def test_a_build_that_is_stopped_ends_at_once_and_the_next_one_goes_on_from_there(
    repository: KernelRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [KernelId(f"gfx928/Norm/RMSNorm/fp32/{name}") for name in ("one", "two", "three")]
    seed(repository, *(package(kernel_id) for kernel_id in ids))
    head = repository.head()
    builder = IndexBuilder(tmp_path / "cache")
    read: list[str] = []
    real = index_module._listing

    def listing(found: Package, problems: list[Problem]) -> Listed:
        read.append(found.kernel_id)
        builder.stop()
        return real(found, problems)

    with monkeypatch.context() as patched:
        patched.setattr(index_module, "_listing", listing)
        with pytest.raises(Retryable) as caught:
            builder.build(repository, head)
    assert caught.value.code == "STOPPING"
    assert len(read) == 1
    builder.save(force=True)

    again: list[str] = []

    def counting(found: Package, problems: list[Problem]) -> Listed:
        again.append(found.kernel_id)
        return real(found, problems)

    monkeypatch.setattr(index_module, "_listing", counting)
    index = IndexBuilder(tmp_path / "cache").build(repository, head)
    assert len(index.entries) == 3
    assert sorted([*read, *again]) == sorted(entry.kernel_id for entry in index.entries)

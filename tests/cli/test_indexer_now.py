"""``python -m kzoo_core.cli.indexer_now``: index.json of a repository or of a plain directory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kzoo_core.cli.indexer_now import main
from kzoo_core.contract import schemas
from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.store.index import IndexBuilder
from kzoo_core.store.repository import KernelRepository
from tests.core.store.samples import KERNEL, OTHER, accepted, git, package, seed

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.contract.records import Package

VARIABLES = ("KERNEL_ZOO_KERNEL_REPO_PATH", "KERNEL_ZOO_INDEX_PATH", "KERNEL_ZOO_STATE_PATH")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KERNEL_ZOO_STATE_PATH", str(tmp_path / "state"))


def put(directory: Path, *packages: Package) -> None:
    for each in packages:
        for path, file in each.files.items():
            target = directory / each.kernel_id / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.data)


def index_at(path: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads(path.read_bytes())
    assert schemas.validate("index", document) == []
    return document


def test_a_bare_repository_is_indexed_at_its_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with KernelRepository.init(tmp_path / "k.git") as repository:
        seed(repository, package(seeded=True), package(OTHER, seeded=True))
        accepted(repository, 1)
        expected = IndexBuilder().build(repository, repository.head())
    target = tmp_path / "out" / "index.json"
    monkeypatch.setenv("KERNEL_ZOO_KERNEL_REPO_PATH", str(tmp_path / "k.git"))
    monkeypatch.setenv("KERNEL_ZOO_INDEX_PATH", str(target))

    assert main([]) == 0

    assert target.read_bytes() == expected.to_bytes()
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{target}: 2 kernels of {tmp_path / 'k.git'}\n", "")


def test_a_plain_directory_with_uncommitted_packages_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "packages", package(seeded=True), package(OTHER))
    monkeypatch.setenv("KERNEL_ZOO_KERNEL_REPO_PATH", str(tmp_path / "packages"))

    assert main([]) == 0

    document = index_at(tmp_path / "state" / "index.json")
    kernels = document["kernels"]
    assert isinstance(kernels, list)
    assert [entry["kernel_id"] for entry in kernels] == sorted([KERNEL, OTHER])
    assert str(document["revision"]).startswith("worktree-")
    assert [problem["file"] for problem in kernels[0]["problems"]] == [SCOREBOARD_PATH]
    assert [entry["valid"] for entry in kernels] == [False, True]
    assert capsys.readouterr().out == (
        f"{tmp_path / 'state' / 'index.json'}: 2 kernels, 1 of them invalid, of "
        f"{tmp_path / 'packages'}\n"
    )


def test_the_revision_of_a_directory_names_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_ZOO_KERNEL_REPO_PATH", str(tmp_path / "packages"))
    revisions = []
    for source in (b"1\n", b"2\n", b"1\n"):
        put(tmp_path / "packages", package(source=source, seeded=True))
        assert main([]) == 0
        revisions.append(index_at(tmp_path / "state" / "index.json")["revision"])

    assert revisions[0] == revisions[2] != revisions[1]


def test_a_checkout_shows_what_is_not_committed_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KernelRepository.init(tmp_path / "k", bare=False) as repository:
        seed(repository)
    git(tmp_path / "k", "reset", "-q", "--hard")
    put(tmp_path / "k", package(OTHER, seeded=True))
    (tmp_path / "k" / "loop").symlink_to(tmp_path / "k")
    monkeypatch.setenv("KERNEL_ZOO_KERNEL_REPO_PATH", str(tmp_path / "k"))

    assert main([]) == 0

    kernels = index_at(tmp_path / "state" / "index.json")["kernels"]
    assert isinstance(kernels, list)
    assert [entry["kernel_id"] for entry in kernels] == sorted([KERNEL, OTHER])


def test_files_on_disk_and_the_commit_of_them_list_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KernelRepository.init(tmp_path / "k.git") as repository:
        seed(repository, package(seeded=True), package(OTHER, seeded=True))
        committed = IndexBuilder().build(repository, repository.head())
    put(tmp_path / "packages", package(seeded=True), package(OTHER, seeded=True))
    monkeypatch.setenv("KERNEL_ZOO_KERNEL_REPO_PATH", str(tmp_path / "packages"))
    assert main([]) == 0

    document = index_at(tmp_path / "state" / "index.json")

    assert document["kernels"] == json.loads(committed.to_bytes())["kernels"]


def test_one_kernel_is_counted_in_the_singular(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "packages", package(seeded=True))
    monkeypatch.setenv("KERNEL_ZOO_KERNEL_REPO_PATH", str(tmp_path / "packages"))

    assert main([]) == 0
    assert ": 1 kernel" in capsys.readouterr().out


def test_a_missing_directory_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNEL_ZOO_KERNEL_REPO_PATH", str(tmp_path / "nothing"))

    assert main([]) == 3

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"error: there is no directory {tmp_path / 'nothing'}\n"
        "hint: name a kernel repository, or a directory with packages in it\n"
    )


def test_an_index_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "packages", package(seeded=True))
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNEL_ZOO_KERNEL_REPO_PATH", str(tmp_path / "packages"))
    monkeypatch.setenv("KERNEL_ZOO_INDEX_PATH", str(tmp_path / "file" / "index.json"))

    assert main([]) == 3
    assert capsys.readouterr().err == (
        f"error: {tmp_path / 'file'}: Not a directory\n"
        "hint: a part of the path is no directory: name another path\n"
    )


def test_an_argument_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--what"])

    assert caught.value.code == 3
    assert "error: unrecognized arguments: --what" in capsys.readouterr().err

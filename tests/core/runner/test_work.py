from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.ids import KernelId
from kzoo_core.runner.work import lay_out, remove, remove_all

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Package(
    KernelId("gfx928/Norm/x"),
    {"src/a.py": PackageFile(b"a"), "run.sh": PackageFile(b"b", executable=True)},
)


def test_a_package_is_laid_out_under_its_kernel_id_beside_empty_directories(tmp_path: Path) -> None:
    place = lay_out(tmp_path / "work" / "x-1", PACKAGE)

    assert place.package == tmp_path / "work" / "x-1" / "package" / "gfx928" / "Norm" / "x"
    assert (place.package / "src" / "a.py").read_bytes() == b"a"
    assert stat.S_IMODE((place.package / "src" / "a.py").stat().st_mode) & 0o111 == 0
    assert stat.S_IMODE((place.package / "run.sh").stat().st_mode) & 0o100
    for directory in (place.workdir, place.home, place.tmp):
        assert list(directory.iterdir()) == []
    assert stat.S_IMODE(place.root.stat().st_mode) == 0o700


def test_no_attempt_is_laid_out_over_another(tmp_path: Path) -> None:
    lay_out(tmp_path / "x-1", PACKAGE)

    with pytest.raises(FileExistsError):
        lay_out(tmp_path / "x-1", PACKAGE)


def test_removing_follows_no_link_and_stops_at_no_mode(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    place = lay_out(tmp_path / "x-1", PACKAGE)
    (place.workdir / "link").symlink_to(outside)
    locked = place.workdir / "locked" / "inner"
    locked.mkdir(parents=True)
    (locked / "file").write_text("x")
    locked.chmod(0)
    locked.parent.chmod(0)

    remove(place.root)

    assert not place.root.exists()
    assert (outside / "kept").exists()


def test_a_link_in_the_place_of_the_whole_is_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "inner").chmod(0o755)
    outside.chmod(0o755)
    (tmp_path / "x-1").symlink_to(outside)

    remove(tmp_path / "x-1")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755
    assert stat.S_IMODE((outside / "inner").stat().st_mode) == 0o755


def test_what_is_not_there_or_no_directory_is_removed_too(tmp_path: Path) -> None:
    (tmp_path / "x-1").write_text("x")

    remove(tmp_path / "x-1")
    remove(tmp_path / "x-2")

    assert list(tmp_path.iterdir()) == []


def test_directories_deeper_than_any_path_or_stack_are_removed(tmp_path: Path) -> None:
    place = lay_out(tmp_path / "x-1", PACKAGE)
    (place.root / "1").mkdir()  # a name that the removal might use itself
    (place.root / "1" / "file").write_text("x")
    level = os.open(place.workdir, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("deep", dir_fd=level)
        below = os.open("deep", os.O_RDONLY, dir_fd=level)
        os.close(level)
        level = below
    os.close(level)

    remove(place.root)

    assert list(tmp_path.iterdir()) == []


@contextmanager
def as_somebody() -> Iterator[Path]:
    """Give a directory to a user whom modes stop, and be that user: root is stopped by none."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        if os.geteuid() != 0:
            yield Path(name)
            return
        os.chown(name, 65534, 65534)
        os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("locked", [".", "workdir", "workdir/a", "workdir/a/b"])
def test_what_an_attempt_has_locked_away_is_removed_too(locked: str) -> None:
    with as_somebody() as directory:
        place = lay_out(directory / "x-1", PACKAGE)
        (place.workdir / "a" / "b" / "c").mkdir(parents=True)
        (place.root / locked).chmod(0)

        remove(place.root)

        assert list(directory.iterdir()) == []


def test_everything_that_an_earlier_process_left_is_removed_and_named(tmp_path: Path) -> None:
    lay_out(tmp_path / "work" / "b-1", PACKAGE)
    lay_out(tmp_path / "work" / "a-2", PACKAGE)

    assert remove_all(tmp_path / "work") == ["a-2", "b-1"]
    assert list((tmp_path / "work").iterdir()) == []
    assert remove_all(tmp_path / "none") == []

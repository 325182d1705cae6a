"""Hostile and broken archives are refused whole, with the answer an author needs."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kzoo_core.contract.archive import read_archive, write_archive
from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.errors import BadInput, Problem
from kzoo_core.ids import KernelId
from tests.packages import KERNEL_ID, package_tarball, tarball, valid_package

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ID = KernelId(KERNEL_ID)
LIMITS = PackageLimits()
GZIP_HINT = "make it with tarfile.open(…, mode='w:gz') or tar czf"
DEREFERENCE = "put the file itself in its place: tar --dereference --hard-dereference"
SOURCES_ONLY = "ship sources only; make data in build_test_env.py under the work directory"
FILTER_HINT = (
    "leave it out with tf.add(…, filter=lambda member: None if "
    'member.name.endswith("/bench_result.yaml") else member); '
    "tf.members.remove(…) after tf.add leaves it in the archive"
)


def read(data: bytes, kernel_id: KernelId | None = ID, limits: PackageLimits = LIMITS) -> Package:
    return read_archive(io.BytesIO(data), limits, kernel_id=kernel_id)


def refusal(
    data: bytes, kernel_id: KernelId | None = ID, limits: PackageLimits = LIMITS
) -> BadInput:
    with pytest.raises(BadInput) as caught:
        read(data, kernel_id, limits)
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.hint == caught.value.details[0].hint
    return caught.value


def only_problem(
    data: bytes, kernel_id: KernelId | None = ID, limits: PackageLimits = LIMITS
) -> Problem:
    error = refusal(data, kernel_id, limits)
    (problem,) = error.details
    assert error.message == problem.message
    return problem


def below(files: Mapping[str, bytes], top: str = KERNEL_ID) -> dict[str, bytes]:
    return {f"{top}/{path}": data for path, data in files.items()}


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(f"{KERNEL_ID}/{name}")
    info.type = kind
    info.linkname = target
    return info


# What is fine.


def test_the_canonical_archive_of_a_package_is_read_as_the_package() -> None:
    package = valid_package(files={"run.sh": b"#!/bin/sh\n", "empty": b""})
    files = {**package.files, "run.sh": PackageFile(b"#!/bin/sh\n", executable=True)}
    package = Package(package.kernel_id, files)
    assert read(write_archive(package)) == package
    assert read(write_archive(package), None) == package


@pytest.mark.parametrize("layout", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_every_layout_are_read(layout: int) -> None:
    package = valid_package(files={"src/" + "long/" * 20 + "核.py": b"x"})
    data = tarball(below({path: file.data for path, file in package.files.items()}), layout=layout)
    assert read(data).files == package.files


def test_a_leading_dot_and_entries_for_directories_are_fine() -> None:
    directories = []
    for name in (".", "./gfx928", "./gfx928/Norm/", f"./{KERNEL_ID}", f"./{KERNEL_ID}/src"):
        info = tarfile.TarInfo(name)
        info.type = tarfile.DIRTYPE
        directories.append(info)
    files = {path: file.data for path, file in valid_package().files.items()}
    data = tarball(below(files, f"./{KERNEL_ID}"), extra=directories)
    assert read(data).files == valid_package().files


def test_the_kernel_id_is_what_the_members_say_when_nobody_else_does() -> None:
    package = valid_package("a/b")
    assert read(package_tarball(package), None) == package


def test_an_archive_frozen_for_a_runner_may_hold_the_scoreboard() -> None:
    package = valid_package(scoreboard=True)
    data = write_archive(package)
    read_back = read_archive(io.BytesIO(data), LIMITS, kernel_id=ID, allow_scoreboard=True)
    assert read_back == package
    assert only_problem(data).code == "scoreboard_in_archive"


# What is no archive.


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "no bytes at all"),
        (b"hello", "bytes that begin with 68 65 6c 6c"),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"BZh91AY", "a bzip2 stream"),
        (b"\xfd7zXZ\x00rest", "an xz stream"),
        (b"\x28\xb5\x2f\xfdrest", "a zstd stream"),
        (tarball({"a": b"x"}, compressed=False), "a tar that is not compressed"),
    ],
)
def test_what_is_not_gzip_is_told_what_it_is(data: bytes, found: str) -> None:
    assert only_problem(data) == Problem(
        code="archive_not_gzip",
        message=f"the archive is no gzip stream: {found}",
        found=found,
        expected="a .tar.gz",
        hint=GZIP_HINT,
    )


@pytest.mark.parametrize("kept", [11, 200, -9, -1])
def test_a_truncated_gzip_is_refused(kept: int) -> None:
    data = package_tarball(valid_package())[:kept]
    problem = refusal(data).details[-1]
    assert problem == Problem(
        code="archive_truncated",
        message="the archive ends in the middle of its gzip stream",
        found=f"{len(data)} bytes, then the end",
        expected="a whole .tar.gz",
        hint="close the tar file before sending it; check that the upload was whole",
    )


def test_a_damaged_gzip_is_refused() -> None:
    data = bytearray(package_tarball(valid_package()))
    data[-6] ^= 0xFF
    assert refusal(bytes(data)).details[-1] == Problem(
        code="archive_damaged",
        message="the archive's gzip stream is damaged: incorrect data check",
        found="incorrect data check",
        expected="a gzip stream whose checksum matches",
        hint="send it again as binary data, for example with curl -F or --data-binary",
    )


@pytest.mark.parametrize(
    ("behind", "found"),
    [
        (b"\0", "bytes behind the end"),
        (b"garbage", "bytes behind the end"),
        (gzip.compress(b"", mtime=0), "a second gzip stream"),
    ],
)
def test_anything_behind_the_gzip_stream_is_refused(behind: bytes, found: str) -> None:
    assert only_problem(package_tarball(valid_package()) + behind) == Problem(
        code="archive_trailing_data",
        message="the archive goes on behind the end of its gzip stream",
        found=found,
        expected="one gzip stream and nothing else",
        hint=GZIP_HINT,
    )


def test_trailing_data_is_seen_where_the_stream_ends_with_a_chunk() -> None:
    noise = random.Random(1).randbytes(64 * 1024)
    tar = tarball(below({"src/a": noise}), compressed=False)
    data = gzip.compress(tar, mtime=0)
    padding = 64 * 1024 - len(data) % (64 * 1024)
    header = b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + b"n" * (padding - 1) + b"\0"
    data = header + data[10:]
    assert len(data) % (64 * 1024) == 0
    assert read(data, ID).files["src/a"].data == noise
    assert only_problem(data + b"x").code == "archive_trailing_data"


@pytest.mark.parametrize("content", [b"", b"not a tar" * 100])
def test_a_gzip_of_no_tar_is_refused(content: bytes) -> None:
    problem = only_problem(gzip.compress(content))
    assert problem.code == "archive_not_tar"
    assert problem.message.startswith("the archive holds no well-formed tar: ")
    assert problem.expected == "a whole tar"
    assert problem.hint == "close the tar file before sending it: use it in a with block"


def test_a_tar_that_was_never_closed_is_refused() -> None:
    stream = io.BytesIO()
    tar = tarfile.TarFile(fileobj=stream, mode="w")
    tar.addfile(tarfile.TarInfo(f"{KERNEL_ID}/src/a.py"))
    problem = only_problem(gzip.compress(stream.getvalue()))
    assert problem.found == "no end mark: the archive stops after a member (at byte 512 of the tar)"


# What is too large.


class CountingStream(io.BytesIO):
    """Counts the bytes that a reader takes."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


def bomb(size: int, name: str = f"{KERNEL_ID}/src/zeros.txt") -> bytes:
    header = tarfile.TarInfo(name)
    header.size = size
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [deflate.compress(header.tobuf())]
    parts += [deflate.compress(bytes(1024 * 1024)) for _ in range(size // (1024 * 1024))]
    return b"".join([*parts, deflate.compress(bytes(1024)), deflate.flush()])


def test_a_tar_bomb_is_cut_at_its_first_header() -> None:
    stream = CountingStream(bomb(200 * 1024 * 1024))
    assert len(stream.getvalue()) > 150_000
    with pytest.raises(BadInput) as caught:
        read_archive(stream, LIMITS, kernel_id=ID)
    assert stream.taken <= 64 * 1024
    (problem,) = caught.value.details
    assert problem == Problem(
        code="file_too_large",
        message=(
            f"{KERNEL_ID}/src/zeros.txt has 209715200 bytes, more than the 1048576 a file may have"
        ),
        file=f"{KERNEL_ID}/src/zeros.txt",
        found="209715200 bytes",
        expected="at most 1048576 bytes",
        hint=SOURCES_ONLY,
    )


def test_a_bomb_that_is_no_tar_is_cut_at_the_bound() -> None:
    small = PackageLimits(file_bytes=1000, package_bytes=10_000, files=10)
    stream = CountingStream(gzip.compress(tarfile.TarInfo("a").tobuf() + bytes(50_000_000)))
    with pytest.raises(BadInput) as caught:
        read_archive(stream, small, kernel_id=ID)
    assert [problem.code for problem in caught.value.details] == [
        "package_too_large",
        "wrong_top_directory",
    ]
    assert caught.value.details[0].message == "the archive has more than 354064 bytes unpacked"


def test_files_over_their_bound_are_all_named_and_the_rest_is_read() -> None:
    small = PackageLimits(file_bytes=10)
    files = below({"a": b"x" * 11, "b": b"y" * 10, "c": b"z" * 12})
    assert [
        (problem.code, problem.file) for problem in refusal(tarball(files), limits=small).details
    ] == [("file_too_large", f"{KERNEL_ID}/a"), ("file_too_large", f"{KERNEL_ID}/c")]


def test_files_are_bounded_all_together() -> None:
    small = PackageLimits(package_bytes=15)
    assert only_problem(tarball(below({"a": b"x" * 10, "b": b"y" * 10})), limits=small) == Problem(
        code="package_too_large",
        message=f"the package has more than 15 bytes of files at {KERNEL_ID}/b",
        file=f"{KERNEL_ID}/b",
        found="more than 15 bytes",
        expected="at most 15 bytes",
        hint=SOURCES_ONLY,
    )


def test_the_number_of_files_is_bounded() -> None:
    files = below({str(number): b"" for number in range(4)})
    assert len(read(tarball(files), limits=PackageLimits(files=4)).files) == 4
    assert only_problem(tarball(files), limits=PackageLimits(files=3)) == Problem(
        code="too_many_files",
        message="the package has more than 3 files",
        found="more than 3 files",
        expected="at most 3 files",
        hint="ship what the kernel needs, not the whole project",
    )


def test_the_number_of_entries_is_bounded_even_if_none_is_a_file() -> None:
    directories = [member(f"d{number}", tarfile.DIRTYPE) for number in range(200)]
    problem = only_problem(tarball({}, extra=directories), limits=PackageLimits(files=10))
    assert problem.code == "too_many_files"


def test_the_compressed_size_is_bounded() -> None:
    noise = random.Random(1).randbytes(900_000)
    limits = PackageLimits(archive_bytes=100_000)
    problem = only_problem(tarball(below({"src/a": noise})), limits=limits)
    assert problem == Problem(
        code="archive_too_large",
        message="the archive has more than 100000 bytes packed",
        found="more than 100000 bytes packed",
        expected="at most 100000 bytes packed",
        hint=SOURCES_ONLY,
    )


# Members that are no plain file at a plain path.


@pytest.mark.parametrize(
    ("kind", "words", "hint"),
    [
        (tarfile.SYMTYPE, "a symbolic link", DEREFERENCE),
        (tarfile.LNKTYPE, "a hard link", DEREFERENCE),
        (tarfile.CHRTYPE, "a character device", None),
        (tarfile.BLKTYPE, "a block device", None),
        (tarfile.FIFOTYPE, "a named pipe", None),
        (tarfile.GNUTYPE_SPARSE, "a sparse file", "make the archive without --sparse"),
        (tarfile.CONTTYPE, "a special member", None),
    ],
)
def test_a_member_that_is_no_plain_file_is_refused(
    kind: bytes, words: str, hint: str | None
) -> None:
    data = tarball(below({"src/a": b"x"}), extra=[member("src/evil", kind, "/etc/passwd")])
    assert only_problem(data) == Problem(
        code="member_not_regular",
        message=f"{KERNEL_ID}/src/evil is {words}",
        file=f"{KERNEL_ID}/src/evil",
        found=words,
        expected="regular files and directories",
        hint=hint,
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("/etc/passwd", "name_absolute"),
        (f"{KERNEL_ID}/../../../etc/passwd", "name_parent"),
        ("../evil", "name_parent"),
        (f"{KERNEL_ID}/src\\evil", "name_backslash"),
        (f"{KERNEL_ID}/src/\x1b]0;evil", "name_control_character"),
        (f"{KERNEL_ID}//src/a", "name_not_plain"),
        (f"{KERNEL_ID}/./src/a", "name_not_plain"),
        (f"{KERNEL_ID}/._src", "apple_double"),
        (f"{KERNEL_ID}/src/.git/config", "git_directory"),
        (f"{KERNEL_ID}/" + "x" * 600, "path_too_long"),
    ],
)
def test_a_member_with_a_bad_name_is_refused(name: str, code: str) -> None:
    assert only_problem(tarball({f"{KERNEL_ID}/a": b"x", name: b"y"})).code == code


def test_a_directory_with_a_bad_name_is_refused() -> None:
    evil = tarfile.TarInfo(f"{KERNEL_ID}/../evil")
    evil.type = tarfile.DIRTYPE
    assert only_problem(tarball(below({"a": b"x"}), extra=[evil])).code == "name_parent"


def test_a_name_that_is_not_utf8_is_refused() -> None:
    data = tarball({f"{KERNEL_ID}/\udcff.py": b"x"}, layout=tarfile.GNU_FORMAT)
    assert only_problem(data).code == "name_not_utf8"


def test_a_member_given_twice_is_refused() -> None:
    twice = tarfile.TarInfo(f"{KERNEL_ID}/src/a")
    assert only_problem(tarball(below({"src/a": b"x"}), extra=[twice])) == Problem(
        code="member_duplicate",
        message=f"{KERNEL_ID}/src/a is in the archive twice",
        file=f"{KERNEL_ID}/src/a",
        found="the same path again",
        expected="every path once",
        hint="make a new archive instead of adding to the old one",
    )


def test_members_that_differ_only_in_case_are_refused() -> None:
    assert only_problem(tarball(below({"src/A.py": b"x", "src/a.py": b"y"}))) == Problem(
        code="name_twin",
        message=f"{KERNEL_ID}/src/A.py and {KERNEL_ID}/src/a.py are the same name on some machines",
        file=f"{KERNEL_ID}/src/a.py",
        found=f"{KERNEL_ID}/src/A.py and {KERNEL_ID}/src/a.py",
        expected="names that no file system takes for the same",
        hint="rename one of them",
    )


def test_all_that_can_be_told_is_told_at_once() -> None:
    files = below({"src/a": b"x", "src/A": b"y", "src\\b": b"z", SCOREBOARD_PATH: b""})
    files["elsewhere/c"] = b"w"
    extra = [member("link", tarfile.SYMTYPE, "/"), tarfile.TarInfo(f"{KERNEL_ID}/src/a")]
    error = refusal(tarball(files, extra=extra))
    assert error.message == "the archive has 6 problems"
    assert [problem.code for problem in error.details] == [
        "name_backslash",
        "member_not_regular",
        "member_duplicate",
        "name_twin",
        "wrong_top_directory",
        "scoreboard_in_archive",
    ]


# The scoreboard, and where the package lies.


@pytest.mark.parametrize(
    "path",
    [SCOREBOARD_PATH, ".kernel_package/Bench_Result.YAML", f"{SCOREBOARD_PATH}/x"],
)
def test_the_scoreboard_inside_is_refused_with_the_way_to_leave_it_out(path: str) -> None:
    package = valid_package(files={path: b"cases: []\n"})
    assert only_problem(package_tarball(package)) == Problem(
        code="scoreboard_in_archive",
        message=f"the archive holds {path}; the scoreboard is written by the server alone",
        file=path,
        found="a scoreboard in a submission",
        expected=f"no {SCOREBOARD_PATH}",
        hint=FILTER_HINT,
    )


def test_the_hint_about_the_scoreboard_is_true(tmp_path: Path) -> None:
    def names(stream: io.BytesIO) -> set[str]:
        stream.seek(0)
        with tarfile.open(fileobj=stream) as tar:
            return set(tar.getnames())

    kept, left = "k/.kernel_package/desc.yaml", "k/.kernel_package/bench_result.yaml"
    removed, filtered = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=removed, mode="w:gz") as tf:
        for name in (kept, left):
            tf.addfile(tarfile.TarInfo(name))
        for found in [found for found in tf.getmembers() if found.name == left]:
            tf.members.remove(found)  # type: ignore[attr-defined]  # as one guide does
    with tarfile.open(fileobj=filtered, mode="w:gz") as tf:
        (tmp_path / ".kernel_package").mkdir()
        (tmp_path / ".kernel_package/desc.yaml").touch()
        (tmp_path / ".kernel_package/bench_result.yaml").touch()
        tf.add(
            tmp_path,
            arcname="k",
            filter=lambda member: None if member.name.endswith("/bench_result.yaml") else member,
        )
    assert left in names(removed)
    assert names(filtered) == {"k", "k/.kernel_package", kept}


@pytest.mark.parametrize(
    ("top", "found"),
    [
        ("gfx928/Norm/RMSNorm/fp32/other", "gfx928/Norm/RMSNorm/fp32/other"),
        ("demo", "demo"),
        ("gfx928/Norm/RMSNorm/fp32/demo/inner", None),
    ],
)
def test_a_wrong_top_directory_names_both(top: str, found: str | None) -> None:
    data = package_tarball(valid_package(), top=top)
    if found is None:
        assert set(read(data).files) == {f"inner/{path}" for path in valid_package().files}
        return
    assert only_problem(data) == Problem(
        code="wrong_top_directory",
        message=f"the archive's top directory is {found}; expected {KERNEL_ID}",
        found=found,
        expected=KERNEL_ID,
        hint=f'give the tar that top directory: tf.add(root, arcname="{KERNEL_ID}")',
    )


def test_a_package_at_the_archives_own_root_is_refused() -> None:
    data = tarball({f"./{path}": file.data for path, file in valid_package().files.items()})
    problem = only_problem(data)
    assert problem.code == "wrong_top_directory"
    assert problem.message == (
        f"the archive's top directory is the archive's own root; expected {KERNEL_ID}"
    )
    assert only_problem(data, None).code == "wrong_top_directory"


def test_a_stray_member_beside_the_package_is_named() -> None:
    files = {f"{KERNEL_ID}/{path}": file.data for path, file in valid_package().files.items()}
    for kernel_id in (ID, None):
        problem = only_problem(tarball({**files, "notes.txt": b"x"}), kernel_id)
        assert problem.code == "wrong_top_directory"
        assert problem.found == "notes.txt"


def test_two_packages_in_one_archive_are_refused() -> None:
    first, second = valid_package("a/b/c/d/one"), valid_package("a/b/c/d/two")
    files = {
        f"{package.kernel_id}/{path}": file.data
        for package in (first, second)
        for path, file in package.files.items()
    }
    problem = only_problem(tarball(files), None)
    assert problem == Problem(
        code="wrong_top_directory",
        message="the archive's top directory is a/b/c/d/two; expected a/b/c/d/one",
        found="a/b/c/d/two",
        expected="a/b/c/d/one",
        hint="put one package into an archive, below its kernel_id",
    )


def test_an_archive_without_a_package_says_what_is_there() -> None:
    assert only_problem(tarball({"src/a.py": b"x", "b.txt": b"y"}), None) == Problem(
        code="no_kernel_package",
        message="the archive holds no .kernel_package directory",
        found="top directories: src, b.txt",
        expected="<kernel_id>/.kernel_package/desc.yaml and the rest of the package",
        hint="give the tar the kernel_id as its top directory: tf.add(root, arcname=kernel_id)",
    )
    assert only_problem(tarball({}), None).found == "no files"


def test_a_top_directory_that_is_no_kernel_id_is_refused() -> None:
    problem = only_problem(tarball({"my kernel/.kernel_package/desc.yaml": b"x"}), None)
    assert problem.code == "wrong_top_directory"
    assert problem.found == "my kernel"
    assert problem.expected == "a kernel_id"


# The canonical form.


def test_a_package_is_always_written_as_the_same_bytes() -> None:
    package = valid_package()
    shuffled = Package(package.kernel_id, dict(sorted(package.files.items(), reverse=True)))
    assert write_archive(package) == write_archive(shuffled)
    assert write_archive(package)[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def test_the_canonical_archive_is_read_by_the_standard_library() -> None:
    package = valid_package(scoreboard=True)
    with tarfile.open(fileobj=io.BytesIO(write_archive(package)), mode="r:gz") as tar:
        found = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]  # a file
    assert found == below({path: file.data for path, file in package.files.items()})
    assert list(found) == sorted(found)


# Fuzz: whatever comes, a package below its root or a refusal; never anything else.


@settings(max_examples=150, deadline=2000)
@given(st.data())
def test_a_mutated_archive_gives_a_package_or_a_refusal(data: st.DataObject) -> None:
    tar = bytearray(tarball(below({"src/a.py": b"x" * 700, "b": b"y"}), compressed=False))
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(tar) - 1))
        tar[place] = data.draw(st.integers(0, 255))
    packed = gzip.compress(bytes(tar))
    if data.draw(st.booleans()):
        packed = packed[: data.draw(st.integers(0, len(packed)))]
    try:
        package = read(packed)
    except BadInput as error:
        assert error.details  # noqa: PT017 - either outcome is right
        return
    assert all(not path.startswith("/") and ".." not in path.split("/") for path in package.files)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_refusal(data: bytes) -> None:
    assert refusal(data).details[0].code == "archive_not_gzip" or data[:2] == b"\x1f\x8b"

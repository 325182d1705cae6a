"""The tar reader is held against the standard library's, which wrote most of the world's tars."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.contract.tar.format import (
    BLOCK,
    Entry,
    Kind,
    Member,
    TarFault,
    TarReader,
    write_tar,
)


class Bytes:
    """A source of bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._stream.read(size)


def read(data: bytes) -> list[tuple[Member, bytes]]:
    reader = TarReader(Bytes(data))
    found = []
    while (member := reader.next()) is not None:
        found.append((member, reader.data()))
    reader.finish()
    return found


def fault(data: bytes) -> str:
    with pytest.raises(TarFault) as caught:
        read(data)
    return str(caught.value)


def stdlib_tar(files: dict[str, bytes], layout: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=layout) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mode = 0o755
            member.mtime = 1754092800.25
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def with_header(change: dict[int, bytes], *, checksum: bool = True) -> bytes:
    """Return a tar of one member with some header bytes replaced, its checksum set anew."""
    data = bytearray(write_tar([Entry("a", b"x")]))
    for place, value in change.items():
        data[place : place + len(value)] = value
    if checksum:
        data[148:156] = b" " * 8
        data[148:156] = b"%06o\0 " % sum(data[:BLOCK])
    return bytes(data)


LONG = "d/" * 60 + "ü" * 40 + ".py"
FILES = {"a/b.py": b"x" * 1000, "empty": b"", LONG: b"y" * 512, "x" * 100: b"1", "x" * 101: b"2"}


@pytest.mark.parametrize("layout", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tars_of_the_standard_library_are_read(layout: int) -> None:
    found = read(stdlib_tar(FILES, layout))
    assert {member.name: data for member, data in found} == FILES
    assert all(member.kind is Kind.FILE and member.executable for member, _ in found)


def test_a_ustar_name_split_in_two_is_put_together() -> None:
    name = "/".join(["segment"] * 25)
    ((member, _),) = read(stdlib_tar({name: b"x"}, tarfile.USTAR_FORMAT))
    assert member.name == name


def test_a_written_tar_is_read_by_the_standard_library() -> None:
    data = write_tar([Entry(name, content, name == "empty") for name, content in FILES.items()])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {member.name: member for member in tar}
        assert {name: tar.extractfile(member).read() for name, member in found.items()} == FILES  # type: ignore[union-attr]  # a file
    assert found["empty"].mode == 0o755
    plain = found["a/b.py"]
    assert (plain.mode, plain.uid, plain.gid, plain.mtime) == (0o644, 0, 0, 0)
    assert (plain.uname, plain.gname) == ("", "")


names = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\n"), min_size=1, max_size=150
).filter(lambda name: not name.endswith("/"))


@given(st.dictionaries(names, st.tuples(st.binary(max_size=1500), st.booleans()), max_size=5))
def test_what_is_written_is_what_is_read(files: dict[str, tuple[bytes, bool]]) -> None:
    data = write_tar([Entry(name, *file) for name, file in files.items()])
    assert len(data) % BLOCK == 0
    assert {member.name: (content, member.executable) for member, content in read(data)} == files


def test_the_bytes_that_are_written_never_change() -> None:
    data = write_tar([Entry("gfx928/a.py", b"x = 1\n", executable=True)])
    header = data[:BLOCK]
    assert header == (
        b"gfx928/a.py".ljust(100, b"\0")
        + b"0000755\0"
        + b"0000000\0" * 2
        + b"00000000006\0"
        + b"00000000000\0"
        + b"011025\0 "
        + b"0"
        + bytes(100)
        + b"ustar\x0000"
        + bytes(64)
        + b"0000000\0" * 2
        + bytes(167)
    )
    assert data[BLOCK:] == b"x = 1\n".ljust(BLOCK, b"\0") + bytes(2 * BLOCK)


@pytest.mark.parametrize(
    ("flag", "kind"),
    [
        (tarfile.SYMTYPE, Kind.SYMBOLIC_LINK),
        (tarfile.LNKTYPE, Kind.HARD_LINK),
        (tarfile.CHRTYPE, Kind.CHARACTER_DEVICE),
        (tarfile.BLKTYPE, Kind.BLOCK_DEVICE),
        (tarfile.FIFOTYPE, Kind.FIFO),
        (tarfile.DIRTYPE, Kind.DIRECTORY),
        (tarfile.CONTTYPE, Kind.OTHER),
        (b"V", Kind.OTHER),
    ],
)
def test_each_kind_of_member_is_told(flag: bytes, kind: Kind) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo("x")
        member.type = flag
        member.linkname = "target"
        tar.addfile(member)
        tar.addfile(tarfile.TarInfo("after"))
    found = [(member.name.rstrip("/"), member.kind) for member, _ in read(stream.getvalue())]
    assert found == [("x", kind), ("after", Kind.FILE)]


def test_a_directory_of_an_old_tar_is_told_by_its_slash() -> None:
    ((member, _),) = read(
        with_header({0: b"a/\0", 124: b"00000000000\0", 156: b"\0"})[:BLOCK] + bytes(1024)
    )
    assert member.kind is Kind.DIRECTORY


@pytest.mark.parametrize("key", ["GNU.sparse.major", "GNU.sparse.map"])
def test_a_sparse_file_is_told_by_its_pax_keys(key: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("x")
        member.pax_headers = {key: "1"}
        tar.addfile(member)
    ((member_read, _),) = read(stream.getvalue())
    assert member_read.kind is Kind.SPARSE


def test_an_old_gnu_sparse_file_is_told() -> None:
    ((member, _),) = read(with_header({156: b"S"}))
    assert member.kind is Kind.SPARSE


def test_a_pax_size_counts_more_than_the_header() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("x")
        member.pax_headers = {"size": "3"}
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))
    assert [data for _, data in read(stream.getvalue())] == [b"abc"]


def test_a_comment_for_the_whole_archive_is_passed_over() -> None:
    stream = io.BytesIO()
    with tarfile.open(
        fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "a commit"}
    ) as tar:
        tar.addfile(tarfile.TarInfo("x"))
    assert [member.name for member, _ in read(stream.getvalue())] == ["x"]


def test_a_global_header_that_renames_members_is_refused() -> None:
    stream = io.BytesIO()
    with tarfile.open(
        fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"path": "y"}
    ) as tar:
        tar.addfile(tarfile.TarInfo("x"))
    assert fault(stream.getvalue()).startswith("a global header that names one member's path")


def test_data_that_nobody_asked_for_is_passed_over() -> None:
    reader = TarReader(Bytes(write_tar([Entry("a", b"x" * 200_000), Entry("b", b"y")])))
    assert reader.next() is not None
    assert reader.next() is not None
    assert reader.data() == b"y"


GOOD = write_tar([Entry("a", b"x" * 600), Entry("b", b"y")])


@pytest.mark.parametrize(
    ("data", "what", "offset"),
    [
        (b"", "no end mark: the archive stops after a member", 0),
        (GOOD[:100], "half a header at the end", 0),
        (GOOD[:700], "the end in the middle of a member", 700),
        (GOOD[: -2 * BLOCK], "no end mark: the archive stops after a member", 2560),
        (GOOD + b"\0" * 511 + b"x", "data behind the end of the archive", 3072),
        (b"no tar, but long enough".ljust(BLOCK), "a header whose checksum does not match", 512),
        (b"no tar, but long enough" * 30, "a header whose checksum is no number", 512),
        (with_header({0: b"b"}, checksum=False), "a header whose checksum does not match", 512),
        (with_header({124: b"99999999999\0"}), "a header whose size is no number", 512),
        (with_header({124: b"-0000000001\0"}), "a header whose size is no number", 512),
        (with_header({124: b"\xff" * 12}), "a header whose size is no number", 512),
        (with_header({100: b"rwxrwxr\0"}), "a header whose mode is no number", 512),
    ],
)
def test_what_is_not_wholly_well_formed_is_a_fault(data: bytes, what: str, offset: int) -> None:
    assert fault(data) == f"{what} (at byte {offset} of the tar)"


def test_a_broken_header_in_the_middle_is_no_end() -> None:
    data = bytearray(GOOD)
    data[3 * BLOCK] ^= 1
    assert fault(bytes(data)).startswith("a header whose checksum does not match")


def test_a_size_in_base_256_is_read() -> None:
    data = with_header({124: b"\x80" + (1).to_bytes(11, "big")})
    assert [member.size for member, _ in read(data)] == [1]


def extended(body: bytes) -> bytes:
    """Return a tar whose one member has the PAX header ``body``."""
    header = write_tar([Entry("pax", body)])[: -2 * BLOCK]
    data = bytearray(header)
    data[156:157] = b"x"
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:BLOCK])
    return bytes(data) + write_tar([Entry("a", b"x")])


@pytest.mark.parametrize(
    "body",
    [
        b"path=x\n",
        b"9 path=x\n\n",
        b"999 path=x\n",
        b"10 path=xx",
        b"7 path\n",
        b"0 path=x\n",
        b"-5 path=x\n",
        b"\xb2\xb2 path=x\n",
        b"1" * 60_000,
    ],
)
def test_a_pax_header_that_is_none_is_a_fault(body: bytes) -> None:
    assert "PAX header" in fault(extended(body))


def test_a_pax_size_that_is_no_number_is_a_fault() -> None:
    assert "size that is no number" in fault(extended(b"11 size=-1\n"))


def test_an_extended_header_without_bound_is_a_fault() -> None:
    assert fault(extended(b"1" * 70_000)).startswith("an extended header of 70000 bytes")


def test_extended_headers_without_end_are_a_fault() -> None:
    header = extended(b"8 a=bcd\n")[: 2 * BLOCK]
    assert fault(header * 20).startswith("more than 8 extended headers before one member")


def test_an_extended_header_without_a_member_is_a_fault() -> None:
    header = extended(b"8 a=bcd\n")[: 2 * BLOCK]
    assert fault(header + bytes(1024)).startswith("an extended header before the end")


@given(st.binary(max_size=1200))
def test_any_bytes_give_members_or_a_fault(data: bytes) -> None:
    try:
        read(data)
    except TarFault as error:
        told = str(error)
    else:
        told = "sound"
    assert told


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_one_changed_byte_is_told_or_changes_only_what_no_checksum_covers(
    place: int, change: int
) -> None:
    data = bytearray(GOOD)
    data[place] ^= change
    in_header = (place % BLOCK != place and BLOCK * 3 <= place < BLOCK * 4) or place < BLOCK
    try:
        found = read(bytes(data))
    except TarFault:
        return
    if in_header and 148 <= place % BLOCK < 156:
        return  # another spelling of the same checksum
    assert not in_header
    assert [member.name for member, _ in found] == ["a", "b"]

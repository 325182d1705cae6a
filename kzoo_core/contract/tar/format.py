"""The tar format, both ways: a canonical writer, and a reader that takes nothing on trust.

The reader is our own because the standard library's, in the interpreters that the product supports,
spends quadratic time on a crafted PAX header (CVE-2024-6232), walks in circles on a negative size
(CVE-2025-8194) and takes a broken header for the end of the archive. This one is linear, iterative,
and an archive that is not wholly well-formed is an error. It knows ustar, PAX and GNU long names.

The writer is our own because a package's identity is a digest of these bytes (D12): they must not
change with a library.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

BLOCK = 512
_ZERO_BLOCK = bytes(BLOCK)
_EXTENSION_BYTES = 64 * 1024
"""The largest extended header that is read: names are far shorter."""
_MAX_EXTENSIONS = 8
"""Extended headers before one member; writers use one or two."""


class TarFault(Exception):
    """The bytes are not a well-formed tar; the message says what and at which offset."""


class Kind(StrEnum):
    """What a member is, as a message names it."""

    FILE = "file"
    DIRECTORY = "directory"
    HARD_LINK = "hard link"
    SYMBOLIC_LINK = "symbolic link"
    CHARACTER_DEVICE = "character device"
    BLOCK_DEVICE = "block device"
    FIFO = "named pipe"
    SPARSE = "sparse file"
    OTHER = "special member"


_KINDS = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"1": Kind.HARD_LINK,
    b"2": Kind.SYMBOLIC_LINK,
    b"3": Kind.CHARACTER_DEVICE,
    b"4": Kind.BLOCK_DEVICE,
    b"5": Kind.DIRECTORY,
    b"6": Kind.FIFO,
    b"S": Kind.SPARSE,
}

_DATALESS = frozenset(
    {
        Kind.DIRECTORY,
        Kind.HARD_LINK,
        Kind.SYMBOLIC_LINK,
        Kind.CHARACTER_DEVICE,
        Kind.BLOCK_DEVICE,
        Kind.FIFO,
    }
)


@dataclass(frozen=True, slots=True)
class Member:
    """One member's header; ``name`` is raw, as its bytes decode (surrogates where they do not)."""

    name: str
    kind: Kind
    size: int
    executable: bool


class Source(Protocol):
    """Uncompressed bytes in order."""

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end."""


class TarReader:
    """Reads members in order; the data of each is read or skipped before the next header."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._offset = 0
        self._waiting = 0

    def next(self) -> Member | None:
        """Return the next member, ``None`` after the last.

        Raises ``TarFault`` for bytes that are no tar, and for an archive without an end mark.
        """
        self.skip()
        extensions: dict[bytes, bytes] = {}
        for _ in range(_MAX_EXTENSIONS + 1):
            header = self._block()
            if header == _ZERO_BLOCK:
                if extensions:
                    raise self._fault("an extended header before the end of the archive")
                return None
            self._check(header)
            flag = header[156:157]
            size = self._number(header[124:136], "size")
            if flag in (b"x", b"X", b"g"):
                self._take_pax(flag, size, extensions)
            elif flag in (b"L", b"K"):
                text = self._extension(size).rstrip(b"\0")
                extensions[b"path" if flag == b"L" else b"linkpath"] = text
            else:
                return self._member(header, flag, size, extensions)
        raise self._fault(f"more than {_MAX_EXTENSIONS} extended headers before one member")

    def data(self) -> bytes:
        """Return the data of the member that ``next`` gave last."""
        size, self._waiting = self._waiting, 0
        padded = self._read(_padded(size))
        return padded[:size]

    def skip(self) -> None:
        """Pass over the data of the member that ``next`` gave last, if it was not read."""
        left, self._waiting = _padded(self._waiting), 0
        while left:
            left -= len(self._read(min(left, 64 * 1024)))

    def finish(self) -> None:
        """Read what follows the end mark; raises ``TarFault`` unless it is all zero."""
        while rest := self._source.read(64 * 1024):
            if rest.strip(b"\0"):
                raise self._fault("data behind the end of the archive")
            self._offset += len(rest)

    def _member(
        self, header: bytes, flag: bytes, size: int, extensions: dict[bytes, bytes]
    ) -> Member:
        kind = _KINDS.get(flag, Kind.OTHER)
        if any(key.startswith(b"GNU.sparse.") for key in extensions):
            kind = Kind.SPARSE
        name = extensions.get(b"path")
        if name is None:
            name = _field(header[0:100])
            prefix = _field(header[345:500]) if header[257:263] == b"ustar\0" else b""
            name = prefix + b"/" + name if prefix else name
        if b"size" in extensions:
            size = self._decimal(extensions[b"size"])
        if flag == b"\0" and name.endswith(b"/"):
            kind = Kind.DIRECTORY  # how tar marked a directory before it had a type for it
        mode = self._number(header[100:108], "mode")
        self._waiting = 0 if kind in _DATALESS else size
        return Member(
            name.decode("utf-8", "surrogateescape"), kind, self._waiting, bool(mode & 0o100)
        )

    def _take_pax(self, flag: bytes, size: int, extensions: dict[bytes, bytes]) -> None:
        records = self._pax_records(self._extension(size))
        if flag != b"g":
            extensions.update(records)
        elif not {b"path", b"size", b"linkpath"}.isdisjoint(records):
            raise self._fault("a global header that names one member's path or size")

    def _pax_records(self, text: bytes) -> dict[bytes, bytes]:
        records: dict[bytes, bytes] = {}
        at = 0
        while at < len(text):
            space = text.find(b" ", at + 1, at + 8)
            end = at + (self._decimal(text[at:space]) if space > 0 else 0)
            key, equals, value = text[space + 1 : end].partition(b"=")
            if space < 0 or not space < end <= len(text) or not equals or value[-1:] != b"\n":
                raise self._fault("a PAX header that is not made of 'length key=value' lines")
            records[key] = value[:-1]
            at = end
        return records

    def _extension(self, size: int) -> bytes:
        if size > _EXTENSION_BYTES:
            raise self._fault(f"an extended header of {size} bytes")
        return self._read(_padded(size))[:size]

    def _check(self, header: bytes) -> None:
        expected = self._number(header[148:156], "checksum")
        if sum(header) - sum(header[148:156]) + 8 * 0x20 != expected:
            raise self._fault("a header whose checksum does not match")

    def _number(self, field: bytes, what: str) -> int:
        if field[0] == 0x80:
            return int.from_bytes(field[1:], "big")
        text = field.rstrip(b"\0 ").lstrip(b" ")
        try:
            value = int(text or b"0", 8)
        except ValueError:
            value = -1
        if value < 0:
            raise self._fault(f"a header whose {what} is no number") from None
        return value

    def _decimal(self, text: bytes) -> int:
        if not text.isdigit() or len(text) > 15:
            raise self._fault("a PAX header with a length or size that is no number")
        return int(text)

    def _block(self) -> bytes:
        block = self._source.read(BLOCK)
        if not block:
            raise self._fault("no end mark: the archive stops after a member")
        if len(block) < BLOCK:
            raise self._fault("half a header at the end")
        self._offset += BLOCK
        return block

    def _read(self, size: int) -> bytes:
        data = self._source.read(size)
        self._offset += len(data)
        if len(data) < size:
            raise self._fault("the end in the middle of a member")
        return data

    def _fault(self, what: str) -> TarFault:
        return TarFault(f"{what} (at byte {self._offset} of the tar)")


def _padded(size: int) -> int:
    return (size + BLOCK - 1) // BLOCK * BLOCK


def _field(raw: bytes) -> bytes:
    return raw.partition(b"\0")[0]


@dataclass(frozen=True, slots=True)
class Entry:
    """One regular file to write; ``path`` is POSIX and relative."""

    path: str
    data: bytes
    executable: bool = False


def write_tar(entries: Iterable[Entry]) -> bytes:
    """Return an uncompressed tar of regular files, in the order given.

    Owner 0, time 0, mode 0644 or 0755. A path that is not plain ASCII of at most 100 bytes is
    written as a PAX ``path``. The same entries give the same bytes for ever.
    """
    parts: list[bytes] = []
    for entry in entries:
        name = entry.path.encode("utf-8")
        if len(name) > 100 or not entry.path.isascii():
            record = _pax_record(b"path", name)
            parts += _blocks(_header(b"pax_header", len(record), 0o644, b"x"), record)
            name = name[:100].decode("utf-8", "ignore").encode("utf-8")
        mode = 0o755 if entry.executable else 0o644
        parts += _blocks(_header(name, len(entry.data), mode, b"0"), entry.data)
    parts.append(_ZERO_BLOCK * 2)
    return b"".join(parts)


def _blocks(header: bytes, data: bytes) -> tuple[bytes, bytes, bytes]:
    return header, data, bytes(_padded(len(data)) - len(data))


def _pax_record(key: bytes, value: bytes) -> bytes:
    body = b" " + key + b"=" + value + b"\n"
    length = len(body)
    while length != len(body) + len(str(length)):
        length = len(body) + len(str(length))
    return str(length).encode() + body


def _header(name: bytes, size: int, mode: int, flag: bytes) -> bytes:
    before = b"".join(
        (
            name.ljust(100, b"\0"),
            b"%07o\0" % mode,
            b"0000000\0" * 2,
            b"%011o\0" % size,
            b"00000000000\0",
        )
    )
    after = b"".join((flag, bytes(100), b"ustar\x0000", bytes(64), b"0000000\0" * 2, bytes(167)))
    checksum = sum(before) + sum(after) + 8 * 0x20
    return before + b"%06o\0 " % checksum + after

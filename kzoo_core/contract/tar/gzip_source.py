"""Inflates one gzip stream under two bounds, and says exactly what is wrong with a bad one (D9)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from kzoo_core.errors import Problem

if TYPE_CHECKING:
    from typing import BinaryIO

_CHUNK = 64 * 1024
_INFLATE = 256 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_MAGICS = (
    (b"PK\x03\x04", "a zip archive"),
    (b"BZh", "a bzip2 stream"),
    (b"\xfd7zXZ\x00", "an xz stream"),
    (b"\x28\xb5\x2f\xfd", "a zstd stream"),
)
_HINT = "make it with tarfile.open(…, mode='w:gz') or tar czf"


class GzipFault(Exception):
    """The stream cannot be read further; ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class GzipSource:
    """The bytes inside a gzip stream; nothing beyond the bounds is read or inflated.

    Exactly one gzip member, checked to its last byte: truncation, a wrong checksum, and anything
    behind the member are faults. ``packed_limit`` and ``unpacked_limit`` are bytes.
    """

    def __init__(self, stream: BinaryIO, *, packed_limit: int, unpacked_limit: int) -> None:
        self._stream = stream
        self._packed_left = packed_limit
        self._packed_limit = packed_limit
        self._unpacked_left = unpacked_limit
        self._unpacked_limit = unpacked_limit
        self._inflate = zlib.decompressobj(wbits=31)
        self._input = b""
        self._buffer = b""
        self._at = 0
        self._begun = False

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end of a sound stream; raises ``GzipFault``."""
        end = self._at + size
        if end > len(self._buffer):
            self._fill(size)
            end = self._at + size
        data = self._buffer[self._at : end]
        self._at = end
        return data

    def _fill(self, size: int) -> None:
        parts = [self._buffer[self._at :]]
        have = len(parts[0])
        while have < size:
            piece = self._inflate_more()
            if not piece:
                break
            parts.append(piece)
            have += len(piece)
        self._buffer, self._at = b"".join(parts), 0

    def _inflate_more(self) -> bytes:
        """Return the next inflated bytes; empty only at the end of the gzip member."""
        while not self._inflate.eof:
            if not self._input:
                self._input = self._packed()
            try:
                piece = self._inflate.decompress(self._input, _INFLATE)
            except zlib.error as error:
                raise _damaged(error) from error
            self._input = self._inflate.unconsumed_tail
            if piece:
                self._unpacked_left -= len(piece)
                if self._unpacked_left < 0:
                    raise _too_large("unpacked", self._unpacked_limit, "package_too_large")
                return piece
        self._check_end()
        return b""

    def _packed(self) -> bytes:
        chunk = self._stream.read(_CHUNK)
        if not self._begun:
            self._begun = True
            if chunk[:2] != _GZIP_MAGIC:
                raise _not_gzip(chunk)
        if not chunk:
            raise GzipFault(
                Problem(
                    code="archive_truncated",
                    message="the archive ends in the middle of its gzip stream",
                    found=f"{self._packed_limit - self._packed_left} bytes, then the end",
                    expected="a whole .tar.gz",
                    hint="close the tar file before sending it; check that the upload was whole",
                )
            )
        self._packed_left -= len(chunk)
        if self._packed_left < 0:
            raise _too_large("packed", self._packed_limit, "archive_too_large")
        return chunk

    def _check_end(self) -> None:
        behind = self._inflate.unused_data or self._stream.read(1)
        if behind:
            again = behind[:2] == _GZIP_MAGIC
            raise GzipFault(
                Problem(
                    code="archive_trailing_data",
                    message="the archive goes on behind the end of its gzip stream",
                    found="a second gzip stream" if again else "bytes behind the end",
                    expected="one gzip stream and nothing else",
                    hint=_HINT,
                )
            )


def _not_gzip(head: bytes) -> GzipFault:
    found = next((what for magic, what in _MAGICS if head.startswith(magic)), None)
    if found is None and head[257:262] == b"ustar":
        found = "a tar that is not compressed"
    if found is None:
        found = f"bytes that begin with {head[:4].hex(' ')}" if head else "no bytes at all"
    return GzipFault(
        Problem(
            code="archive_not_gzip",
            message=f"the archive is no gzip stream: {found}",
            found=found,
            expected="a .tar.gz",
            hint=_HINT,
        )
    )


def _damaged(error: zlib.error) -> GzipFault:
    return GzipFault(
        Problem(
            code="archive_damaged",
            message=f"the archive's gzip stream is damaged: {str(error).rpartition(': ')[2]}",
            found=str(error).rpartition(": ")[2],
            expected="a gzip stream whose checksum matches",
            hint="send it again as binary data, for example with curl -F or --data-binary",
        )
    )


def _too_large(what: str, limit: int, code: str) -> GzipFault:
    return GzipFault(
        Problem(
            code=code,
            message=f"the archive has more than {limit} bytes {what}",
            found=f"more than {limit} bytes {what}",
            expected=f"at most {limit} bytes {what}",
            hint="ship sources only; make data in build_test_env.py under the work directory",
        )
    )

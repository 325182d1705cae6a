"""The documents of kernels, parsed: kept by blob name, because a blob never changes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from kzoo_core.contract.desc import parse_desc
from kzoo_core.contract.layout import BENCHMARK_PATH, SCOREBOARD_PATH
from kzoo_core.contract.metas import read_metas
from kzoo_core.contract.records import Status
from kzoo_core.contract.scoreboard_file import parse_scoreboard

if TYPE_CHECKING:
    from collections.abc import Callable

    from dulwich.objects import ObjectID

    from kzoo_core.contract.records import Scoreboard, TestCaseMeta
    from kzoo_core.store.objects import GitObjects

KEPT = 512
"""Parsed documents of each kind; one is a few kilobytes."""

Document = TypeVar("Document")


class ParsedFiles:
    """What the documents of any commit's kernels say; ``None`` for one that is unreadable."""

    def __init__(self, objects: GitObjects) -> None:
        self._objects = objects
        self._frozen: _Kept[bool] = _Kept()
        self._scoreboards: _Kept[Scoreboard] = _Kept()
        self._metas: _Kept[tuple[TestCaseMeta, ...]] = _Kept()

    def is_frozen(self, blob: ObjectID) -> bool:
        """Say whether a desc.yaml has the status ``frozen``; an unreadable one has not (D17)."""
        return self._frozen.get(blob, lambda: _says_frozen(self._objects.blob(blob))) or False

    def scoreboard(self, blob: ObjectID) -> Scoreboard | None:
        """Return a parsed bench_result.yaml."""
        return self._scoreboards.get(
            blob, lambda: parse_scoreboard(self._objects.blob(blob), SCOREBOARD_PATH)[0]
        )

    def metas(self, blob: ObjectID) -> tuple[TestCaseMeta, ...] | None:
        """Return the test cases that a benchmark.py declares."""
        return self._metas.get(
            blob, lambda: read_metas(self._objects.blob(blob), BENCHMARK_PATH)[0]
        )

    def remember(
        self,
        scoreboard_blob: ObjectID,
        scoreboard: Scoreboard,
        metas_blob: ObjectID,
        metas: tuple[TestCaseMeta, ...],
    ) -> None:
        """Keep what an accept has in hand anyway: the next one of the kernel parses nothing."""
        self._scoreboards.put(scoreboard_blob, scoreboard)
        self._metas.put(metas_blob, metas)


def _says_frozen(data: bytes) -> bool:
    """A word that is not in the file, and that no escape can spell, is not its status."""
    if b"frozen" not in data and b"\\" not in data:
        return False
    desc, _ = parse_desc(data)
    return desc is not None and desc.status is Status.FROZEN


class _Kept(Generic[Document]):
    def __init__(self) -> None:
        self._documents: OrderedDict[ObjectID, Document | None] = OrderedDict()

    def get(self, blob: ObjectID, parse: Callable[[], Document | None]) -> Document | None:
        if blob in self._documents:
            self._documents.move_to_end(blob)
            return self._documents[blob]
        document = parse()
        self.put(blob, document)
        return document

    def put(self, blob: ObjectID, document: Document | None) -> None:
        self._documents[blob] = document
        if len(self._documents) > KEPT:
            self._documents.popitem(last=False)

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from kzoo_core.clock import ManualClock
from kzoo_core.ids import SubmissionId
from kzoo_core.runner.records import AttemptKey
from kzoo_core.runner.spool import ResultSpool

if TYPE_CHECKING:
    from pathlib import Path

KEY = AttemptKey(SubmissionId("11111111-2222-3333-4444-555555555555"), 1)
OTHER = AttemptKey(SubmissionId("00000000-2222-3333-4444-555555555555"), 12)
BODY = b'{"attempt":1,"odd":"\\n and \xc3\xa9"}\n\n'


def spool(directory: Path, clock: ManualClock) -> ResultSpool:
    return ResultSpool(directory / "results", clock=clock, keep_s=3600.0)


def test_a_result_comes_back_byte_for_byte_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    first = spool(tmp_path, clock)
    first.save(first.new(KEY, "secret", BODY))
    clock.advance(600)
    second = spool(tmp_path, clock)

    (result,) = second.load()

    assert (result.key, result.token, result.body) == (KEY, "secret", BODY)
    assert second.keep_left_s(result) == 3000.0


def test_results_hold_a_token_and_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    mine = spool(tmp_path, ManualClock())
    mine.save(mine.new(KEY, "secret", BODY))

    (path,) = (tmp_path / "results").iterdir()

    assert path.name == f"{KEY}.result"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_oldest_result_comes_first(tmp_path: Path) -> None:
    clock = ManualClock()
    mine = spool(tmp_path, clock)
    mine.save(mine.new(KEY, "a", BODY))
    clock.advance(1)
    mine.save(mine.new(OTHER, "b", BODY))

    assert [result.key for result in mine.load()] == [KEY, OTHER]


def test_a_result_that_is_too_old_is_removed(tmp_path: Path) -> None:
    clock = ManualClock()
    mine = spool(tmp_path, clock)
    mine.save(mine.new(KEY, "a", BODY))
    clock.advance(3600)

    assert mine.load() == []
    assert list((tmp_path / "results").iterdir()) == []


def test_what_cannot_be_read_is_set_aside_and_not_deleted(tmp_path: Path) -> None:
    mine = spool(tmp_path, ManualClock())
    mine.save(mine.new(KEY, "a", BODY))
    broken = {
        "a.result": b"",
        "b.result": b"not json\nbody",
        "c.result": b'{"format": 2}\nbody',
        "d.result": b'{"format": 1, "uuid": "x", "attempt": 1}\nbody',
        "e.result": (tmp_path / "results" / f"{KEY}.result").read_bytes().partition(b"\n")[0],
    }
    for name, data in broken.items():
        (tmp_path / "results" / name).write_bytes(data)

    assert [result.key for result in mine.load()] == [KEY]
    kept = {path.name: path.read_bytes() for path in (tmp_path / "results").glob("*.unreadable")}
    assert kept == {f"{name}.unreadable": data for name, data in broken.items()}


def test_half_a_file_of_a_crash_is_removed(tmp_path: Path) -> None:
    mine = spool(tmp_path, ManualClock())
    mine.save(mine.new(KEY, "a", BODY))
    (tmp_path / "results" / f".{OTHER}.result.tmp").write_bytes(b"half")

    assert [result.key for result in mine.load()] == [KEY]
    assert [path.name for path in (tmp_path / "results").iterdir()] == [f"{KEY}.result"]


def test_removing_is_for_good_and_may_be_repeated(tmp_path: Path) -> None:
    mine = spool(tmp_path, ManualClock())
    mine.remove(KEY)
    mine.save(mine.new(KEY, "a", BODY))

    mine.remove(KEY)
    mine.remove(KEY)

    assert mine.load() == []


def test_a_new_runner_has_no_results(tmp_path: Path) -> None:
    assert spool(tmp_path, ManualClock()).load() == []

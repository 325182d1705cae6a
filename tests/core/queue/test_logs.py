"""One attempt's log as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kzoo_core.errors import Conflict, TooLarge
from kzoo_core.queue.logs import AttemptLog, LogGap, LogMismatch, PhaseMark
from kzoo_core.queue.records import Phase
from tests.core.queue.samples import sha256

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> AttemptLog:
    return AttemptLog(tmp_path, 1, limit_bytes=20)


def text_of(log: AttemptLog) -> bytes:
    return log.read(0, 1000).data


def test_chunks_add_up(log: AttemptLog) -> None:
    assert log.append(0, b"one\n") == 4
    assert log.append(4, b"two\n") == 8
    assert text_of(log) == b"one\ntwo\n"


def test_an_overlap_is_skipped_and_only_the_rest_is_kept(log: AttemptLog) -> None:
    log.append(0, b"one\n")
    assert log.append(2, b"e\ntwo\n") == 8
    assert log.append(0, b"one\n") == 8
    assert log.append(3, b"") == 8
    assert text_of(log) == b"one\ntwo\n"


def test_a_gap_is_refused_with_the_size_to_go_on_from(log: AttemptLog) -> None:
    log.append(0, b"one\n")
    with pytest.raises(LogGap) as caught:
        log.append(6, b"x")
    assert caught.value.code == "LOG_GAP"
    assert caught.value.message == "the chunk begins at byte 6, the log ends at 4"
    assert caught.value.hint == "send again from byte 4"
    assert caught.value.size == 4
    assert (caught.value.details[0].found, caught.value.details[0].expected) == ("6", "at most 4")


def test_a_log_over_the_bound_is_refused_and_stays_as_it_was(log: AttemptLog) -> None:
    log.append(0, b"x" * 20)
    with pytest.raises(TooLarge) as caught:
        log.append(19, b"xy")
    assert caught.value.code == "LOG_TOO_LARGE"
    assert caught.value.message == "the log would have 21 bytes, at most 20 are kept"
    assert caught.value.hint == "cut the log and mark the cut"
    assert log.size == 20


def test_a_phase_is_marked_once_where_it_begins(log: AttemptLog) -> None:
    log.append(0, b"b", Phase.BUILD)
    log.append(1, b"cc", Phase.BENCHMARK)
    log.append(1, b"cc", Phase.BENCHMARK)
    log.append(2, b"c", Phase.BENCHMARK)
    assert log.read(0, 9).marks == (PhaseMark(0, Phase.BUILD), PhaseMark(1, Phase.BENCHMARK))
    assert text_of(log) == b"bcc"


def test_a_range_is_read_and_says_where_to_go_on(log: AttemptLog) -> None:
    log.append(0, b"0123456789")
    part = log.read(3, 4)
    assert (part.start, part.data, part.next_offset, part.size) == (3, b"3456", 7, 10)
    assert not part.complete
    assert log.read(50, 4).data == b""
    assert log.read(50, 4).next_offset == 50


def test_a_log_that_nobody_wrote_is_empty(log: AttemptLog) -> None:
    part = log.read(0, 10)
    assert (part.attempt, part.data, part.size, part.complete, part.marks) == (1, b"", 0, False, ())


def test_the_closing_call_completes_what_it_describes(log: AttemptLog) -> None:
    log.append(0, b"one\n", Phase.BUILD)
    log.close(4, sha256(b"one\n"))
    assert log.read(0, 10).complete
    assert not log.read(0, 3).complete
    assert log.read(0, 10).marks == (PhaseMark(0, Phase.BUILD),)
    log.close(4, sha256(b"one\n"))


def test_an_empty_log_can_be_closed(log: AttemptLog) -> None:
    log.close(0, sha256(b""))
    assert log.read(0, 10).complete


@pytest.mark.parametrize(("size", "text"), [(4, b"two\n"), (5, b"one\n"), (8, b"one\ntwo\n")])
def test_a_closing_call_that_does_not_match_empties_the_log(
    log: AttemptLog, size: int, text: bytes
) -> None:
    log.append(0, b"one\n", Phase.BUILD)
    with pytest.raises(LogMismatch) as caught:
        log.close(size, sha256(text))
    assert caught.value.code == "LOG_MISMATCH"
    assert caught.value.hint == "send it again from byte 0"
    problem = caught.value.details[0]
    assert problem.found == f"4 bytes with sha256 {sha256(b'one' + bytes([10]))}"
    assert problem.expected == f"{size} bytes with sha256 {sha256(text)}"
    assert (log.size, log.read(0, 10).marks) == (0, ())
    log.append(0, text)
    log.close(len(text), sha256(text))


def test_a_closed_log_takes_what_it_has_and_nothing_more(log: AttemptLog) -> None:
    log.append(0, b"one\n")
    log.close(4, sha256(b"one\n"))
    assert log.append(0, b"one\n", Phase.BUILD) == 4
    assert log.read(0, 9).marks == ()
    with pytest.raises(Conflict) as caught:
        log.append(4, b"more")
    assert caught.value.code == "LOG_CLOSED"
    assert caught.value.message == "the log of attempt 1 is closed"
    assert (caught.value.details[0].found, caught.value.details[0].expected) == (
        "8 bytes",
        "4 bytes",
    )
    with pytest.raises(Conflict) as caught:
        log.close(4, sha256(b"two\n"))
    assert caught.value.code == "LOG_CLOSED"
    assert caught.value.hint == "it is delivered; drop it"
    assert text_of(log) == b"one\n"


def test_a_whole_log_is_kept_when_none_was_sent_and_cut_at_the_bound(log: AttemptLog) -> None:
    log.put_whole(b"0123456789" * 3)
    part = log.read(0, 100)
    assert part.data == b"0123456789" * 2
    assert part.complete


def test_a_whole_log_does_not_replace_one_that_was_sent(log: AttemptLog) -> None:
    log.append(0, b"sent")
    log.put_whole(b"whole")
    assert text_of(log) == b"sent"


@pytest.mark.parametrize("about", [b"", b"{", b"[]", b'{"marks": [{}], "closed": null}'])
def test_marks_that_a_power_cut_left_half_written_are_lost_and_nothing_else(
    log: AttemptLog, tmp_path: Path, about: bytes
) -> None:
    log.append(0, b"one\n", Phase.BUILD)
    (tmp_path / "log-1.json").write_bytes(about)
    assert log.read(0, 10).marks == ()
    assert log.append(4, b"two\n", Phase.BENCHMARK) == 8
    assert log.read(0, 10).marks == (PhaseMark(4, Phase.BENCHMARK),)

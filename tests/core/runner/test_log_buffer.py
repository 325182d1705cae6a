from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.queue.records import Phase
from kzoo_core.runner.log_buffer import LogBuffer, LogChunk

MARK = b"\n[kernel_zoo: %d bytes left out]\n"


def buffer(head: int = 10, tail: int = 4) -> LogBuffer:
    return LogBuffer(head_bytes=head, tail_bytes=tail)


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 30), st.integers(1, 20))
def test_the_head_and_the_last_bytes_are_kept_and_the_rest_is_counted(
    writes: list[bytes], head: int, tail: int
) -> None:
    log = buffer(head, tail)
    for data in writes:
        log.write(data)
    log.close()

    whole = b"".join(writes)
    left_out = len(whole) - head - tail
    if left_out <= 0:
        assert log.content() == whole
    else:
        assert log.content() == whole[:head] + MARK % left_out + whole[-tail:]
    assert log.sha256() == hashlib.sha256(log.content()).hexdigest()


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_what_can_be_sent_is_only_ever_added_to(writes: list[bytes]) -> None:
    log = buffer()
    before = b""
    for data in writes:
        log.write(data)
        assert log.content().startswith(before)
        before = log.content()
    log.close()

    assert log.content().startswith(before)


def test_memory_stays_within_the_cap_however_much_is_written() -> None:
    log = buffer(head=1000, tail=1000)

    for _ in range(1000):
        log.write(b"x" * 777)

    assert len(log._text) + len(log._tail) <= 1000 + 2 * 1000 + 777


def test_chunks_end_at_phase_marks_and_say_which_phase_they_begin() -> None:
    log = buffer(head=100)
    log.begin(Phase.BUILD)
    log.write(b"build")
    log.begin(Phase.BENCHMARK)
    log.write(b"bench")

    assert log.chunk(0, 100) == LogChunk(0, b"build", Phase.BUILD)
    assert log.chunk(5, 100) == LogChunk(5, b"bench", Phase.BENCHMARK)
    assert log.chunk(2, 100) == LogChunk(2, b"ild", None)
    assert log.chunk(0, 2) == LogChunk(0, b"bu", Phase.BUILD)
    assert log.chunk(10, 100) is None


def test_of_two_phases_that_begin_at_one_offset_the_later_is_said() -> None:
    log = buffer()
    log.begin(Phase.BUILD)
    log.begin(Phase.BENCHMARK)
    log.write(b"x")

    assert log.chunk(0, 9) == LogChunk(0, b"x", Phase.BENCHMARK)


def test_a_phase_without_output_is_said_at_the_end() -> None:
    log = buffer()
    log.write(b"abc")
    log.begin(Phase.BENCHMARK)
    log.close()

    assert log.phase_at(log.total) is Phase.BENCHMARK
    assert log.phase_at(0) is None


def test_a_phase_that_begins_in_the_kept_tail_keeps_its_place() -> None:
    log = buffer(head=10, tail=4)
    log.write(b"0123456789" + b"xxxxxx" + b"ab")
    log.begin(Phase.BENCHMARK)
    log.write(b"cd")
    log.close()

    assert log.content() == b"0123456789" + MARK % 6 + b"abcd"
    assert log.phase_at(log.total - 2) is Phase.BENCHMARK


def test_a_phase_that_began_in_what_was_left_out_begins_with_the_tail() -> None:
    log = buffer(head=10, tail=4)
    log.write(b"0123456789xx")
    log.begin(Phase.BENCHMARK)
    log.write(b"y" * 100 + b"abcd")
    log.close()

    assert log.phase_at(log.total - 4) is Phase.BENCHMARK


def test_a_phase_that_began_right_at_a_full_head_comes_behind_the_mark() -> None:
    log = buffer(head=10, tail=4)
    log.write(b"0123456789")
    log.begin(Phase.BENCHMARK)
    log.write(b"y" * 100)
    log.close()

    assert log.phase_at(log.total - 4) is Phase.BENCHMARK
    assert log.phase_at(10) is None


def test_a_closed_log_takes_nothing_more() -> None:
    log = buffer()
    log.write(b"abc")
    log.close()
    log.write(b"def")
    log.begin(Phase.BUILD)
    log.close()

    assert (log.content(), log.closed, log.phase_at(3)) == (b"abc", True, None)


def test_a_cut_log_ends_where_the_server_stopped_with_a_mark_that_counts_the_rest() -> None:
    log = buffer(head=10, tail=4)
    log.begin(Phase.BUILD)
    log.write(b"01234")
    log.begin(Phase.BENCHMARK)
    log.write(b"56789" + b"x" * 20)

    log.cut(3)
    log.write(b"more")
    log.close()

    assert log.content() == b"012\n[kernel_zoo: cut by the server, 27 bytes left out]\n"
    assert [log.phase_at(0), log.phase_at(5)] == [Phase.BUILD, None]

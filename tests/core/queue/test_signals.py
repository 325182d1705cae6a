"""Waiting for a change."""

from __future__ import annotations

import asyncio

from kzoo_core.queue.signals import Signals


async def test_a_change_wakes_those_who_listen_to_it_and_no_one_else() -> None:
    signals: Signals[str] = Signals()
    with signals.listen("a") as one, signals.listen("a") as two, signals.listen("b") as other:
        signals.notify("a")
        assert await one.wait(5)
        assert await two.wait(5)
        assert not await other.wait(0)


async def test_a_change_between_looking_and_waiting_is_not_missed() -> None:
    signals: Signals[str] = Signals()
    with signals.listen("a") as listener:
        signals.notify("a")
        signals.notify("a")
        assert await listener.wait(0)


async def test_a_change_before_listening_is_over() -> None:
    signals: Signals[str] = Signals()
    signals.notify("a")
    with signals.listen("a") as listener:
        assert not await listener.wait(0.001)


async def test_the_end_of_all_waiting_is_no_change() -> None:
    signals: Signals[str] = Signals()
    with signals.listen("a") as before:
        waiting = asyncio.create_task(before.wait(60))
        await asyncio.sleep(0)
        signals.close()
        assert not await waiting
    with signals.listen("a") as after:
        assert not await after.wait(60)


async def test_nobody_is_remembered_who_has_left() -> None:
    signals: Signals[str] = Signals()
    with signals.listen("a"), signals.listen("a"):
        signals.notify("a")
        with signals.listen("a"):
            pass
    with signals.listen("b"):
        pass
    assert signals._waiting == {}

from __future__ import annotations

import asyncio

import pytest

from kzoo_server.steps import DurableSteps


async def test_a_step_is_handed_on_with_what_it_returns_or_raises() -> None:
    async def answers() -> int:
        return 7

    async def fails() -> None:
        raise LookupError("inner")

    steps = DurableSteps()
    assert await steps.run(answers()) == 7
    with pytest.raises(LookupError, match="inner"):
        await steps.run(fails())
    await steps.drained()


async def test_a_step_ends_although_its_caller_was_cancelled() -> None:
    steps, go = DurableSteps(), asyncio.Event()
    ended = []

    async def step() -> None:
        await go.wait()
        ended.append("step")

    caller = asyncio.create_task(steps.run(step()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    assert caller.cancelled()
    draining = asyncio.create_task(steps.drained())
    await asyncio.sleep(0)
    assert not draining.done()
    go.set()
    await draining
    assert ended == ["step"]

"""``kzoo logs``: what building and running a submission printed, as far as it is or as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.ids import SubmissionId
from kzoo_tui.connection import call
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.rendering.log_stream import LogStream
from kzoo_tui.rendering.progress import ProgressLine
from kzoo_tui.rendering.submission import progress_words, state_words
from kzoo_tui.safe_text import safe_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from kzoo_core.client import KzooClient, LogPart
    from kzoo_core.client.views import StatusView
    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Print the log of one attempt; with ``--follow`` of each attempt until the end."""
    uuid = SubmissionId(arguments.uuid)
    stream = LogStream(context)
    collected = bytearray()
    take = collected.extend if arguments.json else stream.write
    reader = _Reader(uuid, context, take)
    if arguments.follow:
        call(arguments, context, lambda client: reader.follow(client, arguments.attempt))
    else:
        call(arguments, context, lambda client: reader.read(client, arguments.attempt))
    stream.end()
    if not arguments.follow and reader.last is not None and reader.last.attempt is None:
        where = f"'kzoo status {uuid}' says where it is"
        context.say(safe_line(f"no runner has begun with it, so there is no log: {where}"))
    if arguments.json:
        text = collected.decode("utf-8", "replace")
        last = reader.last
        context.print_json(
            {
                "uuid": uuid,
                "attempt": last.attempt if last is not None else None,
                "complete": last is not None and last.complete,
                "next_offset": last.next_offset if last is not None else 0,
                "text": text,
            }
        )
    return ExitCode.OK


class _Reader:
    """Reads the log of one submission part by part and hands on its bytes."""

    def __init__(
        self, uuid: SubmissionId, context: Context, take: Callable[[bytes], object]
    ) -> None:
        self._uuid = uuid
        self._context = context
        self._take = take
        self.last: LogPart | None = None

    async def read(self, client: KzooClient, attempt: int | None) -> None:
        """Read what there is of one attempt's log now."""
        start = 0
        while True:
            part = await client.log(self._uuid, start=start, attempt=attempt)
            self._note(part)
            if part.complete or not part.data:
                return
            start, attempt = part.next_offset, part.attempt if attempt is None else attempt

    async def follow(self, client: KzooClient, attempt: int | None) -> None:
        """Read one attempt's log to its end; without ``attempt`` each one's until all is done."""
        if attempt is not None:
            await self._one(client, attempt)
            return
        seen = 0
        while True:
            status = await self._next_attempt(client, seen)
            newest = status["attempt"] or 0
            if newest > seen:
                if seen:
                    self._context.say(safe_line(f"attempt {seen} ended; attempt {newest} follows"))
                await self._one(client, newest)
                seen = newest
                continue
            self._context.say(safe_line(f"done: {state_words(status)}"))
            return

    async def _one(self, client: KzooClient, attempt: int) -> None:
        parts = client.follow_log(self._uuid, attempt=attempt, clock=self._context.clock)
        async for part in parts:
            self._note(part)

    async def _next_attempt(self, client: KzooClient, seen: int) -> StatusView:
        """Wait for an attempt after ``seen``, or for the end."""
        progress = ProgressLine(self._context)
        async with progress.ticking():
            status = await client.status(self._uuid)
            while status["status"] != "done" and (status["attempt"] or 0) <= seen:
                progress.show(progress_words(status))
                status = await client.next_status(status, clock=self._context.clock)
        return status

    def _note(self, part: LogPart) -> None:
        self.last = part
        self._take(part.data)

"""Every call that people and agents make, typed."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar, cast, get_type_hints

import aiohttp

from kzoo_core.client.failures import failure, is_envelope, unreadable
from kzoo_core.client.views import (
    HealthView,
    HistoryPage,
    KernelPage,
    KernelView,
    OutputView,
    RunnerList,
    StatusView,
    SubmissionPage,
    SubmissionView,
    SubmittedView,
)
from kzoo_core.errors import Retryable
from kzoo_core.ids import SubmissionId

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping
    from types import TracebackType

    from kzoo_core.client.transport import Answer, Transport
    from kzoo_core.clock import Clock
    from kzoo_core.ids import KernelId, SubmitterId

View = TypeVar("View")
OnTrouble: TypeAlias = Callable[[Retryable], None]
"""Told of each failed call while a wait goes on."""

POLL_S = 30.0
"""How long one long poll is held by the server; it allows at most 60."""
POLL_MARGIN_S = 15.0
"""What a held call may take beyond the hold itself."""
UPLOAD_TIMEOUT_S = 300.0
PATIENCE_S = 120.0
"""How long a wait outlives a server that does not answer: a restart takes less."""
RECONNECT_S = 2.0


@dataclass(frozen=True, slots=True)
class LogPart:
    """A range of an attempt's log.

    ``data`` ends before byte ``next_offset``; ``complete`` says that nothing will follow it.
    """

    data: bytes
    next_offset: int
    complete: bool
    attempt: int | None


class KzooClient:
    """The server's calls for people and agents.

    Every method raises the ``KzooError`` that the answer stands for (see ``Transport.request``);
    an answer that lacks a member of its view raises ``Broken`` ``UNEXPECTED_ANSWER``.
    """

    def __init__(self, transport: Transport, *, submitter_id: SubmitterId | None = None) -> None:
        self._transport = transport
        self._identity = {} if submitter_id is None else {"X-Submitter-Id": submitter_id}

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(kind, error, traceback)

    async def health(self) -> HealthView:
        """Return how the server is; a starting or stopping one (503) answers in the same shape."""
        answer = await self._transport.request("GET", "/api/health", accept=(503,), retry=False)
        if is_envelope(answer.body):
            raise failure(answer.status, answer.headers, answer.body, answer.url)
        return _view(answer, HealthView)

    async def kernels(
        self,
        filters: Mapping[str, str | bool | None],
        *,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> KernelPage:
        """Return a page of kernels.

        ``filters`` has any of: arch op_class sub_class quant status tag owner q valid.
        """
        page = {"sort": sort, "limit": limit, "cursor": cursor}
        return await self._get(KernelPage, "/api/kernels", {**filters, **page})

    async def kernel(self, kernel_id: KernelId) -> KernelView:
        """Return one kernel's own page."""
        return await self._get(KernelView, f"/api/kernels/{kernel_id}")

    async def history(
        self,
        kernel_id: KernelId,
        *,
        test_case: str | None = None,
        metric: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> HistoryPage:
        """Return a page of a kernel's accepted attempts, newest first."""
        params = {"test_case": test_case, "metric": metric, "limit": limit, "cursor": cursor}
        return await self._get(HistoryPage, f"/api/kernels/{kernel_id}/bench-history", params)

    async def submit(
        self,
        archive: bytes,
        *,
        kernel_id: KernelId,
        submitter_id: SubmitterId,
        mode: str,
        idempotency_key: str,
        summary: str | None = None,
    ) -> SubmittedView:
        """Send a ``.tar.gz`` for a run and return its place in the queue.

        The caller makes ``idempotency_key`` once for one intent; tries after a lost answer then
        give the same submission, never a second one.
        """

        def form() -> aiohttp.FormData:
            fields = aiohttp.FormData(default_to_multipart=True)
            fields.add_field("kernel_id", kernel_id)
            fields.add_field("submitter_id", submitter_id)
            fields.add_field("mode", mode)
            if summary is not None:
                fields.add_field("optimization_summary", summary)
            fields.add_field(
                "package",
                io.BytesIO(archive),
                filename="package.tar.gz",
                content_type="application/gzip",
            )
            return fields

        answer = await self._transport.request(
            "POST",
            "/api/submissions",
            data=form,
            headers={"X-Submitter-Id": submitter_id, "Idempotency-Key": idempotency_key},
            timeout_s=UPLOAD_TIMEOUT_S,
            retry=True,
        )
        return _view(answer, SubmittedView)

    async def status(
        self, uuid: SubmissionId, *, wait_s: float = 0.0, since: int | None = None
    ) -> StatusView:
        """Return a submission's status: now, when done, or when ``revision`` passes ``since``."""
        answer = await self._transport.request(
            "GET",
            f"/api/submissions/{uuid}/status",
            params={"wait": f"{wait_s:g}", "since": since},
            timeout_s=wait_s + POLL_MARGIN_S,
        )
        return _view(answer, StatusView)

    async def next_status(
        self,
        last: StatusView,
        *,
        clock: Clock,
        deadline: float | None = None,
        on_trouble: OnTrouble | None = None,
    ) -> StatusView:
        """Return the status after ``last``: a newer revision, or the same when time is up.

        ``deadline`` is a time of ``clock.monotonic()``. Outlives a server that is started again.
        """
        left_s = POLL_S if deadline is None else max(0.0, deadline - clock.monotonic())
        uuid, since = SubmissionId(last["uuid"]), last["revision"]
        return await self._patiently(
            lambda: self.status(uuid, wait_s=min(POLL_S, left_s), since=since),
            clock=clock,
            deadline=deadline,
            on_trouble=on_trouble,
        )

    async def wait_done(
        self,
        uuid: SubmissionId,
        *,
        clock: Clock,
        timeout_s: float | None = None,
        on_change: Callable[[StatusView], None] | None = None,
        on_trouble: OnTrouble | None = None,
    ) -> StatusView:
        """Wait until a submission is done, or ``timeout_s`` has passed; return its last status.

        Each status is handed to ``on_change``. A server that stops answering after it did so once
        is asked again for ``PATIENCE_S`` (each failure goes to ``on_trouble``), then its error is
        raised.
        """
        deadline = None if timeout_s is None else clock.monotonic() + timeout_s
        last = await self.status(uuid)
        while True:
            if on_change is not None:
                on_change(last)
            late = deadline is not None and clock.monotonic() >= deadline
            if late or last["status"] == "done":
                return last
            last = await self.next_status(
                last, clock=clock, deadline=deadline, on_trouble=on_trouble
            )

    async def submission(self, uuid: SubmissionId) -> SubmissionView:
        """Return one submission, whole."""
        return await self._get(SubmissionView, f"/api/submissions/{uuid}")

    async def submissions(
        self,
        *,
        submitter: str | None = None,
        kernel_id: str | None = None,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> SubmissionPage:
        """Return a page of submissions, newest first."""
        params = {
            "submitter": submitter,
            "kernel_id": kernel_id,
            "state": state,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._get(SubmissionPage, "/api/submissions", params)

    async def output(self, uuid: SubmissionId) -> OutputView:
        """Return what the newest reported attempt printed."""
        return await self._get(OutputView, f"/api/submissions/{uuid}/output")

    async def cancel(self, uuid: SubmissionId) -> SubmissionView:
        """Cancel a submission that still waits; raises ``Conflict`` ``NOT_CANCELLABLE`` else."""
        answer = await self._transport.request(
            "POST", f"/api/submissions/{uuid}/cancel", headers=self._identity
        )
        return _view(answer, SubmissionView)

    async def log(
        self,
        uuid: SubmissionId,
        *,
        start: int = 0,
        attempt: int | None = None,
        wait_s: float = 0.0,
    ) -> LogPart:
        """Return the log from byte ``start``; holds up to ``wait_s`` while there is nothing new."""
        answer = await self._transport.request(
            "GET",
            f"/api/submissions/{uuid}/log",
            params={"from": start, "attempt": attempt, "wait": f"{wait_s:g}"},
            timeout_s=wait_s + POLL_MARGIN_S,
        )
        return _log_part(answer)

    async def follow_log(
        self,
        uuid: SubmissionId,
        *,
        attempt: int,
        clock: Clock,
        on_trouble: OnTrouble | None = None,
    ) -> AsyncIterator[LogPart]:
        """Yield one attempt's log from its beginning to its end, as it grows.

        It also ends where nothing more can come: the attempt is no longer the newest, or the
        submission is done. No byte is lost or given twice when the server is started again.
        """
        part = await self.log(uuid, start=0, attempt=attempt)
        while True:
            yield part
            if part.complete:
                return
            over = not part.data and await self._is_over(uuid, attempt, clock, on_trouble)
            ask = partial(
                self.log,
                uuid,
                start=part.next_offset,
                attempt=attempt,
                wait_s=0.0 if over else POLL_S,
            )
            part = await self._patiently(ask, clock=clock, on_trouble=on_trouble)
            if over and not part.data:
                return

    async def _is_over(
        self, uuid: SubmissionId, attempt: int, clock: Clock, on_trouble: OnTrouble | None
    ) -> bool:
        ask = partial(self.status, uuid)
        status = await self._patiently(ask, clock=clock, on_trouble=on_trouble)
        return status["status"] == "done" or (status["attempt"] or 0) > attempt

    async def _patiently(
        self,
        ask: Callable[[], Awaitable[View]],
        *,
        clock: Clock,
        deadline: float | None = None,
        on_trouble: OnTrouble | None = None,
    ) -> View:
        began = clock.monotonic()
        while True:
            try:
                return await ask()
            except Retryable as error:
                now = clock.monotonic()
                late = deadline is not None and now >= deadline
                if late or now - began >= PATIENCE_S:
                    raise
                if on_trouble is not None:
                    on_trouble(error)
            await self._transport.sleep(RECONNECT_S)

    async def runners(self) -> RunnerList:
        """Return every runner that the server knows."""
        return await self._get(RunnerList, "/api/runners")

    async def index(self) -> bytes:
        """Return ``index.json`` as the server built it, byte for byte."""
        return (await self._transport.request("GET", "/api/index.json")).body

    async def schema(self, name: str) -> object:
        """Return one JSON Schema by its name."""
        return (await self._transport.request("GET", f"/api/schemas/{name}")).json()

    async def _get(
        self,
        kind: type[View],
        path: str,
        params: Mapping[str, str | float | bool | None] | None = None,
    ) -> View:
        return _view(await self._transport.request("GET", path, params=params), kind)


def _view(answer: Answer, kind: type[View]) -> View:
    """Return the answer as ``kind``, a TypedDict, once every member that it names is there."""
    document = answer.json()
    members = get_type_hints(kind)
    if not isinstance(document, dict):
        raise unreadable(answer.url, answer.headers, answer.body, "a JSON object")
    missing = sorted(members.keys() - document.keys())
    if missing:
        wanted = f"a {kind.__name__}: it lacks {', '.join(missing)}"
        raise unreadable(answer.url, answer.headers, answer.body, wanted)
    return cast("View", document)


def _log_part(answer: Answer) -> LogPart:
    offset = answer.headers.get("X-Next-Offset", "")
    attempt = answer.headers.get("X-Attempt", "")
    if not offset.isdecimal():
        raise unreadable(
            answer.url, answer.headers, answer.body, "a log: it has no X-Next-Offset header"
        )
    return LogPart(
        data=answer.body,
        next_offset=int(offset),
        complete=answer.headers.get("X-Log-Complete") == "true",
        attempt=int(attempt) if attempt.isdecimal() else None,
    )

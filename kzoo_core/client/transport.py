"""One HTTP call to a kernel_zoo server: bounded, retried where that is safe, errors as errors."""

from __future__ import annotations

import asyncio
import io
import json as json_module
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

import aiohttp

from kzoo_core.client.failures import RETRIED_STATUSES, ConnectionLost, failure, unreadable
from kzoo_core.errors import BadInput, Broken, KzooError
from kzoo_core.version import __version__

if TYPE_CHECKING:
    import random as random_module
    from collections.abc import Awaitable, Container, Mapping
    from types import TracebackType

Body: TypeAlias = bytes | aiohttp.FormData | Callable[[], aiohttp.FormData]
"""What a call sends. A form that may have to be sent twice is given as the function making it."""

ANSWER_LIMIT_BYTES = 256 * 1024 * 1024
"""No answer of the product comes near this; a stranger's endless one stops here."""

CONNECT_TIMEOUT_S = 10.0
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long to try again. Waits are seconds, drawn from [0, bound]: full jitter.

    A ``Retry-After`` up to ``retry_after_limit_s`` is waited out in full, with the jitter on top;
    a longer one is the caller's to decide, so the error is raised at once.
    """

    tries: int = 4
    first_s: float = 0.25
    limit_s: float = 8.0
    retry_after_limit_s: float = 30.0

    def wait_s(
        self, failed: int, retry_after_s: float | None, random: random_module.Random
    ) -> float:
        """Return the wait after ``failed`` tries (1 for the first)."""
        jitter = random.uniform(0.0, min(self.limit_s, self.first_s * 2 ** (failed - 1)))
        return (retry_after_s or 0.0) + jitter


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; header names are compared without regard to case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        """Return the parsed body; raises ``Broken`` ``UNEXPECTED_ANSWER`` when it is not JSON."""
        try:
            document: object = json_module.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise unreadable(self.url, self.headers, self.body, "JSON") from error
        return document


class Transport:
    """A session with one server; an async context manager around ``aiohttp.ClientSession``.

    ``headers`` go with every call. ``base_url`` is http or https, and may have a path of its own.
    ``random`` draws the jitter and ``sleep`` waits it out: both are handed in.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        retry: RetryPolicy = RetryPolicy(),
        random: random_module.Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.base_url = _checked_base(base_url)
        self._headers = {"User-Agent": f"kernel_zoo/{__version__}", **(headers or {})}
        self._timeout_s = timeout_s
        self._policy = retry
        self._random = random
        self.sleep = sleep
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers=self._headers, cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | float | bool | None] | None = None,
        json: object = None,
        data: Body | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        retry: bool | None = None,
        accept: Container[int] = (),
    ) -> Answer:
        """Make one call and return its whole answer.

        ``path`` begins with ``/api``; parameters that are ``None`` are left out. ``timeout_s``
        bounds one try from connecting to the last byte. ``retry`` says whether a second try is
        safe: by default for GET, HEAD, PUT and DELETE. Redirects are never followed.

        Status 300 and above (but 304) raises the ``KzooError`` of the answer, with ``status``,
        ``request_id`` and ``retry_after_s``, unless ``accept`` holds the status: then the answer
        comes back as it is. No whole answer raises ``ConnectionLost``.
        """
        url = _url(self.base_url, path, params or {})
        again = method.upper() in _IDEMPOTENT if retry is None else retry
        again = again and not isinstance(data, aiohttp.FormData)
        tries = self._policy.tries if again else 1
        failed = 0
        while True:
            try:
                answer = await self._once(
                    method, url, json=json, data=data, headers=headers or {}, timeout_s=timeout_s
                )
                if answer.status < 300 or answer.status == 304 or answer.status in accept:
                    return answer
                raise failure(answer.status, answer.headers, answer.body, answer.url)
            except KzooError as error:
                failed += 1
                if failed >= tries or not self._worth_trying(error):
                    raise
                wait_s = self._policy.wait_s(failed, error.retry_after_s, self._random)
            await self.sleep(wait_s)

    def _worth_trying(self, error: KzooError) -> bool:
        if isinstance(error, ConnectionLost):
            return True
        retry_after_s = error.retry_after_s or 0.0
        return (
            error.status in RETRIED_STATUSES and retry_after_s <= self._policy.retry_after_limit_s
        )

    async def _once(
        self,
        method: str,
        url: str,
        *,
        json: object,
        data: Body | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> Answer:
        if self._session is None:
            raise RuntimeError("a Transport is used inside its 'async with'")
        total = self._timeout_s if timeout_s is None else timeout_s
        sent, content_type = _payload(json, data)
        extra = {**content_type, **headers}
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=min(total, CONNECT_TIMEOUT_S))
        try:
            async with self._session.request(
                method, url, data=sent, headers=extra, timeout=timeout, allow_redirects=False
            ) as response:
                wire = response.connection.transport if response.connection is not None else None
                body = await _read_bounded(response, url)
                if wire is not None and wire.get_write_buffer_size() > 0:
                    wire.abort()  # refused in the middle of an upload: nobody reads the rest
                return Answer(url, response.status, response.headers, body)
        except TimeoutError as error:
            raise ConnectionLost(url, f"no whole answer came within {total:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLost(url, cause_of(error)) from error


def _checked_base(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
        usable = usable and parts.port != 0 and not parts.query and not parts.fragment
    except ValueError:
        usable = False
    if not usable:
        raise BadInput(
            "BAD_SERVER_URL",
            f"the server address {text!r} is not usable: expected http:// or https://, a host "
            "and, where it is not the scheme's own, a port",
            hint="write it like http://127.0.0.1:8000",
        )
    return text.rstrip("/")


def _url(base: str, path: str, params: Mapping[str, str | float | bool | None]) -> str:
    query = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in params.items()
        if value is not None
    }
    return base + quote(path) + ("?" + urlencode(query) if query else "")


def _payload(
    json: object, data: Body | None
) -> tuple[io.BytesIO | aiohttp.FormData | None, dict[str, str]]:
    """Return what aiohttp sends, as a stream (raw bytes over 1 MiB would block its loop)."""
    if json is not None:
        encoded = json_module.dumps(json, ensure_ascii=False, allow_nan=False).encode()
        return io.BytesIO(encoded), {"Content-Type": "application/json"}
    if isinstance(data, bytes):
        return io.BytesIO(data), {"Content-Type": "application/octet-stream"}
    if data is None or isinstance(data, aiohttp.FormData):
        return data, {}
    return data(), {}


def cause_of(error: Exception) -> str:
    """Say in the system's own words why there is no connection, else in aiohttp's."""
    system = getattr(error, "os_error", error)
    if isinstance(system, OSError) and system.errno:
        return os.strerror(system.errno) if system.errno > 0 else str(system.strerror)
    return str(error) or type(error).__name__


async def _read_bounded(response: aiohttp.ClientResponse, url: str) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > ANSWER_LIMIT_BYTES:
            raise Broken(
                "ANSWER_TOO_LARGE", f"{url} answers with more than {ANSWER_LIMIT_BYTES} bytes"
            )
    return bytes(body)

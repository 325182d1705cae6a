"""A client for tests: whole answers as they are, no retries, no opinion."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from tests.packages import KERNEL_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multidict import CIMultiDictProxy

TIMEOUT = aiohttp.ClientTimeout(total=30)


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The envelope's content, without the request id that no test can know."""
        error = dict(self.json()["error"])
        assert error.pop("request_id") == self.headers["X-Request-Id"]
        return error


class ApiClient:
    """Calls to one server; ``submit`` knows the form of a submission."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def request(self, method: str, path: str, **arguments: Any) -> Answer:
        url = URL(self.url + path, encoded=True)
        async with self.session.request(method, url, timeout=TIMEOUT, **arguments) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **arguments: Any) -> Answer:
        return await self.request("GET", path, **arguments)

    async def post(self, path: str, **arguments: Any) -> Answer:
        return await self.request("POST", path, **arguments)

    async def submit(
        self,
        archive: bytes,
        *,
        kernel_id: str | None = KERNEL_ID,
        submitter_id: str | None = "alice",
        header: str | None = "alice",
        file_name: str = "package.tar.gz",
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Submit ``archive``; ``None`` leaves a field or the header out."""
        form = aiohttp.FormData(default_to_multipart=True)
        form.add_field("package", archive, filename=file_name, content_type="application/gzip")
        given = {"kernel_id": kernel_id, "submitter_id": submitter_id, **(fields or {})}
        for name, value in given.items():
            if value is not None:
                form.add_field(name, value)
        sent = {"X-Submitter-Id": header} if header is not None else {}
        return await self.post("/api/submissions", data=form, headers={**sent, **(headers or {})})

    async def submitted(self, archive: bytes, **arguments: Any) -> str:
        """Submit what is right, and return its uuid."""
        answer = await self.submit(archive, **arguments)
        assert answer.status == 202, answer.body
        return str(answer.json()["uuid"])

    async def done(self, uuid: str) -> Any:
        """Wait until a submission is done, and return its status."""
        answer = await self.get(f"/api/submissions/{uuid}/status?wait=20")
        status = answer.json()
        assert status["status"] == "done", status
        return status

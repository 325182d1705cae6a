"""``Expect: 100-continue``: a body too large for every call is refused before it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import HttpVersion11, hdrs

from kzoo_server.keys import SETTINGS
from kzoo_server.uploads import UploadLimits

if TYPE_CHECKING:
    from aiohttp import web


async def expectation(request: web.Request) -> None:
    """Ask for the body that the client holds back, unless the call will answer 413 to its length.

    Any other expectation is ignored, as RFC 9110 section 10.1.1 allows.
    """
    if request.version < HttpVersion11:
        return
    if request.headers.get(hdrs.EXPECT, "").lower() != "100-continue":
        return
    settings = request.app[SETTINGS]
    upload = UploadLimits(settings.archive_limit_bytes, settings.summary_limit_bytes)
    largest = max(upload.body_bytes, settings.result_limit_bytes, settings.json_limit_bytes)
    if request.content_length is not None and request.content_length > largest:
        return
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # what follows is the first answer, as far as aiohttp can tell

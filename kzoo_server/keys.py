"""What a request finds in its application, by typed key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from kzoo_server.documents import ApiDocument
from kzoo_server.metrics import Metrics
from kzoo_server.prepared import PreparedBoard
from kzoo_server.settings import ServerSettings
from kzoo_server.stage import Stage
from kzoo_server.steps import DurableSteps
from kzoo_server.waiting import HeldRequests

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.clock import Clock

SETTINGS: web.AppKey[ServerSettings] = web.AppKey("settings", ServerSettings)
STAGE: web.AppKey[Stage] = web.AppKey("stage", Stage)
CLOCK: web.AppKey[Clock] = web.AppKey("clock")
METRICS: web.AppKey[Metrics] = web.AppKey("metrics", Metrics)
HELD: web.AppKey[HeldRequests] = web.AppKey("held", HeldRequests)
STEPS: web.AppKey[DurableSteps] = web.AppKey("steps", DurableSteps)
PREPARED: web.AppKey[PreparedBoard] = web.AppKey("prepared", PreparedBoard)
DOCUMENT: web.AppKey[ApiDocument] = web.AppKey("document", ApiDocument)
TOKEN_BYTES: web.AppKey[Callable[[int], bytes]] = web.AppKey("token_bytes")
NEW_REQUEST_ID: web.AppKey[Callable[[], str]] = web.AppKey("new_request_id")

"""The one HTTP client: the commands, the terminal UI and the runner all speak through it."""

from __future__ import annotations

from kzoo_core.client.failures import ConnectionLost
from kzoo_core.client.transport import Answer, RetryPolicy, Transport
from kzoo_core.client.zoo import KzooClient, LogPart

__all__ = [
    "Answer",
    "ConnectionLost",
    "KzooClient",
    "LogPart",
    "RetryPolicy",
    "Transport",
]

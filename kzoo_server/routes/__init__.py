"""The calls: one module for each thing that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_server.routes import contracts, health, kernels, logs, runners, submissions

if TYPE_CHECKING:
    from aiohttp import web


def add_routes(app: web.Application) -> None:
    """Add every call of the API; where two patterns fit a path the first one added answers."""
    for module in (health, kernels, submissions, logs, runners, contracts):
        app.add_routes(module.ROUTES)

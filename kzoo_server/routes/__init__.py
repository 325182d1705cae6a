"""The calls: one module for each thing that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from kzoo_server.expectations import expectation
from kzoo_server.routes import contracts, health, kernels, logs, runners, submissions

if TYPE_CHECKING:
    from collections.abc import Iterator


def add_routes(app: web.Application) -> None:
    """Add every call of the API; where two patterns fit a path the first one added answers."""
    for route in _routes():
        web.RouteDef(
            route.method, route.path, route.handler, {**route.kwargs, "expect_handler": expectation}
        ).register(app.router)


def _routes() -> Iterator[web.RouteDef]:
    for module in (health, kernels, submissions, logs, runners, contracts):
        yield from (route for route in module.ROUTES if isinstance(route, web.RouteDef))

"""From flags and environment to a client: which server, as whom."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from kzoo_core.client import KzooClient, Transport
from kzoo_core.errors import BadInput, KzooError
from kzoo_core.ids import SubmitterId, parse_submitter_id
from kzoo_tui.arguments import DEFAULT_SERVER

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable

    from kzoo_tui.context import Context

Result = TypeVar("Result")


def identity(arguments: Namespace, context: Context) -> SubmitterId | None:
    """Return who the caller says to be, if anybody; raises ``BadInput`` ``USAGE``."""
    if arguments.submitter is not None:
        return SubmitterId(arguments.submitter)
    text = context.environment.get("KERNEL_ZOO_SUBMITTER", "")
    if not text:
        return None
    try:
        return parse_submitter_id(text)
    except KzooError as error:
        raise BadInput(
            "USAGE", f"KERNEL_ZOO_SUBMITTER: {error.message}", hint=error.hint
        ) from error


def required_identity(arguments: Namespace, context: Context) -> SubmitterId:
    """Return who the caller says to be; raises ``BadInput`` ``USAGE`` if nobody was named."""
    submitter_id = identity(arguments, context)
    if submitter_id is None:
        raise BadInput(
            "USAGE",
            "nobody is named as the submitter",
            hint="give --as ID, or set KERNEL_ZOO_SUBMITTER",
        )
    return submitter_id


def call(
    arguments: Namespace,
    context: Context,
    body: Callable[[KzooClient], Awaitable[Result]],
) -> Result:
    """Run ``body`` with a client of the server that flags and environment name."""
    url = arguments.server or context.environment.get("KERNEL_ZOO_SERVER") or DEFAULT_SERVER
    submitter_id = identity(arguments, context)
    transport = Transport(url, random=context.random())

    async def session() -> Result:
        async with KzooClient(transport, submitter_id=submitter_id) as client:
            return await body(client)

    return asyncio.run(session())

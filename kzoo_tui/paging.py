"""Several pages of a listing as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PAGE = 200
"""How many items one call asks for at most; the server may give fewer."""


class Paged(TypedDict):
    """What every page has."""

    items: list[Any]
    next_cursor: str | None


Page = TypeVar("Page", bound=Paged)


async def pages(fetch: Callable[[int, str | None], Awaitable[Page]], limit: int) -> Page:
    """Return the first ``limit`` items in one page; ``fetch(limit, cursor)`` gets each part.

    Members beside ``items`` are those of the last part: its cursor goes on behind what is here.
    """
    whole = await fetch(min(limit, PAGE), None)
    while whole["next_cursor"] is not None and len(whole["items"]) < limit:
        more = await fetch(min(limit - len(whole["items"]), PAGE), whole["next_cursor"])
        more["items"] = whole["items"] + more["items"]
        whole = more
    return whole

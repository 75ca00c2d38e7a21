"""Lists, page after page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from raftsched.client.models import Page
from raftsched.client.transport import Transport

PAGE = 1_000  # items asked for at a time
FIRST = 100  # of the first page, when nobody said how many are wanted

_T = TypeVar("_T")


def part_of(fields: Sequence[str], filters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the query for only these fields of each item. Raises ValueError when none is named."""
    if not fields:
        raise ValueError('name the fields that are wanted, such as "id"')
    return {**filters, "fields": ",".join(fields)}


async def pages(
    transport: Transport, kind: type[_T], path: str, query: Mapping[str, Any], most: int | None
) -> AsyncIterator[list[_T]]:
    """`most`: items altogether; None: all. A page may be short, even empty, and go on: a node looks through so many
    rows at a time."""
    decode = msgspec.json.Decoder(kind).decode
    left = most
    size = FIRST
    cursor: str | None = None
    while left is None or left > 0:
        limit = size if left is None else min(PAGE, left)
        page = await transport.get(Page, path, {**query, "limit": limit, "cursor": cursor})
        items = [decode(raw) for raw in page.items]
        if left is not None:
            left -= len(items)
        yield items
        if page.next is None or page.next == cursor:
            return
        cursor, size = page.next, PAGE


async def each_of(
    transport: Transport, kind: type[_T], path: str, query: Mapping[str, Any], most: int | None
) -> AsyncIterator[_T]:
    """Yields the items of a list one by one, `most` of them (None: all)."""
    async for page in pages(transport, kind, path, query, most):
        for one in page:
            yield one

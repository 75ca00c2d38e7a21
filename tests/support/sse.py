"""A reader of server-sent events (WHATWG HTML, section 9.2), as little of it as tests need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import msgspec


class Said(NamedTuple):
    event: str
    id: str
    data: Any  # None: only the id was noted


async def read(answer: aiohttp.ClientResponse) -> AsyncIterator[Said]:
    """Each of them, the ids alone as well; the retry time is left out."""
    fields: dict[str, str] = {}
    async for line in answer.content:
        text = line.decode().rstrip("\n")
        if text:
            name, _, value = text.partition(": ")
            fields[name] = value
            continue
        data = fields.get("data")
        yield Said(fields.get("event", ""), fields.get("id", ""), None if data is None else msgspec.json.decode(data))
        fields = {}


async def events(answer: aiohttp.ClientResponse, count: int) -> list[Said]:
    """So many of those with data."""
    found: list[Said] = []
    async for said in read(answer):
        if said.data is not None:
            found.append(said)
            if len(found) >= count:
                break
    return found

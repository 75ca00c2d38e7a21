"""Iterates over events, changes and output, and continues at another node when one goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

import aiohttp
import msgspec

from raftsched.client.errors import ClientError, error_of_problem
from raftsched.client.event_stream import Parser, Said
from raftsched.client.generated.events import Changes
from raftsched.client.generated.output import OutputPiece
from raftsched.client.models import Event
from raftsched.client.transport import Transport
from raftsched.surface.plain import events

SILENCE_S = 45.0  # a node says every 15 s that it is there; after this it is taken for gone
PAUSE_S = (0.05, 2.0)  # before the next node is asked: first, most
TRIES = 30  # in a row, before the node that has an output is given up
_SSE = {"Accept": "text/event-stream"}

T = TypeVar("T", Event, Changes)

_PATHS = {Event: events.LIST, Changes: events.CHANGES}
_piece = msgspec.json.Decoder(OutputPiece).decode
_problem = msgspec.json.Decoder(dict[str, Any]).decode


async def watch(
    transport: Transport, kind: type[T], after: str | None, follow: bool, filters: Mapping[str, Any]
) -> AsyncIterator[T]:
    """`after`: the id of an event, an index of the log, "oldest", or None for what comes from now on."""
    at = after
    pause, most = PAUSE_S
    while True:
        query = {**filters, "after": at, "follow": follow}
        try:
            async with transport.stream(_PATHS[kind], query, _SSE) as response:
                async for said in _said(response):
                    at = said.id or at
                    pause = PAUSE_S[0]
                    if said.event == "problem":
                        problem = _problem(said.data)
                        raise error_of_problem(int(problem.get("status", 0)), "", problem)
                    if said.data:
                        yield msgspec.json.decode(said.data, type=kind)
                if not follow:
                    return
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass  # another node has the same events under the same ids
        except ClientError as error:
            if error.code not in ("stopping", "behind"):
                raise
        await asyncio.sleep(pause)
        pause = min(most, pause * 2)


async def pieces(transport: Transport, path: str, query: Mapping[str, Any]) -> AsyncIterator[OutputPiece]:
    """Gives the output of an attempt, with the stream of each piece, to its end or as far as `query` asks for."""
    at, failures = "", 0
    pause, most = PAUSE_S
    while True:
        try:
            async with transport.stream(path, query, {**_SSE, "Last-Event-ID": at} if at else _SSE) as response:
                async for said in _said(response):
                    at = said.id or at
                    pause, failures = PAUSE_S[0], 0
                    if said.event == "problem":
                        problem = _problem(said.data)
                        raise error_of_problem(int(problem.get("status", 0)), "", problem)
                    if said.event in ("end", "more"):
                        return
                    if said.data:
                        yield _piece(said.data)
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass  # what is missing comes with the next request
        except ClientError as error:
            failures += 1
            if error.code not in ("stopping", "behind", "output-unavailable") or failures >= TRIES:
                raise
        await asyncio.sleep(pause)
        pause = min(most, pause * 2)


async def _said(response: aiohttp.ClientResponse) -> AsyncIterator[Said]:
    parser = Parser()
    while True:
        async with asyncio.timeout(SILENCE_S):
            piece = await response.content.readany()
        if not piece:
            return
        for said in parser.feed(piece):
            yield said

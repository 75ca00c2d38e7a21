"""Asks the APIs of other nodes, and reads what they answer: an address may have become somebody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from raftsched.api.auth.access import peer_header
from raftsched.api.auth.peers import trust, url_of, why_not
from raftsched.api.context import ApiContext
from raftsched.api.http.problems import Problem
from raftsched.api.rows import address_of

CLIENT: web.AppKey[aiohttp.ClientSession] = web.AppKey("peer_client", aiohttp.ClientSession)
HOP = "Raftsched-Hop"  # the node that asks: who is asked so asks nobody else
CONNECT_S = 2.0
SILENT_S = 60.0
ANSWER_MAX = 32 << 20  # bytes: the largest is that of a search, of 1,000 outputs with ten lines each
_PIECE = 64 << 10


async def read_answer(answer: aiohttp.ClientResponse, most: int = ANSWER_MAX) -> bytes:
    """Returns the body of an answer. Raises aiohttp.ClientPayloadError for one of more bytes, and closes it."""
    body = bytearray()
    async for piece in answer.content.iter_chunked(_PIECE):
        body += piece
        if len(body) > most:
            answer.close()
            raise aiohttp.ClientPayloadError(f"an answer of more than {most:,} bytes")
    return bytes(body)


class Said(msgspec.Struct):
    """The fields of another node's problem."""

    code: str = ""
    detail: str = ""
    offset: int | None = None


def said_in(raw: bytes) -> Said:
    """Returns what a node that refuses says; nothing where that is no problem."""
    try:
        return msgspec.json.decode(raw, type=Said)
    except msgspec.DecodeError:
        return Said()


async def call_node(
    ctx: ApiContext,
    session: aiohttp.ClientSession,
    node: str,
    path: str,
    query: Mapping[str, str] | None,
    limit: aiohttp.ClientTimeout,
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
    put: bytes | None = None,
    named: str = "",
) -> aiohttp.ClientResponse:
    """Returns another node's answer, whatever it says. `put`: a body to be put there. `named`: the node, as a problem
    names it. Without `query` the path is taken as it is. Raises Problem output-unavailable."""
    named, method = named or f"Node {node}", "GET" if put is None else "PUT"
    with ctx.read() as view:  # a node may take a worker's output before it has a session of its own
        http = address_of(view, node, ctx.cluster.peers())
    if not http:
        raise Problem("output-unavailable", f"{named} has no known address.")
    target = url_of(http, path)
    url = URL(target, encoded=True) if query is None else URL(target).with_query(query)
    proof = peer_header(ctx, node, url.raw_path_qs, method)
    try:
        return await session.request(
            method,
            url,
            data=put,
            headers={**proof, **headers},
            timeout=limit,
            allow_redirects=False,
            ssl=await trust(ctx, http),
        )
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Problem("output-unavailable", f"{named} does not answer.{why_not(error)}") from None


async def whole(node: str, answer: aiohttp.ClientResponse) -> bytes:
    """Returns the body of another node's answer. Raises Problem output-unavailable."""
    try:
        async with asyncio.timeout(SILENT_S), answer:
            return await read_answer(answer)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Problem("output-unavailable", f"Node {node} does not answer.{why_not(error)}") from None

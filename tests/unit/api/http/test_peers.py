"""Answers of other nodes are read up to a bound."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from raftsched.api.http.peers import read_answer


def test_an_answer_without_an_end_is_given_up() -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65_536)
        finally:
            ended.set()

    async def short(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 1_000)

    async def ask() -> None:
        app = web.Application()
        app.router.add_get("/endless", endless)
        app.router.add_get("/short", short)
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            async with session.get(server.make_url("/short")) as answer:
                assert len(await read_answer(answer, 1_000)) == 1_000
            async with session.get(server.make_url("/endless")) as answer:
                with pytest.raises(aiohttp.ClientPayloadError, match="more than 1,000,000 bytes"):
                    await read_answer(answer, 1_000_000)
            async with asyncio.timeout(60):
                await ended.wait()

    asyncio.run(ask())

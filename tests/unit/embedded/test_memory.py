"""Connections in memory: what is written arrives, in order, once, and both sides learn of the end."""

from __future__ import annotations

import asyncio
import random
import secrets

import aiohttp
import pytest
from aiohttp import web

from raftsched.embedded.memory import HIGH_BYTES, LOW_BYTES, Connector, connect


class Side(asyncio.Protocol):
    """Writes down what happens to it."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.got = b""
        self.calls: list[str] = []
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        self.got += data

    def eof_received(self) -> None:
        self.calls.append("eof")

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        assert exc is None
        self.calls.append("lost")
        self.lost.set_result(None)


def pair() -> tuple[Side, Side]:
    one, other = Side(), Side()
    connect(one, other)
    return one, other


def test_what_is_written_before_the_end_arrives_and_both_sides_learn_of_the_end() -> None:
    async def main() -> None:
        seed = secrets.randbits(32)
        rng = random.Random(seed)
        one, other = pair()
        sent = b""
        for _ in range(50):
            piece = rng.randbytes(rng.randrange(1, 3000))
            sent += piece
            one.transport.write(bytearray(piece))
            if rng.random() < 0.3:
                await asyncio.sleep(0)
        assert one.got == b""
        other.transport.write(b"too late to be read")
        one.transport.close()
        one.transport.write(b"written after the end")
        await asyncio.gather(one.lost, other.lost)
        assert other.got == sent, f"seed {seed}"
        assert one.got == b"", "nothing is read by who closed"
        assert one.calls == ["made", "lost"]
        assert other.calls == ["made", "eof", "lost"]
        assert other.transport.is_closing()

    asyncio.run(main())


def test_nothing_is_delivered_within_the_call_that_writes_it() -> None:
    async def main() -> None:
        one, other = pair()
        one.transport.write(b"x")
        assert other.got == b""
        await asyncio.sleep(0)
        assert other.got == b"x"

    asyncio.run(main())


def test_who_does_not_read_makes_the_other_side_pause_and_loses_nothing() -> None:
    async def main() -> None:
        one, other = pair()
        other.transport.pause_reading()
        piece = b"y" * 40_000
        written = 0
        while "pause" not in one.calls:
            one.transport.write(piece)
            written += len(piece)
        assert HIGH_BYTES < written <= HIGH_BYTES + len(piece)
        assert one.transport.get_write_buffer_size() == written
        await asyncio.sleep(0)
        assert other.got == b""
        other.transport.resume_reading()
        await asyncio.sleep(0)
        assert len(other.got) == written
        assert one.calls == ["made", "pause", "resume"]
        assert LOW_BYTES < HIGH_BYTES

    asyncio.run(main())


def test_the_end_of_who_was_paused_comes_after_what_waited_for_it() -> None:
    async def main() -> None:
        one, other = pair()
        other.transport.pause_reading()
        one.transport.write(b"last words")
        one.transport.close()
        await one.lost
        await asyncio.sleep(0)
        assert not other.lost.done()
        other.transport.resume_reading()
        await other.lost
        assert other.got == b"last words"

    asyncio.run(main())


def test_an_http_client_and_a_server_of_this_process_understand_each_other() -> None:
    """Bodies of any size both ways, connections that are kept, and an answer that comes bit by bit."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(64):
            await response.write(b"z" * 32_768)
        return response

    async def main() -> None:
        app = web.Application(client_max_size=1 << 24)
        app.add_routes([web.post("/echo", echo), web.get("/stream", stream)])
        runner = web.AppRunner(app)
        await runner.setup()
        accepted = 0

        def accept() -> asyncio.Protocol:
            nonlocal accepted
            accepted += 1
            assert runner.server is not None
            return runner.server()

        try:
            async with aiohttp.ClientSession(connector=Connector(accept, limit=10)) as session:
                for size in (0, 1, 3_000, 900_000):
                    async with session.post("http://localhost/echo", data=bytes(size)) as answer:
                        assert await answer.read() == bytes(size)
                assert accepted == 1
                async with session.get("http://localhost/stream") as answer:
                    assert len(await answer.read()) == 64 * 32_768
        finally:
            await runner.cleanup()

    asyncio.run(main())


def test_a_server_that_takes_nothing_is_an_address_that_cannot_be_connected_to() -> None:
    def accept() -> asyncio.Protocol:
        raise ConnectionRefusedError("it stops")

    async def main() -> None:
        async with aiohttp.ClientSession(connector=Connector(accept, limit=1)) as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get("http://localhost/")

    asyncio.run(main())

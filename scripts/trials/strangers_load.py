"""What strangers do to one node, in a process of its own: `python -m scripts.trials.strangers_load KIND PORT SECONDS
[COUNT] [TOKEN]` prints one JSON object. Kinds are the functions in KINDS."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

BOMB = 1_000_000_000  # bytes that a bomb becomes
PLAIN = 1_000_000  # bytes of a plain body
LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
Found = dict[str, Any]


def bomb() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    return b"".join([packer.compress(block) for _ in range(BOMB >> 20)] + [packer.flush()])


def posted(body: bytes, *headers: str) -> bytes:
    more = "".join(f"{header}\r\n" for header in headers)
    head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def once(port: int, raw: bytes, statuses: Counter[str]) -> None:
    """One request on a connection of its own."""
    try:
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(raw)
                statuses[(await reader.readline())[9:12].decode() or "closed"] += 1
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        statuses[type(error).__name__] += 1


async def at_rate(port: int, seconds: float, rate: float, raw: bytes) -> Found:
    """So many requests a second, whatever becomes of them."""
    statuses: Counter[str] = Counter()
    began = time.monotonic()
    tasks: set[asyncio.Task[None]] = set()
    sent = 0
    while (now := time.monotonic() - began) < seconds:
        while sent < now * rate:
            sent += 1
            task = asyncio.create_task(once(port, raw, statuses))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)
    return {"sent": sent, "answers": dict(statuses)}


async def bombs(port: int, seconds: float, count: int, token: str) -> Found:
    return await at_rate(port, seconds, count or 20, posted(bomb(), "Content-Encoding: gzip"))


async def plain(port: int, seconds: float, count: int, token: str) -> Found:
    return await at_rate(port, seconds, count or 10, posted(b"x" * PLAIN))


async def together(port: int, seconds: float, workers: int, work: Callable[[], Awaitable[int]]) -> Found:
    """`work` over and over by so many at one time; the sum of what it returns."""
    done = 0
    end = time.monotonic() + seconds

    async def one() -> None:
        nonlocal done
        while time.monotonic() < end:
            with suppress(OSError, TimeoutError):
                got = await work()
                done += got

    await asyncio.gather(*(one() for _ in range(workers)))
    return {"done": done, "each_second": round(done / seconds)}


async def many_plain(port: int, seconds: float, count: int, token: str) -> Found:
    """Plain bodies of 1 MB, as many as can be sent."""
    raw = posted(b"x" * PLAIN)
    statuses: Counter[str] = Counter()

    async def work() -> int:
        await once(port, raw, statuses)
        return 1

    return {**await together(port, seconds, count or 32, work), "answers": dict(statuses)}


async def connects(port: int, seconds: float, count: int, token: str) -> Found:
    """Connections that are opened and dropped."""

    async def work() -> int:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.transport.abort()
        return 1

    return await together(port, seconds, count or 64, work)


async def headers(port: int, seconds: float, count: int, token: str) -> Found:
    """Requests of 100 header lines each."""
    lines = "".join(f"X-{n}: {'y' * 60}\r\n" for n in range(100))
    raw = f"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()
    statuses: Counter[str] = Counter()

    async def work() -> int:
        await once(port, raw, statuses)
        return 1

    return {**await together(port, seconds, count or 16, work), "answers": dict(statuses)}


async def pipeline(port: int, seconds: float, count: int, token: str) -> Found:
    """Many requests in a row on each of a few connections."""
    raw = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100

    async def work() -> int:
        got = 0
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sending = asyncio.create_task(_keep_sending(writer, raw))
            try:
                while part := await reader.read(1 << 16):
                    got += len(part)
            finally:
                sending.cancel()
                writer.transport.abort()
        return got

    return await together(port, seconds, count or 16, work)


async def _keep_sending(writer: asyncio.StreamWriter, raw: bytes) -> None:
    with suppress(OSError):
        while True:
            writer.write(raw)
            await writer.drain()


async def idle(port: int, seconds: float, count: int, token: str) -> Found:
    """So many connections that say nothing, from many addresses, opened again when they are closed."""
    return await _held(port, seconds, count, b"")


async def streams(port: int, seconds: float, count: int, token: str) -> Found:
    """So many that read events, with one token."""
    shown = f"Authorization: Bearer {token}\r\n"
    return await _held(port, seconds, count, f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{shown}\r\n".encode())


async def slow(port: int, seconds: float, count: int, token: str) -> Found:
    """So many requests that begin and do not end."""
    return await _held(port, seconds, count, b"POST /v1/jobs HTTP/1.1\r\nHost: lo")


async def _held(port: int, seconds: float, count: int, raw: bytes) -> Found:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    now, peak, again = 0, 0, 0
    statuses: Counter[str] = Counter()
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        nonlocal now, peak, again
        while time.monotonic() < end:
            try:
                address = f"127.0.{1 + number % 40}.1"
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            except OSError as error:
                statuses[type(error).__name__] += 1
                await asyncio.sleep(0.5)
                continue
            now += 1
            peak = max(peak, now)
            try:
                writer.write(raw)
                async with asyncio.timeout(max(0.1, end - time.monotonic())):
                    first = await reader.read(12)
                    statuses[first[9:12].decode() or "closed"] += 1
                    while await reader.read(1 << 16):
                        pass
            except (OSError, TimeoutError):
                pass
            finally:
                now -= 1
                again += 1
                writer.transport.abort()
            await asyncio.sleep(0.5)

    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(one(number)))
        if number % 50 == 0:
            await asyncio.sleep(0.01)
    await asyncio.gather(*tasks)
    return {"wanted": count, "held_at_most": peak, "opened_again": again - count, "answers": dict(statuses)}


async def probe(port: int, seconds: float, count: int, token: str) -> Found:
    """How long /livez takes, on a connection that is there and on new ones."""
    kept: list[float] = []
    fresh: list[float] = []
    lost = 0
    end = time.monotonic() + seconds
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            writer.write(LIVE)
            await reader.readuntil(b"}")
            kept.append(time.monotonic() - began)
        except (OSError, asyncio.IncompleteReadError):
            lost += 1
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.monotonic()
        try:
            new_reader, new_writer = await asyncio.open_connection("127.0.0.1", port)
            new_writer.write(LIVE)
            await new_reader.readuntil(b"}")
            fresh.append(time.monotonic() - began)
            new_writer.close()
        except (OSError, asyncio.IncompleteReadError):
            lost += 1
        await asyncio.sleep(0.02)
    return {"kept": _summary(kept), "fresh": _summary(fresh), "lost": lost}


def _summary(seconds: list[float]) -> Found:
    """Milliseconds."""
    ordered = sorted(seconds) or [float("nan")]
    last = len(ordered) - 1
    at = {"p50": ordered[last // 2], "p99": ordered[int(last * 0.99)], "max": ordered[-1]}
    return {"n": len(seconds), **{name: round(value * 1_000, 1) for name, value in at.items()}}


KINDS = {
    function.__name__: function
    for function in (bombs, plain, many_plain, connects, headers, pipeline, idle, streams, slow, probe)
}


def main() -> None:
    kind, port, seconds, *more = sys.argv[1:]
    count = int(more[0]) if more else 0
    found = asyncio.run(KINDS[kind](int(port), float(seconds), count, more[1] if len(more) > 1 else ""))
    print(json.dumps(found))


if __name__ == "__main__":
    main()

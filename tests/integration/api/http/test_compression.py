"""Compressed bodies: nothing is inflated for who is refused, and no more than the limit for who is not."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import aiohttp.compression_utils
import pytest

from raftsched.api.http import requests
from tests.support.local_api import Client
from tests.support.tokens import guarded

JOB = b'{"trigger":{"in":"30m"},"handler":{"exec":["true"]}}'
BOMB = gzip.compress(bytes(64 * 1024 * 1024))
GZIP = {"Content-Encoding": "gzip"}


class Inflated:
    """Counts the bytes that come out of any inflater."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        count = self
        make = zlib.decompressobj

        class Counted:
            def __init__(self, *given: Any, **more: Any) -> None:
                self._inner = make(*given, **more)

            def decompress(self, *given: Any, **more: Any) -> bytes:
                part = self._inner.decompress(*given, **more)
                count.bytes += len(part)
                return part

            def __getattr__(self, name: str) -> Any:
                return getattr(self._inner, name)

        class Zlib:
            decompressobj = Counted
            error = zlib.error

        monkeypatch.setattr(requests, "zlib", Zlib)
        of_library = aiohttp.compression_utils.ZLibDecompressor
        decompress = of_library.decompress_sync

        def counted(self: Any, *given: Any, **more: Any) -> bytes:
            part: bytes = decompress(self, *given, **more)
            count.bytes += len(part)
            return part

        monkeypatch.setattr(of_library, "decompress_sync", counted)


async def post(call: Client, path: str, body: bytes, headers: dict[str, str], status: int, method: str = "POST") -> Any:
    got, answer = await call(method, path, body, {**GZIP, **headers})
    assert got == status, answer
    return answer


async def test_who_is_refused_has_nothing_inflated(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    people = await guarded(call)
    inflated = Inflated(monkeypatch)
    await post(call, "/v1/jobs", BOMB, {}, 401)
    await post(call, "/v1/jobs", BOMB, {"Host": "evil.example"}, 403)
    await post(call, "/v1/jobs", BOMB, people["viewer"].headers, 403)
    await post(call, "/v1/nothing", BOMB, {}, 404)
    await post(call, "/livez", BOMB, {}, 405)
    await post(call, "/livez", BOMB, {}, 200, "GET")
    await post(call, "/v1/jobs", BOMB, {**people["editor"].headers, "Content-Type": "text/plain"}, 415)
    await post(call, "/v1/jobs", BOMB, {**people["editor"].headers, "Content-Encoding": "br"}, 415)
    assert inflated.bytes == 0


async def test_what_is_over_the_limit_compressed_is_not_inflated(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    inflated = Inflated(monkeypatch)
    limit = call.context.settings().body_max_bytes
    await post(call, "/v1/jobs", bytes(limit + 1), {}, 413)
    assert inflated.bytes == 0


async def test_no_more_than_the_limit_is_inflated(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    inflated = Inflated(monkeypatch)
    limit = call.context.settings().body_max_bytes
    await post(call, "/v1/jobs", BOMB, {}, 413)
    assert 0 < inflated.bytes <= limit + 1
    inflated.bytes = 0
    full = JOB + b" " * (limit - len(JOB))
    await post(call, "/v1/jobs", gzip.compress(full), {}, 201)
    assert inflated.bytes == limit
    await post(call, "/v1/jobs", gzip.compress(full + b" "), {}, 413)


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


async def test_encodings(call: Client) -> None:
    for encoding, pack in (("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", zlib.compress)):
        await post(call, "/v1/jobs", pack(JOB), {"Content-Encoding": encoding}, 201)
    await post(call, "/v1/jobs", raw_deflate(JOB), {"Content-Encoding": "deflate"}, 201)
    for broken in (b"", b"abcd", gzip.compress(JOB)[:-9], gzip.compress(JOB) + b"more"):
        answer = await post(call, "/v1/jobs", broken, {}, 400)
        assert answer["code"] == "invalid-json"


async def test_others_have_their_turn_meanwhile(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may have megabytes."""
    turns = 0
    sleep = requests.asyncio.sleep

    async def counted(seconds: float) -> None:
        nonlocal turns
        turns += 1
        await sleep(seconds)

    monkeypatch.setattr(requests.asyncio, "sleep", counted)
    body = gzip.compress(b"[" + b",".join([JOB] * 2) + b" " * 1_000_000 + b"]")
    status, made = await call("POST", "/v1/jobs:batch", body, GZIP)
    assert (status, len(made["items"])) == (200, 2), made
    assert turns >= 1_000_000 // requests._PIECE

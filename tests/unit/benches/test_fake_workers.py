"""The fake workers of the benchmark go on when nobody answers."""

from __future__ import annotations

import argparse
import asyncio
import json
from types import TracebackType
from typing import Any, cast

import aiohttp
import pytest

from scripts.benches import fake_workers
from scripts.benches.fake_workers import Fake

OPENED = {"session": "1-s", "poll_ms": 10, "lease_ms": 60_000, "kill_before_ms": 100}


class Answer:
    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self._body = body

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        return json.dumps(self._body).encode()

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Node:
    """One that is down at first."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def post(self, url: str, **_: Any) -> Answer:
        self.asked.append(url)
        if len(self.asked) <= 2:
            raise aiohttp.ClientConnectionError("refused")
        if url.endswith("/worker-sessions"):
            return Answer(201, OPENED)
        return Answer(200, {"lease_ms": 60_000, "runs": []})


def test_a_node_that_is_down_at_the_start_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_workers, "PAUSE_S", 0.0)

    async def main() -> None:
        node = Node()
        given = argparse.Namespace(name="fake", slots=1, handlers="shell")
        fake = Fake(cast(aiohttp.ClientSession, node), ["http://n1", "http://n2"], given, 0)
        running = asyncio.create_task(fake.run())
        ready = asyncio.create_task(fake.ready.wait())
        await asyncio.wait([running, ready], return_when=asyncio.FIRST_COMPLETED)
        fake.stop()
        await running
        assert (fake.told.opened, fake.told.failed) == (1, 2)
        assert [url.partition("/v1")[0] for url in node.asked[:3]] == ["http://n1", "http://n2", "http://n1"]

    asyncio.run(main())

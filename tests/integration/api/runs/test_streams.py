"""What the streams of events and of digests have in common."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.support.local_api import Client, LocalCluster, serving

pytestmark = pytest.mark.parametrize("path", ["/v1/changes", "/v1/events"])


async def test_a_head_is_answered_at_once(call: Client, path: str) -> None:
    call.cluster.quiet = True
    assert await call("HEAD", path) == (200, "")
    assert call.headers["Content-Type"] == "text/event-stream"


def test_a_node_that_stops_ends_its_streams(tmp_path: Path, path: str) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path)
        cluster.quiet = True
        try:
            async with aiohttp.ClientSession() as session:
                async with serving(cluster, "n1") as call:
                    answer = await session.get(f"{call.url}{path}")
                    assert answer.status == 200
                assert b"id: " in await answer.read()
        finally:
            cluster.close()

    asyncio.run(main())

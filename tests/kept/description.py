"""/openapi.json as a node serves it, with a line for each thing that can differ."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from tests.kept.folded import folded
from tests.support.local_api import LocalCluster, serving


def text() -> str:
    """Returns it with the keys of each object in alphabetical order."""
    with tempfile.TemporaryDirectory() as directory:
        served = asyncio.run(_served(Path(directory)))
    return folded(json.loads(json.dumps(served, sort_keys=True))) + "\n"


async def _served(directory: Path) -> object:
    cluster = LocalCluster(directory)
    try:
        async with serving(cluster, "n1") as call:
            status, answer = await call("GET", "/openapi.json")
            assert status == 200, answer
            return answer
    finally:
        cluster.close()

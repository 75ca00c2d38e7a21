"""Output of a run on a `raftsched worker` is read at nodes while it is printed, whichever nodes die meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.benches.worker_output import LINE, follow, handler, holder, keep_all
from scripts.benches.workers import worker
from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e

COUNT = 4_000_000 // LINE


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, flags=["--no-run"]) as running:
        keep_all(running)
        yield running


def test_a_node_is_killed_in_the_middle(cluster: Cluster, tmp_path: Path) -> None:
    """The one that the worker sends to: the other readers miss nothing, and get nothing twice."""
    gate = tmp_path / "gate"

    async def test() -> None:
        some = asyncio.Event()
        instance = run(cluster.nodes[0], create(cluster.nodes[0], job)["id"])
        taker = await asyncio.to_thread(cluster.wait, "a node has a copy", lambda: holder(cluster))
        others = [node for node in cluster.nodes if node is not taker]

        def on_size(size: int) -> None:
            if size > COUNT * LINE // 4:
                some.set()

        reading = [asyncio.create_task(follow(node, instance, COUNT, on_size)) for node in others]
        waiting = asyncio.create_task(some.wait())
        await asyncio.wait([waiting, *reading], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(taker.kill)
        gate.touch()
        for streamed in await asyncio.gather(*reading):
            assert (streamed.size, streamed.whole) == (COUNT * LINE, True)
        row = await asyncio.to_thread(wait_final, cluster, others[0], instance)
        assert (row["state"], row["output"]["size"]) == ("SUCCEEDED", COUNT * LINE)
        assert (await follow(others[1], instance, COUNT)).whole, "and after its end"

    job = {"trigger": {"manual": True}, "handler": handler(COUNT, str(gate)), "timeout": "5m"}
    with worker(cluster, "prints"):
        asyncio.run(test())

"""Disks that take longer for a write than an election timeout: the event loop does not feel them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from raftsched.core.commands import Accepted
from raftsched.raft import Raft, RaftOptions
from tests.support.patience import patient, until
from tests.support.raft_cluster import BARRIER, FAST, Cluster, SlowDisks

OPTIONS = RaftOptions(
    election_min_ms=300,
    election_max_ms=400,
    heartbeat_ms=50,
    tick_ms=FAST.tick_ms,
    connect_min_ms=FAST.connect_min_ms,
    connect_max_ms=FAST.connect_max_ms,
)


async def outlast_elections(disks: SlowDisks, leader: Raft, election_max_ms: int) -> None:
    """Lets each write go when the leader's heartbeats have been answered for longer than any election timeout."""
    while True:
        await until(disks.waiting)
        writes = list(disks.waiting())
        begun = leader.quorum_sent_at_ms() or 0
        await until(lambda begun=begun: (leader.quorum_sent_at_ms() or 0) > begun + election_max_ms)  # type: ignore[misc]
        for write in writes:
            write.set()


def test_writes_longer_than_an_election_timeout_cause_no_election(tmp_path: Path) -> None:
    async def scenario() -> None:
        disks = SlowDisks()
        async with Cluster(tmp_path, options=OPTIONS, writers=disks) as cluster:
            await cluster.start()
            leader = await cluster.leader()
            await until(lambda: all(p.match_index == leader.last_index for p in leader.peers()))
            term = leader.term
            elections: list[tuple[str, int]] = []
            for node in cluster.nodes.values():
                node.subscribe_role(lambda node=node: elections.append((node.node_id, node.term)))  # type: ignore[misc]
            disks.slow = True
            releasing = asyncio.create_task(outlast_elections(disks, leader, cluster.options.election_max_ms))
            try:
                answers = await asyncio.gather(
                    *(node.propose([BARRIER], timeout=patient(60)) for node in cluster.nodes.values())
                )
            finally:
                releasing.cancel()
                await asyncio.gather(releasing, return_exceptions=True)
                disks.restore()
            assert answers == [[Accepted()]] * 3
            assert elections == []
            assert {node.term for node in cluster.nodes.values()} == {term}

    asyncio.run(scenario())

"""Members whose address changed come back by themselves, with the disk they had: real sockets, real stores."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from raftsched.raft import Raft
from tests.support.patience import until
from tests.support.raft_cluster import BARRIER, Cluster

pytestmark = pytest.mark.slow


async def moved(cluster: Cluster, *names: str) -> None:
    """Stops nodes, and starts them at other addresses, one after the other."""
    for name in names:
        if name in cluster.nodes:
            await cluster.stop(name)
    cluster.move(*names)
    await cluster.start(*names)


def known(node: Raft) -> dict[str, str]:
    return {member.node: member.raft for member in node.members()}


async def settled(cluster: Cluster) -> None:
    """All nodes are connected, and know where each is."""
    nodes = list(cluster.nodes.values())
    await until(lambda: all(known(node) == cluster.addresses for node in nodes))
    await until(lambda: all(len([p for p in node.peers() if p.connected]) == len(nodes) - 1 for node in nodes))
    await until(lambda: all(node.leader_id is not None for node in nodes))
    assert all(member.voter for member in nodes[0].members())
    await nodes[0].propose([BARRIER])


@pytest.mark.parametrize("names", ["a", "b", "c", "bc", "ab", "ac"])
def test_who_moved_comes_back_and_the_members_know_its_address(tmp_path: Path, names: str) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            await cluster.leader()
            await moved(cluster, *names)
            await settled(cluster)
            assert cluster.fatal == []

    asyncio.run(scenario())


def test_the_leader_moves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            await moved(cluster, (await cluster.leader()).node_id)
            await settled(cluster)

    asyncio.run(scenario())


def test_a_node_alone_moves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, "a") as cluster:
            await cluster.start()
            await cluster.leader()
            await moved(cluster, "a")
            await settled(cluster)

    asyncio.run(scenario())


@pytest.mark.parametrize("order", ["abc", "cba"])
def test_all_move_one_after_the_other(tmp_path: Path, order: Sequence[str]) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            await cluster.leader()
            for name in order:
                await moved(cluster, name)
                await settled(cluster)

    asyncio.run(scenario())


def test_all_move_at_once_and_are_started_with_the_new_addresses(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            await cluster.leader()
            for name in "abc":
                await cluster.stop(name)
            cluster.move(*"abc")
            cluster.told = {}
            await cluster.start()
            await settled(cluster)

    asyncio.run(scenario())


def test_two_members_change_places(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            await cluster.leader()
            for name in "bc":
                await cluster.stop(name)
            cluster.told = {name: dict(cluster.addresses) for name in "abc"}
            places = cluster.addresses
            places["b"], places["c"] = places["c"], places["b"]
            cluster.told["b"]["c"], cluster.told["c"]["b"] = places["c"], places["b"]
            await cluster.start(*"bc")
            await settled(cluster)

    asyncio.run(scenario())


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not-noted"])
@pytest.mark.parametrize("formed", [True, False], ids=["formed", "just-formed"])
def test_a_member_is_away_while_the_others_move(tmp_path: Path, formed: bool, noted: bool) -> None:
    """It knows none of their addresses when it comes back, and they dial it or are dialled at what it was told.
    `formed`: all have applied that the cluster is formed; `noted`: the first one's new address is committed."""

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            await cluster.leader()
            if formed:
                await until(lambda: all(node.formed for node in cluster.nodes.values()))
            await cluster.stop("c")
            await moved(cluster, "a")
            if noted:
                await until(lambda: all(known(node)["a"] == cluster.addresses["a"] for node in cluster.nodes.values()))
            await moved(cluster, "b")
            await cluster.start("c")
            await settled(cluster)

    asyncio.run(scenario())


def test_another_disk_at_another_address_changes_nothing(tmp_path: Path) -> None:
    """Who has the name and the key, and not the disk, is no member: its address counts for nothing."""

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            leader = await cluster.leader()
            other = next(name for name in "cba" if name != leader.node_id)
            before = known(leader)
            await cluster.stop(other)
            (tmp_path / other).rename(tmp_path / "away")
            cluster.move(other)
            await cluster.start(other)
            await until(lambda: [request.node for request in leader.join_requests()] == [other])
            await leader.propose([BARRIER])
            assert known(leader) == before
            await cluster.stop(other)
            (tmp_path / other).rename(tmp_path / "impostor")
            (tmp_path / "away").rename(tmp_path / other)
            await cluster.start(other)
            await settled(cluster)

    asyncio.run(scenario())

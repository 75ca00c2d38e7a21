"""Real nodes over TCP and LMDB."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from raftsched.core.commands import UNKNOWN, Accepted, Barrier, Idempotent, RaiseLevel, encode
from raftsched.core.entry import EntryResult
from raftsched.core.levels import HISTORY, SINCE, newest_level
from raftsched.errors import NoLeader, RaftschedError, StartupError
from raftsched.raft import Raft
from raftsched.security.keyring import Keyring
from raftsched.store import Store
from raftsched.system.clock import SystemClock
from tests.support.patience import PATIENCE_S, patient, until
from tests.support.raft_cluster import BARRIER, FAST, Cluster, address_of, listening


def test_every_node_takes_proposals_and_all_agree(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            applied: list[EntryResult] = []
            await cluster.start()
            leader = await cluster.leader()
            leader.subscribe(applied.extend)
            for node in cluster.nodes.values():
                assert await node.propose([BARRIER, BARRIER]) == [Accepted(), Accepted()]
            await until(lambda: len({node.applied_index for node in cluster.nodes.values()}) == 1)
            assert [e.index for e in applied] == list(range(applied[0].index, leader.applied_index + 1))
            assert len({node.cluster_id for node in cluster.nodes.values()}) == 1
            assert all(node.formed and node.leader_id == leader.node_id for node in cluster.nodes.values())
            await until(lambda: leader.quorum_sent_at_ms() is not None)
            # A follower may apply what another one's acknowledgement committed before its own has come.
            await until(lambda: all(p.connected and p.match_index == leader.last_index for p in leader.peers()))
            assert {p.http for p in leader.peers()} <= {f"127.0.0.1:80{ord(n)}" for n in "abc"}
            await until(lambda: all(p.clock_offset_ms is not None for p in leader.peers()))
            assert all(abs(p.clock_offset_ms or 0) < 5_000 for p in leader.peers())

    asyncio.run(scenario())


def test_a_read_behind_a_barrier_sees_what_was_acknowledged_elsewhere(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            leader = await cluster.leader()
            for node in cluster.nodes.values():
                for _ in range(5):
                    await leader.propose([BARRIER])
                    acknowledged = leader.applied_index
                    await node.barrier()
                    assert node.applied_index >= acknowledged
            before = leader.last_index
            await asyncio.gather(*(node.barrier() for node in cluster.nodes.values() for _ in range(200)))
            assert leader.last_index - before <= 6, "all that wait on a node share one"
            quorum = [n for n in cluster.nodes if n != leader.node_id]
            for name in quorum:
                await cluster.stop(name)
            with pytest.raises(NoLeader):
                await leader.barrier(0.5)

    asyncio.run(scenario())


def test_a_new_leader_after_a_stop_and_a_restart_from_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            first = await cluster.leader()
            await first.propose([BARRIER])
            before = first.applied_index
            await cluster.stop(first.node_id)
            second = await cluster.leader()
            assert second.term > first.term
            await second.propose([BARRIER])
            await cluster.start(first.node_id)
            again = cluster.nodes[first.node_id]
            assert again.applied_index >= before
            await again.propose([BARRIER])
            await until(lambda: again.applied_index == second.applied_index)

    asyncio.run(scenario())


def test_handing_over_is_fast_and_nothing_waits_for_a_timeout(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            leader = await cluster.leader()
            roles: list[bool] = []
            leader.subscribe_role(lambda: roles.append(leader.leading))
            await until(lambda: all(p.match_index == leader.last_index for p in leader.peers()))
            leader.step_down()
            assert await leader.propose([BARRIER]) == [Accepted()]
            assert roles[0] is False

    asyncio.run(scenario())


def test_a_single_node_is_a_cluster(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, "a") as cluster:
            await cluster.start()
            leader = await cluster.leader()
            for _ in range(20):
                assert await leader.propose([BARRIER]) == [Accepted()]
                assert leader.applied_index == leader.last_index  # reads show what was done
            assert leader.quorum_sent_at_ms() is not None
            assert leader.peers() == []
            before = leader.last_index
            for bad in (b"", b"\xc1", encode(Idempotent(b"k", b"d", b"\xc1"))):
                with pytest.raises(msgspec.DecodeError):
                    await leader.propose([BARRIER, bad])
                with pytest.raises(msgspec.DecodeError):
                    leader.submit([bad])
            assert leader.last_index == before

    asyncio.run(scenario())


def test_without_a_majority_nothing_is_accepted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start("a")
            node = cluster.nodes["a"]
            with pytest.raises(NoLeader):
                await node.propose([BARRIER], timeout=0.1)
            assert not node.formed

    asyncio.run(scenario())


def test_messages_between_rooms_reach_peers_and_oneself(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, "ab") as cluster:
            await cluster.start()
            await cluster.leader()
            got: list[tuple[str, str, bytes]] = []
            for name, node in cluster.nodes.items():
                node.on_message("grant", lambda peer, payload, name=name: got.append((name, peer, payload)))  # type: ignore[misc]
            a, b = cluster.nodes["a"], cluster.nodes["b"]
            assert b.send("a", "grant", b"1")
            assert a.send("a", "grant", b"2")
            assert not a.send("z", "grant", b"3")
            assert a.send("b", "unknown kind", b"4")
            await until(lambda: len(got) == 2)
            assert sorted(got) == [("a", "a", b"2"), ("a", "b", b"1")]

    asyncio.run(scenario())


def test_a_disk_error_stops_the_node_and_says_so_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, "a") as cluster:
            await cluster.start()
            node = await cluster.leader()

            def broken(batch: object) -> None:
                raise OSError(28, "No space left on device")

            cluster.stores["a"].write = broken  # type: ignore[method-assign, assignment]
            with pytest.raises(RaftschedError) as error:
                await node.propose([BARRIER])
            assert error.value.code in ("no-leader", "unknown-outcome")
            assert [type(e) for e in cluster.fatal] == [OSError]
            assert not node.is_leader
            with pytest.raises(NoLeader):
                await node.propose([BARRIER])

    asyncio.run(scenario())


def test_a_disk_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, "a") as cluster:
            store = Store.open(tmp_path / "a", sync=False)

            def broken(batch: object) -> None:
                raise OSError(28, "No space left on device")

            store.write = broken  # type: ignore[method-assign, assignment]
            peers = cluster.addresses
            node = Raft(
                store, "a", peers["a"], peers, None, Keyring(), SystemClock(), random.Random(), "", options=FAST
            )
            with pytest.raises(StartupError, match="No space left"):
                await node.start()
            store.close()

    asyncio.run(scenario())


def test_an_occupied_port_stops_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        with listening() as taken:
            taken.listen()
            store = Store.open(tmp_path, sync=False)
            peers = {"a": address_of(taken)}
            node = Raft(
                store, "a", peers["a"], peers, None, Keyring(), SystemClock(), random.Random(), "", options=FAST
            )
            with pytest.raises(StartupError, match="cannot be listened on"):
                await node.start()
            store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("peers", "bind", "why"),
    [
        (
            {"a": "10.0.0.1:1", "b": "127.0.0.1:2"},
            "127.0.0.1:1",
            "10.0.0.1:1 is not on this machine's loopback",
        ),
        ({"a": "127.0.0.1:1"}, "0.0.0.0:1", "0.0.0.0:1 is not on"),
        ({"a": "nonsense"}, "127.0.0.1:1", "write host:port"),
        ({"b": "127.0.0.1:1"}, "127.0.0.1:1", "has no node 'a'"),
    ],
)
def test_a_bad_configuration_stops_the_start(tmp_path: Path, peers: dict[str, str], bind: str, why: str) -> None:
    store = Store.open(tmp_path, sync=False)
    try:
        with pytest.raises(StartupError, match=why):
            Raft(store, "a", bind, peers, None, Keyring(), SystemClock(), random.Random(), "")
    finally:
        store.close()


async def compacted(leader: Raft, store: Store) -> None:
    """Commits entries until the log of the leader lacks ten at the least: a checkpoint of its tables has them."""
    async with asyncio.timeout(patient(PATIENCE_S)):
        while store.log_bounds()[0] <= 10:
            await leader.propose([BARRIER])


def test_a_follower_far_behind_gets_a_snapshot(tmp_path: Path) -> None:
    async def scenario() -> None:
        options = replace(FAST, keep_entries=2, snapshot_chunk_bytes=300)
        async with Cluster(tmp_path, options=options) as cluster:
            await cluster.start()
            leader = await cluster.leader()
            last = next(name for name in "abc" if name != leader.node_id)
            await cluster.stop(last)
            await compacted(leader, cluster.stores[leader.node_id])
            await cluster.start(last)
            behind = cluster.nodes[last]
            await until(lambda: behind.applied_index == leader.applied_index)
            assert cluster.stores[last].log_bounds()[0] > 10, "its log begins behind the snapshot"
            await behind.propose([BARRIER])

    asyncio.run(scenario())


def test_a_snapshot_goes_on_where_its_connection_broke(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        options = replace(FAST, keep_entries=2, snapshot_chunk_bytes=200, snapshot_window_bytes=400)
        async with Cluster(tmp_path, options=options) as cluster:
            await cluster.start()
            leader = await cluster.leader()
            last = next(name for name in "abc" if name != leader.node_id)
            await cluster.stop(last)
            await compacted(leader, cluster.stores[leader.node_id])
            await cluster.start(last)
            behind = cluster.nodes[last]
            installer = behind._replica.installer
            await until(lambda: installer.incoming is not None and installer.incoming.written > 8_000)
            behind._transport._links[leader.node_id].close("the test wants it")
            await until(lambda: behind.applied_index == leader.applied_index)

    with caplog.at_level(logging.INFO, logger="raftsched.raft.snapshots.sender"):
        asyncio.run(scenario())
    starts = [int(r.message.rpartition(" ")[2]) for r in caplog.records if "is being sent" in r.message]
    assert starts[0] == 0
    assert starts[-1] > 8_000
    assert len(starts) == 2


def test_a_data_directory_that_was_copied_back_is_refused_until_it_is_emptied(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            leader = await cluster.leader()
            name = next(n for n in cluster.nodes if n != leader.node_id)
            await cluster.stop(name)
            shutil.copytree(tmp_path / name, tmp_path / "copy")
            await cluster.start(name)
            await until(lambda: all(node.leader_id for node in cluster.nodes.values()))
            await leader.propose([BARRIER])
            await cluster.stop(name)
            shutil.rmtree(tmp_path / name)
            shutil.copytree(tmp_path / "copy", tmp_path / name)
            await cluster.start(name)
            await until(lambda: cluster.nodes[name].outside)
            assert "went back" in str(cluster.nodes[name].outside)
            await until(lambda: any(request.rolled_back for request in leader.join_requests()))
            await leader.propose([BARRIER])  # the others go on
            await cluster.stop(name)
            shutil.rmtree(tmp_path / name)
            await cluster.start(name)
            await until(lambda: [k.node for k in leader.join_requests() if not k.rolled_back] == [name])
            await leader.change_members("replace", name)
            await until(lambda: cluster.nodes[name].applied_index >= leader.applied_index)
            assert not cluster.fatal

    asyncio.run(scenario())


def test_nobody_proposes_what_is_of_a_later_level_than_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even a node that is not the leader; and it may when the level has risen."""

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            leader = await cluster.leader()
            with monkeypatch.context() as newer:
                newer.setitem(HISTORY, newest_level() + 1, "barriers")
                newer.setitem(SINCE, Barrier, newest_level())
                answers: list[object] = []
                for node in cluster.nodes.values():
                    assert await node.propose([BARRIER, BARRIER]) == [UNKNOWN, UNKNOWN]
                    node.propose_then([BARRIER], 5.0, lambda given, _: answers.append(given))
                    assert answers.pop() == [UNKNOWN]
                    last = leader.last_index
                    node.submit([BARRIER])
                    assert "is not proposed" in caplog.text
                    caplog.clear()
                assert leader.last_index == last
                await leader.propose([encode(RaiseLevel(newest_level()))])
                for node in cluster.nodes.values():
                    await until(lambda node=node: node.applied_index >= leader.applied_index)
                    assert await node.propose([BARRIER]) == [Accepted()]

    asyncio.run(scenario())


def test_a_data_directory_of_a_later_level_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the log ends before the entry that raised the level is applied again."""

    async def scenario() -> None:
        async with Cluster(tmp_path, "a") as cluster:
            await cluster.start()
            leader = await cluster.leader()
            with monkeypatch.context() as newer:
                newer.setitem(HISTORY, newest_level() + 1, "nothing yet")
                assert await leader.propose([encode(RaiseLevel(newest_level()))]) == [Accepted()]
                await cluster.stop("a")
            with pytest.raises(StartupError, match=f"of level {newest_level() + 1}"):
                Store.open(tmp_path / "a")

    asyncio.run(scenario())

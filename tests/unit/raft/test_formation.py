"""Identity, formation and admission."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from raftsched.core.model import Member, Meta
from raftsched.core.tables import Table
from raftsched.errors import StartupError
from raftsched.raft import codec
from raftsched.raft.formation import Formation, peers_hash
from raftsched.raft.guards import ALL, Guards
from tests.support.raft_net import Net
from tests.support.raft_replica import Solo, disk, hello
from tests.support.raft_store import MemoryStore

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])

PEERS = {name: f"127.0.0.1:{4000 + ord(name)}" for name in "abc"}


def formation(node: str = "b", guards: Guards = ALL, **own: bytes) -> Formation:
    made = Formation(node, PEERS, "", random.Random(), guards)
    made.load(own.get, Meta())
    return made


def stranger(node: str, **changes: object) -> codec.Hello:
    return hello(node, peers_hash=peers_hash(list(PEERS)), **changes)


def test_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    b = Solo(tmp_path, armed=False)
    made = b.store.own["store_id"]
    assert len(made) == 16
    assert b.store.own["node_id"] == b"b"
    again = Solo(tmp_path, store=b.store, armed=False)
    assert again.replica.formation.store_id == made


def test_a_node_does_not_campaign_or_vote_before_all_were_seen_empty(tmp_path: Path) -> None:
    b = Solo(tmp_path, armed=False)
    b.replica.connected(stranger("a"), 1)
    b.settle()
    b.pass_time(3.0)
    b.feed("a", codec.VoteRequest(1, 0, 0), codec.PreVoteRequest(1, 0, 0, 1))
    assert b.engine.term == 0
    assert not any(f.granted for f in b.take(codec.PreVoteAnswer))
    b.replica.connected(stranger("c"), 2)
    b.settle()
    assert msgspec.msgpack.decode(b.store.own["remembered"]) == {
        "a": disk("a"),
        "b": b.store.own["store_id"],
        "c": disk("c"),
    }
    b.feed("a", codec.VoteRequest(1, 0, 0))
    assert [f.granted for f in b.take(codec.VoteAnswer)] == [True]


def test_an_empty_node_among_others_waits(tmp_path: Path) -> None:
    b = Solo(tmp_path, armed=False)
    b.replica.connected(stranger("a", empty=False), 1)
    b.replica.connected(stranger("c"), 2)
    b.settle()
    b.pass_time(3.0)
    assert b.engine.term == 0
    assert "remembered" not in b.store.own


def test_a_node_that_others_counted_in_joins_them(tmp_path: Path) -> None:
    """Killed between being seen and remembering: its disk is the one they saw."""
    b = Solo(tmp_path, armed=False)
    known = {"a": disk("a"), "b": b.store.own["store_id"], "c": disk("c")}
    b.replica.connected(stranger("a", empty=False, remembered=known), 1)
    b.settle()
    assert b.replica.may_vote()
    assert msgspec.msgpack.decode(b.store.own["remembered"]) == known


@both
def test_a_wiped_disk_is_refused_and_does_not_vote(tmp_path: Path, guarded: bool) -> None:
    guards = Guards(wiped_disk_refused=guarded)
    a = Solo(tmp_path, guards, node="a")
    wiped = Solo(tmp_path, guards, armed=False)  # b, once more, with another disk
    reason = a.replica.formation.refusal(wiped.replica.hello())
    assert (reason is not None) is guarded
    if guarded:
        assert "another disk" in str(reason)
        assert "replace the member" in str(reason)
    for peer in "ac":
        wiped.replica.connected(stranger(peer, empty=False), 1)
    wiped.feed("c", codec.VoteRequest(7, 5, 6))
    assert any(f.granted for f in wiped.take(codec.VoteAnswer)) is not guarded


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"node": "x"}, "not in the peer list"),
        ({"node": "b"}, "not in the peer list"),
        ({"protocol": 99}, "protocol 99"),
        ({"peers_hash": b"other"}, "another peer list"),
        ({"store_id": b"z" * 16}, "another disk"),
        ({"remembered": {"b": b"z" * 16}}, "knows this node with another disk"),
    ],
)
def test_who_is_refused(changes: dict[str, object], why: str) -> None:
    known = msgspec.msgpack.encode({name: disk(name) for name in "abc"})
    b = formation(node_id=b"b", store_id=disk("b"), remembered=known)
    assert b.refusal(stranger("a")) is None
    assert why in str(b.refusal(msgspec.structs.replace(stranger("a"), **changes)))


def test_another_cluster_is_refused() -> None:
    b = formation()
    b.read_members(Meta(cluster_id=b"1" * 16, members=tuple(Member(n, PEERS[n], disk(n)) for n in "abc")))
    assert b.refusal(stranger("a", cluster_id=b"1" * 16)) is None
    assert "another cluster" in str(b.refusal(stranger("a", cluster_id=b"2" * 16)))


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"node_id": b"z", "store_id": disk("z")}, "belongs to node 'z'"),
        (
            {
                "node_id": b"b",
                "store_id": disk("b"),
                "remembered": msgspec.msgpack.encode({"a": b"", "b": b""}),
            },
            "was forming a cluster of a, b",
        ),
    ],
)
def test_a_data_directory_of_somebody_else_stops_the_start(own: dict[str, bytes], why: str) -> None:
    with pytest.raises(StartupError, match=why):
        formation(**own)


def test_a_disk_that_the_cluster_does_not_know_stops_the_start() -> None:
    made = Formation("b", PEERS, "", random.Random(), ALL)
    meta = Meta(cluster_id=b"1" * 16, members=tuple(Member(n, PEERS[n], disk(n)) for n in "abc"))
    with pytest.raises(StartupError, match="another disk"):
        made.load({"node_id": b"b", "store_id": b"?" * 16}.get, meta)


def test_the_peer_list_must_name_this_node() -> None:
    with pytest.raises(StartupError, match="has no node 'x'"):
        Formation("x", PEERS, "", random.Random(), ALL)


def test_members_come_from_the_state_once_formed(tmp_path: Path) -> None:
    net = Net(tmp_path, random.SystemRandom().getrandbits(32))
    assert net.run(20.0, lambda: net.leader() is not None)
    net.run(1.0)
    for name, store in net.stores.items():
        meta = msgspec.msgpack.decode(store.tables[Table.META][b"meta"], type=Meta)
        assert {m.node: m.store_id for m in meta.members} == {n: s.own["store_id"] for n, s in net.stores.items()}
        assert net.nodes[name].replica.formation.cluster_id == meta.cluster_id


def test_a_wiped_member_stays_out_and_the_others_go_on(tmp_path: Path) -> None:
    net = Net(tmp_path, random.SystemRandom().getrandbits(32))
    assert net.run(20.0, lambda: net.leader() is not None)
    net.kill("b")
    net.stores["b"] = MemoryStore()
    net.start("b")
    number = net.propose("a", timeout=10.0)
    assert net.run(10.0, lambda: number in net.acknowledged)
    net.run(3.0)
    assert net.stores["b"].applied_index == 0
    assert net.nodes["b"].replica.engine.term == 0

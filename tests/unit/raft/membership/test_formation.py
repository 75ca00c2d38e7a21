"""Identity, formation and admission."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import msgspec
import pytest

from raftsched.core.subjects.cluster import Member, Meta
from raftsched.errors import StartupError
from raftsched.raft import codec
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.membership.formation import ADDRESSES_MAX, Formation, peers_hash
from raftsched.raft.options import RaftOptions
from tests.support.raft_replica import ManualWriter, Solo, disk, hello

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])

PEERS = {name: f"127.0.0.1:{4000 + ord(name)}" for name in "abc"}


def formation(node: str = "b", guards: Guards = ALL, **own: bytes) -> Formation:
    made = Formation(node, PEERS, "", random.Random(), guards)
    made.load(own.get, Meta())
    return made


def stranger(node: str, **changes: object) -> codec.Hello:
    return hello(node, peers_hash=peers_hash(list(PEERS)), **changes)


def test_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    b = Solo(tmp_path, is_member=False)
    made = b.store.own["store_id"]
    assert len(made) == 16
    assert b.store.own["node_id"] == b"b"
    again = Solo(tmp_path, store=b.store, is_member=False)
    assert again.replica.formation.store_id == made


def test_a_node_does_not_campaign_or_vote_before_all_were_seen_empty(tmp_path: Path) -> None:
    b = Solo(tmp_path, is_member=False)
    b.replica.connected(stranger("a"), 1)
    b.settle()
    b.pass_time(3.0)
    b.feed("a", codec.VoteRequest(1, 0, 0), codec.PreVoteRequest(1, 0, 0, 1))
    assert b.engine.term == 0
    assert not any(f.granted for f in b.take(codec.PreVoteAnswer))
    b.replica.connected(stranger("c"), 2)
    b.settle()
    assert msgspec.msgpack.decode(b.store.own["remembered"]) == seen_by(b)


def seen_by(b: Solo) -> dict[str, bytes]:
    """The disks that a new cluster of a, b, c begins with."""
    return {"a": disk("a"), "b": b.store.own["store_id"], "c": disk("c")}


def votes(b: Solo) -> bool:
    b.feed("a", codec.VoteRequest(1, 0, 0))
    return any(f.granted for f in b.take(codec.VoteAnswer))


@both
def test_a_node_votes_when_all_others_said_that_they_remember_the_same_disks(tmp_path: Path, guarded: bool) -> None:
    """What it saw of one of them may have been long out of date."""
    b = Solo(tmp_path, Guards(formed_by_all=guarded), is_member=False)
    b.replica.connected(stranger("a"), 1)
    b.replica.connected(stranger("c"), 1)
    b.settle()
    b.pass_time(3.0)
    assert votes(b) is not guarded
    b.feed("a", stranger("a", remembered=seen_by(b)))
    b.feed("c", stranger("c", remembered={**seen_by(b), "a": b"another one of a"}))
    assert votes(b) is not guarded
    assert "agreed" not in b.store.own
    b.feed("c", stranger("c", remembered=seen_by(b)))
    assert "agreed" in b.store.own
    assert votes(b) or not guarded
    again = b.crash(tmp_path)
    assert again.replica.may_vote(), "a majority suffices from then on"


def test_who_votes_from_now_on_elects_at_once(tmp_path: Path) -> None:
    """However long the others took to come: until then it has tried nothing."""
    options = RaftOptions()
    b = Solo(tmp_path, options=options, is_member=False)
    for peer in "ac":
        b.replica.connected(stranger(peer), 1)
    b.settle()
    b.pass_time(5 * options.election_max_ms / 1000)
    for peer in "ac":
        b.feed(peer, stranger(peer, remembered=seen_by(b)))
    b.sent.clear()
    b.pass_time(options.election_lost_min_ms / 1000 + 0.02)
    assert b.take(codec.PreVoteRequest, "c")
    b.pass_time(options.election_lost_max_ms / 1000 + 0.02)
    assert b.take(codec.PreVoteRequest, "c"), "the others may have heard of it a moment later"


def test_that_all_remember_the_same_disks_is_on_the_disk_before_the_first_vote(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, is_member=False, writer=writer)
    writer.run()
    for peer in "ac":
        b.replica.connected(stranger(peer, remembered=seen_by(b)), 1)
    b.settle()
    assert not b.replica.hello().remembered
    writer.run_one()  # the disks
    b.settle()
    assert b.replica.hello().remembered == seen_by(b)
    assert not b.replica.may_vote()
    writer.run_one()
    assert b.replica.may_vote()
    assert b.replica.hello().agreed


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ({"agreed": True}, True),
        ({"formed": True, "cluster_id": b"1" * 16, "configuration": 9}, True),
        ({"formed": True, "cluster_id": b"1" * 16, "learners": ["b"]}, False),
        ({"formed": True, "cluster_id": b"1" * 16, "remembered": {"a": disk("a"), "b": b"?" * 16}}, False),
        ({}, False),
    ],
    ids=["knows", "formed", "formed, this one catches up", "formed with another disk", "remembers"],
)
def test_who_was_killed_in_between_hears_it_from_one_that_knows(
    tmp_path: Path, said: dict[str, object], counts: bool
) -> None:
    """The others went on without it, and may need its vote to go on once more."""
    b = Solo(tmp_path, is_member=False)
    for peer in "ac":
        b.replica.connected(stranger(peer), 1)
    b.settle()
    again = b.crash(tmp_path)
    again.replica.connected(stranger("a", **{"empty": False, "remembered": seen_by(b), **said}), 1)
    again.settle()
    assert again.replica.may_vote() is counts


def test_members_of_a_formed_cluster_vote_without_that_record() -> None:
    """Their data directories may be older than it."""
    assert formed().may_vote
    alone = Formation("b", {"b": PEERS["b"]}, "", random.Random(), ALL)
    old = {"node_id": b"b", "store_id": disk("b"), "remembered": msgspec.msgpack.encode({"b": disk("b")})}
    assert "agreed" in alone.load(old.get, Meta())
    assert alone.may_vote


@both
def test_two_machines_under_one_id_form_nothing(guarded: bool) -> None:
    """One node meets the first and one the other, as by a name with two addresses. With votes for whoever was seen, two
    leaders are elected in term 1: each of the two nodes by its own one."""
    a, b, c, twin = made = [formation(node, Guards(formed_by_all=guarded)) for node in "abcc"]
    assert c.store_id != twin.store_id
    pairs = [(a, b), (a, c), (b, twin)]
    for _ in range(4):
        said = {one: one.hello(True) for one in made}  # all speak in the same moment
        for one, other in [*pairs, *((other, one) for one, other in pairs)]:
            if one.refusal(said[other]) is None:
                disks = one.connected(said[other])
                if disks is not None:
                    one.remember_disks(disks)
                    one.is_member = True
                one.agreed = one.agreed or one.all_remember()
    voting = [one.may_vote for one in made]
    assert voting == [not guarded] * 4
    assert a.remembered["c"] != b.remembered["c"]
    assert "two machines were started as 'c'" in str(a.refusal(b.hello(True)))


def test_who_is_missing_before_a_vote_is_told() -> None:
    b = formation()
    for peer in "ac":
        disks = b.connected(stranger(peer))
    assert disks is not None
    b.remember_disks(disks)
    b.is_member = True
    assert b.not_agreed_yet == ["a", "c"]
    b.connected(stranger("a", remembered=b.remembered))
    assert not b.all_remember()
    assert b.not_agreed_yet == ["c"]


def test_an_empty_node_among_others_waits(tmp_path: Path) -> None:
    b = Solo(tmp_path, is_member=False)
    b.replica.connected(stranger("a", empty=False), 1)
    b.replica.connected(stranger("c"), 2)
    b.settle()
    b.pass_time(3.0)
    assert b.engine.term == 0
    assert "remembered" not in b.store.own


def test_a_node_that_others_counted_in_joins_them(tmp_path: Path) -> None:
    """Killed between being seen and remembering: its disk is the one they saw."""
    b = Solo(tmp_path, is_member=False)
    known = {"a": disk("a"), "b": b.store.own["store_id"], "c": disk("c")}
    b.replica.connected(stranger("a", empty=False, remembered=known), 1)
    b.settle()
    assert msgspec.msgpack.decode(b.store.own["remembered"]) == known
    assert not b.replica.may_vote(), "c has said nothing yet"
    b.replica.connected(stranger("c", empty=False, remembered=known), 1)
    b.settle()
    assert b.replica.may_vote()


@pytest.mark.parametrize(("learners", "counts"), [([], True), (["b"], False)], ids=["voter", "catches up"])
def test_a_voter_that_formed_nothing_itself_may_be_the_one_that_is_missing(
    tmp_path: Path, learners: list[str], counts: bool
) -> None:
    """The others formed the cluster with it, and one of them is gone: the last one needs its vote. A disk that replaced
    another one is no such voter."""
    b = Solo(tmp_path, is_member=False)
    known = {"a": disk("a"), "b": b.store.own["store_id"], "c": disk("c")}
    a = stranger("a", empty=False, formed=True, cluster_id=b"1" * 16, remembered=known, learners=learners)
    b.replica.connected(a, 1)
    b.settle()
    assert b.replica.may_vote() is counts


@both
def test_a_wiped_disk_is_refused_and_does_not_vote(tmp_path: Path, guarded: bool) -> None:
    guards = Guards(wiped_disk_refused=guarded)
    a = Solo(tmp_path, guards, node="a")
    wiped = Solo(tmp_path, guards, is_member=False)  # b, once more, with another disk
    reason = a.replica.formation.refusal(wiped.replica.hello())
    assert (reason is not None) is guarded
    if guarded:
        assert "another disk" in str(reason)
        assert "members replace b" in str(reason)
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
    b.follow_state(Meta(cluster_id=b"1" * 16))
    b.follow(tuple(Member(n, PEERS[n], disk(n)) for n in "abc"), 0)
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


def test_a_disk_that_the_cluster_does_not_know_waits_without_a_vote() -> None:
    made = Formation("b", PEERS, "", random.Random(), ALL)
    meta = Meta(cluster_id=b"1" * 16, members=tuple(Member(n, PEERS[n], disk(n)) for n in "abc"))
    made.load({"node_id": b"b", "store_id": b"?" * 16}.get, meta)
    made.follow(made.applied_members(meta), 0)
    assert not made.is_member
    assert "members replace b" in str(made.refusal(stranger("a", remembered={n: disk(n) for n in "abc"})))


def formed(node: str = "b") -> Formation:
    """A member of a, b, c, by the configuration at entry 20."""
    made = formation(node, node_id=node.encode(), store_id=disk(node))
    made.follow_state(Meta(cluster_id=b"1" * 16))
    made.follow(tuple(Member(n, PEERS[n], disk(n)) for n in "abc"), 20)
    return made


@pytest.mark.parametrize(
    ("changes", "let_in"),
    [
        ({}, True),
        ({"configuration": 20}, False),  # not newer: it was removed
        ({"remembered": {"a": disk("a")}}, False),  # does not count us
        ({"remembered": {"b": b"?" * 16}}, False),
        ({"formed": False}, False),
        ({"cluster_id": b"2" * 16}, False),
    ],
)
@pytest.mark.parametrize("node", ["d", "a"], ids=["unknown", "another disk"])
def test_who_has_a_newer_configuration_with_us_in_it_is_let_in(
    node: str, changes: dict[str, object], let_in: bool
) -> None:
    """It may be the leader that a member which fell behind has never heard of."""
    members = {"a": disk("a"), "b": disk("b"), "d": disk("d")}
    base: dict[str, object] = {"cluster_id": b"1" * 16, "formed": True, "remembered": members, "configuration": 30}
    peer = stranger(node, **{"store_id": b"new disk of it 1", **base, **changes})
    assert (formed().refusal(peer) is None) is let_in


@pytest.mark.parametrize(
    ("configuration", "let_in"), [(10, True), (20, False), (30, False)], ids=["older", "the same", "newer"]
)
def test_a_member_that_is_behind_may_know_this_node_by_its_old_disk(configuration: int, let_in: bool) -> None:
    """It learns of the new one from the log, which it may get from nobody else but this node."""
    remembered = {"a": disk("a"), "b": b"old disk of b 12", "c": disk("c")}
    peer = stranger("a", cluster_id=b"1" * 16, formed=True, remembered=remembered, configuration=configuration)
    assert (formed().refusal(peer) is None) is let_in


@pytest.mark.parametrize("node", ["d", "c"])
def test_a_refused_member_to_be_knocks(node: str) -> None:
    b = formed()
    peer = stranger(node, store_id=b"new disk of it 1", raft="127.0.0.1:9")
    assert b.refusal(peer) is not None
    assert b.may_join(peer)
    assert not b.may_join(stranger("c", cluster_id=b"2" * 16)), "another cluster's"
    assert not b.may_join(stranger("c")), "is a member"


def test_a_new_node_hears_from_one_member_where_the_others_are() -> None:
    members = {n: disk(n) for n in "abc"}
    told = formed("a").hello(False)
    assert told.addresses == {n: PEERS[n] for n in "abc"}
    d = Formation("d", {"a": PEERS["a"], "d": "127.0.0.1:9"}, "", random.Random(), ALL, join=True)
    d.load({}.get, Meta())
    assert d.learn_addresses(msgspec.structs.replace(told, remembered=members))
    assert d.dial_addresses() == {n: PEERS[n] for n in "abc"}
    assert not d.learn_addresses(told), "nothing new"
    assert not formed().learn_addresses(msgspec.structs.replace(told, addresses={"x": "127.0.0.1:8"}))


def test_a_new_node_keeps_few_addresses_and_only_such_as_can_be_dialled() -> None:
    d = Formation("d", {"a": PEERS["a"], "d": "127.0.0.1:9"}, "", random.Random(), ALL, join=True)
    d.load({}.get, Meta())
    told = formed("a").hello(False)
    bad = {"b": "nonsense", "": "127.0.0.1:8", "x" * 65: "127.0.0.1:8"}
    assert not d.learn_addresses(msgspec.structs.replace(told, addresses=bad))
    for i in range(100):
        d.learn_addresses(msgspec.structs.replace(told, addresses={f"x{i}": "127.0.0.1:8"}))
    assert len(d.addresses) == ADDRESSES_MAX


@pytest.mark.parametrize(
    "changes", [{"raft": ""}, {"raft": "nonsense"}, {"store_id": b""}, {"node": "d" * 65}, {"node": ""}]
)
def test_a_node_that_could_not_be_a_member_does_not_knock(changes: dict[str, object]) -> None:
    """Its address and disk would stand in the configuration of every node."""
    peer = stranger("d", raft="127.0.0.1:9")
    assert formed().may_join(peer)
    assert not formed().may_join(msgspec.structs.replace(peer, **changes))


@pytest.mark.parametrize("members, said", [("a", "the peer list has b, c, no member"), ("abc", ""), ("abcd", "")])
def test_who_is_on_the_list_and_no_member_is_told(members: str, said: str, caplog: pytest.LogCaptureFixture) -> None:
    """A restored node is the only member; those that were restored as well it never meets."""
    formation = Formation("a", {n: f"{n}:1" for n in "abc"}, "", random.Random(), ALL, False)
    rows = tuple(Member(n, f"{n}:1", disk(n)) for n in members)
    own = {"node_id": b"a", "store_id": disk("a"), "remembered": msgspec.msgpack.encode({n: disk(n) for n in members})}
    with caplog.at_level(logging.WARNING):
        formation.load(own.get, Meta(cluster_id=b"x", members=rows))
    assert (said in caplog.text) if said else not caplog.text

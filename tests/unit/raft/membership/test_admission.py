"""What a node that takes no part tells its operator."""

from __future__ import annotations

import logging
import random

import msgspec
import pytest

from raftsched.core.subjects.cluster import Member, Meta
from raftsched.raft import codec
from raftsched.raft.guards import ALL
from raftsched.raft.membership.admission import FRESH_S, Admission
from raftsched.raft.membership.formation import Formation
from raftsched.raft.membership.join_requests import JoinRequests
from tests.support.clock import ManualClock
from tests.support.raft_replica import disk, hello

CLUSTER = b"1" * 16
PEERS = {name: f"127.0.0.1:{4000 + ord(name)}" for name in "abcd"}
MEMBERS = {name: disk(name) for name in "abc"}


def make(node: str, *, join: bool = False, members: str = "", at: int = 0) -> tuple[Admission, ManualClock]:
    formation = Formation(node, PEERS, "", random.Random(), ALL, join)
    rows = tuple(Member(n, PEERS[n], disk(n)) for n in members)
    meta = Meta(cluster_id=CLUSTER, members=rows) if rows else Meta()
    formation.load({"node_id": node.encode(), "store_id": disk(node)}.get, meta)
    if rows:
        formation.follow(rows, at)
    clock = ManualClock()
    return Admission(formation, clock, JoinRequests(clock)), clock


def member(node: str, **remembered: bytes) -> codec.Hello:
    return hello(node, formed=True, cluster_id=CLUSTER, remembered=remembered, configuration=10)


def test_a_new_node_is_told_how_to_get_in_and_says_it_once(caplog: pytest.LogCaptureFixture) -> None:
    standing, clock = make("d", join=True)
    assert "no member of the cluster has answered yet" in standing.waits_for([], [])
    assert "a, b, c" in standing.waits_for([], [])
    with caplog.at_level(logging.WARNING):
        for peer in "aba":
            standing.heard(member(peer, **MEMBERS))
    assert "raftsched cluster members add d" in standing.waits_for([], [])
    assert len(caplog.records) == 1
    clock.forward(1000 * (FRESH_S + 1))
    assert "no member of the cluster has answered yet" in standing.waits_for([], [])


def test_a_lost_disk_is_told_to_be_replaced_whatever_else_is_said() -> None:
    standing, _ = make("c")
    standing.heard(member("a", a=disk("a"), b=disk("b")))
    standing.heard(member("b", **{**MEMBERS, "c": b"o" * 16}))
    said = standing.waits_for([], [])
    assert "another disk" in said
    assert disk("c").hex()[:8] in said
    assert (b"o" * 16).hex()[:8] in said
    assert "raftsched cluster members replace c" in said


def test_a_removed_node_learns_it_from_those_that_refuse_it(caplog: pytest.LogCaptureFixture) -> None:
    standing, _ = make("c", members="abc")
    for connected, says in ((["a"], "c reaches a, and not b;"), ([], "c reaches neither a nor b;")):
        assert says in standing.waits_for(connected, ["a", "b", "c"])
    assert "c does not reach a;" in standing.waits_for([], ["a", "c"])
    with caplog.at_level(logging.WARNING):
        standing.heard(member("a", a=disk("a"), b=disk("b")))
    assert "was removed" in standing.waits_for([], ["a", "b", "c"])
    assert "was removed" in caplog.text
    standing.heard(member("a", **MEMBERS))
    assert "was removed" not in standing.waits_for([], ["a", "b", "c"]), "taken in again"


def test_what_was_said_before_a_node_was_let_in_is_forgotten() -> None:
    """Taken back, it refused what it was asked while leadership was handed over, as if it were still outside."""
    standing, _ = make("c", members="abc")
    standing.heard(member("a", a=disk("a"), b=disk("b")))
    assert "was removed from the cluster" in (standing.refusal or "")
    standing.tick(None)
    assert standing.refusal is not None
    standing.tick("b")
    assert standing.refusal is None
    standing.heard(member("a", a=disk("a"), b=disk("b")))
    assert "was removed from the cluster" in (standing.refusal or ""), "and it may be removed again"


def test_the_word_of_who_is_behind_counts_for_nothing() -> None:
    standing, _ = make("c", members="abc", at=9)
    late = msgspec.structs.replace(member("a", **{**MEMBERS, "c": b"o" * 16}), configuration=4)
    standing.heard(late)
    assert standing.refusal is None
    standing.heard(msgspec.structs.replace(late, configuration=12))
    assert "another disk" in str(standing.refusal)


def test_the_word_of_others_that_know_nothing_counts_for_nothing() -> None:
    standing, _ = make("c", members="abc")
    standing.heard(hello("a"))
    standing.heard(hello("b", formed=True, cluster_id=CLUSTER))
    standing.heard(hello("d", formed=True, cluster_id=b"2" * 16, remembered={"d": disk("d")}))
    assert standing.refusal is None


def test_who_is_missing_when_a_cluster_forms() -> None:
    standing, _ = make("a")
    assert "missing: b, d" in standing.waits_for(["c"], [])
    assert "all are connected" in standing.waits_for(["b", "c", "d"], [])


def test_who_has_not_confirmed_the_disks_when_a_cluster_forms() -> None:
    standing, _ = make("a")
    formation = standing._formation
    for peer in "bcd":
        disks = formation.connected(hello(peer))
    assert disks is not None
    formation.remember_disks(disks)
    formation.is_member = True
    formation.connected(hello("b", remembered=formation.remembered))
    assert not formation.all_remember()
    assert "not heard from yet: c, d." in standing.waits_for(["b", "c", "d"], [])


def test_a_node_that_was_moved_says_so_while_it_has_no_leader() -> None:
    standing, _ = make("c", members="abc", at=5)
    assert "and the members know it at" not in standing.waits_for([], ["a", "b", "c"])
    formation = Formation("c", {**PEERS, "c": "127.0.0.1:9001"}, "", random.Random(), ALL)
    rows = tuple(Member(n, PEERS[n], disk(n)) for n in "abc")
    formation.load({"node_id": b"c", "store_id": disk("c")}.get, Meta(cluster_id=CLUSTER, members=rows))
    formation.follow(rows, 5)
    clock = ManualClock()
    said = Admission(formation, clock, JoinRequests(clock)).waits_for([], ["a", "b", "c"])
    assert f"c is at 127.0.0.1:9001, and the members know it at {PEERS['c']}" in said
    assert "--peers" in said

"""A disk that went back to an earlier state, and two processes on copies of one disk."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftsched.core.subjects.cluster import Member, Meta
from raftsched.raft import codec
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.membership.admission import Admission
from raftsched.raft.membership.formation import Formation
from raftsched.raft.membership.incarnations import KEPT, is_continuation
from raftsched.raft.membership.join_requests import JoinRequests
from tests.support.clock import ManualClock
from tests.support.raft_replica import Solo, disk, hello
from tests.unit.raft.house import Leader, code

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])

PEERS = {name: f"127.0.0.1:{4000 + ord(name)}" for name in "abc"}
META = Meta(cluster_id=b"1" * 16, members=tuple(Member(n, PEERS[n], disk(n)) for n in "abc"))


class Disk:
    """Own records of a member of a, b, c."""

    def __init__(self, node: str, own: dict[str, bytes] | None = None) -> None:
        self.node = node
        self.own = own or {"node_id": node.encode(), "store_id": disk(node)}

    def copy(self) -> Disk:
        return Disk(self.node, dict(self.own))

    def write(self, records: dict[str, bytes | None]) -> None:
        self.own |= {name: value for name, value in records.items() if value is not None}

    def start(self, guards: Guards = ALL) -> Formation:
        made = Formation(self.node, PEERS, "", random.Random(), guards)
        self.write(made.load(self.own.get, META))
        made.follow(META.members, 1)
        return made

    def meets(self, running: Formation, peer: Formation) -> None:
        self.write(running.incarnations.record_met(peer.hello(False), running.remembered))


@pytest.mark.parametrize(
    ("number", "starts", "met", "on"),
    [
        (1, [b"a"], (1, b"a"), True),  # connected again
        (2, [b"b", b"a"], (1, b"a"), True),  # started again
        (1, [b"a"], (2, b"b"), False),  # lower
        (2, [b"c", b"a"], (2, b"b"), False),  # another process
        (4, [b"e", b"d", b"c", b"a"], (2, b"b"), False),  # started more often than it was met
        (KEPT + 1, [b"x"] * KEPT, (1, b"a"), True),  # who was away for so long does not know
        (3, [b"x", b"y"], (1, b"a"), False),  # a history that lacks its beginning
        (3, [], (3, b"a"), False),
    ],
)
def test_which_starts_follow_on_the_one_that_was_met(
    number: int, starts: list[bytes], met: tuple[int, bytes], on: bool
) -> None:
    assert is_continuation(number, starts, met) is on


def test_each_start_is_counted_and_known_to_the_next() -> None:
    b = Disk("b")
    for number in range(1, KEPT + 5):
        formation = b.start()
        assert formation.incarnations.number == number
        assert len(formation.incarnations.starts) == min(number, KEPT)
    assert b.start().incarnations.starts[1] == formation.incarnations.starts[0]


@both
def test_a_disk_that_went_back_is_refused_however_often_it_is_started(guarded: bool) -> None:
    guards = Guards(rolled_back_disk_refused=guarded)
    a, c = Disk("a"), Disk("c")
    here = a.start(guards)
    c.start(guards)
    copy = c.copy()
    a.meets(here, c.start(guards))
    here = a.start(guards)  # it remembers for good
    for _ in range(5):
        back = copy.start(guards)
        reason = here.refusal(back.hello(False))
        assert (reason is not None) is guarded
        assert (back.refusal(here.hello(False)) is not None) is guarded, "its own log says so, too"
        if guarded:
            assert "went back" in str(reason)
            assert "members replace c" in str(reason)
            assert "members replace c" in str(back.refusal(here.hello(False)))
    assert here.refusal(c.start(guards).hello(False)) is None, "the true one goes on"


def test_two_processes_on_copies_of_one_disk_are_not_both_taken() -> None:
    a, b, c = Disk("a"), Disk("b"), Disk("c")
    at_a, at_b = a.start(), b.start()
    twin = c.copy()
    one, other = c.start(), twin.start()
    a.meets(at_a, one)
    assert at_a.refusal(one.hello(False)) is None, "the same process connects again"
    assert "another process" in str(at_a.refusal(other.hello(False)))
    b.meets(at_b, other)  # which has not heard of the first
    assert at_b.refusal(other.hello(False)) is None
    a.meets(at_a, at_b)
    b.meets(at_b, at_a)
    refused = [[at.refusal(which.hello(False)) is not None for which in (one, other)] for at in (at_a, at_b)]
    assert refused[0] == refused[1], "both take the same one"
    assert sorted(refused[0]) == [False, True]


@pytest.mark.parametrize("changes", [{"incarnation": 0}, {"starts": []}], ids=["no number", "no ids"])
def test_a_hello_without_a_start_is_none(changes: dict[str, Any]) -> None:
    """Else a disk that went back would only have to say nothing of its starts."""
    said = Disk("c").start().hello(False)
    assert codec.decode(codec.payload(said)) == said
    with pytest.raises(codec.Malformed):
        codec.decode(codec.payload(msgspec.structs.replace(said, **changes)))


def test_another_disk_begins_anew() -> None:
    """Replaced, or restored from a backup."""
    a, c = Disk("a"), Disk("c")
    here = a.start()
    for _ in range(3):
        a.meets(here, c.start())
    new = Disk("c", {"node_id": b"c", "store_id": b"new disk of c 12"})
    members = tuple(Member(n, PEERS[n], b"new disk of c 12" if n == "c" else disk(n)) for n in "abc")
    here.follow(members, 9)
    fresh = new.start()
    fresh.follow(members, 9)
    assert here.refusal(fresh.hello(False)) is None
    a.meets(here, fresh)
    assert here.incarnations.known(here.remembered)["c"][0] == 1


def test_this_start_is_on_the_disk_before_anything_is_said(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    first = b.replica.hello()
    again = b.crash(tmp_path)
    assert again.replica.hello().incarnation == first.incarnation + 1
    assert again.replica.hello().starts[1:] == first.starts


def test_a_node_whose_disk_went_back_tells_its_operator(caplog: pytest.LogCaptureFixture) -> None:
    a, c = Disk("a"), Disk("c")
    here = a.start()
    copy = c.copy()
    a.meets(here, c.start())
    back = copy.start()
    clock = ManualClock()
    admission = Admission(back, clock, JoinRequests(clock))
    with caplog.at_level(logging.WARNING):
        admission.heard(here.hello(False))
    assert "went back" in str(admission.refusal)
    assert "members replace c" in admission.waits_for([], ["a", "b", "c"])
    assert "went back" in caplog.text


@both
def test_a_follower_that_lacks_what_it_acknowledged_counts_no_more(
    tmp_path: Path, guarded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its disk went back under the same leader; it may be an older version, which does not count its starts."""
    b = Leader(tmp_path, Guards(rolled_back_disk_refused=guarded)).opened()
    b.propose(1, 2, 3)
    b.propose(4)
    b.acknowledge("c")
    last = b.journal.last_index
    b.replica.disconnected("c", 1)
    b.replica.connected(hello("c"), 2)
    b.settle()
    b.feed("c", codec.AppendAnswer(b.term, 2, False, True), connection=2)
    b.pass_time(0.1)
    assert b.engine.match_index("c") == (0 if guarded else last)
    assert ("c" in b.replica.connections) is not guarded
    if not guarded:
        return
    assert "has them up to 1 only" in caplog.text
    assert "members replace c" in caplog.text
    reason = b.replica.formation.refusal(hello("c"))
    assert "lacks entries that it had acknowledged" in str(reason)
    b.replica.peer_set.join_refused(hello("c", raft="127.0.0.1:9"))
    assert [rolled_back for _, _, rolled_back in b.replica.peer_set.join_requests.recent()] == [True]
    assert code(b.ask("replace", "c")) == "not-waiting"
    again = b.crash(tmp_path)
    assert "lacks entries" in str(again.replica.formation.refusal(hello("c"))), "for good"
    told = msgspec.structs.replace(again.replica.hello(), node="b")
    a = Solo(tmp_path, node="a")
    a.feed("b", told)
    a.pass_time(0.1)
    assert "c" not in a.replica.connections, "the others hear of it"


def test_a_late_request_for_less_on_an_older_connection_proves_nothing(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.replica.connected(hello("c"), 2)
    b.feed("c", codec.AppendAnswer(b.term, 1, False, True), connection=1)
    b.pass_time(0.1)
    assert "c" in b.replica.connections
    assert b.replica.formation.refusal(hello("c")) is None

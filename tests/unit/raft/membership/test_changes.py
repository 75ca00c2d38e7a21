"""Members come and go: one at a time, without a vote until they have everything, and no majority is ever bypassed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from raftsched.core.entry import encode_configuration
from raftsched.core.subjects.cluster import Member
from raftsched.errors import RaftschedError
from raftsched.raft import codec
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.membership.configuration import Membership, added, promoted, removed
from tests.support.raft_replica import Solo, append, disk, entry, hello
from tests.unit.raft.house import Leader, code, members

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


# ---------------------------------------------------------------- the configuration in the log


def test_a_configuration_counts_from_its_append_and_goes_with_its_truncation() -> None:
    changes: list[list[str]] = []
    membership = Membership("a", members("abc"), ALL)
    membership.subscribe(lambda: changes.append(membership.voters))
    membership.appended(7, members("abcd"))
    assert membership.voters == ["a", "b", "c", "d"]
    assert membership.majority == 3
    assert membership.pending
    membership.truncated(7)
    assert membership.voters == ["a", "b", "c"]
    assert not membership.pending
    membership.appended(7, members("abcd"))
    membership.applied_to(6)
    assert membership.pending
    membership.applied_to(7)
    assert not membership.pending
    membership.truncated(8)
    assert membership.voters == ["a", "b", "c", "d"]
    assert changes == [["a", "b", "c", "d"], ["a", "b", "c"], ["a", "b", "c", "d"]]


@both
def test_a_log_that_a_snapshot_replaced_leaves_no_configuration(guarded: bool) -> None:
    """One that a deposed leader appended and nobody committed; the entry at its index is another one now."""
    membership = Membership("a", members("abc"), Guards(config_goes_with_log=guarded))
    membership.appended(7, members("ab"))
    membership.reset(members("abc"), 3, log_gone=True)
    assert membership.voters == (["a", "b", "c"] if guarded else ["a", "b"])
    assert membership.pending is not guarded


def test_who_catches_up_is_a_peer_without_a_vote() -> None:
    membership = Membership("a", added(members("abc"), members("d")[0]), ALL)
    assert membership.peers == ["b", "c", "d"]
    assert membership.voters == ["a", "b", "c"]
    assert not membership.is_majority(["a", "d"])
    assert promoted(membership.current, "d") == members("abcd")


def test_a_voter_whose_removal_is_not_committed_may_still_lead() -> None:
    membership = Membership("a", members("abc"), ALL)
    membership.appended(5, removed(membership.current, "a"))
    assert membership.may_lead
    membership.applied_to(5)
    assert not membership.may_lead


def test_the_last_voter_stays() -> None:
    with pytest.raises(RaftschedError, match="only voting member"):
        removed(members("a", "b"), "a")


# ---------------------------------------------------------------- a leader changes members


def test_a_new_member_catches_up_before_it_votes(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    assert code(b.ask("add", "d")) == "not-waiting"
    b.knock("d")
    got = b.ask("add", "d")
    assert not got, "not committed yet"
    assert b.voters == "abc"
    assert "d" in b.engine.peers
    b.acknowledge("a")
    assert code(got) is None
    b.replica.connected(hello("d"), 1)
    b.pass_time(0.2)
    assert b.voters == "abc"
    b.acknowledge("d")
    b.pass_time(0.1)
    assert b.voters == "abcd", "it has everything: the next entry makes it a voter"
    b.acknowledge("a")
    assert b.engine.membership.pending, "two of four are no majority"
    b.acknowledge("d")
    assert not b.engine.membership.pending


def test_what_a_member_without_a_vote_has_commits_nothing(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.knock("d")
    b.ask("add", "d")
    b.acknowledge("a", "c")
    b.replica.connected(hello("d"), 1)
    committed = b.journal.commit_index
    b.propose(1)
    b.acknowledge("d")
    assert b.voters == "abc"
    assert b.journal.commit_index == committed, "on the disks of one voter of three"
    b.acknowledge("a")
    assert b.journal.commit_index > committed


def test_a_member_that_does_not_keep_up_gets_no_vote(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.knock("d")
    b.ask("add", "d")
    b.acknowledge("a", "c")
    b.replica.connected(hello("d"), 1)
    for number in range(20):
        b.propose(number)
        b.acknowledge("a", "c")
        b.pass_time(0.2)
        b.acknowledge("d", upto=b.journal.last_index // 2)
    assert b.voters == "abc"


@both
def test_one_change_at_a_time(tmp_path: Path, guarded: bool) -> None:
    b = Leader(tmp_path, Guards(one_change_at_a_time=guarded, majority_stays_connected=False)).opened()
    first, second = b.ask("remove", "a"), b.ask("remove", "c")
    if guarded:
        assert not first
        assert not second, "its turn comes when the first is committed"
        assert b.voters == "bc"
        b.pass_time(6.0)
        assert code(second) == "membership-busy", "that does not come about"
    else:  # a leader that shrinks its cluster to itself commits alone, while a and c elect another one
        assert b.voters == "b"
        assert code(first) is None
        assert code(second) is None


@both
def test_no_change_before_the_leaderships_own_entry_is_committed(tmp_path: Path, guarded: bool) -> None:
    b = Leader(tmp_path, Guards(change_after_own_commit=guarded))
    assert not b.replica.leading
    got = b.ask("remove", "c")
    assert not got
    assert b.voters == ("abc" if guarded else "ab")
    b.acknowledge("a", "c")
    b.pass_time(0.2)
    b.acknowledge("a")
    assert code(got) is None, "asked again when it is"


@both
def test_what_the_old_disk_had_counts_for_nothing(tmp_path: Path, guarded: bool) -> None:
    b = Leader(tmp_path, Guards(replaced_disk_forgotten=guarded)).opened()
    b.propose(1)
    b.acknowledge("a", "c")
    had = b.journal.last_index
    b.replica.disconnected("c", 1)
    b.knock("c", b"new disk of c 123")
    got = b.ask("replace", "c")
    b.acknowledge("a")
    assert code(got) is None
    assert b.voters == "ab"
    assert b.engine.match_index("c") == (0 if guarded else had)


def test_who_is_removed_hears_of_it(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.feed("c", codec.ChangeMembers(7, "remove", "c", b""))
    assert b.voters == "ab"
    assert "c" in b.replica.connections, "not committed yet"
    b.sent.clear()
    b.acknowledge("a")
    assert [(f.request, f.code) for f in b.take(codec.Answered, "c")] == [(7, "")]
    assert "c" not in b.replica.connections


def test_who_is_removed_counts_no_more_although_it_is_connected(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.ask("remove", "c")
    b.acknowledge("c")
    assert b.engine.membership.pending


def test_a_request_whose_leader_is_lost_may_have_been_done(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.feed("a", codec.Ping(b.term + 1, 0))
    got = b.ask("remove", "c")
    assert b.take(codec.ChangeMembers, "a")
    b.pass_time(0.5)
    b.feed("c", codec.Ping(b.term + 2, 0))
    assert b.take(codec.ChangeMembers, "c")
    b.feed("c", codec.Answered(b.number, "moved", "just elected"))
    b.pass_time(6.0)
    assert code(got) == "unknown-outcome"


def test_an_answer_over_the_connection_with_the_old_disk_is_not_heard(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    new = tuple(Member(m.node, m.raft, b"n" * 16, False) if m.node == "c" else m for m in members("abc"))
    b.engine.append(encode_configuration(1, new))
    b.settle()
    b.feed("c", codec.AppendAnswer(b.term, b.journal.last_index + 1, True, False))
    assert b.engine.match_index("c") == 0
    assert "c" not in b.replica.connections


def test_a_connection_with_the_new_disk_outlives_the_change(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.replica.disconnected("c", 1)
    new = tuple(Member(m.node, m.raft, b"n" * 16) if m.node == "c" else m for m in members("abc"))
    b.replica.connected(hello("c", store_id=b"n" * 16), 2)  # the configuration is on its way
    b.feed("a", codec.Append(1, 0, 0, 0, [(1, encode_configuration(1, new))]))
    assert b.engine.membership.current == new
    assert "c" in b.replica.connections
    assert b.engine.is_connected("c")
    b.feed("a", codec.Append(1, 1, 1, 0, [(1, encode_configuration(1, removed(new, "c")))]))
    assert not b.engine.is_connected("c")
    assert "c" not in b.replica.connections


@both
def test_a_change_leaves_a_connected_majority(tmp_path: Path, guarded: bool) -> None:
    b = Leader(tmp_path, Guards(majority_stays_connected=guarded)).opened()
    b.replica.disconnected("c", 1)
    got = b.ask("remove", "a")
    if guarded:
        assert code(got) == "not-possible"
        assert b.voters == "abc"
    else:
        assert b.voters == "bc", "and c is gone: nothing is committed any more"


def test_a_connected_member_is_not_replaced(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.knock("c", b"new disk of c 123")
    assert code(b.ask("replace", "c")) == "not-possible"
    assert code(b.ask("replace", "d")) == "no-such-member"


def test_a_disk_that_is_lost_while_it_catches_up_is_replaced_again(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.replica.disconnected("c", 1)
    b.knock("c", b"second disk of c")
    b.ask("replace", "c")
    b.acknowledge("a")
    b.knock("c", b"third disk of c ")
    got = b.ask("replace", "c")
    b.acknowledge("a")
    assert code(got) is None
    assert {m.store_id for m in b.engine.membership.current if m.node == "c"} == {b"third disk of c "}
    b.knock("d")
    assert code(b.ask("add", "d")) == "membership-busy", "another one has to wait for it"


@pytest.mark.parametrize("connected", [True, False], ids=["connected", "gone again"])
def test_a_change_that_came_to_nothing_can_be_made_again(tmp_path: Path, connected: bool) -> None:
    """The new disk of c has a configuration with itself in its log, which is committed nowhere. It is let in, for its
    configuration looks newer; it does not follow, for the leader knows another disk of it."""
    b = Leader(tmp_path).opened()
    b.replica.disconnected("c", 1)
    new = b"new disk of c 123"
    counts_itself_in = {"a": disk("a"), "b": disk("b"), "c": new}
    c = hello("c", store_id=new, formed=True, remembered=counts_itself_in, configuration=9, raft="127.0.0.1:9")
    assert b.replica.formation.refusal(c) is None
    b.replica.connected(c, 2)
    if not connected:
        b.replica.disconnected("c", 2)
    got = b.ask("replace", "c")
    b.acknowledge("a")
    assert code(got) is None
    assert {m.store_id for m in b.engine.membership.current if m.node == "c"} == {new}


def test_a_connected_node_that_is_no_member_can_be_admitted_at_any_time(tmp_path: Path) -> None:
    """It does not ask again as long as its connection lives."""
    b = Leader(tmp_path).opened()
    counts_itself_in = {n: disk(n) for n in "abcd"}
    d = hello("d", formed=True, remembered=counts_itself_in, configuration=9, raft="127.0.0.1:9")
    assert b.replica.formation.refusal(d) is None
    b.replica.connected(d, 2)
    for _ in range(3):
        b.clock.forward(9_000)
        b.replica.peer_set.tick()
    got = b.ask("add", "d")
    b.acknowledge("a")
    assert code(got) is None
    assert "d" in b.engine.peers


def test_a_member_whose_removal_came_to_nothing_may_lead_the_one_that_wrote_it(tmp_path: Path) -> None:
    """The removal is on one disk only, whose node was killed. The member that was to go leads the others; who was
    killed can hear from it alone that nothing came of it."""
    b = Leader(tmp_path).opened()
    b.replica.peer_set.configure(removed(b.engine.membership.current, "c"))
    b.settle()
    b = b.crash(tmp_path)  # type: ignore[assignment]
    b.replica.disconnected("c", 1)
    assert b.engine.membership.voters == ["a", "b"]
    meta = b.replica.formation
    members_ = {n: disk(n) for n in "abc"}
    c = hello("c", cluster_id=meta.cluster_id, formed=True, remembered=members_)
    assert meta.refusal(c) is None
    assert meta.refusal(msgspec.structs.replace(c, store_id=b"new disk of c 123")) is not None
    b.replica.connected(c, 2)
    b.feed("c", append(9, 1, 1, [9], commit=2), connection=2)
    assert b.engine.leader_id == "c"
    assert b.engine.membership.voters == ["a", "b", "c"]
    assert "c" in b.replica.connections


def test_a_configuration_that_came_to_nothing_is_not_newer_for_its_higher_index(tmp_path: Path) -> None:
    """What a leader wrote while nobody heard it any more can be longer than what the others committed meanwhile. One
    that they let in at a lower index may lead them."""
    b = Leader(tmp_path).opened()
    while b.journal.last_index < 20:
        b.journal.append(b.term, entry(b.journal.last_index))
    b.replica.peer_set.configure(added(b.engine.membership.current, members("x")[0]))
    b.settle()
    b = b.crash(tmp_path)  # type: ignore[assignment]
    formation, members_ = b.replica.formation, {n: disk(n) for n in "abcd"}
    d = hello("d", cluster_id=formation.cluster_id, formed=True, remembered=members_, configuration=5)
    assert formation.refusal(d) is None
    b.replica.connected(d, 2)
    b.feed("d", append(9, 1, 1, [9], commit=2), connection=2)
    assert b.engine.leader_id == "d"
    assert b.engine.membership.voters == ["a", "b", "c"]
    assert "d" in b.replica.connections


def test_who_came_back_while_its_removal_was_not_committed_goes_with_the_commit(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    got = b.ask("remove", "c")
    b.replica.disconnected("c", 1)
    members_ = {n: disk(n) for n in "abc"}
    c = hello("c", cluster_id=b.replica.formation.cluster_id, formed=True, remembered=members_)
    b.replica.connected(c, 2)
    b.acknowledge("a")
    assert code(got) is None
    assert "c" not in b.replica.connections
    assert b.replica.formation.refusal(c) is not None


def test_what_is_so_already_is_done(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    last = b.journal.last_index
    for change, node in (("remove", "x"), ("add", "c"), ("replace", "c")):
        assert code(b.ask(change, node)) is None
    assert b.journal.last_index == last


@pytest.mark.parametrize("change", ["add", "replace"])
def test_who_is_let_in_and_not_connected_yet_is_in(tmp_path: Path, change: str) -> None:
    """Its knock is remembered for a while. The first answer may have been lost."""
    b = Leader(tmp_path).opened()
    node, new = ("d", disk("d")) if change == "add" else ("c", b"new disk of c 123")
    b.replica.disconnected("c", 1)
    b.knock(node, new)
    for _ in range(2):
        got = b.ask(change, node)
        b.acknowledge("a")
        assert code(got) is None
        last = b.journal.last_index
    assert b.ask(change, node) == [None]
    assert b.journal.last_index == last


def test_a_restarted_nodes_requests_are_not_taken_for_earlier_ones(tmp_path: Path) -> None:
    """The leader still owes an answer for what was asked before the restart."""
    b = Solo(tmp_path)
    first = b.replica.peer_set.requests.next_number()
    assert b.crash(tmp_path).replica.peer_set.requests.next_number() not in range(first - 1000, first + 1000)


def test_a_leader_hands_over_before_it_is_removed(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.sent.clear()
    got = b.ask("remove", "b")
    assert not got, "the next leader is asked"
    assert b.voters == "abc"
    assert len(b.take(codec.TimeoutNow)) == 1
    b.feed("a", codec.Ping(b.term + 1, 0))
    assert [m.node for m in b.take(codec.ChangeMembers, "a")] == ["b"]


@both
def test_a_leader_that_is_no_member_here_is_followed_but_does_not_count(tmp_path: Path, guarded: bool) -> None:
    """Its configuration is newer than ours: its entries bring us up to date; its vote is not that of our member c."""
    b = Solo(tmp_path, Guards(members_only_count=guarded))
    b.replica.disconnected("c", 1)
    b.replica.connected(hello("c", store_id=b"new disk of c 123", formed=True, configuration=9), 2)
    b.feed("c", codec.Append(3, 0, 0, 0, [(1, b"")]), connection=2)
    assert b.take(codec.AppendAnswer, "c")[0].success
    b.engine.campaign()
    b.settle()
    b.feed("c", codec.VoteAnswer(b.engine.term, True), connection=2)
    assert b.engine.is_leader is not guarded


# ---------------------------------------------------------------- transfer


# ---------------------------------------------------------------- elections


@both
def test_a_configuration_that_is_not_applied_counts(tmp_path: Path, guarded: bool) -> None:
    """The old majority must not be enough once the entry is in the log."""
    b = Solo(tmp_path, Guards(config_from_log=guarded))
    b.feed("a", codec.Append(1, 0, 0, 0, [(1, encode_configuration(1, members("abcde")))]))
    b.engine.campaign()
    b.settle()
    b.feed("c", codec.VoteAnswer(b.engine.term, True))
    assert b.engine.is_leader is not guarded


def test_who_catches_up_neither_campaigns_nor_counts(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", codec.Append(1, 0, 0, 0, [(1, encode_configuration(1, members("ac", "b")))]))
    b.replica.membership.applied_to(1)
    b.pass_time(3.0)
    assert not b.take(codec.PreVoteRequest)
    b.feed("a", codec.VoteRequest(9, 1, 1))
    assert b.take(codec.VoteAnswer)[0].granted, "its vote is asked for by who knows that it counts"

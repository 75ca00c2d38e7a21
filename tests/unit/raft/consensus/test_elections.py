"""Terms, votes, leadership."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from raftsched.core.commands import Form, OpenLeadership
from raftsched.core.entry import decode_entry, encode_configuration
from raftsched.core.subjects.cluster import Member
from raftsched.raft import codec
from raftsched.raft.consensus.heartbeat import FAR_OFF_MS
from raftsched.raft.guards import Guards
from raftsched.raft.options import RaftOptions
from tests.support.raft_replica import OPTIONS, ManualWriter, Solo, append, disk, hello

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


@both
def test_a_node_that_was_cut_off_does_not_depose_a_healthy_leader(tmp_path: Path, guarded: bool) -> None:
    guards = Guards(pre_vote=guarded)
    cut_off = Solo(tmp_path, guards, node="c")
    for peer in "ab":
        cut_off.replica.disconnected(peer, 1)
    cut_off.pass_time(5.0)
    leader = Solo(tmp_path, guards, node="a", clock=cut_off.clock)
    term = leader.lead()
    leader.feed("c", codec.Pong(cut_off.engine.term, 1, 1, False))
    assert (leader.engine.is_leader and leader.engine.term == term) is guarded


def test_no_pre_vote_while_a_leader_is_heard(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", codec.Ping(3, 1))
    b.feed("c", codec.PreVoteRequest(4, 9, 9, 1))
    assert [f.granted for f in b.take(codec.PreVoteAnswer)] == [False]
    b.clock.forward(1000 * (OPTIONS.election_min_ms / 1000))
    b.feed("c", codec.PreVoteRequest(4, 9, 9, 2))
    assert [(f.granted, f.round) for f in b.take(codec.PreVoteAnswer)] == [(True, 2)]
    assert b.engine.term == 3


@pytest.mark.parametrize("voter", [True, False])
def test_a_leader_that_is_not_heard_of_is_known_no_more(tmp_path: Path, voter: bool) -> None:
    """Else a node that is cut off would look as if it followed somebody for ever."""
    cut_off = Solo(tmp_path)
    roles: list[str | None] = []
    cut_off.replica.subscribe_role(lambda: roles.append(cut_off.engine.leader_id))
    members = [Member(n, f"127.0.0.1:{4000 + ord(n)}", disk(n), n != "b" or voter) for n in "abc"]
    cut_off.feed("a", codec.Append(3, 0, 0, 1, [(3, encode_configuration(1, members))]))
    assert cut_off.replica.membership.may_lead is voter
    assert cut_off.engine.leader_id == "a"
    cut_off.pass_time(OPTIONS.election_min_ms / 1000 - 0.04)
    assert cut_off.engine.leader_id == "a"
    cut_off.pass_time(OPTIONS.election_max_ms / 1000)
    assert cut_off.engine.leader_id is None
    cut_off.feed("a", codec.Ping(3, 2))
    assert roles == ["a", None, "a"]


def test_the_end_of_the_leaders_connection_brings_the_election_forward(tmp_path: Path) -> None:
    options = RaftOptions()
    b = Solo(tmp_path, options=options)
    b.feed("a", codec.Ping(3, 1))
    b.replica.disconnected("a", 1)
    b.feed("c", codec.PreVoteRequest(4, 0, 0, 1))
    assert [f.granted for f in b.take(codec.PreVoteAnswer)] == [True], "who lost the leader may be agreed with at once"
    b.pass_time(options.election_lost_min_ms / 1000 - 0.02)
    assert not b.take(codec.PreVoteRequest), "time for a connection that was reset to come back"
    b.pass_time((options.election_lost_max_ms - options.election_lost_min_ms) / 1000 + 0.04)
    assert b.take(codec.PreVoteRequest, "c")
    assert b.engine.term == 3


def test_who_has_just_started_elects_as_soon_as_there_is_a_majority(tmp_path: Path) -> None:
    """Nobody leads after all were killed; a leader would have shown itself on the first connection."""
    options = RaftOptions()
    b = Solo(tmp_path, options=options)
    b.pass_time(options.election_lost_min_ms / 1000 + 0.02)
    assert b.take(codec.PreVoteRequest, "c")
    assert b.engine.term == 0, "who hears a leader says no, and nothing has changed"
    b.pass_time(options.election_lost_max_ms / 1000 + 0.02)
    assert b.take(codec.PreVoteRequest, "c"), "the others may have started a moment later"


def test_who_has_just_started_leaves_a_leader_alone(tmp_path: Path) -> None:
    options = RaftOptions()
    b = Solo(tmp_path, options=options)
    b.feed("a", codec.Ping(3, 1))
    b.replica.connected(hello("c"), 2)
    b.pass_time(options.election_min_ms / 1000 - 0.02)
    assert not b.take(codec.PreVoteRequest)


def test_who_is_alone_waits_for_nobody(tmp_path: Path) -> None:
    alone = Solo(tmp_path, peers="b")
    alone.pass_time(0.02)
    assert alone.engine.is_leader


def test_who_hears_of_a_newer_term_while_it_asks_asks_again_in_it(tmp_path: Path) -> None:
    """It may be the only one with the whole log: a refusal for its term alone must not cost it a timeout."""
    b = Solo(tmp_path)
    b.pass_time(OPTIONS.election_max_ms / 1000 + 0.04)
    asked = b.take(codec.PreVoteRequest, "c")[-1]
    b.feed("c", codec.PreVoteAnswer(7, asked.round, False))
    again = b.take(codec.PreVoteRequest, "c")
    assert [f.term for f in again] == [8]
    b.feed("a", codec.PreVoteAnswer(7, asked.round, False))
    assert not b.take(codec.PreVoteRequest), "once for each term"
    b.feed("c", codec.PreVoteAnswer(7, again[0].round, True))
    assert b.engine.term == 8


def test_a_leader_that_lost_its_majority_may_be_elected_again_as_soon_as_others(tmp_path: Path) -> None:
    """Unlike one that was asked to step down, which leaves the others the time to follow it."""
    b = Solo(tmp_path)
    b.lead()
    while b.engine.is_leader:
        b.pass_time(0.02)
    b.take(codec.PreVoteRequest)
    b.pass_time(OPTIONS.election_max_ms / 1000 + 0.04)
    assert b.take(codec.PreVoteRequest, "c")


def test_a_leader_that_is_heard_again_is_not_challenged(tmp_path: Path) -> None:
    options = RaftOptions()
    b = Solo(tmp_path, options=options)
    b.feed("a", codec.Ping(3, 1))
    b.replica.disconnected("a", 1)
    b.replica.connected(hello("a"), 2)
    b.feed("a", codec.Ping(3, 2), connection=2)
    b.sent.clear()
    b.pass_time(options.election_min_ms / 1000 - 0.02)
    assert not b.take(codec.PreVoteRequest)


def test_losing_another_member_brings_no_election_forward(tmp_path: Path) -> None:
    options = RaftOptions()
    b = Solo(tmp_path, options=options)
    b.feed("a", codec.Ping(3, 1))
    b.replica.disconnected("c", 1)
    b.pass_time(options.election_min_ms / 1000 - 0.02)
    assert not b.take(codec.PreVoteRequest)
    b.replica.connected(hello("c"), 2)
    b.feed("a", codec.Ping(3, 2))
    b.feed("c", codec.PreVoteRequest(4, 0, 0, 1), connection=2)
    assert [f.granted for f in b.take(codec.PreVoteAnswer)] == [False]


def test_votes_go_once_per_term_to_an_up_to_date_candidate(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", append(2, 0, 0, [2, 2]))
    b.sent.clear()
    b.feed("c", codec.VoteRequest(3, 1, 2))  # shorter
    b.feed("c", codec.VoteRequest(3, 9, 1))  # longer, but of an older term
    b.feed("a", codec.VoteRequest(3, 2, 2))
    b.feed("c", codec.VoteRequest(3, 5, 3))  # too late
    b.feed("a", codec.VoteRequest(3, 2, 2))  # the same candidate may ask again
    assert [f.granted for f in b.take(codec.VoteAnswer)] == [False, False, True, False, True]


def test_a_repeated_vote_counts_once(tmp_path: Path) -> None:
    b = Solo(tmp_path, peers="abcde")
    b.engine.campaign()
    b.settle()
    b.feed("a", codec.VoteAnswer(1, True), codec.VoteAnswer(1, True))
    assert not b.engine.is_leader
    b.feed("c", codec.VoteAnswer(1, True))
    assert b.engine.is_leader


def test_leadership_opens_with_its_own_entry_and_forms_the_cluster(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    commands = [c for batch in decode_entry(b.journal.entries(1, 1000)[0].data).batches for c in batch.commands]
    assert commands[0] == OpenLeadership(epoch=term, leader="b")
    assert isinstance(commands[1], Form)
    assert [m.node for m in commands[1].members] == ["a", "b", "c"]
    assert not b.replica.leading
    b.feed("a", codec.AppendAnswer(term, 2, True, False))
    assert b.replica.leading
    assert b.replica.formation.formed
    assert len(b.replica.formation.cluster_id) == 16


def test_a_later_leadership_does_not_form_again(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    b.feed("a", codec.AppendAnswer(term, 2, True, False))
    b.feed("a", codec.Ping(term + 1, 1))
    assert not b.replica.leading
    b.lead()
    newest = decode_entry(b.journal.entries(2, 1000)[0].data)
    assert [type(c) for batch in newest.batches for c in batch.commands] == [OpenLeadership]


def test_a_leader_that_nobody_answers_steps_down(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    b.pass_time(OPTIONS.fallback_ms / 1000 / 2)
    assert b.engine.is_leader
    b.feed("a", codec.Pong(term, b.clock.boot_ms(), 0, True))
    b.pass_time(OPTIONS.fallback_ms / 1000 * 0.9)
    assert b.engine.is_leader, "a majority answered meanwhile"
    b.pass_time(OPTIONS.fallback_ms / 1000 * 0.2)
    assert not b.engine.is_leader


def test_a_round_counts_from_when_it_was_sent_and_in_its_own_term(tmp_path: Path) -> None:
    b = Solo(tmp_path, peers="abcde")
    term = b.lead()
    rounds = b.engine.heartbeats
    start = b.clock.boot_ms()
    b.pass_time(0.4)
    b.feed("a", codec.Pong(term, start + 100, 0, True))
    assert rounds.quorum_sent_at_ms(b.clock.boot_ms()) is None, "two of five"
    b.feed("c", codec.Pong(term, start + 200, 0, True))
    b.feed("d", codec.Pong(term, start + 300, 0, False))  # refused
    b.feed("e", codec.Pong(term - 1, start + 300, 0, True))  # another term
    assert rounds.quorum_sent_at_ms(b.clock.boot_ms()) == start + 100
    b.feed("c", codec.Pong(term, start, 0, True))  # late: nothing goes back
    assert rounds.quorum_sent_at_ms(b.clock.boot_ms()) == start + 100


def test_a_candidate_of_a_later_term_counts_no_vote_of_its_own_that_is_not_on_the_disk(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    writer.run()
    b.settle()
    for _ in range(2):  # the vote of the first term is being written, that of the second one is gathered
        b.engine.campaign()
        b.settle()
    term = b.engine.term
    writer.run_one()
    assert b.take(codec.VoteRequest) == [], "the first term is over, and the second one is not on the disk"
    b.settle()
    writer.run()
    assert {f.term for f in b.take(codec.VoteRequest)} == {term}


def test_pre_votes_of_an_earlier_round_count_for_nothing(tmp_path: Path) -> None:
    """Who granted them may hear a leader by now."""
    b = Solo(tmp_path)
    rounds: list[int] = []
    while len(set(rounds)) < 2:
        b.pass_time(0.1)
        rounds += [f.round for f in b.take(codec.PreVoteRequest)]
    b.feed("a", codec.PreVoteAnswer(0, rounds[0], True))
    assert b.take(codec.VoteRequest) == []
    b.feed("a", codec.PreVoteAnswer(0, rounds[-1], True))
    assert b.take(codec.VoteRequest) != []


def test_a_leader_begins_when_its_opening_entry_is_applied(tmp_path: Path) -> None:
    """What it applies before that was committed by others, and shows nothing of what they left."""
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer, options=replace(OPTIONS, apply_max_bytes=1))  # an entry at a time
    writer.run()
    b.settle()
    b.feed("a", append(1, 0, 0, [1] * 8, commit=8))
    b.engine.campaign()
    while b.take(codec.VoteRequest) == []:
        writer.run_one()
        b.replica.pump()
    for peer in "ac":
        b.replica.receive(peer, 1, codec.VoteAnswer(b.engine.term, True))
    opening = b.engine.opening_index
    assert b.engine.is_leader
    assert b.journal.applied_index < 8
    b.settle()
    while writer.jobs:
        writer.run_one()
        b.settle()
    assert b.journal.applied_index == 8 < opening
    assert not b.replica.leading
    for peer in "ac":
        b.feed(peer, codec.AppendAnswer(b.engine.term, opening + 1, True, False))
    while writer.jobs:
        writer.run_one()
        b.settle()
    assert b.journal.applied_index == opening
    assert b.replica.leading


@both
def test_a_leadership_begins_without_the_answers_of_an_earlier_one(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(rounds_of_this_leadership=guarded))
    rounds = b.engine.heartbeats
    b.feed("a", codec.Pong(b.lead(), b.clock.boot_ms(), 0, True))
    answered_at = b.clock.boot_ms()
    assert rounds.quorum_sent_at_ms(answered_at) == answered_at
    b.feed("c", codec.Ping(b.engine.term + 1, 1))  # another leads meanwhile
    assert not b.engine.is_leader
    b.pass_time(1.0)
    b.lead()
    assert rounds.quorum_sent_at_ms(b.clock.boot_ms()) == (None if guarded else answered_at)


def test_how_late_heartbeats_go_out_is_counted_by_the_leader(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    late = b.engine.measures.heartbeats_late
    b.pass_time(0.2)
    assert late.cumulative()[-1] == (float("inf"), 0), "a follower sends none"
    b.lead()
    b.pass_time(0.4)  # ticks every 20 ms
    sent = late.cumulative()[-1][1]
    assert dict(late.cumulative())[0.02] == sent > 0
    b.clock.forward(700)  # the loop stood still
    b.pass_time(0.02)
    assert dict(late.cumulative())[0.5] == sent
    assert dict(late.cumulative())[1.0] == sent + 1
    assert 0.6 < late.total_s < 1.0


def test_clock_offsets_allow_for_the_way(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    sent = b.clock.boot_ms()
    b.clock.forward(40)
    b.feed("a", codec.Pong(term, sent, b.clock.wall_ms() + 5_000, True))
    assert b.engine.heartbeats.offset_ms("a") == 5_020


def test_a_slow_answer_tells_of_a_clock_that_is_far_off(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    for ahead, told in ((0, None), (FAR_OFF_MS, None), (-3_600_000, -3_599_600), (3_600_000, 3_600_400)):
        b.engine.heartbeats.forget_offsets()
        sent = b.clock.boot_ms()
        b.clock.forward(800)
        b.feed("a", codec.Pong(term, sent, b.clock.wall_ms() + ahead, True))
        assert b.engine.heartbeats.offset_ms("a") == told


def test_handing_over_goes_to_a_follower_that_has_everything(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    b.feed("c", codec.AppendAnswer(term, 2, True, False))
    b.sent.clear()
    b.replica.step_down()
    assert [peer for peer, f in b.sent if isinstance(f, codec.TimeoutNow)] == ["c"]
    assert not b.engine.is_leader


def test_only_the_leader_can_ask_for_an_election(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", codec.Ping(3, 1))
    b.feed("c", codec.TimeoutNow(3))
    assert b.engine.term == 3
    b.feed("a", codec.TimeoutNow(3))
    assert b.engine.term == 4
    assert len(b.take(codec.VoteRequest)) == 2


def test_two_leaders_in_one_term_stop_the_node(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    b.feed("a", append(term, 0, 0, [term]))
    assert "two leaders" in str(b.fatal[0])


def test_a_single_node_elects_itself(tmp_path: Path) -> None:
    b = Solo(tmp_path, peers="b", is_member=False)
    b.pass_time(1.0)
    assert b.replica.leading
    assert b.propose(1)[0]


def pre_vote_rounds(solo: Solo) -> list[int]:
    return [frame.round for frame in solo.take(codec.PreVoteRequest, "c")]


def lost_leader(tmp_path: Path) -> Solo:
    """b, that followed a until the connection ended; c is there."""
    b = Solo(tmp_path, options=RaftOptions())
    b.feed("a", codec.Ping(3, 1))
    b.replica.disconnected("a", 1)
    return b


def stands(b: Solo) -> int:
    """Until it asks for pre-votes; the round."""
    for _ in range(110):  # of 20 ms: election_max_ms and a little
        if rounds := pre_vote_rounds(b):
            return rounds[-1]
        b.pass_time(0.02)
    raise AssertionError("it never stood")


def test_an_election_that_failed_is_soon_followed_by_another(tmp_path: Path) -> None:
    b = lost_leader(tmp_path)
    b.feed("c", codec.PreVoteAnswer(3, stands(b), True))
    assert b.engine.term == 4
    b.feed("c", codec.VoteAnswer(4, False))  # it votes for itself
    began = b.clock.monotonic()
    stands(b)
    assert b.clock.monotonic() - began <= 2 * RaftOptions().election_lost_max_ms / 1000 + 0.04


def test_who_was_elected_is_in_no_haste_when_it_resigns(tmp_path: Path) -> None:
    b = lost_leader(tmp_path)
    b.feed("c", codec.PreVoteAnswer(3, stands(b), True))
    b.feed("c", codec.VoteAnswer(4, True))
    assert b.engine.is_leader
    b.feed("c", codec.VoteRequest(5, 0, 0))
    assert not b.engine.is_leader
    began = b.clock.monotonic()
    stands(b)
    assert b.clock.monotonic() - began >= RaftOptions().election_min_ms / 1000 - 0.02
    began = b.clock.monotonic()
    stands(b)
    assert b.clock.monotonic() - began >= RaftOptions().election_min_ms / 1000 - 0.02


def test_each_try_waits_longer_up_to_the_usual_time(tmp_path: Path) -> None:
    b = lost_leader(tmp_path)
    options, pauses = RaftOptions(), []
    for _ in range(8):
        began = b.clock.monotonic()
        stands(b)
        pauses.append(b.clock.monotonic() - began)
    assert pauses[1] < options.election_min_ms / 1000
    assert min(pauses[4:]) >= options.election_min_ms / 1000
    assert max(pauses) <= options.election_max_ms / 1000 + 0.04


def test_of_two_that_ask_at_once_one_gives_way(tmp_path: Path) -> None:
    b = lost_leader(tmp_path)
    number = stands(b)
    b.feed("c", codec.PreVoteRequest(4, 0, 0, 1))
    assert [f.granted for f in b.take(codec.PreVoteAnswer)] == [True]
    b.feed("c", codec.PreVoteAnswer(3, number, True))
    assert b.engine.term == 3, "c goes on"
    c = Solo(tmp_path / "c", node="c", options=RaftOptions())
    c.feed("a", codec.Ping(3, 1))
    c.replica.disconnected("a", 1)
    for _ in range(110):  # of 20 ms: election_max_ms and a little
        if rounds := [frame.round for frame in c.take(codec.PreVoteRequest, "b")]:
            break
        c.pass_time(0.02)
    c.feed("b", codec.PreVoteRequest(4, 0, 0, 1))
    c.feed("b", codec.PreVoteAnswer(3, rounds[-1], True))
    assert c.engine.term == 4


def test_who_granted_a_pre_vote_leaves_time_for_the_election(tmp_path: Path) -> None:
    b = lost_leader(tmp_path)
    options = RaftOptions()
    b.pass_time(options.election_lost_min_ms / 1000 - 0.02)
    b.feed("c", codec.PreVoteRequest(4, 0, 0, 1))
    b.pass_time(options.election_lost_min_ms / 1000 - 0.02)
    assert not pre_vote_rounds(b)
    stands(b)


def test_who_voted_does_not_stand_with_what_it_had_asked_for_before(tmp_path: Path) -> None:
    b = lost_leader(tmp_path)
    number = stands(b)
    b.feed("c", codec.VoteRequest(4, 0, 0))
    b.feed("c", codec.PreVoteAnswer(3, number, True))
    assert (b.engine.term, b.engine.voted_for) == (4, "c")


def test_a_member_that_comes_while_there_is_no_leader_brings_the_next_try_forward(tmp_path: Path) -> None:
    b = lost_leader(tmp_path)
    b.replica.disconnected("c", 1)
    for _ in range(200):  # in vain, until the pauses are long
        b.pass_time(0.05)
    b.take(codec.PreVoteRequest)
    b.replica.connected(hello("c"), 2)
    b.pass_time(RaftOptions().election_lost_min_ms / 1000 + 0.04)
    assert pre_vote_rounds(b)

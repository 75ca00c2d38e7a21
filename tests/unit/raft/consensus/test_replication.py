"""Replication hazards, each with its guard and without it: the second shows that the test can fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from raftsched.raft import codec
from raftsched.raft.guards import Guards
from tests.support.raft_replica import OPTIONS, ManualWriter, Solo, append, hello, unique
from tests.support.stores import checkpoint

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


@both
def test_a_late_append_deletes_nothing_that_matches(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(truncate_only_at_conflict=guarded))
    late = append(1, 0, 0, [1])
    b.feed("a", append(1, 0, 0, [1, 1, 1, 1, 1]))
    assert b.take(codec.AppendAnswer)[-1].next_index == 6
    b.feed("a", late)
    assert (len(b.log()) == 5) is guarded
    if guarded:
        assert not b.fatal


@both
def test_a_late_append_does_not_reach_below_the_commit_index(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(truncate_only_at_conflict=guarded))
    b.feed("a", append(1, 0, 0, [1, 1, 1, 1], commit=4))
    b.feed("a", append(1, 1, 1, [1]))
    kept = [index for index, _ in b.log()]
    assert (kept == [1, 2, 3, 4]) is guarded
    if guarded:
        answer = b.take(codec.AppendAnswer)[-1]
        assert (answer.success, answer.next_index) == (True, 5)


def test_a_conflicting_tail_is_replaced(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", append(1, 0, 0, [1, 1, 1, 1], commit=1))
    b.feed("c", append(2, 2, 1, [2, 2], commit=1))
    assert b.log() == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert b.store.log_bounds() == (1, 4)
    assert b.store.log_term(4) == 2


@both
def test_a_stale_reset_does_not_rewind_below_what_is_acknowledged(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(next_index_above_match=guarded))
    term = b.lead()
    for number in range(5):
        b.propose(number)
    last = b.journal.last_index
    b.feed("a", codec.AppendAnswer(term, last + 1, True, False))
    b.feed("a", codec.AppendAnswer(term, 2, False, True))
    assert (b.engine.next_index("a") == last + 1) is guarded


@both
def test_frames_of_an_older_connection_are_dropped(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(old_connections_dropped=guarded))
    b.replica.connected(hello("a"), 2)
    b.feed("a", append(1, 0, 0, [1]), connection=1)
    assert (b.log() == []) is guarded


@both
def test_the_commit_index_covers_only_what_this_message_verified(tmp_path: Path, guarded: bool) -> None:
    """The old leader's own tail, never replicated, must not be committed by the next leader's commit index."""
    b = Solo(tmp_path, Guards(commit_only_verified=guarded))
    b.feed("a", append(1, 0, 0, [1]))
    b.feed("a", append(1, 1, 1, [1, 1]))  # 2 and 3 stay with this node alone
    b.feed("c", codec.Append(2, 1, 1, 3, []))  # at the next leader 2 and 3 are other entries
    assert (b.journal.commit_index == 1) is guarded
    if guarded:
        b.feed("c", append(2, 1, 1, [2, 2], commit=3))
        assert b.log() == [(1, 1), (2, 2), (3, 2)]


@both
def test_an_acknowledgement_of_another_term_counts_for_nothing(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(answers_carry_term=guarded))
    term = b.lead()
    got = b.propose(1)
    b.feed("a", codec.AppendAnswer(term - 1, b.journal.last_index + 1, True, False))
    assert (got == []) is guarded, "acknowledged without a majority"
    assert (b.journal.commit_index == 0) is guarded


def test_a_newer_term_in_an_answer_ends_the_leadership(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    b.feed("a", codec.AppendAnswer(term + 3, 0, False, False))
    assert not b.engine.is_leader
    assert b.engine.term == term + 3
    assert b.store.term == term + 3


@both
def test_a_deposed_leader_is_told(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(stale_leader_answered=guarded))
    b.feed("c", codec.Ping(5, 1))
    b.sent.clear()
    b.feed("a", append(3, 0, 0, [3]), codec.Ping(3, 1))
    answered = {type(frame) for peer, frame in b.sent if peer == "a"}
    assert (answered == {codec.AppendAnswer, codec.Pong}) is guarded
    assert all(frame.term == 5 for peer, frame in b.sent if peer == "a")  # type: ignore[union-attr]


@both
def test_probing_never_goes_up_again(tmp_path: Path, guarded: bool) -> None:
    """Answers to appends that were on their way together ask for one start after the other; the last one must not win:
    a follower with a conflicting entry and more than a message behind would be asked for ever."""
    b = Solo(tmp_path, Guards(lowest_probe_remembered=guarded))
    term = b.lead()
    b.feed("a", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
    for number in range(20):
        b.propose(number)
    b.sent.clear()
    b.feed("c", codec.AppendAnswer(term, 3, False, True), codec.AppendAnswer(term, 9, False, True))
    assert b.sent
    b.feed("c", codec.AppendAnswer(term, 15, False, True))
    assert (b.engine.next_index("c") == 3) is guarded


@both
def test_a_conflicting_term_is_skipped_at_once(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(lowest_probe_remembered=guarded))
    b.feed("a", append(1, 0, 0, [1, 1, 2, 2, 2, 2], commit=1))
    b.feed("c", append(3, 6, 3, [3]))
    answer = b.take(codec.AppendAnswer)[-1]
    assert (answer.reset, answer.next_index == 3) == (True, guarded)


def test_a_follower_far_behind_with_a_conflict_catches_up_in_few_messages(tmp_path: Path) -> None:
    leader = Solo(tmp_path, node="a")
    term = leader.lead()
    follower = Solo(tmp_path, node="b", clock=leader.clock)
    follower.feed("c", append(term - 1 if term > 1 else 0, 0, 0, [0]))  # conflicts at 1
    leader.feed("c", codec.AppendAnswer(term, leader.journal.last_index + 1, True, False))
    for number in range(300):
        leader.propose(number)
    messages = 0
    while follower.journal.last_index != leader.journal.last_index and messages < 50:
        frames = leader.take(codec.Append, "b")
        messages += len(frames)
        follower.feed("a", *frames)
        leader.feed("b", *follower.take(codec.AppendAnswer, "a"))
        leader.pass_time(0.06)
    assert follower.log() == leader.log()
    assert messages < 20


@both
def test_an_entry_fits_one_message(tmp_path: Path, guarded: bool) -> None:
    """Larger ones would never get through a follower's frame limit."""
    b = Solo(tmp_path, Guards(entries_below_batch=guarded))
    b.lead()
    if guarded:
        with pytest.raises(RuntimeError, match="does not fit"):
            b.engine.append(bytes(OPTIONS.append_max_bytes + 1))
        assert b.journal.last_index == 1
    else:
        b.engine.append(bytes(OPTIONS.append_max_bytes + 1))
        assert b.journal.last_index == 2
        assert len(codec.payload(codec.Append(1, 1, 1, 0, [(1, bytes(OPTIONS.append_max_bytes + 1))]))) > (
            OPTIONS.append_max_bytes
        )


def test_a_probe_that_is_not_answered_is_repeated_without_entries(tmp_path: Path) -> None:
    """The connection is silent and not gone yet: what was sent once need not be sent again with every heartbeat."""
    b = Solo(tmp_path)
    term = b.lead()
    for number in range(5):
        b.propose(number)
    b.feed("a", codec.AppendAnswer(term, 1, False, True))
    b.sent.clear()
    b.pass_time(0.5)
    repeated = b.take(codec.Append, "a")
    assert {frame.prev_index for frame in repeated} == {0}
    assert {len(frame.entries) for frame in repeated} == {0}
    b.feed("a", codec.AppendAnswer(term, 1, True, False))
    assert [len(frame.entries) for frame in b.take(codec.Append, "a")] == [6]


def test_appends_are_cut_by_bytes(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    b.feed("a", codec.AppendAnswer(term, 2, True, False))
    b.sent.clear()
    for _ in range(20):
        b.engine.append(bytes(OPTIONS.entry_max_bytes))
    b.settle()
    sizes = [sum(len(data) for _, data in frame.entries) for frame in b.take(codec.Append, "a")]
    assert sizes
    assert max(sizes) <= OPTIONS.append_max_bytes
    assert sum(sizes) <= OPTIONS.inflight_max_bytes + OPTIONS.append_max_bytes


def test_a_commit_is_told_without_waiting_for_the_next_heartbeat(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    for peer in "ac":
        b.feed(peer, codec.AppendAnswer(term, 2, True, False))
    b.propose(1)
    b.sent.clear()
    b.feed("a", codec.AppendAnswer(term, 3, True, False))
    assert [f.commit for f in b.take(codec.Append, "c")] == [2]


def test_a_commit_index_alone_is_not_acknowledged(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", append(1, 0, 0, [1, 1]))
    b.take(codec.AppendAnswer)
    alone = codec.Append(1, 2, 1, 2, [], wants_answer=False)
    b.feed("a", alone)
    assert b.journal.commit_index == 2
    assert not b.take(codec.AppendAnswer)
    b.feed("a", codec.Append(1, 3, 1, 2, [], wants_answer=False))  # the leader is wrong about what is here
    assert b.take(codec.AppendAnswer) == [codec.AppendAnswer(1, 3, False, True)]
    b.feed("a", codec.Append(0, 2, 1, 2, [], wants_answer=False))  # and this one is none any more
    assert b.take(codec.AppendAnswer) == [codec.AppendAnswer(1, 0, False, False)]


def test_only_a_commit_index_alone_wants_no_answer(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    b.feed("a", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
    b.feed("c", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
    b.sent.clear()
    b.propose(1)
    last = b.journal.last_index
    assert [f.wants_answer for f in b.take(codec.Append, "a") if f.entries] == [True]
    b.feed("c", codec.AppendAnswer(term, last + 1, True, False))
    assert [(f.commit, f.entries, f.wants_answer) for f in b.take(codec.Append, "a")] == [(last, [], False)]
    b.pass_time(2 * OPTIONS.heartbeat_ms / 1000)  # whether "a" has the entry is not known
    assert {f.wants_answer for f in b.take(codec.Append, "a")} == {True}


def test_entries_leave_before_this_node_writes_them(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.lead()
    for peer in "ac":
        b.feed(peer, codec.AppendAnswer(b.engine.term, b.journal.last_index + 1, True, False))
    b.sent.clear()
    b.writer = b.replica.driver._writer = ManualWriter()
    b.replica.propose([unique(1)], b.clock.monotonic() + 5, None)
    b.replica.pump()
    assert b.replica.driver.busy
    assert (b.flushed, b.writing_at_flush) == (2, False)


def test_an_acknowledgement_that_leaves_nothing_to_do_asks_for_no_pump(tmp_path: Path) -> None:
    b = Solo(tmp_path, options=replace(OPTIONS, inflight_max_messages=1))
    term = b.lead()

    def acknowledged(peer: str, next_index: int) -> bool:
        b.replica.receive(peer, 1, codec.AppendAnswer(term, next_index, True, False))
        woken = b.awake
        b.settle()
        return woken

    for peer in "ac":
        acknowledged(peer, b.journal.last_index + 1)
    b.propose(1)
    last = b.journal.last_index
    assert acknowledged("a", last + 1)  # it commits
    assert b.journal.commit_index == b.journal.applied_index == last
    assert not acknowledged("c", last + 1)
    assert b.engine.match_index("c") == last
    b.propose(2)
    b.propose(3)  # waits until what was sent is acknowledged
    assert not b.engine.is_told_all("a")
    assert acknowledged("a", last + 2)
    assert b.engine.next_index("a") == last + 3


def test_a_commit_index_beyond_the_message_is_told_again(tmp_path: Path) -> None:
    """A follower takes a commit index as far as its message went. The rest may have reached it by an earlier one."""
    b = Solo(tmp_path)
    term = b.lead()
    b.feed("c", codec.AppendAnswer(term, 2, True, False))
    for number in (1, 2):
        b.replica.propose([unique(number, 50_000)], b.clock.monotonic() + 5, None)
        b.settle()
        b.feed("c", codec.AppendAnswer(term, 2 + number, True, False))
    assert b.journal.commit_index == 3
    b.sent.clear()
    b.pass_time(0.1)
    probe = b.take(codec.Append, "a")[-1]
    assert probe.commit == 3
    assert probe.prev_index + len(probe.entries) < 3, "it does not carry all of it"
    b.feed("a", codec.AppendAnswer(term, 4, True, False))
    told = b.take(codec.Append, "a")[-1]
    assert (told.prev_index, told.commit) == (3, 3)


@both
def test_compaction_leaves_a_tail_for_laggards(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(keep_log_tail=guarded))
    term = b.lead()
    for number in range(10):
        b.propose(number)
        b.feed("a", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
        checkpoint(b.store)
    b.sent.clear()
    b.feed("c", codec.AppendAnswer(term, 2, False, True))
    b.pass_time(0.1)
    kinds = {type(frame) for peer, frame in b.sent if peer == "c"}
    assert (codec.SnapshotOffer not in kinds) is guarded


def test_the_leader_counts_a_slow_disk_of_its_own_late(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer, peers="b")
    writer.run()
    b.pass_time(1.0)
    assert not b.engine.is_leader, "its vote for itself is not durable"
    while not b.engine.is_leader:
        writer.run()
        b.settle()
    assert b.journal.commit_index == 0
    writer.run()
    b.settle()
    assert b.journal.commit_index == 1

"""Nothing that depends on a write leaves before it is durable; what fails inside one ends this node's part."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.errors import UnknownOutcome
from raftsched.raft import codec
from raftsched.raft.consensus.journal import Journal
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.membership.configuration import Membership
from tests.support.raft_replica import OPTIONS, ManualWriter, Solo, append, entry
from tests.support.raft_snapshots import snapshot, whole
from tests.support.raft_store import MemoryStore

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


@both
def test_an_acknowledgement_waits_for_the_disk(tmp_path: Path, guarded: bool) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, Guards(hold_until_durable=guarded), writer=writer)
    b.feed("a", append(1, 0, 0, [1]))
    said = any(f.success for f in b.take(codec.AppendAnswer))
    survives = b.crash(tmp_path).log() == [(1, 1)]
    assert said <= survives if guarded else said > survives, "acknowledged and lost"


def test_an_acknowledgement_leaves_once_durable(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", append(1, 0, 0, [1]))
    assert b.take(codec.AppendAnswer) == []
    writer.run()
    assert [f.next_index for f in b.take(codec.AppendAnswer)] == [2]
    assert b.store.log_term(1) == 1


def test_what_a_newer_leader_has_cut_off_is_not_acknowledged(tmp_path: Path) -> None:
    """It was gathered, never written; the older leader must not count it."""
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", append(1, 0, 0, [1]))
    b.feed("a", append(1, 1, 1, [1, 1]))  # for the write after the one that runs
    b.feed("c", append(2, 1, 1, [2]))
    writer.run()
    b.settle()
    writer.run()
    answers = b.take(codec.AppendAnswer)
    assert [(f.term, f.next_index) for f in answers] == [(2, 3)]
    assert [b.store.log_term(index) for index in (1, 2, 3)] == [1, 2, None]


def test_a_repeated_append_waits_for_the_write_that_writes_it(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", append(1, 0, 0, [1]), append(1, 0, 0, [1]))
    assert b.take(codec.AppendAnswer) == []


@both
def test_what_is_gathered_during_a_write_waits_for_its_own(tmp_path: Path, guarded: bool) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, Guards(hold_for_gathered_turn=guarded), writer=writer)
    b.feed("a", append(1, 0, 0, [1]))
    b.feed("a", append(1, 1, 1, [1]))
    writer.run_one()
    said = [f.next_index for f in b.take(codec.AppendAnswer)]
    assert b.store.log_bounds()[1] == 1
    assert said == ([2] if guarded else [2, 3]), "acknowledged and not on the disk"


@both
def test_a_vote_waits_for_the_disk(tmp_path: Path, guarded: bool) -> None:
    """Told and forgotten, the node votes for another candidate of the same term."""
    writer = ManualWriter()
    b = Solo(tmp_path, Guards(hold_until_durable=guarded), writer=writer)
    b.feed("a", codec.VoteRequest(4, 0, 0))
    first = any(f.granted for f in b.take(codec.VoteAnswer))
    again = b.crash(tmp_path)
    again.feed("c", codec.VoteRequest(4, 0, 0))
    second = any(f.granted for f in again.take(codec.VoteAnswer))
    assert second
    assert first is not guarded


def test_a_candidate_asks_for_votes_after_its_own_is_durable(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.engine.campaign()
    b.settle()
    assert b.take(codec.VoteRequest) == []
    writer.run()
    assert len(b.take(codec.VoteRequest)) == 2
    assert b.store.hard_state() == (1, "b")


def test_a_pong_reflects_a_vote_on_its_way_to_the_disk(tmp_path: Path) -> None:
    b = Solo(tmp_path, writer=ManualWriter())
    b.feed("c", codec.VoteRequest(4, 0, 0))
    b.feed("a", codec.Ping(3, 77))
    pong = b.take(codec.Pong)[-1]
    assert (pong.term, pong.accepted, pong.sent_at_ms) == (4, False, 77)


@both
def test_the_leader_counts_itself_up_to_its_durable_entry(tmp_path: Path, guarded: bool) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, Guards(count_self_when_durable=guarded), writer=writer)
    b.engine.campaign()
    b.settle()
    writer.run()
    b.feed("a", codec.VoteAnswer(b.engine.term, True))
    b.settle()
    b.feed("a", codec.AppendAnswer(b.engine.term, 2, True, False))
    held_by = 1 + (b.store.log_bounds()[1] >= 1)  # a and perhaps this disk
    assert held_by == 1
    assert (b.journal.commit_index == 0) is guarded


@both
def test_a_loaded_commit_index_is_never_ahead_of_the_log(guarded: bool) -> None:
    store = MemoryStore()
    store.log = {i: (1, entry(i)) for i in range(1, 5)}
    store.commit = 50
    journal = Journal(store, OPTIONS, Guards(commit_within_log=guarded), Membership("b", (), ALL))
    assert (journal.commit_index == 4) is guarded


def test_term_vote_and_log_survive_a_kill(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", codec.VoteRequest(4, 0, 0), append(4, 0, 0, [4, 4], commit=1))
    again = b.crash(tmp_path)
    assert (again.engine.term, again.engine.voted_for, again.log()) == (4, "a", [(1, 4), (2, 4)])
    assert (again.journal.commit_index, again.journal.applied_index) == (1, 1)
    assert b.store.applied_twice == []


def test_what_was_applied_after_the_newest_checkpoint_is_applied_again(tmp_path: Path) -> None:
    """As far as this node's disk knows that it is committed; the rest when a leader says so."""
    b = Solo(tmp_path)
    b.feed("a", append(4, 0, 0, [4, 4, 4], commit=1))
    b.feed("a", append(4, 3, 4, [4], commit=3))
    b.feed("a", append(4, 4, 4, [], commit=4))  # no write
    assert b.journal.applied_index == 4
    again = b.crash(tmp_path)
    assert again.journal.applied_index == 3
    again.feed("a", append(4, 4, 4, [], commit=4))
    assert again.journal.applied_index == 4
    assert sorted(again.store.history) == [1, 2, 3, 4]
    again.pass_time(2.0)
    third = again.crash(tmp_path)
    assert third.journal.applied_index == 4, "the checkpoint has it, however little is known to be committed"
    assert third.store.applied_twice == []


@both
def test_an_exception_while_writing_stops_the_node(tmp_path: Path, guarded: bool) -> None:
    """Going on would acknowledge what is not on the disk."""
    b = Solo(tmp_path, Guards(stop_on_apply_error=guarded))
    b.feed("a", append(1, 0, 0, [1, 1]))
    b.sent.clear()
    b.store.fail = OSError("disk full")
    b.feed("a", append(1, 2, 1, [1], commit=2))
    said = any(f.success for f in b.take(codec.AppendAnswer))
    if guarded:
        assert [str(error) for error in b.fatal] == ["disk full"]
        assert not said
        b.feed("a", codec.Ping(9, 1), codec.VoteRequest(9, 9, 9))
        b.pass_time(2.0)
        assert b.sent == []
    else:
        assert said
        assert b.store.log_bounds() == (1, 2), "acknowledged, not on the disk"


def test_an_exception_while_applying_stops_the_node(tmp_path: Path) -> None:
    """Going on would answer for what is not so."""
    b = Solo(tmp_path)
    seen: list[int] = []
    b.replica.subscribe(lambda entries: seen.extend(e.index for e in entries))
    b.feed("a", append(1, 0, 0, [1, 1], commit=1))
    b.store.fail_apply = OSError("disk full")
    b.feed("a", append(1, 2, 1, [1], commit=2))
    assert [str(error) for error in b.fatal] == ["disk full"]
    b.sent.clear()
    b.feed("a", codec.Ping(9, 1), append(1, 3, 1, [1], commit=3))
    b.pass_time(2.0)
    assert (b.sent, seen) == ([], [1])


@both
@pytest.mark.usefixtures("faults")
def test_a_subscriber_that_raises_harms_only_itself(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(contain_callback_errors=guarded))
    seen: list[int] = []

    def broken(_: object) -> None:
        raise KeyError("the room's own bug")

    b.replica.subscribe(broken)
    b.replica.subscribe(lambda entries: seen.extend(e.index for e in entries))
    b.feed("a", append(1, 0, 0, [1], commit=1), append(1, 1, 1, [1], commit=2))
    assert (seen == [1, 2]) is guarded
    assert (b.fatal == []) is guarded
    assert b.store.applied_twice == []


def test_a_reply_that_raises_harms_nobody_else(tmp_path: Path) -> None:
    b = Solo(tmp_path, peers="b")
    b.pass_time(1.0)
    assert b.engine.is_leader

    def broken(answers: object, error: object) -> None:
        raise RuntimeError("Event loop is closed")

    b.replica.propose([b""[:0] or entry(1)[:0] or _barrier()], b.clock.monotonic() + 1, broken)
    assert len(b.propose(7)) == 1
    assert b.fatal == []


def _barrier() -> bytes:
    from raftsched.core.commands import Barrier, encode

    return encode(Barrier())


@both
def test_proposals_a_snapshot_jumped_over_get_an_answer(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(jumped_proposals_answered=guarded))
    b.feed("a", codec.Ping(1, 1))
    got = b.propose(1, timeout=60)
    assert len(b.take(codec.Propose)) == 1
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    assert b.journal.applied_index == 40
    assert [type(error) for error in got] == ([UnknownOutcome] if guarded else [])


def test_all_guards_are_on_unless_told_otherwise() -> None:
    assert all(getattr(ALL, name) is True for name in ALL.__dataclass_fields__)


def test_without_memory_a_subscriber_stops_the_node(tmp_path: Path) -> None:
    """It is no bug of its own: what it was told is lost on it, and nobody tells it again."""
    b = Solo(tmp_path)

    def out_of_memory(_: object) -> None:
        raise MemoryError

    b.replica.subscribe(out_of_memory)
    b.feed("a", append(1, 0, 0, [1], commit=1))
    assert [type(error) for error in b.fatal] == [MemoryError]


def test_without_memory_a_reply_stops_the_node(tmp_path: Path) -> None:
    """Else its caller would wait for ever."""
    b = Solo(tmp_path, peers="b")
    b.pass_time(1.0)

    def out_of_memory(answers: object, error: object) -> None:
        if error is None:
            raise MemoryError

    b.replica.propose([_barrier()], b.clock.monotonic() + 1, out_of_memory)
    b.propose(7)
    assert [type(error) for error in b.fatal] == [MemoryError]

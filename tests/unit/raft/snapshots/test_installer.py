"""Snapshots that arrive: whole or not at all, never backwards, and the node lives on meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.core.entry import NewerLog
from raftsched.raft import codec
from raftsched.raft.guards import Guards
from tests.support.raft_replica import ManualWriter, Solo, append
from tests.support.raft_snapshots import chunks, offer, snapshot, whole

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


def test_a_snapshot_replaces_an_empty_log(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    meta, data = snapshot(tmp_path, 40, 3)
    b.feed("a", offer(meta, 4), *chunks(meta, data, 4))
    assert (b.journal.first_index, b.journal.last_index, b.journal.applied_index) == (41, 40, 40)
    assert b.journal.term(40) == 3
    assert b.take(codec.AppendAnswer)[-1] == codec.AppendAnswer(4, 41, True, False)
    b.feed("a", append(4, 40, 3, [4], commit=41))
    assert b.journal.applied_index == 41
    assert list(tmp_path.glob("receive-*")) == []
    assert b.store.term == 4
    assert b.store.own["store_id"] == b"b" * 16


@both
def test_a_snapshot_never_rewinds_a_follower_that_is_ahead(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(snapshot_never_rewinds=guarded))
    b.store.verify = guarded
    b.feed("a", append(1, 0, 0, [1] * 8, commit=8))
    meta, data = snapshot(tmp_path, 4, 1)
    b.feed("a", *whole(meta, data, 1))
    assert (b.journal.applied_index == 8) is guarded
    if guarded:
        assert b.take(codec.AppendAnswer)[-1].next_index == 9


@both
def test_a_snapshot_within_a_matching_log_keeps_what_follows(tmp_path: Path, guarded: bool) -> None:
    """The entries behind it may be acknowledged already."""
    b = Solo(tmp_path, Guards(snapshot_never_rewinds=guarded))
    b.feed("a", append(1, 0, 0, [1] * 8))
    meta, data = snapshot(tmp_path, 4, 1)
    b.feed("a", *whole(meta, data, 1))
    assert (b.journal.last_index == 8) is guarded
    assert b.journal.commit_index == 4


def test_a_snapshot_replaces_a_conflicting_log(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", append(1, 0, 0, [1] * 8))
    meta, data = snapshot(tmp_path, 4, 2)
    b.feed("c", *whole(meta, data, 2))
    assert (b.journal.last_index, b.journal.term(4), b.store.log) == (4, 2, {})


def test_a_damaged_snapshot_is_not_loaded_and_asked_for_again(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    meta, data = snapshot(tmp_path, 40, 1)
    broken = bytes([data[0] ^ 1]) + data[1:]
    b.feed("a", *whole(meta, broken, 1))
    assert b.journal.applied_index == 0
    assert b.take(codec.AppendAnswer) == []
    assert b.fatal == []
    assert list(tmp_path.glob("receive-*")) == []
    b.feed("a", offer(meta, 1))
    assert [f.offset for f in b.take(codec.SnapshotAnswer)] == [0]
    b.feed("a", *chunks(meta, data, 1))
    assert b.journal.applied_index == 40


def test_a_swap_that_fails_stops_the_node_and_acknowledges_nothing(tmp_path: Path) -> None:
    b = Solo(tmp_path)

    def broken(fresh: object) -> None:
        raise OSError("no space")

    b.store.swap = broken  # type: ignore[method-assign, assignment]
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    assert [str(e) for e in b.fatal] == ["no space"]
    assert b.take(codec.AppendAnswer) == []


def test_a_state_of_a_level_that_the_node_does_not_know_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was swapped in is found on the disk by a newer version; this one acknowledges nothing of it."""
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)

    def unknown(level: int) -> None:
        raise NewerLog(level + 1)

    monkeypatch.setattr("raftsched.raft.replica.check_level", unknown)
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    while writer.jobs:
        writer.run()
        b.settle()
    assert [type(error) for error in b.fatal] == [NewerLog]
    assert b.take(codec.AppendAnswer) == []


def test_while_a_file_is_made_ready_the_node_votes_and_takes_what_matches(tmp_path: Path) -> None:
    side = ManualWriter()
    b = Solo(tmp_path, side=side)
    b.feed("a", append(1, 0, 0, [1]))
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    side.run_one()  # it is written, and being made ready
    assert not b.engine.installing
    b.sent.clear()
    b.feed("a", append(1, 60, 1, [1]), append(1, 1, 1, [1], commit=2))
    assert [(f.success, f.next_index) for f in b.take(codec.AppendAnswer)] == [(False, 2), (True, 3)]
    b.feed("c", codec.VoteRequest(2, 50, 1))
    assert b.take(codec.VoteAnswer) == [codec.VoteAnswer(2, True)]
    side.run()
    b.settle()
    assert b.journal.applied_index == 40
    assert b.store.term == 2


def test_entries_that_overtake_a_snapshot_win(tmp_path: Path) -> None:
    """While its last chunk is being written, the follower gets there by entries."""
    side = ManualWriter()
    b = Solo(tmp_path, side=side)
    meta, data = snapshot(tmp_path, 4, 1)
    b.feed("a", *whole(meta, data, 1))
    b.feed("a", append(1, 0, 0, [1] * 8, commit=6))
    b.pass_time(0.02)
    side.run()
    b.settle()
    assert b.fatal == []
    assert (b.journal.last_index, b.journal.applied_index) == (8, 6)
    assert list(tmp_path.glob("receive-*")) == []
    assert b.take(codec.AppendAnswer)[-1].next_index >= 7


@both
def test_entries_that_overtake_a_snapshot_that_is_made_ready_win(tmp_path: Path, guarded: bool) -> None:
    side = ManualWriter()
    b = Solo(tmp_path, Guards(snapshot_never_rewinds=guarded), side=side)
    meta, data = snapshot(tmp_path, 4, 1)
    b.feed("a", *whole(meta, data, 1))
    side.run_one()
    b.feed("a", append(1, 0, 0, [1] * 8, commit=6))
    side.run()
    b.settle()
    assert b.fatal == [] if guarded else "not newer" in str(b.fatal[0])
    assert b.store.applied_index == 6
    if guarded:
        assert b.store.fresh == {}
        assert list(tmp_path.glob("receive-*")) == []


@both
def test_from_the_queued_swap_on_no_entry_is_acknowledged_that_goes_with_the_old_state(
    tmp_path: Path, guarded: bool
) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, Guards(install_holds_appends=guarded), writer=writer)
    b.feed("a", append(1, 0, 0, [1]))
    writer.run()
    b.settle()
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    assert b.engine.installing
    b.sent.clear()
    b.feed("a", append(1, 1, 1, [1] * 60, commit=3), offer(meta, 1))
    assert b.sent == []
    writer.run()
    b.settle()
    assert not b.engine.installing
    assert (b.journal.applied_index, b.journal.last_index) == (40, 40)
    b.feed("a", append(1, 40, 1, [1]))
    writer.run()
    b.settle()
    assert [f.next_index for f in b.take(codec.AppendAnswer)] == ([41, 42] if guarded else [41, 62, 42])


def test_what_was_gathered_before_a_snapshot_is_written_before_it(tmp_path: Path) -> None:
    """Its acknowledgement is held for it, and must not leave for entries that the load swept away unwritten."""
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", append(1, 0, 0, [1]))  # it is being written
    b.feed("a", append(1, 1, 1, [1] * 3))  # gathered
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    writes: list[tuple[int, int]] = []
    while writer.jobs:
        writer.run()
        writes.append(b.store.log_bounds())
        b.settle()
    assert (1, 4) in writes
    assert b.journal.applied_index == 40
    assert [f.next_index for f in b.take(codec.AppendAnswer)] == [2, 5, 41]


def test_nothing_is_applied_while_it_is_swapped_in(tmp_path: Path) -> None:
    """Another thread replaces the tables meanwhile. What was applied before is published."""
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", append(1, 0, 0, [1] * 3, commit=1))
    writer.run()
    b.settle()
    meta, data = snapshot(tmp_path, 40, 1)
    for frame in (append(1, 3, 1, [], commit=3), *whole(meta, data, 1)):
        b.replica.receive("a", 1, frame)
    assert b.engine.installing
    b.settle()
    b.pass_time(0.1)
    assert (b.journal.commit_index, b.journal.applied_index, b.store.applied_index) == (3, 1, 1)
    writer.run()
    b.settle()
    assert b.fatal == []
    assert (b.journal.applied_index, b.store.applied_index) == (40, 40)


def test_a_vote_given_while_it_is_swapped_in_is_kept(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", codec.Ping(1, 1))
    writer.run()
    b.settle()
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    b.settle()
    b.sent.clear()
    b.feed("c", codec.VoteRequest(2, 50, 1))
    assert b.take(codec.VoteAnswer) == []
    while writer.jobs:
        writer.run()
        b.settle()
    assert (b.store.applied_index, b.store.hard_state()) == (40, (2, "c"))
    assert codec.VoteAnswer(2, True) in [f for _, f in b.sent]


def test_no_election_while_a_snapshot_is_loaded(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", codec.Ping(1, 1))
    writer.run()
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    assert b.engine.installing
    b.feed("a", codec.TimeoutNow(1))
    b.pass_time(3.0)
    assert (b.engine.role, b.engine.term) == ("follower", 1)
    writer.run()
    b.settle()
    assert b.journal.applied_index == 40


def test_the_leader_of_the_day_is_told_not_the_one_that_sent_it(tmp_path: Path) -> None:
    side = ManualWriter()
    b = Solo(tmp_path, side=side)
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    b.feed("c", codec.Ping(2, 1))
    b.sent.clear()
    side.run()
    b.settle()
    assert [(p, f) for p, f in b.sent if isinstance(f, codec.AppendAnswer)] == [
        ("c", codec.AppendAnswer(2, 41, True, False))
    ]


@pytest.mark.parametrize("jobs", [0, 1, 2], ids=["receiving", "written", "ready"])
def test_a_node_that_is_killed_on_the_way_starts_and_goes_on(tmp_path: Path, jobs: int) -> None:
    side, writer = ManualWriter(), ManualWriter()
    b = Solo(tmp_path, side=side, writer=writer)
    b.feed("a", append(1, 0, 0, [1] * 2, commit=2))
    writer.run()
    b.settle()
    writer.run()
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    for _ in range(jobs):
        side.run_one()
    b = b.crash(tmp_path)
    assert (b.journal.applied_index, b.store.term) == (2, 1)
    assert list(tmp_path.glob("receive-*")) == []
    b.feed("a", *whole(meta, data, 1))
    assert b.journal.applied_index == 40

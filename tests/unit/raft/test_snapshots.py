"""Snapshots: whole or not at all, never backwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.raft import codec
from raftsched.raft.guards import Guards
from raftsched.raft.options import RaftOptions
from raftsched.store import SnapshotMeta
from tests.support.raft_replica import ManualWriter, Solo, append
from tests.support.raft_store import MemoryStore

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])

SMALL = RaftOptions(
    election_min_ms=300,
    election_max_ms=600,
    heartbeat_ms=50,
    snapshot_chunk_bytes=100,
    keep_entries=2,
    snapshot_retry_ms=500,
)


def snapshot(tmp_path: Path, index: int, term: int) -> tuple[SnapshotMeta, bytes]:
    source = MemoryStore()
    source.applied_index, source.applied_term = index, term
    meta = source.copy(tmp_path / "source")
    return meta, (tmp_path / "source").read_bytes()


def chunks(meta: SnapshotMeta, data: bytes, term: int, size: int = 100) -> list[codec.SnapshotChunk]:
    return [
        codec.SnapshotChunk(term, meta.index, meta.term, meta.size, meta.sha256, at, data[at : at + size])
        for at in range(0, len(data), size)
    ]


def test_a_snapshot_replaces_an_empty_log(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    meta, data = snapshot(tmp_path, 40, 3)
    b.feed("a", *chunks(meta, data, 4))
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
    b.feed("a", *chunks(meta, data, 1))
    assert (b.journal.applied_index == 8) is guarded
    if guarded:
        assert b.take(codec.AppendAnswer)[-1].next_index == 9


@both
def test_a_snapshot_within_a_matching_log_keeps_what_follows(tmp_path: Path, guarded: bool) -> None:
    """The entries behind it may be acknowledged already."""
    b = Solo(tmp_path, Guards(snapshot_never_rewinds=guarded))
    b.feed("a", append(1, 0, 0, [1] * 8))
    meta, data = snapshot(tmp_path, 4, 1)
    b.feed("a", *chunks(meta, data, 1))
    assert (b.journal.last_index == 8) is guarded
    assert b.journal.commit_index == 4


def test_a_snapshot_replaces_a_conflicting_log(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", append(1, 0, 0, [1] * 8))
    meta, data = snapshot(tmp_path, 4, 2)
    b.feed("c", *chunks(meta, data, 2))
    assert (b.journal.last_index, b.journal.term(4), b.store.log) == (4, 2, {})


@both
def test_a_transfer_is_never_spliced(tmp_path: Path, guarded: bool) -> None:
    """Chunks are lost with a connection; what comes on the next one does not follow."""
    b = Solo(tmp_path, Guards(snapshot_verified=guarded))
    b.store.verify = guarded
    meta, data = snapshot(tmp_path, 40, 1)
    data = data[: len(data) // 2] + bytes(64) + data[len(data) // 2 + 64 :]  # the lost middle shows as damage
    parts = chunks(meta, data, 1)
    assert len(parts) > 2
    b.feed("a", parts[0], *parts[2:])
    assert (b.journal.applied_index == 0 and b.fatal == []) is guarded
    assert not any(f.success for f in b.take(codec.AppendAnswer)) or not guarded


@both
def test_a_damaged_snapshot_is_not_loaded(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(snapshot_verified=guarded))
    meta, data = snapshot(tmp_path, 40, 1)
    broken = bytes([data[0] ^ 1]) + data[1:]
    b.feed("a", *chunks(meta, broken, 1))
    assert b.journal.applied_index == 0
    assert not any(f.success for f in b.take(codec.AppendAnswer))
    assert (b.fatal == []) is guarded  # without the check the load itself fails, and that stops the node
    if guarded:
        b.feed("a", *chunks(meta, data, 1))
        assert b.journal.applied_index == 40


def test_a_load_that_fails_stops_the_node_and_acknowledges_nothing(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.store.install = lambda source, meta: (_ for _ in ()).throw(OSError("no space"))  # type: ignore[method-assign]
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *chunks(meta, data, 1))
    assert [str(e) for e in b.fatal] == ["no space"]
    assert b.take(codec.AppendAnswer) == []


def leader_with_compacted_log(tmp_path: Path, guards: Guards, side: ManualWriter | None = None) -> tuple[Solo, int]:
    a = Solo(tmp_path, guards, node="a", options=SMALL, side=side)
    term = a.lead()
    for number in range(8):
        a.propose(number)
        a.feed("b", codec.AppendAnswer(term, a.journal.last_index + 1, True, False))
    a.sent.clear()
    a.feed("c", codec.AppendAnswer(term, 1, False, True))
    return a, term


@both
def test_nothing_is_sent_while_the_copy_is_made(tmp_path: Path, guarded: bool) -> None:
    side = ManualWriter()
    a, _ = leader_with_compacted_log(tmp_path, Guards(no_empty_snapshot=guarded), side)
    a.sent.clear()
    for _ in range(50):
        a.replica.tick()
        a.settle()
    assert (len(a.take(codec.SnapshotChunk)) == 0) is guarded
    side.run()
    a.settle()


def test_a_follower_behind_the_log_gets_the_state_and_then_entries(tmp_path: Path) -> None:
    a, term = leader_with_compacted_log(tmp_path, Guards())
    (tmp_path / "c").mkdir()
    c = Solo(tmp_path / "c", node="c", options=SMALL, clock=a.clock)
    for _ in range(200):
        frames = [f for p, f in a.sent if p == "c"]
        a.sent.clear()
        assert sum(isinstance(f, codec.SnapshotChunk) for f in frames) <= 1, "one chunk at a time"
        c.feed("a", *frames)
        answers = [f for p, f in c.sent if p == "a"]
        c.sent.clear()
        a.feed("c", *answers)
        a.pass_time(0.02)
        if c.journal.last_index == a.journal.last_index:
            break
    a.pass_time(0.1)
    c.feed("a", *[f for p, f in a.sent if p == "c"])
    assert c.journal.last_index == a.journal.last_index
    assert c.store.history == a.store.history
    assert a.engine.match_index("c") == a.journal.last_index
    assert a.journal.pinned_index is None
    assert list(tmp_path.glob("send-*")) == []
    assert term == c.engine.term


def test_an_unanswered_transfer_starts_again(tmp_path: Path) -> None:
    a, _ = leader_with_compacted_log(tmp_path, Guards())
    first = a.take(codec.SnapshotChunk, "c")
    assert [f.offset for f in first] == [0]
    for _ in range(20):
        a.pass_time(0.1)
        a.feed("b", codec.Pong(a.engine.term, a.clock.boot_ms(), 0, True))
        a.feed("c", codec.AppendAnswer(a.engine.term, 1, False, True))
    again = a.take(codec.SnapshotChunk, "c")
    assert again
    assert {f.offset for f in again} == {0}


def test_entries_that_overtake_a_snapshot_win(tmp_path: Path) -> None:
    """While its last chunk is being written, the follower gets there by entries."""
    side = ManualWriter()
    b = Solo(tmp_path, side=side)
    meta, data = snapshot(tmp_path, 4, 1)
    b.feed("a", *chunks(meta, data, 1, size=len(data)))
    b.feed("a", append(1, 0, 0, [1] * 8, commit=6))
    side.run()
    b.settle()
    assert b.fatal == []
    assert (b.journal.last_index, b.journal.applied_index) == (8, 6)
    assert list(tmp_path.glob("receive-*")) == []
    assert b.take(codec.AppendAnswer)[-1].next_index >= 7


def test_what_was_gathered_before_a_snapshot_is_written_before_it(tmp_path: Path) -> None:
    """Its acknowledgement is held for it, and must not leave for entries that the load swept away unwritten."""
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", append(1, 0, 0, [1]))  # its turn is running
    b.feed("a", append(1, 1, 1, [1] * 3))  # gathered
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *chunks(meta, data, 1, size=len(data)))
    writes: list[tuple[int, int]] = []
    while writer.jobs:
        writer.run()
        writes.append(b.store.log_bounds())
        b.settle()
    assert (1, 4) in writes
    assert b.journal.applied_index == 40
    assert [f.next_index for f in b.take(codec.AppendAnswer)] == [2, 5, 41]


def test_no_election_while_a_snapshot_is_loaded(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", codec.Ping(1, 1))
    writer.run()
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *chunks(meta, data, 1, size=len(data)))
    assert b.engine.installing
    b.feed("a", codec.TimeoutNow(1))
    b.pass_time(3.0)
    assert (b.engine.role, b.engine.term) == ("follower", 1)
    writer.run()
    b.settle()
    assert b.journal.applied_index == 40

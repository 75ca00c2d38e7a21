"""Snapshots by hand: a state to send, the frames that carry it, and two nodes that talk until one has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from zlib import crc32

from raftsched.raft import codec
from raftsched.raft.options import RaftOptions
from raftsched.store import SnapshotMeta
from tests.support.raft_replica import Solo
from tests.support.raft_store import MemoryStore

SMALL = RaftOptions(
    election_min_ms=300,
    election_max_ms=600,
    heartbeat_ms=50,
    snapshot_chunk_bytes=100,
    snapshot_window_bytes=300,
    snapshot_bytes_per_s=0,
    keep_entries=2,
    keep_bytes=100,
    snapshot_retry_ms=500,
    snapshot_keep_ms=2_000,
    snapshot_reserve_bytes=0,
)


def snapshot(tmp_path: Path, index: int, term: int) -> tuple[SnapshotMeta, bytes]:
    source = MemoryStore()
    source.applied_index, source.applied_term = index, term
    source.history = {n: (term, bytes([n % 251]) * 20) for n in range(1, index + 1)}
    source.publish()
    meta = source.copy(tmp_path / "source")
    return meta, (tmp_path / "source").read_bytes()


def offer(meta: SnapshotMeta, term: int) -> codec.SnapshotOffer:
    return codec.SnapshotOffer(term, meta.index, meta.term, meta.size, meta.sha256)


def chunk(meta: SnapshotMeta, data: bytes, term: int, at: int, size: int = 100) -> codec.SnapshotChunk:
    part = data[at : at + size]
    return codec.SnapshotChunk(term, meta.index, at, crc32(part), part)


def chunks(meta: SnapshotMeta, data: bytes, term: int, size: int = 100) -> list[codec.SnapshotChunk]:
    return [chunk(meta, data, term, at, size) for at in range(0, len(data), size)]


def whole(meta: SnapshotMeta, data: bytes, term: int) -> list[codec.Frame]:
    """All that a leader sends of it."""
    return [offer(meta, term), *chunks(meta, data, term, size=len(data))]


def converse(a: Solo, b: Solo, until: Callable[[], bool], rounds: int = 500) -> None:
    """Carries what the two send each other, 20 ms at a time. Each end must have a connection with the other."""
    for _ in range(rounds):
        exchange(a, b)
        if until():
            return
        a.pass_time(0.02)
    raise AssertionError("it did not come to that")


def exchange(a: Solo, b: Solo) -> list[codec.Frame]:
    """One time there and back; what `a` sent."""
    frames = [f for p, f in a.sent if p == b.node]
    a.sent.clear()
    b.feed(a.node, *frames)
    answers = [f for p, f in b.sent if p == a.node]
    b.sent.clear()
    a.feed(b.node, *answers)
    return frames

"""What a follower takes of a snapshot, and what it does not."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from raftsched.raft import codec
from raftsched.raft.guards import Guards
from tests.support.raft_replica import ManualWriter, Solo, append, hello
from tests.support.raft_snapshots import SMALL, chunk, chunks, offer, snapshot, whole

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


def offsets(b: Solo) -> list[int]:
    return [f.offset for f in b.take(codec.SnapshotAnswer)]


def test_an_offer_is_answered_with_what_is_there_of_it(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", offer(meta, 1))
    assert b.take(codec.SnapshotAnswer) == [codec.SnapshotAnswer(1, 40, meta.sha256, 0)]
    b.feed("a", *chunks(meta, data, 1)[:2], offer(meta, 1))
    assert offsets(b) == [100, 200, 200]


def test_a_transfer_goes_on_behind_a_reset_also_for_a_later_term(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", offer(meta, 1), *chunks(meta, data, 1)[:2])
    b.replica.disconnected("a", 1)
    b.replica.connected(hello("a"), 2)
    b.sent.clear()
    b.feed("a", offer(meta, 3), connection=2)
    assert b.take(codec.SnapshotAnswer) == [codec.SnapshotAnswer(3, 40, meta.sha256, 200)]
    b.feed("a", *chunks(meta, data, 3)[2:], connection=2)
    assert b.journal.applied_index == 40


def test_the_answer_to_an_offer_waits_for_what_is_being_written(tmp_path: Path) -> None:
    """Otherwise the sender would send it twice."""
    side = ManualWriter()
    b = Solo(tmp_path, side=side)
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", offer(meta, 1), *chunks(meta, data, 1)[:3])
    assert offsets(b) == [0]
    b.feed("a", offer(meta, 1))
    side.run_one()
    assert offsets(b) == []
    side.run()
    assert offsets(b) == [300]


@both
@pytest.mark.parametrize("fault", ["gap", "repeated", "damaged", "other index", "other term", "too long"])
def test_what_does_not_follow_exactly_does_not_count(tmp_path: Path, fault: str, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(snapshot_verified=guarded))
    meta, data = snapshot(tmp_path, 40, 1)
    parts = chunks(meta, data, 2)
    b.feed("a", offer(meta, 2), parts[0], parts[1])
    b.sent.clear()
    other = {"data": bytes(100), "checksum": crc32(bytes(100))}
    wrong, rest = {
        "gap": (parts[3], parts[4:]),
        "repeated": (msgspec.structs.replace(parts[0], **other), parts[2:]),
        "damaged": (msgspec.structs.replace(parts[2], data=bytes(100)), parts[3:]),
        "other index": (msgspec.structs.replace(parts[2], index=41, **other), parts[3:]),
        "other term": (msgspec.structs.replace(parts[2], term=3, **other), chunks(meta, data, 3)[3:]),
        "too long": (msgspec.structs.replace(parts[2], data=bytes(9_000), checksum=crc32(bytes(9_000))), []),
    }[fault]
    b.feed("a", wrong)
    if guarded:
        assert offsets(b) == []
        (file,) = tmp_path.glob("receive-*")
        assert file.read_bytes() == data[:200]
        term = 3 if fault == "other term" else 2
        b.feed("a", offer(meta, term), *chunks(meta, data, term)[2:])
        assert b.journal.applied_index == 40
    else:
        assert offsets(b) != []
        b.feed("a", *rest)
        assert b.store.damaged == 1, "all of it has been for nothing"


@both
def test_two_snapshots_are_never_spliced(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(snapshot_verified=guarded))
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", offer(meta, 1), *chunks(meta, data, 1)[:2])
    other, its = snapshot(tmp_path, 50, 2)
    b.sent.clear()
    b.feed("c", offer(other, 2))
    assert offsets(b) == ([0] if guarded else [200])
    rest = chunks(other, its, 2)
    if guarded:
        b.feed("c", rest[0])
        (file,) = tmp_path.glob("receive-*")
        assert file.name == f"receive-50-{other.sha256.hex()[:16]}.snap"
        assert file.read_bytes() == its[:100]
        b.feed("c", *rest[1:])
        assert b.journal.applied_index == 50
    else:
        b.feed("c", *rest[2:])
        assert b.store.damaged == 1, "all of it has been for nothing"


def test_a_chunk_of_a_deposed_leader_is_answered_with_the_newer_term(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", offer(meta, 1))
    b.feed("c", codec.Ping(2, 1))
    b.sent.clear()
    b.feed("a", chunk(meta, data, 1, 0), offer(meta, 1))
    assert [f for _, f in b.sent] == [codec.AppendAnswer(2, 0, False, False)] * 2


def test_chunks_without_an_offer_count_for_nothing(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *chunks(meta, data, 1))
    assert (b.take(codec.SnapshotAnswer), b.journal.applied_index) == ([], 0)


def test_an_empty_snapshot_is_no_snapshot(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", codec.SnapshotOffer(1, 40, 1, 0, b""))
    assert b.take(codec.SnapshotAnswer) == []
    assert b.replica.installer.incoming is None


def test_what_waits_for_the_disk_is_bounded(tmp_path: Path) -> None:
    side = ManualWriter()
    b = Solo(tmp_path, side=side, options=SMALL)
    meta, data = snapshot(tmp_path, 40, 1)
    data += bytes(10_000)
    meta = replace(meta, size=len(data))
    b.feed("a", offer(meta, 1), *chunks(meta, data, 1))
    assert len(side.jobs) == 4 * SMALL.snapshot_window_bytes // SMALL.snapshot_chunk_bytes


def test_while_one_is_made_ready_another_one_waits(tmp_path: Path) -> None:
    side = ManualWriter()
    b = Solo(tmp_path, side=side)
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    side.run_one()
    b.sent.clear()
    b.feed("a", offer(meta, 1))
    assert offsets(b) == [meta.size]
    other = replace(meta, index=50)
    b.feed("c", offer(other, 2), *chunks(other, data, 2))
    assert offsets(b) == []
    side.run()
    b.settle()
    assert b.journal.applied_index == 40
    b.feed("c", *whole(other, data, 2))
    side.run()
    b.settle()
    side.run()
    b.settle()
    assert b.journal.applied_index == 50


def test_a_partial_file_goes_when_entries_made_it_superfluous(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    meta, data = snapshot(tmp_path, 4, 1)
    b.feed("a", offer(meta, 1), *chunks(meta, data, 1)[:2])
    assert len(list(tmp_path.glob("receive-*"))) == 1
    b.feed("c", append(2, 0, 0, [1] * 8, commit=6))
    b.sent.clear()
    b.pass_time(0.02)
    assert list(tmp_path.glob("receive-*")) == []
    assert [(p, f) for p, f in b.sent if isinstance(f, codec.AppendAnswer)] == [
        ("c", codec.AppendAnswer(2, 7, True, False))
    ]


def test_a_file_that_cannot_be_written_is_begun_again(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    meta, data = snapshot(tmp_path, 40, 1)
    parts = chunks(meta, data, 1)
    b.feed("a", offer(meta, 1), parts[0])
    (file,) = tmp_path.glob("receive-*")
    file.unlink()
    b.sent.clear()
    b.feed("a", parts[1], *parts[2:])
    assert offsets(b) == []
    b.feed("a", offer(meta, 1))
    assert offsets(b) == [0]
    b.feed("a", *parts)
    assert b.journal.applied_index == 40


def test_what_does_not_fit_the_disk_is_not_begun(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    b = Solo(tmp_path)
    meta, _ = snapshot(tmp_path, 40, 1)
    meta = replace(meta, size=1 << 60)
    with caplog.at_level(logging.WARNING):
        b.feed("a", offer(meta, 1), offer(meta, 1))
    assert b.take(codec.SnapshotAnswer) == []
    assert [r.message.count("are free") for r in caplog.records] == [1], "said once"

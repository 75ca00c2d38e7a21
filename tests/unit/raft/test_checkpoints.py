"""When a checkpoint of the tables is made: one at a time, not too often, and nobody waits for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from raftsched.raft.checkpoints import EVERY_S, Checkpoints
from raftsched.raft.guards import ALL
from tests.support.clock import ManualClock
from tests.support.raft_replica import OPTIONS, ManualWriter, Solo, append
from tests.support.raft_snapshots import snapshot, whole


class Tables:
    """Notes what is done with checkpoints; `applied` is what there is to be kept."""

    def __init__(self) -> None:
        self.applied = 1
        self.kept = 0
        self.done: list[tuple[str, int]] = []
        self.fail: OSError | None = None

    def begin_checkpoint(self) -> int | None:
        if self.applied == self.kept:
            return None
        self.done.append(("begin", self.applied))
        return self.applied

    def write_checkpoint(self, pending: int) -> None:
        self.done.append(("write", pending))
        if self.fail is not None:
            raise self.fail

    def end_checkpoint(self, pending: int) -> None:
        self.kept = pending
        self.done.append(("end", pending))


class Maker:
    """Checkpoints, with a clock and a thread that are moved by hand."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.clock = ManualClock()
        self.writer = ManualWriter()
        self.fatal: list[BaseException] = []
        self.checkpoints = Checkpoints(self.tables, self.writer, self.clock, on_fatal=self.fatal.append)  # type: ignore[arg-type]

    def tick(self, seconds: float = 0.0) -> list[tuple[str, int]]:
        """What is done when so much time has gone by."""
        self.clock.forward(1000 * seconds)
        self.checkpoints.tick()
        return self.take()

    def write(self, seconds: float = 0.0) -> list[tuple[str, int]]:
        """What is done when the disk has taken so long."""
        self.clock.forward(1000 * seconds)
        self.writer.run()
        return self.take()

    def take(self) -> list[tuple[str, int]]:
        done, self.tables.done = self.tables.done, []
        return done


def test_one_is_begun_here_and_written_elsewhere_and_ended_here() -> None:
    maker = Maker()
    assert maker.tick(EVERY_S - 0.01) == [], "not at once after a start"
    assert maker.tick(0.01) == [("begin", 1)]
    assert maker.checkpoints.busy
    assert maker.write() == [("write", 1), ("end", 1)]
    assert not maker.checkpoints.busy


def test_one_at_a_time() -> None:
    maker = Maker()
    maker.tick(EVERY_S)
    maker.tables.applied = 2
    assert maker.tick(10 * EVERY_S) == []
    assert len(maker.writer.jobs) == 1


def test_nothing_is_made_while_nothing_was_applied() -> None:
    maker = Maker()
    maker.tick(EVERY_S)
    maker.write()
    assert maker.tick(10 * EVERY_S) == []
    assert maker.writer.jobs == []
    maker.tables.applied = 2
    assert maker.tick(EVERY_S) == [("begin", 2)]


def test_the_next_is_begun_no_sooner_than_every_so_often() -> None:
    maker = Maker()
    maker.tick(EVERY_S)
    maker.write(EVERY_S / 10)
    maker.tables.applied = 2
    assert maker.tick(EVERY_S * 0.8) == []
    assert maker.tick(EVERY_S * 0.1) == [("begin", 2)]


def test_a_slow_disk_has_at_least_as_long_between_two_as_one_takes() -> None:
    """Others write to it as well."""
    maker = Maker()
    maker.tick(EVERY_S)
    maker.write(5 * EVERY_S)
    maker.tables.applied = 2
    assert maker.tick(4.9 * EVERY_S) == []
    assert maker.tick(0.1 * EVERY_S) == [("begin", 2)]


def test_one_that_cannot_be_written_stops_the_node() -> None:
    """After a failed sync nobody knows what the disk has."""
    maker = Maker()
    maker.tables.fail = OSError(5, "Input/output error")
    maker.tick(EVERY_S)
    assert maker.write() == [("write", 1)], "it counts for nothing"
    assert maker.fatal == [maker.tables.fail]


def in_time(b: Solo, seconds: float) -> None:
    """Follower b hears of its leader meanwhile."""
    end = b.clock.monotonic() + seconds - 0.01
    while b.clock.monotonic() < end:
        b.pass_time(0.1)
        b.feed("a", append(1, b.journal.last_index, 1, [], commit=b.journal.commit_index))


def test_a_replica_makes_them(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", append(1, 0, 0, [1, 1], commit=2))
    assert (b.journal.applied_index, b.store.checkpoint_index) == (2, 0)
    in_time(b, EVERY_S + 0.1)
    assert b.store.checkpoint_index == 2


def test_a_replica_waits_for_none(tmp_path: Path) -> None:
    side = ManualWriter()
    b = Solo(tmp_path, checkpoint_writer=side)
    b.feed("a", append(1, 0, 0, [1], commit=1))
    in_time(b, EVERY_S + 0.1)
    assert len(side.jobs) == 1
    b.feed("a", append(1, 1, 1, [1], commit=2))
    assert (b.journal.applied_index, b.store.checkpoint_index) == (2, 0)
    side.run()
    assert b.store.checkpoint_index == 1, "what was applied when it began"


def test_a_replica_stops_when_one_cannot_be_written(tmp_path: Path) -> None:
    side = ManualWriter()
    b = Solo(tmp_path, checkpoint_writer=side)

    def broken(_: Any) -> None:
        raise OSError(5, "Input/output error")

    b.store.write_checkpoint = broken  # type: ignore[method-assign]
    b.feed("a", append(1, 0, 0, [1], commit=1))
    in_time(b, EVERY_S + 0.1)
    side.run()
    assert [type(error) for error in b.fatal] == [OSError]
    assert b.replica.stopped
    assert b.store.checkpoint_index == 0


def test_none_is_made_while_a_snapshot_is_installed(tmp_path: Path) -> None:
    """The tables are about to be replaced, and another thread does it."""
    writer, checkpoints = ManualWriter(), ManualWriter()
    b = Solo(tmp_path, writer=writer, checkpoint_writer=checkpoints)
    b.feed("a", append(1, 0, 0, [1, 1], commit=2))
    writer.run()
    b.settle()
    assert b.journal.applied_index == 2
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    assert b.engine.installing
    b.pass_time(3 * EVERY_S)
    assert checkpoints.jobs == []
    writer.run()
    b.settle()
    assert (b.journal.applied_index, b.store.checkpoint_index) == (40, 40)
    writer.run()
    b.feed("a", append(1, 40, 1, [1], commit=41))
    writer.run()
    b.settle()
    in_time(b, EVERY_S)
    checkpoints.run()
    assert b.store.checkpoint_index == 41


def test_one_of_tables_that_a_snapshot_replaced_counts_for_nothing(tmp_path: Path) -> None:
    checkpoints = ManualWriter()
    b = Solo(tmp_path, checkpoint_writer=checkpoints)
    b.feed("a", append(1, 0, 0, [1, 1], commit=2))
    in_time(b, EVERY_S + 0.1)
    assert len(checkpoints.jobs) == 1
    meta, data = snapshot(tmp_path, 40, 1)
    b.feed("a", *whole(meta, data, 1))
    checkpoints.run()
    assert (b.store.applied_index, b.store.checkpoint_index) == (40, 40)
    assert b.crash(tmp_path).journal.applied_index == 40


def test_the_log_is_compacted_as_far_as_the_newest_one(tmp_path: Path) -> None:
    options = replace(OPTIONS, keep_entries=2)
    b = Solo(tmp_path, ALL, options=options)
    for index in range(20):
        b.feed("a", append(1, index, min(index, 1), [1], commit=index + 1))
    assert b.log()[0] == (1, 1)
    in_time(b, EVERY_S + 0.1)
    b.feed("a", append(1, 20, 1, [1], commit=21))
    assert b.log()[0] == (18, 1)
    again = b.crash(tmp_path)
    assert again.journal.applied_index >= 20

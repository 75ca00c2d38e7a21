"""A leader on a slow disk: the next write waits a little for the answers that commit what the last one wrote."""

from __future__ import annotations

from pathlib import Path

from raftsched.raft import codec
from tests.support.raft_replica import ManualWriter, Solo, numbers


class Leader(Solo):
    """Leads with one applied entry of its own; writes take as long as `write` says."""

    def __init__(self, tmp_path: Path) -> None:
        self.disk = ManualWriter()
        super().__init__(tmp_path, writer=self.disk)
        self.engine.campaign()
        self.write(0.001)
        self.feed("a", codec.VoteAnswer(self.engine.term, True))
        self.write(0.001)
        self.answer(1)
        self.write(0.001)
        assert self.replica.leading
        self.sent.clear()

    def write(self, seconds: float) -> None:
        """The running write takes this long."""
        self.settle()
        self.clock.forward(1000 * seconds)
        self.disk.run()
        self.settle()

    def answer(self, index: int) -> None:
        self.feed("a", codec.AppendAnswer(self.engine.term, index + 1, True, False))

    def sent_to_a(self) -> list[int]:
        """The numbers of the commands that were sent since the last call."""
        found = self.take(codec.Append, "a")
        return [n for frame in found for _, data in frame.entries for n in numbers(data)]


def test_the_write_after_a_slow_one_applies_what_the_answers_commit(tmp_path: Path) -> None:
    b = Leader(tmp_path)
    first = b.propose(1)
    second = b.propose(2)
    assert b.sent_to_a() == [1]
    b.write(0.010)
    assert (b.sent_to_a(), b.disk.jobs) == ([], []), "the followers' writes end with this one"
    b.clock.forward(2)
    b.answer(2)
    assert b.sent_to_a() == [2]
    assert first == []
    b.write(0.010)
    assert len(first) == 1, "applied by the write that wrote the second"
    b.answer(3)
    b.write(0.010)
    assert len(second) == 1


def test_it_does_not_wait_for_longer_than_half_of_a_write(tmp_path: Path) -> None:
    b = Leader(tmp_path)
    b.propose(1)
    b.propose(2)
    b.write(0.010)
    b.sent.clear()
    b.clock.forward(6)
    b.replica.tick()
    b.settle()
    assert b.sent_to_a() == [2]
    assert len(b.disk.jobs) == 1


def test_after_a_fast_write_nothing_waits(tmp_path: Path) -> None:
    b = Leader(tmp_path)
    b.propose(1)
    b.propose(2)
    b.write(0.001)
    assert b.sent_to_a() == [1, 2]


def test_nothing_waits_when_no_answer_is_due(tmp_path: Path) -> None:
    b = Leader(tmp_path)
    first = b.propose(1)
    b.write(0.010)
    b.answer(2)
    b.propose(2)
    b.write(0.010)  # applies the first
    assert len(first) == 1
    assert b.sent_to_a() == [1, 2]

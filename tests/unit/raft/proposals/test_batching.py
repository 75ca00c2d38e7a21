"""What the leader gathers for an entry, and what it does not wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.raft import codec
from raftsched.raft.proposals.batching import FEW_BYTES, FEW_CALLS
from tests.support.raft_replica import ManualWriter, Solo, numbers, unique


class Led:
    """Leader "b" of a, b, c, on a disk that takes as long as the test wants."""

    def __init__(self, tmp_path: Path) -> None:
        self.writer = ManualWriter()
        self.b = Solo(tmp_path, writer=self.writer)
        self.b.engine.campaign()
        self.b.settle()
        self.write()
        self.term = self.b.engine.term
        self.b.feed("a", codec.VoteAnswer(self.term, True))
        self.write()
        self.acknowledge()
        self.write()
        assert self.b.replica.leading
        self.b.take(codec.Append)

    def write(self) -> None:
        """All turns to their end."""
        while self.writer.jobs:
            self.writer.run_one()
            self.b.settle()

    def acknowledge(self) -> None:
        """Both followers have all there is."""
        for peer in "ac":
            self.b.feed(peer, codec.AppendAnswer(self.term, self.b.journal.last_index + 1, True, False))

    def sent(self) -> list[tuple[list[int], int]]:
        """To one follower since the last call: the commands of each message, and the commit index it tells."""
        frames = self.b.take(codec.Append, "a")
        return [([n for _, data in f.entries for n in numbers(data)], f.commit) for f in frames]

    def apply(self, *commands: int, early_ack: bool) -> None:
        """They are committed, and the turn that applies them is under way."""
        self.b.propose(*commands, early_ack=early_ack)
        self.write()
        self.acknowledge()
        assert self.writer.jobs
        assert self.b.journal.applied_index < self.b.journal.commit_index


def test_who_asks_alone_does_not_wait_for_the_turn_before(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.apply(1, early_ack=True)
    led.sent()
    led.b.propose(2, early_ack=True)
    assert led.sent() == [([2], led.b.journal.commit_index)]
    led.b.propose(3, early_ack=True)
    led.b.propose(4, early_ack=True)
    assert led.sent() == []  # one is on its way: what comes meanwhile is gathered
    led.write()
    assert led.sent() == [([3, 4], led.b.journal.commit_index)]


@pytest.mark.parametrize("why", ["others wait", "many calls", "much in one"])
def test_else_a_turn_gathers(tmp_path: Path, why: str) -> None:
    led = Led(tmp_path)
    if why == "others wait":
        led.apply(1, early_ack=False)
    elif why == "much in one":
        led.apply(*range(100, 100 + FEW_BYTES // len(unique(100)) + 1), early_ack=True)
    else:
        led.b.propose(100, early_ack=True)  # the others are gathered during its turn
        for number in range(FEW_CALLS):
            led.b.propose(101 + number, early_ack=True)
        led.apply(101 + FEW_CALLS, early_ack=True)
    led.sent()
    led.b.propose(2, early_ack=True)
    assert led.sent() == []
    led.write()
    assert [commands for commands, _ in led.sent() if commands] == [[2]]


def test_followers_hear_of_it_when_it_is_applied_here(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.b.propose(1, early_ack=True)
    led.write()
    before = led.b.journal.commit_index
    led.acknowledge()
    assert led.b.journal.commit_index > before
    assert all(commit == before for _, commit in led.sent())
    led.write()
    assert led.sent() == [([], led.b.journal.commit_index)]


def test_but_at_once_when_somebody_else_waits_for_it(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.b.feed("a", codec.Propose(led.term, [(77, 1, [unique(1)])]))
    led.write()
    led.acknowledge()
    assert led.sent()[-1] == ([], led.b.journal.commit_index)
    assert led.b.journal.applied_index < led.b.journal.commit_index

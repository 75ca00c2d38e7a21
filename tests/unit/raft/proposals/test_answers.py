"""When a caller is answered, what an entry gathers, and when followers hear that it is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raftsched.core.commands import Barrier, Rejected, encode
from raftsched.core.entry import encode_entry
from raftsched.raft import codec
from tests.support.raft_replica import ManualWriter, Solo, append, numbers, unique

BARRIER = encode(Barrier())


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
        assert self.b.replica.leading
        self.b.take(codec.Append)

    def write(self) -> None:
        """All turns to their end."""
        while self.writer.jobs:
            self.writer.run_one()
            self.b.settle()

    def acknowledge(self, peers: str = "ac") -> None:
        """These followers have all there is."""
        for peer in peers:
            self.b.feed(peer, codec.AppendAnswer(self.term, self.b.journal.last_index + 1, True, False))

    def sent(self) -> list[tuple[list[int], int]]:
        """To one follower since the last call: the commands of each message, and the commit index it tells."""
        frames = self.b.take(codec.Append, "a")
        return [([n for _, data in f.entries for n in numbers(data)], f.commit) for f in frames]

    def ask(self, *commands: bytes) -> list[Any]:
        got: list[Any] = []
        self.b.replica.propose(commands, self.b.clock.monotonic() + 5, lambda answers, error: got.append(answers))
        self.b.settle()
        return got


def _entry(origin: int, seq: int, commands: list[bytes]) -> bytes:
    return encode_entry(1, [(origin, seq, commands)])


def test_a_caller_is_answered_as_soon_as_a_majority_has_it(tmp_path: Path) -> None:
    """The disk of this node has it by then; that it is committed needs no write."""
    led = Led(tmp_path)
    shown: list[tuple[int, int]] = []
    led.b.replica.propose(
        [BARRIER],
        led.b.clock.monotonic() + 5,
        lambda answers, error: shown.append((led.b.journal.applied_index, led.b.store.applied_index)),
    )
    led.b.settle()
    led.write()
    assert shown == []
    led.acknowledge("a")
    last = led.b.journal.last_index
    assert shown == [(last, last)], "and reads show it"
    assert led.writer.jobs == []


def test_a_caller_waits_for_this_disk_where_others_are_faster(tmp_path: Path) -> None:
    led = Led(tmp_path)
    got = led.ask(BARRIER)
    led.acknowledge("ac")
    assert led.b.journal.commit_index == led.b.journal.last_index, "the followers have it"
    assert got == []
    led.write()
    assert len(got) == 1


def test_no_caller_waits_for_the_turn_after_its_own(tmp_path: Path) -> None:
    led = Led(tmp_path)
    first = led.ask(BARRIER)
    second = led.ask(BARRIER)
    led.writer.run_one()
    led.b.settle()
    assert len(led.writer.jobs) == 1, "the turn of the second one"
    led.b.feed("a", codec.AppendAnswer(led.term, led.b.journal.last_index, True, False))
    assert (len(first), len(second)) == (1, 0)
    led.write()
    led.acknowledge("a")
    assert len(second) == 1


def test_a_refusal_comes_like_any_answer(tmp_path: Path) -> None:
    led = Led(tmp_path)
    got = led.ask(BARRIER, unique(1))  # there is no such job
    led.write()
    led.acknowledge("a")
    ((_, refused),) = got
    assert isinstance(refused, Rejected)


def test_what_was_said_holds_after_a_crash(tmp_path: Path) -> None:
    """The tables lose it, and no disk here knows that it is committed: the next leadership commits it again."""
    led = Led(tmp_path)
    got = led.b.propose(7)
    led.write()
    led.acknowledge("a")
    assert len(got) == 1
    index = led.b.journal.applied_index
    again = led.b.crash(tmp_path)
    assert again.journal.applied_index < index
    term = again.lead()
    again.feed("a", codec.AppendAnswer(term, again.journal.last_index + 1, True, False))
    assert again.journal.applied_index > index
    assert numbers(again.store.history[index][1]) == [7]
    assert again.store.applied_twice == []


def test_an_entry_gathers_what_came_during_a_turn(tmp_path: Path) -> None:
    led = Led(tmp_path)
    commit = led.b.journal.commit_index
    led.b.propose(1)
    assert led.sent() == [([1], commit)]
    led.b.propose(2)
    led.b.propose(3)
    led.b.feed("a", codec.Propose(led.term, [(77, 1, [unique(4)])]))
    assert led.sent() == [], "one is on its way: what comes meanwhile is gathered"
    led.writer.run_one()
    led.b.settle()
    assert led.sent() == [([2, 3, 4], commit)]


def test_followers_hear_of_a_commit_at_once(tmp_path: Path) -> None:
    """Their callers wait for it."""
    led = Led(tmp_path)
    led.b.propose(1)
    led.write()
    led.sent()
    led.acknowledge("a")
    assert led.sent() == [([], led.b.journal.commit_index)]
    assert led.writer.jobs == []


def test_or_with_the_entry_that_leaves_at_the_same_time(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.b.propose(1)
    led.write()
    led.sent()
    led.b.replica.propose([unique(2)], led.b.clock.monotonic() + 5, None)
    led.acknowledge("a")
    assert led.sent() == [([2], led.b.journal.commit_index)]


def test_a_followers_caller_is_answered_when_it_hears_of_the_commit(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    b.feed("a", codec.Ping(1, 1))
    writer.run()
    got = b.propose(1)
    ((origin, seq, commands),) = b.take(codec.Propose)[0].batches
    b.feed("a", append(1, 0, 0, [1]))
    b.feed("a", codec.Append(1, 1, 1, 1, [(1, _entry(origin, seq, commands))]))
    while writer.jobs:
        writer.run_one()
        b.settle()
    assert (b.journal.last_index, b.journal.applied_index, got) == (2, 1, [])
    b.feed("a", append(1, 2, 1, [], commit=2))
    assert len(got) == 1
    assert writer.jobs == []


def test_applying_gives_way_to_other_events(tmp_path: Path) -> None:
    """However much is committed at once."""
    b = Solo(tmp_path)
    room = b.replica.options.apply_max_bytes
    big = [(1, _entry(9, n, [unique(n, room)])) for n in range(1, 4)]
    b.feed("a", codec.Append(1, 0, 0, 0, big))
    b.replica.receive("a", 1, append(1, 3, 1, [], commit=3))
    seen = []
    while b.journal.applied_index < 3:
        b.replica.pump()
        seen.append(b.journal.applied_index)
    assert seen == [1, 2, 3]

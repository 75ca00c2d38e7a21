"""A caller is answered once a majority has its command on disk, before the batch that applies it is on this node's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raftsched.core.commands import Barrier, Rejected, encode
from raftsched.store import OnApplied, WriteBatch, WriteResult
from tests.support.raft_replica import Solo, unique
from tests.support.raft_store import MemoryStore

BARRIER = encode(Barrier())


class Told(MemoryStore):
    """Notes what the callers have when a write is applied and not on the disk; `breaks`: it never gets there."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[list[Any]] = []
        self.then: list[list[int]] = []
        self.breaks = False

    def write(self, batch: WriteBatch, on_applied: OnApplied | None = None) -> WriteResult:
        if on_applied is None:
            return super().write(batch)

        def told(result: WriteResult) -> None:
            on_applied(result)
            self.then.append([len(got) for got in self.answers])
            if self.breaks:
                raise OSError(5, "Input/output error")

        return super().write(batch, told)


def ask(b: Solo, store: Told, *commands: bytes, early_ack: bool) -> list[Any]:
    got: list[Any] = []
    store.answers.append(got)
    b.replica.propose(
        commands,
        b.clock.monotonic() + 5,
        lambda answers, error: got.append((answers, error)),
        early_ack=early_ack,
    )
    return got


def leader(tmp_path: Path) -> tuple[Solo, Told]:
    store = Told()
    b = Solo(tmp_path, peers="b", store=store)
    b.pass_time(1.0)
    assert b.replica.leading
    return b, store


def test_who_takes_it_early_is_answered_before_the_disk_has_it(tmp_path: Path) -> None:
    b, store = leader(tmp_path)
    late, early = ask(b, store, BARRIER, early_ack=False), ask(b, store, BARRIER, BARRIER, early_ack=True)
    b.settle()
    assert store.then == [[0, 1]]
    assert [len(answers) for answers, _ in early] == [2]
    assert [len(answers) for answers, _ in late] == [1]
    assert b.replica.proposer.acked_index == b.journal.applied_index == b.journal.last_index


def test_who_does_not_is_not(tmp_path: Path) -> None:
    b, store = leader(tmp_path)
    got = ask(b, store, BARRIER, early_ack=False)
    b.settle()
    assert store.then == []  # nobody was to be told
    assert len(got) == 1
    assert b.replica.proposer.acked_index == 0


def test_who_is_refused_may_look_why(tmp_path: Path) -> None:
    b, store = leader(tmp_path)
    got = ask(b, store, BARRIER, unique(1), early_ack=True)  # there is no such job
    b.settle()
    assert store.then == [[0]]
    ((answers, error),) = got
    assert isinstance(answers[1], Rejected)
    assert error is None


def test_what_was_said_holds_when_the_write_is_lost(tmp_path: Path) -> None:
    """The disk fails in the write that applies it. It was committed: the next incarnation applies it again."""
    b, store = leader(tmp_path)
    store.breaks = True
    got, other = ask(b, store, BARRIER, early_ack=True), ask(b, store, BARRIER, early_ack=False)
    b.settle()
    assert [type(error) for error in b.fatal] == [OSError]
    assert [len(answers) for answers, _ in got] == [1]  # and nothing else afterwards
    assert [answers for answers, _ in other] == [None]  # whose outcome is unknown
    index = b.replica.proposer.acked_index
    assert store.applied_index < index
    store.breaks = False
    again = b.crash(tmp_path)
    again.pass_time(1.0)
    assert again.journal.applied_index > index
    assert again.store.history[index][1] == again.store.log[index][1]

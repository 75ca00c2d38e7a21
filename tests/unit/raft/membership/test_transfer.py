"""Leadership is given to another member: when that has everything, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.errors import RaftschedError
from raftsched.raft import codec
from tests.support.raft_replica import hello
from tests.unit.raft.house import Leader, code


def transfer(b: Leader, to: str) -> list[RaftschedError | None]:
    got: list[RaftschedError | None] = []
    b.number += 1
    b.replica.request(codec.TransferLeadership(b.number, to, b.term), 5.0, got.append)
    b.settle()
    return got


def test_a_transfer_waits_until_the_next_leader_has_everything(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    before = b.propose(1)
    b.sent.clear()
    got = transfer(b, "c")
    assert not b.take(codec.TimeoutNow), "c has not acknowledged the last entry"
    last = b.journal.last_index
    after = b.propose(2)
    assert b.journal.last_index == last, "nothing new is appended meanwhile"
    b.acknowledge("a")
    assert before, "what was under way is committed"
    b.acknowledge("c")
    assert b.take(codec.TimeoutNow, "c")
    b.feed("c", codec.Ping(b.term + 1, 0))
    assert not after
    proposed = b.take(codec.Propose, "c")
    assert proposed, "what waited goes to the next leader"
    assert not got
    b.feed("c", codec.Answered(b.number, "", ""))
    assert code(got) is None


def test_the_last_acknowledgement_lets_the_transfer_go_on_at_once(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.propose(1)
    b.acknowledge("a")
    transfer(b, "c")
    b.sent.clear()
    b.replica.receive("c", 1, codec.AppendAnswer(b.term, b.journal.last_index + 1, True, False))
    assert b.awake
    b.replica.pump()
    assert b.take(codec.TimeoutNow, "c")


def test_a_transfer_that_does_not_come_about_is_given_up(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    got = transfer(b, "c")
    b.feed("a", codec.Pong(b.term, b.clock.boot_ms(), b.clock.wall_ms(), True))
    waits = b.propose(1)
    last = b.journal.last_index
    b.pass_time(b.replica.options.election_max_ms / 1000 + 0.1)
    assert code(got) == "not-possible"
    assert b.engine.is_leader
    assert b.journal.last_index > last, "proposals go on"
    b.acknowledge("a", "c")
    assert waits


@pytest.mark.parametrize("to", ["x", "d"])
def test_only_a_connected_voter_takes_over(tmp_path: Path, to: str) -> None:
    b = Leader(tmp_path).opened()
    b.knock("d")
    b.ask("add", "d")
    b.acknowledge("a", "c")
    b.replica.connected(hello("d"), 1)
    assert code(transfer(b, to)) == "not-possible"

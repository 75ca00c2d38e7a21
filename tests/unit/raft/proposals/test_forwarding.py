"""From a follower to the leader: what is no command does not get into the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.core.commands import Form, OpenLeadership, Rejected, encode
from raftsched.core.subjects.keyed import Idempotent
from raftsched.errors import UnknownOutcome
from raftsched.raft import codec
from raftsched.raft.guards import ALL
from raftsched.raft.proposals.proposer import Proposer
from tests.support.raft_replica import OPTIONS, Solo, numbers, unique
from tests.unit.raft.house import Leader

NEWER = b"\x92\x6e\xa1x"  # number 110, of which this version knows nothing
WRONG = [
    NEWER,
    b"",
    b"c1",
    bytes.fromhex("93cd03e701"),
    bytes.fromhex("9201cd03e7"),
    bytes.fromhex("dcffff"),
    b"\x92\x03" + b"\x91" * 900 + b"\xc0",
    encode(Idempotent(b"k" * 32, b"d" * 32, NEWER)),
    encode(OpenLeadership(2**60, "a")),
    encode(Form(b"x" * 16, ())),
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_the_leader_does_not_log_what_is_no_command(tmp_path: Path, wrong: bytes) -> None:
    b = Leader(tmp_path).opened()
    before = b.journal.last_index
    b.sent.clear()
    b.feed("a", codec.Propose(b.term, [(7, 1, [unique(1), wrong]), (7, 2, [unique(2)])]))
    assert b.take(codec.ProposeRejected) == [codec.ProposeRejected(b.term, 1, [1])]
    assert [numbers(e.data) for e in b.journal.entries(before + 1, 1 << 20)] == [[2]]
    assert b.replica.forwarding.rejected == 1
    assert not b.fatal


def test_nor_what_fits_no_entry(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    before = b.journal.last_index
    for commands in ([unique(1, OPTIONS.entry_max_bytes)], [unique(1)] * (OPTIONS.entry_max_commands + 1)):
        b.feed("a", codec.Propose(b.term, [(7, 1, commands)]))
        assert len(b.take(codec.ProposeRejected)) == 1
    assert b.journal.last_index == before
    assert not b.fatal


def test_who_asked_for_it_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    """A newer member among older ones."""
    b = Solo(tmp_path)
    b.feed("a", codec.Ping(1, 1))
    got: dict[str, list[object]] = {"wrong": [], "right": []}
    for name, commands in (("right", [unique(1)]), ("wrong", [unique(2), NEWER]), ("right", [unique(3)])):
        reply = got[name].append
        b.replica.propose(
            commands, b.clock.monotonic() + 5, lambda answers, error, reply=reply: reply(error or answers)
        )
    b.settle()
    (asked,) = b.take(codec.Propose)
    ((_, seq, _),) = asked.batches
    b.feed("c", codec.ProposeRejected(1, seq, [2]))
    assert not got["wrong"], "c does not lead"
    b.feed("a", codec.ProposeRejected(1, seq, [2]))
    ((answers,),) = [got["wrong"]]
    assert isinstance(answers, list)
    assert [type(a) for a in answers] == [Rejected, Rejected]
    assert answers[0].code == "unknown-command"
    (again,) = b.take(codec.Propose)
    ((_, other, commands),) = again.batches
    assert other != seq
    assert commands == [unique(1), unique(3)]
    assert not got["right"]


def test_what_an_earlier_leader_may_have_taken_has_an_unknown_outcome() -> None:
    proposer = Proposer(9, OPTIONS, ALL)
    got: list[object] = []
    proposer.add([unique(1)], 5.0, lambda answers, error: got.append(error))
    ((_, seq, _),) = proposer.batches(1_000, 1_000)
    proposer.rerouted()
    assert proposer.batches(1_000, 1_000)
    proposer.rejected(seq, [0])
    assert isinstance(got[0], UnknownOutcome)
    proposer.rejected(seq, [0])
    assert not proposer.waiting


def test_an_answer_for_what_was_never_sent_commits_nothing(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.propose(1)
    before = b.journal.commit_index
    for success in (True, False):
        b.feed("a", codec.AppendAnswer(b.term, 2**62, success, not success))
    assert b.journal.commit_index == before
    b.acknowledge("a")
    assert b.journal.commit_index == before + 1

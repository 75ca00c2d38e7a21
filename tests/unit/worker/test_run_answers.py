"""What a process for functions may say of a run, and of no other."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.model import Verdict
from raftsched.worker.processes import wire
from raftsched.worker.tasks.run_answers import said_by, says_of_itself


def said(**fields: Any) -> wire.Finished | None:
    given = {"token": 7, "outcome": wire.FAILED, "started_at_ms": 1, "ended_at_ms": 2, **fields}
    return said_by(7, wire.encode(wire.Finished(**given)))


@pytest.mark.parametrize("verdict", [0, *Verdict])
def test_what_is_to_become_of_it(verdict: int) -> None:
    done = said(said=wire.Said(40, "copying", b"1", verdict, 5))
    assert done is not None
    assert done.said == wire.Said(40, "copying", b"1", verdict, 5)


TOO_MUCH = [
    wire.Said(verdict=6),
    wire.Said(verdict=-1),
    wire.Said(delay_ms=-1),
    wire.Said(delay_ms=1 << 60),
    wire.Said(101),
    wire.Said(-1),
    wire.Said(None, "x" * 201),
    wire.Said(kept=b"x"),
    wire.Said(kept=b'"' + b"x" * 4_096 + b'"'),
    wire.Said(kept=b"[" * 200 + b"]" * 200),
]


@pytest.mark.parametrize("too_much", TOO_MUCH)
def test_no_more_than_there_is(too_much: wire.Said) -> None:
    assert said(said=too_much) is None
    assert not says_of_itself(7, wire.encode(wire.Progress(7, too_much)))


def test_of_no_other_run_and_nothing_else() -> None:
    fine = wire.Said(40, "copying", b"1")
    assert says_of_itself(7, wire.encode(wire.Progress(7, fine)))
    assert not says_of_itself(7, wire.encode(wire.Progress(8, fine)))
    assert not says_of_itself(7, wire.encode(wire.Started(7, 1)))
    assert not says_of_itself(7, b"\xff")

"""What a process for functions may say of a run, and of no other."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.model import Verdict
from raftsched.worker.processes import wire
from raftsched.worker.tasks.run_answers import is_self_report, said_by


def said(**fields: Any) -> wire.Finished | None:
    given = {"token": 7, "outcome": wire.FAILED, "started_at_ms": 1, "ended_at_ms": 2, **fields}
    return said_by(7, wire.encode(wire.Finished(**given)))


@pytest.mark.parametrize("verdict", [0, *Verdict])
def test_what_is_to_become_of_it(verdict: int) -> None:
    done = said(said=wire.SelfReport(40, "copying", b"1", verdict, 5))
    assert done is not None
    assert done.said == wire.SelfReport(40, "copying", b"1", verdict, 5)


TOO_MUCH = [
    wire.SelfReport(verdict=6),
    wire.SelfReport(verdict=-1),
    wire.SelfReport(delay_ms=-1),
    wire.SelfReport(delay_ms=1 << 60),
    wire.SelfReport(101),
    wire.SelfReport(-1),
    wire.SelfReport(None, "x" * 201),
    wire.SelfReport(kept=b"x"),
    wire.SelfReport(kept=b'"' + b"x" * 4_096 + b'"'),
    wire.SelfReport(kept=b"[" * 200 + b"]" * 200),
]


@pytest.mark.parametrize("too_much", TOO_MUCH)
def test_no_more_than_there_is(too_much: wire.SelfReport) -> None:
    assert said(said=too_much) is None
    assert not is_self_report(7, wire.encode(wire.Progress(7, too_much)))


def test_of_no_other_run_and_nothing_else() -> None:
    fine = wire.SelfReport(40, "copying", b"1")
    assert is_self_report(7, wire.encode(wire.Progress(7, fine)))
    assert not is_self_report(7, wire.encode(wire.Progress(8, fine)))
    assert not is_self_report(7, wire.encode(wire.Started(7, 1)))
    assert not is_self_report(7, b"\xff")

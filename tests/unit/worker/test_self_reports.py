"""What runs say of themselves gets to the log now and then, and the last of it with their ends."""

from __future__ import annotations

from raftsched.core.commands import SelfReport
from raftsched.core.model import Outcome
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.session.reports import shown
from raftsched.worker.session.self_reports import EVERY_MS, SelfReports

END = RunEnd(outcome=Outcome.SUCCEEDED, started_at_ms=1, ended_at_ms=2)


def test_the_first_word_at_once_and_the_next_later() -> None:
    sayings = SelfReports()
    assert sayings.take_due(0) == []
    sayings.add(7, SelfReport(1))
    assert sayings.take_due(5) == [(7, SelfReport(1))]
    sayings.add(7, SelfReport(2, "a"))
    sayings.add(7, SelfReport(None, None, b"1"))
    sayings.add(8, SelfReport(50))
    assert sayings.take_due(6) == [(8, SelfReport(50))]
    assert sayings.take_due(5 + EVERY_MS) == [(7, SelfReport(2, "a", b"1"))]
    assert sayings.take_due(5 + 10 * EVERY_MS) == []


def test_the_end_has_all_of_it_also_what_was_reported_before() -> None:
    sayings = SelfReports()
    sayings.add(7, SelfReport(1, "a", b"1"))
    assert sayings.take_due(0)
    assert sayings.completed(7, END).said == SelfReport(1, "a", b"1")
    assert sayings.completed(7, END) is END
    sayings.add(7, SelfReport(1, "a", b"1"))
    both = RunEnd(outcome=Outcome.SUCCEEDED, started_at_ms=1, ended_at_ms=2, said=SelfReport(100, "done"))
    assert sayings.completed(7, both).said == SelfReport(100, "done", b"1")
    assert sayings.take_due(100 * EVERY_MS) == []


def test_secrets_are_not_shown() -> None:
    said = SelfReport(1, "at hush-hush", b'{"key":"hush-hush"}')
    assert shown(said, ("hush-hush",)) == SelfReport(1, "at ***", b'{"key":"***"}')
    assert shown(said, ()) is said


def test_what_is_forgotten_is_not_reported() -> None:
    sayings = SelfReports()
    sayings.add(7, SelfReport(1))
    sayings.forget(7)
    assert sayings.take_due(0) == []

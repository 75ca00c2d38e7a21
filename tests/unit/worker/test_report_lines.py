"""Lines in which a program says something of itself."""

from __future__ import annotations

import pytest

from raftsched.bounds import PROGRESS_TEXT_MAX
from raftsched.core.limits import SNOOZE_MS
from raftsched.core.limits import STATE_MAX as STATE_MAX_OF_CORE
from raftsched.core.model import Verdict
from raftsched.run import STATE_MAX, TEXT_MAX
from raftsched.worker.processes import report_lines
from raftsched.worker.processes.report_lines import LINE_MAX, ReportLines
from raftsched.worker.processes.wire import SelfReport


def test_bounds_and_numbers_are_those_of_the_core() -> None:
    assert (TEXT_MAX, STATE_MAX) == (PROGRESS_TEXT_MAX, STATE_MAX_OF_CORE)
    assert {word: Verdict(number).name.lower() for word, number in report_lines._WORDS.items()} == {
        verdict.name.lower(): verdict.name.lower() for verdict in Verdict
    }
    assert (report_lines.SNOOZE_MIN_MS, report_lines.SNOOZE_MAX_MS) == SNOOZE_MS


def said(*data: bytes) -> ReportLines:
    lines = ReportLines()
    for piece in data:
        assert lines.feed(piece) == []
    return lines


def test_progress_and_state() -> None:
    lines = said(b'{"progress": 40, "te', b'xt": "copying"}\n\n', b'{"state": {"row": 7}}\n{"progress"')
    assert lines.news
    assert lines.latest == SelfReport(40, "copying", b'{"row":7}')
    assert not lines.news
    lines = said(b'{"progress":1}\n', b'{"text":"so far"}\n{"state":null}\n')
    assert lines.latest == SelfReport(None, "so far", b"null")
    assert said(b"").latest is None


@pytest.mark.parametrize(
    ("text", "verdict", "delay_ms"),
    [
        ("succeed", Verdict.SUCCEED, None),
        ("retry", Verdict.RETRY, None),
        ("fail", Verdict.FAIL, None),
        ("cancel", Verdict.CANCEL, None),
        ("snooze 10m", Verdict.SNOOZE, 600_000),
    ],
)
def test_an_outcome(text: str, verdict: Verdict, delay_ms: int | None) -> None:
    lines = said(
        b'{"outcome": "cancel", "reason": "before"}\n', b'{"outcome": "%s", "reason": "why"}\n' % text.encode()
    )
    assert (lines.verdict, lines.delay_ms, lines.reason) == (verdict, delay_ms, "why")
    assert lines.latest is None


@pytest.mark.parametrize(
    "line",
    [
        b"40",
        b"[]",
        b"{}",
        b"{",
        b"\xff",
        b'{"progres": 4}',
        b'{"progress": "4"}',
        b'{"progress": true}',
        b'{"progress": 101}',
        b'{"progress": -1}',
        b'{"text": 4}',
        b'{"state": "%s"}' % (b"x" * STATE_MAX),
        b'{"outcome": "done"}',
        b'{"outcome": "snooze"}',
        b'{"outcome": "cancel 5m"}',
        b'{"outcome": "snooze soon"}',
        b'{"outcome": "snooze 1ms"}',
        b'{"outcome": "snooze 1000d"}',
        b'{"outcome": 5}',
        b'{"reason": 5}',
        b'{"state": %s}' % (b"[" * 200 + b"]" * 200),
        b"x" * (LINE_MAX + 1),
    ],
)
def test_what_is_wrong_is_said_and_the_next_line_counts(line: bytes) -> None:
    lines = ReportLines()
    (wrong,) = lines.feed(line + b"\n")
    assert "its report" in wrong
    assert (lines.latest, lines.verdict) == (None, 0)
    assert lines.feed(b'{"progress":1}\n') == []
    assert lines.latest == SelfReport(1, "")


def test_a_line_without_an_end_takes_no_memory_and_is_said_once() -> None:
    lines = ReportLines()
    found = [wrong for _ in range(100) for wrong in lines.feed(b"x" * 4_096)]
    assert len(found) == 1
    assert len(lines._held) <= LINE_MAX
    assert lines.feed(b'x\n{"progress":1}\n') == []
    assert lines.latest == SelfReport(1, "")


def test_it_complains_of_a_few_lines_only() -> None:
    lines = ReportLines()
    assert sum(len(lines.feed(b"no\nno\n")) for _ in range(50)) == 5

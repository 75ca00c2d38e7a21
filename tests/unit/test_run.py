"""What a function may say of its run: exceptions that are checked where they are raised."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import raftsched
from raftsched import run
from raftsched.core import limits
from raftsched.core.model import Verdict
from raftsched.system.clock import SystemClock
from raftsched.worker.processes.report_lines import ReportLines
from raftsched.worker.processes.wire import SelfReport


def test_the_numbers_are_those_of_the_core() -> None:
    assert (run.Fail.verdict, run.Cancel.verdict, run.Snooze.verdict) == (Verdict.FAIL, Verdict.CANCEL, Verdict.SNOOZE)
    assert (run.SNOOZE_MIN_MS, run.SNOOZE_MAX_MS) == limits.SNOOZE_MS


def test_what_they_say() -> None:
    assert (str(raftsched.Cancel("nothing to do")), str(raftsched.Fail())) == ("nothing to do", "")
    assert raftsched.Snooze("10m").delay_ms == 600_000
    assert raftsched.Snooze(timedelta(hours=1.5), "busy").delay_ms == 5_400_000
    assert str(raftsched.Snooze("10m", "busy")) == "busy"


@pytest.mark.parametrize("delay", ["soon", "", "10ms", "31d", timedelta(0), timedelta(days=-1), timedelta(days=400)])
def test_a_delay_that_cannot_be_is_the_function_s_error(delay: str | timedelta) -> None:
    with pytest.raises(ValueError, match="the delay of a snooze"):
        raftsched.Snooze(delay)


def test_they_cost_next_to_nothing() -> None:
    """No client, no core: a process for functions imports them."""
    code = "import sys; import raftsched.run; print([m for m in sys.modules if m.startswith('raftsched')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert sorted(eval(found)) == [
        *("raftsched", "raftsched.bounds", "raftsched.quantities", "raftsched.run", "raftsched.system"),
        *("raftsched.system.clock", "raftsched.version"),
    ]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, str | None, bytes | None]]:
    """What a run of this process passed on."""
    found: list[tuple[int | None, str | None, bytes | None]] = []
    monkeypatch.setattr(run, "in_process", run.Teller(lambda *said: found.append(said)))
    return found


def test_progress_is_passed_on_at_once_and_then_once_a_second(
    told: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100.0, 100.5, 101.0])
    monkeypatch.setattr(SystemClock, "monotonic", lambda self: next(times))
    for percent in (1, 2.9, 3):
        raftsched.progress(percent, "copying")
    assert told == [(1, "copying", None), (3, "copying", None)]


def test_half_of_a_surrogate_pair_does_not_keep_progress_from_being_passed_on(told: list[object]) -> None:
    raftsched.progress(1, "half \ud83d of it")
    assert told == [(1, "half ? of it", None)]


def test_a_state_is_passed_on_whenever_it_is_saved(told: list[object]) -> None:
    raftsched.save_state({"row": 7})
    raftsched.save_state(["ä"])
    assert told == [(None, None, b'{"row":7}'), (None, None, '["ä"]'.encode())]
    assert raftsched.state() == ["ä"]
    raftsched.save_state(None)
    assert raftsched.state() is None


@pytest.mark.parametrize("percent", [-1, 101, float("nan")])
def test_progress_that_cannot_be(percent: float, told: list[object]) -> None:
    with pytest.raises(ValueError, match="0 to 100"):
        raftsched.progress(percent)
    assert told == []


def test_a_state_that_cannot_be(told: list[object]) -> None:
    with pytest.raises(ValueError, match="4,096 is the limit"):
        raftsched.save_state("x" * run.STATE_MAX)
    with pytest.raises(ValueError):
        raftsched.save_state(float("nan"))
    with pytest.raises(TypeError):
        raftsched.save_state(object())
    assert told == []


def test_what_earlier_attempts_have_saved(told: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    assert raftsched.state() is None
    monkeypatch.setenv(run.STATE, '{"row":7}')
    assert raftsched.state() == {"row": 7}
    raftsched.save_state({"row": 8})
    assert raftsched.state() == {"row": 8}


def test_a_program_writes_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "in_process", None)
    monkeypatch.setenv(run.REPORT_FILE, str(tmp_path / "report"))
    raftsched.progress(40, 'a "name"')
    raftsched.save_state({"row": 7})
    lines = ReportLines()
    assert lines.feed((tmp_path / "report").read_bytes()) == []
    assert lines.latest == SelfReport(40, 'a "name"', b'{"row":7}')


def test_outside_of_a_run_nobody_hears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "in_process", None)
    raftsched.progress(40)
    raftsched.save_state(5)
    assert raftsched.state() == 5

"""How long a node that can start nothing is left alone."""

from __future__ import annotations

import errno

import pytest

from raftsched.worker.session.shortage import PAUSE_MAX_MS, PAUSE_MIN_MS, Pause, is_shortage


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT])
def test_what_a_machine_runs_out_of(number: int) -> None:
    assert is_shortage(OSError(number, ""))


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.E2BIG, errno.ENOEXEC])
def test_what_is_the_run_s_own_fault(number: int) -> None:
    assert not is_shortage(OSError(number, ""))


def test_a_pause_begins_with_a_failure_and_ends_by_itself() -> None:
    pause = Pause()
    assert pause.left_ms(5) == 0
    assert pause.failed("no process", 10)
    assert pause.left_ms(10) == PAUSE_MIN_MS
    assert pause.left_ms(10 + PAUSE_MIN_MS) == 0


def test_what_was_given_out_before_it_was_known_makes_it_no_longer() -> None:
    pause = Pause()
    pause.failed("no process", 0)
    assert not pause.failed("no process", 5)
    assert pause.left_ms(0) == PAUSE_MIN_MS
    assert pause.count == 2


def test_each_is_twice_as_long_as_the_one_before_up_to_a_limit() -> None:
    pause, now, lengths = Pause(), 0, []
    for _ in range(8):
        assert pause.failed("no process", now)
        lengths.append(pause.left_ms(now))
        now += lengths[-1]
    assert lengths == [min(PAUSE_MAX_MS, PAUSE_MIN_MS << i) for i in range(8)]


def test_a_start_begins_anew() -> None:
    pause = Pause()
    pause.failed("no process", 0)
    pause.began(1)  # it was under way already
    assert pause.failed("no process", PAUSE_MIN_MS)
    pause.began(3 * PAUSE_MIN_MS)
    assert pause.trouble(3 * PAUSE_MIN_MS) == ""
    pause.failed("no process", 4 * PAUSE_MIN_MS)
    assert pause.left_ms(4 * PAUSE_MIN_MS) == PAUSE_MIN_MS


def test_the_trouble_is_told_until_something_was_started_or_a_while_has_gone() -> None:
    pause = Pause()
    assert pause.trouble(0) == ""
    pause.failed("no process", 0)
    assert pause.trouble(PAUSE_MIN_MS) == "no process"
    assert pause.trouble(PAUSE_MIN_MS + PAUSE_MAX_MS) == ""


def test_what_else_holds_it_up_comes_first() -> None:
    assert Pause(lambda: "it waits").trouble(0) == "it waits"

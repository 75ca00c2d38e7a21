"""The heartbeats of streams: due so long after the last byte that was sent, and not after anything else."""

from __future__ import annotations

from raftsched.api.http.streams import HEARTBEAT_S, Heartbeat
from tests.support.clock import ManualClock

STEP_MS = HEARTBEAT_S * 1_000 / 3


def test_it_is_due_after_so_long_a_silence() -> None:
    clock = ManualClock()
    beat = Heartbeat(clock)
    assert (beat.due, beat.left_s) == (False, HEARTBEAT_S)
    clock.forward(STEP_MS)
    assert (beat.due, beat.left_s) == (False, HEARTBEAT_S * 2 / 3)
    clock.forward(2 * STEP_MS)
    assert (beat.due, beat.left_s) == (True, 0.0)
    clock.forward(STEP_MS)
    assert (beat.due, beat.left_s) == (True, 0.0), "whoever is late waits for nothing"


def test_what_is_sent_begins_the_silence_anew() -> None:
    clock = ManualClock()
    beat = Heartbeat(clock)
    for _ in range(6):
        clock.forward(2 * STEP_MS)
        assert not beat.due
        beat.sent()
    clock.forward(3 * STEP_MS)
    assert beat.due

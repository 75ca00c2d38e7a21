"""Measures how long the event loop is held: what the node itself knows of its longest stretch of work.

Heartbeats, leases and all answers wait while one callback computes. A timer is due every 25 ms; when it comes late,
nothing else had its turn meanwhile. The stretch is the processor time of the loop's thread since the timer's last
time, as far as the timer was late by it: so a machine that is busy with other things, or a thread that waits for the
interpreter, makes it no longer. It is up to 25 ms less than it really was, and costs requests nothing, with any event
loop. A loop that did next to nothing since the timer's last time is looked at every 100 ms: then nearly all of the
processor time until the next look is the stretch, wherever in the 100 ms it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.system.clock import Clock, thread_s

BEAT_S = 0.025
QUIET_BEAT_S = 0.1
QUIET_SHARE = 0.1  # a thread that computes for less of the time is quiet
SETTLES_S = 1.0  # what a start takes until then is not measured
WINDOW_S = 60.0  # the longest of this one and of the one before is shown


class LoopMeter(Collector):
    """The longest stretch of one event loop. `start` and `stop` are called on it."""

    def __init__(self, clock: Clock, busy_beat_s: float = BEAT_S, quiet_beat_s: float = QUIET_BEAT_S) -> None:
        """`busy_beat_s`, `quiet_beat_s`: between two looks at a loop that computes, and at one that does not."""
        self._clock = clock
        self._busy_beat_s = busy_beat_s
        self._quiet_beat_s = quiet_beat_s
        self._beat_s = busy_beat_s
        self._longest_s = [0.0, 0.0]  # of this window, and of the one before
        self._window_ends_s = 0.0
        self._due_s = 0.0
        self._used_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, after_s: float = SETTLES_S) -> None:
        self._timer = asyncio.get_running_loop().call_later(after_s, self._begin)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def longest_s(self) -> float:
        """Returns the processor seconds of the longest stretch of the last two minutes, or of a part of them."""
        self._turn_over(self._clock.monotonic())
        return max(self._longest_s)

    def forget(self) -> None:
        """Begins anew, as if nothing was measured."""
        self._longest_s = [0.0, 0.0]

    def _begin(self) -> None:
        self._window_ends_s = self._clock.monotonic() + WINDOW_S
        self._wait()

    def _wait(self) -> None:
        self._due_s = self._clock.monotonic() + self._beat_s
        self._used_s = thread_s()
        self._timer = asyncio.get_running_loop().call_later(self._beat_s, self._beat)

    def _beat(self) -> None:
        now = self._clock.monotonic()
        late_s, used_s = now - self._due_s, thread_s() - self._used_s
        if late_s > self._busy_beat_s:
            self._turn_over(now)
            self._longest_s[0] = max(self._longest_s[0], min(late_s + self._beat_s - self._busy_beat_s, used_s))
        self._beat_s = self._quiet_beat_s if used_s < QUIET_SHARE * self._beat_s else self._busy_beat_s
        self._wait()

    def _turn_over(self, now: float) -> None:
        if now >= self._window_ends_s:
            recent = now < self._window_ends_s + WINDOW_S
            self._longest_s = [0.0, self._longest_s[0] if recent else 0.0]
            self._window_ends_s = now + WINDOW_S

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        words = (
            "Longest stretch of processor time, of the last two minutes, in which nothing else of the node had a turn."
        )
        yield GaugeMetricFamily("raftsched_loop_longest_stretch_seconds", words, self.longest_s())

"""The event loop's longest stretch, as the node measures it."""

import asyncio

import pytest

from raftsched.node import loop_meter
from raftsched.node.loop_meter import BEAT_S, QUIET_BEAT_S, WINDOW_S, LoopMeter
from tests.support.clock import ManualClock


class Work:
    """Seconds that pass, and those of them in which the loop's thread computes; by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.used_s = 0.0
        monkeypatch.setattr(loop_meter, "thread_s", lambda: self.used_s)
        self.meter = LoopMeter(self.clock)

    def beat(self, passes_s: float, computes_s: float) -> None:
        """The timer comes after so long."""
        self.clock.forward(passes_s * 1_000)
        self.used_s += computes_s
        self.meter.stop()
        self.meter._beat()


def test_a_stretch_is_processor_time_in_which_the_timer_could_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        work = Work(monkeypatch)
        work.meter._begin()
        work.beat(BEAT_S, BEAT_S)
        assert work.meter.longest_s() == 0, "the timer came when it was due, whatever was done meanwhile"
        work.beat(BEAT_S + 2, 0.001)
        assert work.meter.longest_s() == pytest.approx(0.001), "the machine had other things to do"
        work.beat(BEAT_S + 0.3, BEAT_S + 0.3)
        assert work.meter.longest_s() == pytest.approx(0.3)
        work.beat(BEAT_S + 0.2, BEAT_S + 0.2)
        assert work.meter.longest_s() == pytest.approx(0.3), "the longest counts"
        work.meter.stop()

    asyncio.run(main())


def test_a_quiet_loop_is_looked_at_less_often_and_its_stretches_are_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        work = Work(monkeypatch)
        work.meter._begin()
        work.beat(BEAT_S, 0.001)
        assert work.meter._due_s - work.clock.monotonic() == pytest.approx(QUIET_BEAT_S)
        work.beat(QUIET_BEAT_S + 0.24, 0.3)  # it began 60 ms before the timer was due
        assert work.meter.longest_s() == pytest.approx(0.3)
        assert work.meter._due_s - work.clock.monotonic() == pytest.approx(BEAT_S), "it is not quiet any more"
        work.meter.stop()

    asyncio.run(main())


def test_the_longest_is_forgotten_after_one_or_two_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        work = Work(monkeypatch)
        work.meter._begin()
        work.beat(BEAT_S + 0.3, BEAT_S + 0.3)
        work.clock.forward(WINDOW_S * 1_000)
        work.beat(BEAT_S + 0.1, 0.1)
        assert work.meter.longest_s() == pytest.approx(0.3)
        work.clock.forward(WINDOW_S * 1_000)
        assert work.meter.longest_s() == pytest.approx(0.1)
        work.clock.forward(3 * WINDOW_S * 1_000)
        assert work.meter.longest_s() == 0
        work.meter.stop()

    asyncio.run(main())


def test_it_begins_on_the_loop_and_is_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        work, begun = Work(monkeypatch), asyncio.Event()
        monkeypatch.setattr(work.meter, "_beat", begun.set)
        work.meter.start(after_s=0)
        await begun.wait()
        (metric,) = work.meter.collect()
        assert (metric.name, metric.samples[0].value) == ("raftsched_loop_longest_stretch_seconds", 0.0)

    asyncio.run(main())

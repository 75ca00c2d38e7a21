"""The timing wheel against a plain dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from raftsched.leader.due.wheel import Wheel
from tests.support.amounts import examples

SPAN = Wheel.SPAN_MS
START = 1_763_600_400_123


class WheelAgainstModel(RuleBasedStateMachine):
    @initialize(start=st.integers(START, START + 3000))
    def begin(self, start: int) -> None:
        self.wheel: Wheel[int] = Wheel(start)
        self.model: dict[int, int] = {}
        self.time = start  # the latest that was handed out
        self.clock = start  # what the wall says; may go back

    @rule(key=st.integers(0, 30), ahead=st.integers(-3000, 3000) | st.integers(0, SPAN) | st.just(SPAN))
    def add(self, key: int, ahead: int) -> None:
        self.wheel.add(key, self.time + ahead)
        self.model[key] = self.time + ahead

    @rule(key=st.integers(0, 30))
    def cancel(self, key: int) -> None:
        assert self.wheel.cancel(key) is (self.model.pop(key, None) is not None)

    @rule(step=st.integers(0, 3) | st.integers(0, 5000) | st.sampled_from([1023, 1024, 10**6, SPAN, 10**9, 10**11]))
    def advance(self, step: int) -> None:
        self._advance(max(self.time, self.clock) + step)

    @rule(step=st.integers(0, 5000) | st.just(3_600_000))
    def back(self, step: int) -> None:
        """A clock that went back hands out what is due by it, and no more."""
        self._advance(self.time - step)

    def _advance(self, now: int) -> None:
        due = self.wheel.advance(now)
        expected = sorted((at, key) for key, at in self.model.items() if at <= now)
        assert sorted(due) == expected
        assert [at for at, _ in due] == sorted(at for at, _ in due)
        for _, key in due:
            del self.model[key]
        self.time = max(self.time, now)
        self.clock = now

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "wheel"):
            return
        assert len(self.wheel) == len(self.model)
        assert all(key in self.wheel for key in self.model)
        upcoming = self.wheel.next_ms()
        if not self.model:
            assert upcoming is None
        else:
            assert upcoming is not None
            assert upcoming <= min(self.model.values()) or upcoming <= self.clock


TestWheelAgainstModel = WheelAgainstModel.TestCase
TestWheelAgainstModel.settings = settings(max_examples=examples(60), stateful_step_count=40)


def test_beyond_the_span_is_refused() -> None:
    wheel: Wheel[str] = Wheel(START)
    wheel.add("a", START + SPAN)
    with pytest.raises(ValueError, match="ahead"):
        wheel.add("b", START + SPAN + 1)
    assert "b" not in wheel


def test_a_key_is_there_once() -> None:
    wheel: Wheel[str] = Wheel(START)
    wheel.add("a", START + 5)
    wheel.add("a", START + 5000)
    assert wheel.advance(START + 4999) == []
    assert wheel.advance(START + 5000) == [(START + 5000, "a")]


def test_sleeping_through_years_costs_no_walk() -> None:
    wheel: Wheel[str] = Wheel(START)
    wheel.add("a", START + 1)
    assert wheel.advance(START + 10**12) == [(START + 1, "a")]
    wheel.add("b", START + 10**12 + 7)
    assert wheel.next_ms() == START + 10**12 + 7
    assert wheel.advance(START + 10**12 + 7) == [(START + 10**12 + 7, "b")]


@given(st.lists(st.integers(1, SPAN), min_size=1, max_size=50), st.integers(1, 700))
@settings(max_examples=examples(40))
def test_stepping_from_next_to_next_is_never_late(delays: list[int], most: int) -> None:
    wheel: Wheel[int] = Wheel(START)
    for key, delay in enumerate(delays):
        wheel.add(key, START + delay)
    now = START
    while (upcoming := wheel.next_ms()) is not None:
        assert upcoming > now
        now = upcoming
        assert all(at == now for at, _ in wheel.advance(now))
    assert now == START + max(delays)


def test_clear() -> None:
    wheel: Wheel[int] = Wheel(START)
    for key, delay in enumerate((-5, 3, 5000)):
        wheel.add(key, START + delay)
    wheel.clear()
    assert len(wheel) == 0
    assert wheel.advance(START + SPAN) == []

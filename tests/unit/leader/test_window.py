"""The load-ahead window against the table it reads: bounded, and nothing is ever missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from raftsched.core.tables import Table, u64
from raftsched.leader.due.wheel import Wheel
from raftsched.leader.due.window import Window
from tests.support.amounts import examples
from tests.support.memory_view import T0, MemoryView


class Due:
    """A DUE table and the window over it."""

    def __init__(self, **limits: int) -> None:
        self.view = MemoryView()
        self.at: dict[int, int] = {}
        self.limits = limits
        self.reads = 0

    @contextmanager
    def read(self) -> Iterator[MemoryView]:
        self.reads += 1
        yield self.view

    def window(self, now: int) -> Window:
        return Window(Table.DUE, self.read, now, **self.limits)

    def put(self, job: int, at: int) -> None:
        self.drop(job)
        self.at[job] = at
        self.view.put(Table.DUE, u64(at) + u64(job), b"")

    def drop(self, job: int) -> None:
        at = self.at.pop(job, None)
        if at is not None:
            self.view.delete(Table.DUE, u64(at) + u64(job))


class WindowAgainstTable(RuleBasedStateMachine):
    @initialize(
        rows=st.lists(st.integers(-5_000, 100_000), max_size=40),
        window_ms=st.sampled_from([1_000, 10_000]),
        count=st.sampled_from([1, 3, 10, 1_000]),
    )
    def begin(self, rows: list[int], window_ms: int, count: int) -> None:
        self.due = Due(window_ms=window_ms, count_max=count)
        self.count = count
        for job, offset in enumerate(rows):
            self.due.put(job, T0 + offset)
        self.now = T0
        self.window = self.due.window(self.now)

    @rule(job=st.integers(0, 60), ahead=st.integers(-100, 3_000) | st.integers(0, 200_000))
    def put(self, job: int, ahead: int) -> None:
        at = self.now + ahead
        self.due.put(job, at)
        self.window.add(u64(job), at, self.now)

    @rule(job=st.integers(0, 60))
    def drop(self, job: int) -> None:
        self.due.drop(job)
        self.window.cancel(u64(job))

    @rule(job=st.integers(0, 60))
    def drop_silently(self, job: int) -> None:
        """Paused: the window is not told; whoever gets the key looks it up first."""
        self.due.drop(job)

    @rule(step=st.integers(0, 50) | st.integers(0, 4_000) | st.sampled_from([60_000, 3_600_000, 10**9]))
    def advance(self, step: int) -> None:
        self._advance(self.now + step)

    @rule(step=st.integers(1, 50) | st.sampled_from([2_000, 100_000, 3_600_000]))
    def back(self, step: int) -> None:
        self._advance(self.now - step)

    @rule(window_ms=st.sampled_from([1_000, 20_000, 600_000, 2 * Wheel.SPAN_MS]))
    def reach(self, window_ms: int) -> None:
        self.window.reach(window_ms)

    @rule()
    def reload(self) -> None:
        self.window.reload(self.now)

    @rule()
    def sleep_as_told(self) -> None:
        """Waiting until the window says is never too long."""
        until = self.window.next_ms(self.now)
        assert until <= min([at for at in self.due.at.values() if at > self.now], default=until)
        self._advance(max(self.now, until))

    def _advance(self, now: int) -> None:
        self.now = now
        wanted = {job for job, at in self.due.at.items() if at <= now}
        for _ in range(100):
            got = self.window.advance(now)
            for at, key in got:
                assert at <= now
                job = int.from_bytes(key, "big")
                if self.due.at.get(job, now + 1) <= now:
                    wanted.discard(job)
                    self.due.drop(job)
            if not got and self.window.next_ms(now) > now:
                break
        assert not wanted, f"missed {wanted}"

    @invariant()
    def bounded(self) -> None:
        if hasattr(self, "window"):
            assert len(self.window) <= 2 * self.count


TestWindowAgainstTable = WindowAgainstTable.TestCase
TestWindowAgainstTable.settings = settings(max_examples=examples(80), stateful_step_count=40)


def test_memory_follows_what_is_due_soon() -> None:
    due = Due(window_ms=10_000)
    for job in range(1_000):
        due.put(job, T0 + job * 1_000)
    window = due.window(T0)
    assert len(window) == 11
    seen = [key for now in range(T0, T0 + 60_000, 100) for _, key in window.advance(now)]
    assert len(seen) == 60
    assert len(window) <= 11
    assert due.reads < 30  # it is read in parts, not at every tick


def test_the_count_bounds_it_when_much_is_due_at_once() -> None:
    due = Due(window_ms=10_000, count_max=100)
    for job in range(5_000):
        due.put(job, T0 + job // 10)
    window = due.window(T0)
    assert len(window) == 100
    got = 0
    while part := window.advance(T0 + 1_000):
        assert len(part) <= 210
        got += len(part)
    assert got == 5_000


def test_the_count_bounds_what_is_due_in_one_millisecond() -> None:
    due = Due(window_ms=10_000, count_max=100)
    for job in range(5_000):
        due.put(job, T0 + 500)
    window = due.window(T0)
    assert len(window) == 100
    got: list[bytes] = []
    while part := window.advance(T0 + 500):
        assert len(part) + len(window) <= 300
        got += [key for _, key in part]
    assert got == [u64(job) for job in range(5_000)]


def test_the_count_bounds_what_is_put_into_one_millisecond() -> None:
    due = Due(window_ms=10_000, count_max=100)
    window = due.window(T0)
    for job in range(5_000):
        due.put(job, T0 + 500)
        window.add(u64(job), T0 + 500, T0)
        assert len(window) <= 200
    assert due.reads < 5, "it is not read anew for each one"
    got: list[bytes] = []
    while part := window.advance(T0 + 500):
        got += [key for _, key in part]
    assert got == [u64(job) for job in range(5_000)]


def test_much_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.leader.due.window.LOAD_MAX", 10)
    due = Due(window_ms=10_000, count_max=100)
    for job in range(70):
        due.put(job, T0 + 1_000 + job)
    window = due.window(T0)
    sizes = [len(window)]
    while (at := window.next_ms(T0)) <= T0 + 1:  # it wants to be called again at once
        assert window.advance(T0) == []
        sizes.append(len(window))
    assert at <= T0 + 1_000
    assert sizes == [10, 20, 30, 40, 50, 60]  # room for more than half of them is left for what is put meanwhile
    got = [key for now in range(T0, T0 + 2_000, 10) for _, key in window.advance(now)]
    assert got == [u64(job) for job in range(70)]


def test_a_row_within_the_horizon_comes_from_memory_and_one_beyond_from_the_table() -> None:
    due = Due(window_ms=10_000)
    window = due.window(T0)
    due.put(1, T0 + 500)
    window.add(u64(1), T0 + 500, T0)
    due.put(2, T0 + 50_000)
    window.add(u64(2), T0 + 50_000, T0)
    assert len(window) == 1
    assert window.advance(T0 + 500) == [(T0 + 500, u64(1))]
    got = [key for now in range(T0 + 500, T0 + 50_001, 250) for _, key in window.advance(now)]
    assert got == [u64(2)]


def test_moved_beyond_the_horizon_it_leaves_memory() -> None:
    due = Due(window_ms=10_000)
    due.put(1, T0 + 500)
    window = due.window(T0)
    due.put(1, T0 + 50_000)
    window.add(u64(1), T0 + 50_000, T0)
    assert len(window) == 0


def test_a_window_longer_than_the_wheel() -> None:
    due = Due(window_ms=10 * Wheel.SPAN_MS)
    for job in range(100):
        due.put(job, T0 + job * 60_000)
    window = due.window(T0)
    got = [key for now in range(T0, T0 + 100 * 60_000, 30_000) for _, key in window.advance(now)]
    assert len(got) == 100

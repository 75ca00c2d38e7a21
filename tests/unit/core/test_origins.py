"""Proposing again is harmless: (origin, seq) is applied once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.bounds import DAY_MS
from raftsched.core import commands as c
from raftsched.core.commands import encode
from raftsched.core.entry import encode_entry
from raftsched.core.subjects.origins import WINDOW, claim
from raftsched.core.tables import Table
from tests.support.amounts import examples
from tests.support.memory_view import T0, MemoryView, World, every, policy

CREATE = encode(c.CreateJob("default", None, policy(every(1000)), b"{}"))


@given(st.lists(st.integers(1, 40)))
def test_the_first_time_only(numbers: list[int]) -> None:
    view = MemoryView()
    seen: set[int] = set()
    for seq in numbers:
        assert claim(view, 5, seq, T0) is (seq not in seen)
        seen.add(seq)
    assert claim(view, 6, 1, T0)  # another proposer counts for itself


@given(st.lists(st.tuples(st.integers(1, 3 * WINDOW), st.integers(1, 3)), max_size=40))
@settings(max_examples=examples(50))
def test_never_twice_however_far_apart(steps: list[tuple[int, int]]) -> None:
    view = MemoryView()
    seen: set[int] = set()
    top = 0
    for seq, repeat in steps:
        for _ in range(repeat):
            first = claim(view, 5, seq, T0)
            assert not (first and seq in seen)
            if seq > top - WINDOW // 2:  # well within the window: nothing new is refused
                assert first is (seq not in seen)
            seen.add(seq)
            top = max(top, seq)


def test_a_gap_is_closed_by_force_after_the_window() -> None:
    view = MemoryView()
    for seq in range(2, WINDOW + 3):
        assert claim(view, 1, seq, T0)
    assert not claim(view, 1, 1, T0)
    raw = view.get(Table.ORIGINS, (1).to_bytes(8, "big"))
    assert raw is not None
    assert len(raw) < 40  # nothing is left to remember one by one


def test_a_number_far_ahead_costs_nothing() -> None:
    view = MemoryView()
    assert claim(view, 1, 2**63, T0)
    assert not claim(view, 1, 2**63, T0)
    assert claim(view, 1, 2**63 + 1, T0)


def test_numbers_below_one_are_never_new() -> None:
    view = MemoryView()
    assert not claim(view, 1, 0, T0)
    assert not claim(view, 1, -5, T0)


def test_the_second_batch_is_skipped_whole() -> None:
    world = World()
    data = encode_entry(world.now, [(9, 1, [CREATE, CREATE]), (9, 1, [CREATE])])
    first, second = world.entry(data).batches
    assert first.answers is not None
    assert len(first.answers) == 2
    assert second.answers is None
    assert world.entry(data).batches[0].answers is None
    assert world.count(Table.JOBS) == 2


def test_an_empty_entry_is_nothing() -> None:
    world = World()
    before = world.view.dump()
    assert world.entry(b"").batches == []
    assert world.view.dump() == before


def test_idle_proposers_are_forgotten_a_few_at_a_time() -> None:
    world = World()
    for origin in range(1000):
        claim(world.view, origin << 54, 1, world.now)
    world.forward(2 * DAY_MS)
    counts = []
    for _ in range(400):
        before = world.count(Table.ORIGINS)
        world.ok(c.Prune(world.now, 10))
        counts.append(before - world.count(Table.ORIGINS))
        if world.count(Table.ORIGINS) == 1:
            break
        world.forward(1)
    assert world.count(Table.ORIGINS) == 1  # the one that spoke just now
    assert max(counts) <= 100


def test_a_proposer_that_may_be_asleep_is_remembered() -> None:
    """A stopped process wakes up and proposes again what was applied hours ago."""
    world = World()
    data = encode_entry(world.now, [(9, 1, [CREATE])])
    world.entry(data)
    world.forward(DAY_MS // 2)
    world.ok(c.Prune(world.now, 1000))
    assert world.entry(data).batches[0].answers is None

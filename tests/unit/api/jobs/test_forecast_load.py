"""The slots that due runs are expected to take, against a count of each run in each step."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.api.jobs.forecast_load import Group, Load, Work, is_capped, limited, shape_of, shifted
from raftsched.schedule.due_counts import Due, Window, runs_of
from tests.support.operations import operations

STEP = 60_000
STEPS = 12
WINDOW = Window(0, STEP, STEPS)


def walked(counts: list[int], work: Work) -> list[Fraction]:
    """Each run takes its slots from the beginning of its step on."""
    found = [Fraction(0)] * STEPS
    for begin, count in enumerate(counts):
        for step in range(begin, STEPS):
            in_step = min(STEP, max(0, work.duration_ms - (step - begin) * STEP))
            found[step] += Fraction(count * in_step, STEP)
    most = [level if work.most is None else min(level, Fraction(work.most)) for level in found]
    return [level * work.width for level in most]


@given(
    st.lists(st.integers(0, 4), min_size=STEPS, max_size=STEPS),
    st.lists(
        st.builds(
            Work,
            st.sampled_from([0, 1, 500, 59_999, 60_000, 60_001, 90_000, 120_000, 200_000, 5_000_000]),
            st.integers(1, 3),
            st.sampled_from([None, 1, 2]),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_counted_as_walked(counts: list[int], works: list[Work]) -> None:
    group = Group("q", shape_of(runs_of(enumerate(counts))))
    for number, work in enumerate(works):
        group.add(number, "default", None, work, WINDOW)
    load = Load(STEPS, STEP)
    if group.total:
        sum(load.add(group))
    wanted = [sum(levels) for levels in zip(*(walked(counts, work) for work in works), strict=True)]
    assert load.due() == [count * len(works) for count in counts]
    assert load.busy() == pytest.approx([float(level) for level in wanted], abs=0.001)


@pytest.mark.parametrize("most", [None, 1])
def test_no_step_takes_longer_the_more_jobs_a_group_has(most: int | None) -> None:
    steps, jobs = 100, 300
    group = Group("q", shape_of(tuple(Due(step, step + 1, 1 + step % 2) for step in range(steps))))
    for number in range(jobs):
        group.add(number, "default", None, Work(STEP + 1 + 7_000 * number, 1, most), Window(0, STEP, steps))
    assert len(group.works) == jobs
    assert max(operations(Load(steps, STEP).add(group))) < 300 * steps


def test_jobs_that_end_in_the_same_steps_take_few_sums() -> None:
    group = Group("q", shape_of(tuple(Due(step, step + 1, 1 + step % 2) for step in range(STEPS))))
    for number in range(300):
        group.add(number, "default", None, Work(STEP + 1 + number), WINDOW)
    assert sum(Load(STEPS, STEP).add(group)) <= 300 + 4 * (STEPS + 1)


def test_what_is_added_by_parts_is_the_same_together() -> None:
    group = Group("q", shape_of((Due(0, 3, 2), Due(5, 6, 4))))
    for number, work in enumerate((Work(500), Work(3 * STEP, 1, 1), Work(3 * STEP))):
        group.add(number, "default", None, work, WINDOW)
    one, two, both = Load(STEPS, STEP), Load(STEPS, STEP), Load(STEPS, STEP)
    for load in (one, two, both, both):
        sum(load.add(group))
    one.include(two)
    assert (one.due(), one.busy()) == (both.due(), both.busy())


def test_a_run_that_ends_before_the_next_is_due_is_not_held_back() -> None:
    daily = shape_of((Due(0, 1, 1), Due(10, 11, 1)))
    assert not is_capped(daily, Work(10 * STEP, 1, 1), STEP)
    assert is_capped(daily, Work(11 * STEP, 1, 1), STEP)
    assert not is_capped(daily, Work(11 * STEP, 1, None), STEP)
    assert is_capped(shape_of((Due(0, 2, 1),)), Work(2 * STEP, 1, 1), STEP)


def test_jobs_of_which_no_run_has_ended_are_due_and_take_nothing() -> None:
    group = Group("q", shape_of((Due(3, 4, 2),)))
    group.add(1, "default", "a", None, WINDOW)
    load = Load(STEPS, STEP)
    sum(load.add(group))
    assert load.due()[3] == 2
    assert load.busy() == [0.0] * STEPS


def test_the_first_times_are_what_is_left() -> None:
    due = (Due(0, 3, 2), Due(5, 6, 4))
    assert limited(due, 0) == ()
    assert limited(due, 3) == (Due(0, 1, 2), Due(1, 2, 1))
    assert limited(due, 6) == (Due(0, 3, 2),)
    assert limited(due, 8) == (Due(0, 3, 2), Due(5, 6, 2))
    assert limited(due, 99) == due


def test_what_comes_later_goes_as_far_as_the_window() -> None:
    assert shifted((Due(0, 4, 1), Due(5, 6, 3)), 2, 6) == (Due(2, 6, 1),)
    assert shifted((Due(0, 4, 1),), 0, 6) == (Due(0, 4, 1),)


def test_a_group_knows_how_often_its_jobs_are_due_in_a_step() -> None:
    group = Group("q", shape_of((Due(1, 3, 2), Due(7, 8, 5))))
    assert [group.due_at(step) for step in range(9)] == [0, 2, 2, 0, 0, 0, 0, 5, 0]

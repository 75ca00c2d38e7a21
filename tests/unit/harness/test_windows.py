"""Windows and starts: what is missed, what is extra, and what a fault excuses."""

from __future__ import annotations

from harness.checkers.windows import EPSILON, MOST, RECOVERY, match, once, recurring, window
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.harness.evidence import S, Story, at, said

SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)).map(lambda w: (w[0], w[0] + w[1])), max_size=7)


def most(windows: list[tuple[int, int]], starts: list[int]) -> int:
    """The size of the largest matching, by augmenting paths."""
    of_start: dict[int, int] = {}

    def place(number: int, tried: set[int]) -> bool:
        low, high = windows[number]
        for i, start in enumerate(starts):
            if low <= start <= high and i not in tried:
                tried.add(i)
                if i not in of_start or place(of_start[i], tried):
                    of_start[i] = number
                    return True
        return False

    return sum(place(number, set()) for number in range(len(windows)))


@given(SPANS, st.lists(st.integers(0, 30), max_size=7))
def test_as_many_are_matched_as_can_be(windows: list[tuple[int, int]], starts: list[int]) -> None:
    missed, extra = match(windows, sorted(starts))
    best = most(windows, starts)
    assert (len(missed), len(extra)) == (len(windows) - best, len(starts) - best)


def test_a_window_is_short_when_all_is_well() -> None:
    assert window(100 * S, [])[1] == 100 * S + EPSILON
    assert window(100 * S, [(10 * S, 20 * S)])[1] == 100 * S + EPSILON
    assert window(100 * S, [(103 * S, 110 * S)])[1] == 100 * S + EPSILON


def test_a_fault_makes_it_longer_and_so_do_those_that_follow() -> None:
    assert window(100 * S, [(95 * S, 101 * S)])[1] == 101 * S + RECOVERY
    assert window(100 * S, [(80 * S, 90 * S)])[1] == 90 * S + RECOVERY
    assert window(100 * S, [(95 * S, 101 * S), (110 * S, 112 * S)])[1] == 112 * S + RECOVERY


def test_no_fault_excuses_everything() -> None:
    endless = [(n * 10 * S, n * 10 * S + 9 * S) for n in range(100)]
    assert window(100 * S, endless)[1] == 100 * S + MOST


def periodic(*starts: float) -> Story:
    story = Story()
    story.note("recurs", job="tick", kind="allow", targets_ms=[10_000, 15_000, 20_000])
    for number, started in enumerate(starts):
        story.run("tick", started, started + 0.1, instance=f"tick@{number}")
    return story


def test_each_time_has_a_run_of_its_own() -> None:
    assert recurring(periodic(10.0, 15.1, 21.9).evidence).held
    assert recurring(periodic(10.0, 15.1, 21.9).evidence).looked_at == 3


def test_a_missed_time_is_found() -> None:
    finding = recurring(periodic(10.0, 20.1).evidence)
    assert finding.wrong == ["tick: nothing started for the time 15.00 s"]


def test_a_run_that_is_for_no_time_is_found() -> None:
    assert "for no time" in said(recurring(periodic(10.0, 15.0, 15.1, 20.0).evidence))
    assert "for no time" in said(recurring(periodic(8.0, 15.0, 20.0).evidence))


def test_a_job_that_forbids_overlap_may_leave_times_out_and_adds_none() -> None:
    story = Story()
    story.note("recurs", job="tick", kind="forbid", targets_ms=[10_000, 15_000, 20_000])
    story.run("tick", 10.0, 16.0, instance="tick@0")
    story.run("tick", 20.0, 20.1, instance="tick@1")
    assert recurring(story.evidence).held
    story.run("tick", 17.5, 17.6, instance="tick@2")
    assert "started at 17.50 s is for no time" in said(recurring(story.evidence))


def test_a_second_attempt_is_not_taken_for_the_next_time() -> None:
    story = periodic(10.0, 20.0)
    story.fault(10.0, 11.0)
    story.run("tick", 15.0, 15.1, instance="tick@0", token=2)
    assert not recurring(story.evidence).held


def test_late_while_a_fault_is_on_is_in_time() -> None:
    story = periodic(10.0, 19.0, 20.0)
    assert not recurring(story.evidence).held
    story.fault(14.0, 16.0)
    assert recurring(story.evidence).held


def test_one_shots_start_when_they_are_due() -> None:
    story = Story()
    for job, due, started in (("good", 5.0, 5.01), ("late", 5.0, 7.5), ("early", 5.0, 4.0)):
        story.create(job, due)
        story.run(job, started, started + 0.1)
    finding = once(story.evidence)
    assert finding.looked_at == 3
    assert [line.split(" ")[0] for line in finding.wrong] == ["late", "early"]
    story.fault(1.0, 2.0)
    assert [line.split(" ")[0] for line in once(story.evidence).wrong] == ["early"]


def test_one_that_was_due_before_it_was_accepted_is_due_then() -> None:
    story = Story()
    story.create("past", 5.0, began=9.0)
    story.run("past", 9.5, 9.6)
    assert once(story.evidence).held


def test_one_that_nobody_answered_for_must_not_start_early() -> None:
    story = Story()
    story.create("a", 5.0, "unknown")
    run = story.run("a", 50.0, 50.1)
    assert once(story.evidence).held
    run.started = run.last = at(3.0)
    assert not once(story.evidence).held

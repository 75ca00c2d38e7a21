"""Open loop: what was due counts, whether it began or not."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from scripts.benches import periodic, sustained
from scripts.benches.jobs.marking import mark
from scripts.benches.starts import Mark, account, read_marks, wait_marks


def test_what_never_began_is_late_by_all_that_it_was_waited_for() -> None:
    found = account({"a": 1_000.0, "b": 2_000.0, "c": 3_000.0}, {"a": [1_010.0], "c": [2_999.0]}, 9_000.0)
    assert found.late == [10.0, 7_000.0, -1.0]
    assert (found.not_run, found.again, found.early) == (1, 0, 1)
    assert found.figures()["due"] == 3
    assert found.figures()["max_ms"] == 7_000.0


def test_the_first_start_of_a_target_counts_and_others_are_told() -> None:
    found = account({"a": 1_000.0}, {"a": [1_500.0, 1_200.0], "not due": [5.0]}, 9_000.0)
    assert found.late == [200.0]
    assert found.again == 1


def test_jobs_write_marks_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "marks"
    assert list(read_marks(file)) == []
    monkeypatch.setenv("RAFTSCHED_INSTANCE_ID", "1m8")
    monkeypatch.setenv("RAFTSCHED_SCHEDULED_AT", "1970-01-01T00:00:01.500Z")
    mark(str(file), 7)
    mark(str(file))
    numbered, named = read_marks(file)
    assert numbered == Mark("7", 1_500.0, numbered.at_ms)
    assert named.which == "1m8"
    assert numbered.at_ms <= named.at_ms
    assert wait_marks(file, 2, 60.0) >= named.at_ms


@pytest.mark.parametrize("layout", periodic.LAYOUTS)
def test_every_time_of_a_periodic_job_is_a_target(layout: str) -> None:
    first, due = periodic.plan(50, layout, 100_000, 130_000)
    assert len(due) == 150
    assert {at for job, at in due if job == "3"} == {first[3], first[3] + 10_000, first[3] + 20_000}
    assert all(100_000 <= at < 130_000 for at in due.values())
    assert len(set(first)) == (1 if layout == "aligned" else len(set(first)))
    assert layout == "aligned" or len(set(first)) > 1


def test_what_was_due_around_the_kill_is_told_apart() -> None:
    due = {0: 8_999.0, 1: 9_000.0, 2: 10_000.0, 3: 14_999.0, 4: 15_000.0}
    outside, within = sustained.split(due, 10_000.0, 5.0)
    assert (sorted(outside), sorted(within)) == ([0, 4], [1, 2, 3])
    assert sustained.split(due, None, 5.0) == (due, {})


def test_growth_compares_the_last_third_with_the_first() -> None:
    assert sustained.growth([10.0, 10.0, 99.0, 15.0, 15.0, 15.0]) == pytest.approx(1.5)
    assert math.isnan(sustained.growth([1.0, 2.0]))

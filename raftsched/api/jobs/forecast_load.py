"""The load that due times make: runs by step, and the slots that they are expected to take. Arithmetic alone, in whole
milliseconds of slots.

A run counts from the beginning of the step in which it is due, for as long as runs of its job take in the mean. A job
never takes more slots than its overlap policy lets it have runs at one time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from raftsched.schedule.due_counts import Due, Window

SHOWN = 5  # jobs of a group that are known by name


class Shape(NamedTuple):
    """The due times of a job."""

    due: tuple[Due, ...]
    total: int
    most: int  # in one step
    gap: int  # steps from one that has times to the next: the least


def shape_of(due: tuple[Due, ...]) -> Shape:
    total = sum((end - first) * count for first, end, count in due)
    between = [after.first - before.end + 1 for before, after in pairwise(due)]
    gap = 1 if any(end - first > 1 for first, end, _ in due) else min(between, default=2**40)
    return Shape(due, total, max((count for _, _, count in due), default=0), gap)


class Work(NamedTuple):
    """The slots of one run of a job: `width` of them, for so long in the mean. `most`: runs at one time, None: any
    number."""

    duration_ms: int
    width: int = 1
    most: int | None = None


@dataclass(slots=True)
class Group:
    """Jobs of one queue that are due at the same times."""

    queue: str
    shape: Shape
    jobs: int = 0
    first: list[tuple[int, str, str | None]] = field(default_factory=list)  # id, namespace, name
    together_ms: int = 0  # what a run of each takes, of those that always end within the step
    works: Counter[Work] = field(default_factory=Counter)  # of the others

    def add(self, job_id: int, namespace: str, name: str | None, work: Work | None, window: Window) -> int:
        """Adds a job. `work`: None where it is not known. Returns about how many sums it will take."""
        self.jobs += 1
        if len(self.first) < SHOWN:
            self.first.append((job_id, namespace, name))
        if work is None:
            return 0
        capped = is_capped(self.shape, work, window.step_ms)
        if work.duration_ms <= window.step_ms and not capped:
            self.together_ms += work.duration_ms * work.width
            return 0
        self.works[work] += 1
        return window.buckets if capped else len(self.shape.due)

    @property
    def total(self) -> int:
        return self.shape.total * self.jobs

    def due_at(self, step: int) -> int:
        """Returns how often one of its jobs is due in a step."""
        due = self.shape.due
        at = bisect_right(due, step, key=lambda one: one.first) - 1
        return due[at].times if at >= 0 and step < due[at].end else 0


def is_capped(shape: Shape, work: Work, step_ms: int) -> bool:
    """Returns whether more runs of a job could be under way than it may have at one time."""
    if work.most is None:
        return False
    if shape.gap * step_ms < work.duration_ms:
        return True
    return shape.most * min(step_ms, work.duration_ms) > work.most * step_ms


class Load:
    """Sums over groups of jobs."""

    def __init__(self, steps: int, step_ms: int) -> None:
        self._steps = steps
        self._step_ms = step_ms
        self._due = [0] * (steps + 1)  # differences from one step to the next
        self._busy = [0] * (steps + 2)  # differences of such differences: a row of runs rises and falls evenly
        self._capped = [0] * steps

    def add(self, group: Group) -> int:
        """Adds a group. Returns about how many sums that took."""
        jobs, due = group.jobs, group.shape.due
        for first, end, count in due:
            self._due[first] += count * jobs
            self._due[end] -= count * jobs
        if group.together_ms:
            self._add_short(due, group.together_ms)
        for work, number in group.works.items():
            if is_capped(group.shape, work, self._step_ms):
                self._add_capped(due, work, number)
            else:
                self._add_long(due, work.duration_ms, work.width * number)
        capped = sum(is_capped(group.shape, work, self._step_ms) for work in group.works)
        return len(due) * (1 + len(group.works)) + self._steps * capped

    def _add_short(self, due: tuple[Due, ...], together_ms: int) -> None:
        for first, end, count in due:
            for at, sum_ms in ((first, count * together_ms), (end, -count * together_ms)):
                self._busy[at] += sum_ms
                self._busy[at + 1] -= sum_ms

    def _add_long(self, due: tuple[Due, ...], duration_ms: int, slots: int) -> None:
        whole, rest_ms = divmod(duration_ms, self._step_ms)
        for first, end, count in due:
            for at, weight in ((first, count * slots), (end, -count * slots)):
                self._busy[at] += weight * self._step_ms
                for later, change_ms in ((at + whole, rest_ms - self._step_ms), (at + whole + 1, -rest_ms)):
                    if later <= self._steps:
                        self._busy[later] += weight * change_ms

    def _add_capped(self, due: tuple[Due, ...], work: Work, jobs: int) -> None:
        whole, rest_ms = divmod(work.duration_ms, self._step_ms)
        counts = list(_each(due, self._steps))
        before = [0, *accumulate(counts)]
        most_ms = (work.most or 0) * self._step_ms
        for step in range(due[0].first, self._steps):
            level_ms = (before[step + 1] - before[max(0, step + 1 - whole)]) * self._step_ms
            if step >= whole:
                level_ms += counts[step - whole] * rest_ms
            self._capped[step] += min(level_ms, most_ms) * work.width * jobs

    def due(self) -> list[int]:
        return list(accumulate(self._due))[: self._steps]

    def busy(self) -> list[float]:
        """Returns the slots, as the mean over each step."""
        levels = accumulate(accumulate(self._busy))
        return [round((level + more) / self._step_ms, 3) for level, more in zip(levels, self._capped, strict=False)]


def _each(due: tuple[Due, ...], steps: int) -> Iterator[int]:
    at = 0
    for first, end, count in due:
        yield from (0 for _ in range(at, first))
        yield from (count for _ in range(first, end))
        at = end
    yield from (0 for _ in range(at, steps))


def shifted(due: tuple[Due, ...], by: int, steps: int) -> tuple[Due, ...]:
    """Returns the same, so many steps later, as far as they go."""
    return tuple(Due(first + by, min(end + by, steps), count) for first, end, count in due if first + by < steps)


def limited(due: tuple[Due, ...], most: int) -> tuple[Due, ...]:
    """Returns the first `most` times."""
    found: list[Due] = []
    for first, end, count in due:
        whole, rest = divmod(most, count)
        if whole >= end - first:
            found.append(Due(first, end, count))
            most -= (end - first) * count
            continue
        if whole:
            found.append(Due(first, first + whole, count))
        if rest:
            found.append(Due(first + whole, first + whole + 1, rest))
        break
    return tuple(found)

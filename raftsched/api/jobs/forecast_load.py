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
from itertools import accumulate, chain, pairwise
from operator import add
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

    def add(self, group: Group) -> Iterator[int]:
        """Adds a group. Yields about how many sums that took since the last time: a few for each step, at most."""
        changes: Counter[int] = Counter()
        for first, end, count in group.shape.due:
            changes[first] += count
            changes[end] -= count
        for at, change in changes.items():
            self._due[at] += change * group.jobs
        yield len(changes)
        bends = Counter({0: group.together_ms, 1: -group.together_ms})
        capped: list[tuple[Work, int]] = []
        for work, number in group.works.items():
            if is_capped(group.shape, work, self._step_ms):
                capped.append((work, number))
            else:
                self._bend(bends, work.duration_ms, work.width * number)
            yield 1
        for by, bend in bends.items():
            if bend and by <= self._steps:
                for at, change in changes.items():
                    if at + by <= self._steps:
                        self._busy[at + by] += change * bend
                yield len(changes)
        if capped:
            counts = list(_each(group.shape.due, self._steps))
            before = [0, *accumulate(counts)]
            for work, number in capped:
                self._add_capped(counts, before, work, number)
                yield self._steps

    def _bend(self, bends: Counter[int], duration_ms: int, slots: int) -> None:
        """Adds where the slots of one run rise and fall, in steps from its beginning on. All runs have these in common,
        so many durations cost no more than the steps in which they end."""
        whole, rest_ms = divmod(duration_ms, self._step_ms)
        bends[0] += slots * self._step_ms
        bends[min(whole, self._steps + 1)] += slots * (rest_ms - self._step_ms)
        bends[min(whole, self._steps) + 1] -= slots * rest_ms

    def _add_capped(self, counts: list[int], before: list[int], work: Work, jobs: int) -> None:
        """Adds jobs whose runs are held back. `counts`: due in each step; `before`: due before each."""
        whole, rest_ms = divmod(work.duration_ms, self._step_ms)
        none = [0] * min(whole, self._steps)
        most_ms, weight, step_ms = (work.most or 0) * self._step_ms, work.width * jobs, self._step_ms
        under_way = zip(before[1:], chain(none, before[1:]), chain(none, counts), strict=False)
        levels = ((begun - ended) * step_ms + ending * rest_ms for begun, ended, ending in under_way)
        self._capped = [
            sum_ms + min(level_ms, most_ms) * weight for sum_ms, level_ms in zip(self._capped, levels, strict=True)
        ]

    def include(self, other: Load) -> None:
        """Adds what another has added, of the same steps."""
        self._due = list(map(add, self._due, other._due))
        self._busy = list(map(add, self._busy, other._busy))
        self._capped = list(map(add, self._capped, other._capped))

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

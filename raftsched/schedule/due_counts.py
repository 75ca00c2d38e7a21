"""Counts how many times of a job come in each bucket of a window: by arithmetic, so that what is due each second costs
little more than what is due once a day. A time that several triggers of the job have is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from raftsched.bounds import DAY_MS
from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule.triggers import missed, next_nominal

LISTED_ONE = 16  # times that are listed one by one where counting by halves and bounds would cost more,
LISTED_SEVERAL = 200  # and of several triggers, where only that tells which of them are the same
SHARED_MAX = 10_000  # times of several triggers of which it is found out which are the same
PARTS = 8  # of a stretch that has more


class Source(NamedTuple):
    """A trigger, what its times depend on, and from when on they count. A fixed delay is taken as a fixed rate."""

    trigger: Trigger
    from_ms: int
    anchor_ms: int
    hash_id: int
    calendar: bytes | None = None


class Window(NamedTuple):
    """Buckets of the same length, the first of which begins at `low_ms`."""

    low_ms: int
    step_ms: int
    buckets: int

    @property
    def high_ms(self) -> int:
        return self.low_ms + self.step_ms * self.buckets

    def bucket(self, at_ms: int) -> int:
        return (at_ms - self.low_ms) // self.step_ms


class Due(NamedTuple):
    """Each of the buckets from `first` up to below `end` has so many times."""

    first: int
    end: int
    times: int


def count_due(source: Source, low_ms: int, high_ms: int) -> int:
    """Returns how many times of one trigger come in low_ms <= time < high_ms.

    Raises:
        TriggerError: the trigger is not valid.
    """
    low_ms = max(low_ms, source.from_ms)
    if low_ms >= high_ms:
        return 0
    trigger, _, anchor_ms, hash_id, calendar = source
    found = missed(trigger, low_ms - 1, high_ms - 1, keep=0, anchor_ms=anchor_ms, hash_id=hash_id, calendar=calendar)
    return found.count


def due_in(sources: Sequence[Source], window: Window) -> Iterator[tuple[int, int]]:
    """Yields (bucket, how many times it has); a bucket may come in several pieces, and in pieces that are none. The
    work between two pieces is bounded: some dozens of counts, or LISTED_SEVERAL times. Where several triggers have more
    than SHARED_MAX times, one that they share counts for each.

    Raises:
        TriggerError: a trigger is not valid.
    """
    if len(sources) > 1:
        total = 0
        for low_ms, high_ms in _days(window):
            total += sum(count_due(source, low_ms, high_ms) for source in sources)
            yield window.bucket(low_ms), 0
        if total > SHARED_MAX:
            for source in sources:
                yield from due_in([source], window)
            return
    if len(sources) == 1 and _is_grid(sources[0].trigger):
        yield from _grid(sources[0], window)
        return
    for low_ms, high_ms in _days(window):
        yield from _pieces(sources, window, low_ms, high_ms)
        yield window.bucket(low_ms), 0


def runs_of(pieces: Iterable[tuple[int, int]]) -> tuple[Due, ...]:
    """Returns the counts, neighbours that have the same as one."""
    counts: Counter[int] = Counter()
    for bucket, count in pieces:
        counts[bucket] += count
    found: list[Due] = []
    for bucket, count in sorted(counts.items()):
        if not count:
            continue
        if found and found[-1].end == bucket and found[-1].times == count:
            found[-1] = Due(found[-1].first, bucket + 1, count)
        else:
            found.append(Due(bucket, bucket + 1, count))
    return tuple(found)


def _days(window: Window) -> Iterator[tuple[int, int]]:
    """Yields the window in stretches of whole buckets, a day or a bucket each: what a calendar costs is known of these,
    and not of months."""
    size_ms = max(DAY_MS // window.step_ms, 1) * window.step_ms
    for low_ms in range(window.low_ms, window.high_ms, size_ms):
        yield low_ms, min(low_ms + size_ms, window.high_ms)


def _is_grid(trigger: Trigger) -> bool:
    fixed = trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE
    return fixed and trigger.calendar is None


def _grid(source: Source, window: Window) -> Iterator[tuple[int, int]]:
    """The same by division, of a trigger that is due at a fixed rate."""
    period_ms, step_ms, high_ms = source.trigger.period_ms, window.step_ms, window.high_ms
    left = count_due(source, window.low_ms, high_ms)
    after_ms = max(window.low_ms, source.from_ms) - 1
    at_ms = next_nominal(source.trigger, after_ms, anchor_ms=source.anchor_ms) if left else None
    while left and at_ms is not None:
        bucket = window.bucket(at_ms)
        here = min(left, -(-(window.low_ms + (bucket + 1) * step_ms - at_ms) // period_ms))
        yield bucket, here
        left -= here
        at_ms += here * period_ms


def _pieces(sources: Sequence[Source], window: Window, low_ms: int, high_ms: int) -> Iterator[tuple[int, int]]:
    """Counts a stretch of the window: what has nothing costs one count, what has little is listed, and what has much is
    parted."""
    counted = [(source, count_due(source, low_ms, high_ms)) for source in sources]
    live = [source for source, count in counted if count]
    total = sum(count for _, count in counted)
    first, end = window.bucket(low_ms), window.bucket(high_ms - 1) + 1
    if not live:
        return
    if len(live) == 1 and end - first == 1:
        yield first, total
    elif total <= (LISTED_ONE if len(live) == 1 else LISTED_SEVERAL) or high_ms - low_ms == 1:
        yield from sorted(Counter(window.bucket(at_ms) for at_ms in _times(live, low_ms, high_ms)).items())
    else:
        for part_low_ms, part_high_ms in _parts(window, low_ms, high_ms):
            yield from _pieces(live, window, part_low_ms, part_high_ms)


def _times(sources: Iterable[Source], low_ms: int, high_ms: int) -> set[int]:
    times: set[int] = set()
    for trigger, from_ms, anchor_ms, hash_id, calendar in sources:
        at_ms: int | None = max(low_ms, from_ms) - 1
        while at_ms is not None:
            at_ms = next_nominal(trigger, at_ms, anchor_ms=anchor_ms, hash_id=hash_id, calendar=calendar)
            if at_ms is None or at_ms >= high_ms:
                break
            times.add(at_ms)
    return times


def _parts(window: Window, low_ms: int, high_ms: int) -> Iterator[tuple[int, int]]:
    """Yields the parts of a stretch: whole buckets, or parts of one."""
    first, end = window.bucket(low_ms), window.bucket(high_ms - 1) + 1
    unit_ms = window.step_ms if end - first > 1 else 1
    size_ms = max(1, -(-(high_ms - low_ms) // (PARTS * unit_ms))) * unit_ms
    for part_ms in range(low_ms, high_ms, size_ms):
        yield part_ms, min(part_ms + size_ms, high_ms)

"""Which nominal times of a job are due, by a Fire or by arithmetic: of one trigger, and of several taken together."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

from raftsched.bounds import TIME_MAX_MS
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Fire, TriggerFire
from raftsched.core.intervals import grid_due, jitter_ms, next_every
from raftsched.core.limits import FIRES_MAX
from raftsched.core.model import EveryMode, Trigger, TriggerKind


@dataclass(slots=True)
class Due:
    times: list[int]  # the newest of the due times, ascending
    more_from_ms: int  # due times before these, not listed: the first,
    more_until_ms: int  # the last,
    more: int  # and how many
    upcoming: int | None  # the next time after all of these


@dataclass(slots=True)
class Source:
    """Where a time comes from: a trigger, and what its times are counted from."""

    trigger: Trigger
    anchor_ms: int


Sources = dict[int, Source]  # by the times; empty: all are of the job's one trigger


def by_calendar(tx: Tx, trigger: Trigger, revision: int) -> bool:
    """Returns whether the times were computed with the calendar as it is now. When it was changed meanwhile the job is
    rescheduled, or an operation comes to that."""
    name = trigger.calendar
    if name is None:
        return True
    calendar = tx.calendar(name)
    return calendar is not None and calendar.revision == revision


def together(dues: list[tuple[Source, Due]], limit: int) -> tuple[Due, Sources]:
    """Returns the times of several triggers as those of one, and of which trigger each is: of those that share a time
    one that is due once, or the first. Times of such triggers are all listed, of the others the newest `limit`. Where a
    trigger has more than it lists, only what is later than those is listed of the others, too: it is not known what
    lies between. What is not listed counts for each trigger."""
    sources: Sources = {}
    for source, due in sorted(dues, key=lambda one: not one[0].trigger.once):
        for at_ms in due.times:
            sources.setdefault(at_ms, source)
    cut = [due for _, due in dues if due.more]
    until_ms = max((due.more_until_ms for due in cut), default=-1)
    once = [at_ms for at_ms, source in sources.items() if source.trigger.once]
    recurring = sorted(at_ms for at_ms, source in sources.items() if not source.trigger.once)
    listed = [at_ms for at_ms in recurring if at_ms > until_ms][-limit:]
    left = recurring[: len(recurring) - len(listed)]
    more = sum(due.more for due in cut) + len(left)
    from_ms = min([due.more_from_ms for due in cut] + left[:1], default=-1)
    return Due(sorted(once + listed), from_ms, max([until_ms, *left[-1:]]), more, None), sources


def plausible(c: Fire | TriggerFire) -> bool:
    """Returns whether the times ascend and can be written."""
    if not c.missed and c.next_nominal_at_ms is None:
        return 0 <= c.nominal_at_ms <= TIME_MAX_MS and 0 <= c.missed_count <= FIRES_MAX
    times = (c.nominal_at_ms, *c.missed)
    if c.next_nominal_at_ms is not None:
        times += (c.next_nominal_at_ms,)
    return (
        times[0] >= 0
        and times[-1] <= TIME_MAX_MS
        and all(a < b for a, b in pairwise(times))
        and len(c.missed) <= c.missed_count <= FIRES_MAX
    )


def due_times(tx: Tx, job_id: int, source: Source, c: Fire | TriggerFire) -> Due:
    """Returns the times of one trigger that are due, as far as their jitter is over."""
    trigger, limit = source.trigger, tx.meta.settings.catch_up_max
    times, total, upcoming = _by_now(tx, source, c, limit + 2)
    for position in range(max(1, bisect_left(times, tx.now - trigger.jitter_ms)), len(times)):
        if times[position] + jitter_ms(trigger, job_id, times[position]) > tx.now:
            upcoming = times[position]  # its jitter is not over yet: it fires by itself, and those after it then
            total -= len(times) - position
            del times[position:]
            break
    if total > len(times) > 1 and len(times) <= limit:
        limit = len(times) - 1  # the oldest that is known ends the gap of those before it
    until = times[-limit - 1] if len(times) > limit else c.nominal_at_ms
    times = times[-limit:]
    return Due(times, c.nominal_at_ms, until, total - len(times), upcoming)


def _by_now(tx: Tx, source: Source, c: Fire | TriggerFire, keep: int) -> tuple[list[int], int, int | None]:
    """Returns the newest nominal times up to now (`keep` of them or a few more), how many there are in all, and the
    time after them."""
    trigger = source.trigger
    if trigger.needs_calendar:
        times = [c.nominal_at_ms, *c.missed]
        total = 1 + c.missed_count if c.missed else 1
        if total > len(times):
            del times[0]  # there are others between it and those that are listed: all of them are one gap
        return times, total, c.next_nominal_at_ms
    if trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE:
        times, total = grid_due(trigger, c.nominal_at_ms, tx.now, keep)
        return times, total, next_every(trigger, max(tx.now, c.nominal_at_ms), source.anchor_ms)
    return [c.nominal_at_ms], 1, None


def is_once(at_ms: int, sources: Sources) -> bool:
    """Returns whether the time is of a trigger that is due once, beside others of its job."""
    source = sources.get(at_ms)
    return source is not None and source.trigger.once

"""Computes which nominal times of a job are due, by a Fire or by arithmetic: of one trigger, and of several taken
together."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

from raftsched.bounds import TIME_MAX_MS
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Fire, TriggerFire
from raftsched.core.levels import JITTER_ENDS_BEFORE_NEXT
from raftsched.core.limits import FIRES_MAX
from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.core.rules.intervals import grid_due, jitter_ms, next_every


@dataclass(slots=True)
class Due:
    times: list[int]  # the newest of the due times, ascending
    more_from_ms: int  # due times before these, not listed: the first,
    more_until_ms: int  # the last,
    more: int  # and how many
    upcoming: int | None  # the next time after all of these
    gap_ms: int | None = None  # from that to the one after it, as far as it is known
    delays: dict[int, int] = field(default_factory=dict)  # the jitter of each that has one


@dataclass(slots=True)
class Source:
    """Names where a time comes from: a trigger, and what its times are counted from."""

    trigger: Trigger
    anchor_ms: int


Sources = dict[int, Source]  # by the times; empty: all are of the job's one trigger


def calendar_is_current(tx: Tx, trigger: Trigger, revision: int) -> bool:
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
    delays: dict[int, int] = {}
    for source, due in sorted(dues, key=lambda one: not one[0].trigger.once):
        for at_ms in due.times:
            if at_ms not in sources:
                sources[at_ms] = source
                delays[at_ms] = due.delays.get(at_ms, 0)
    cut = [due for _, due in dues if due.more]
    until_ms = max((due.more_until_ms for due in cut), default=-1)
    once = [at_ms for at_ms, source in sources.items() if source.trigger.once]
    recurring = sorted(at_ms for at_ms, source in sources.items() if not source.trigger.once)
    listed = [at_ms for at_ms in recurring if at_ms > until_ms][-limit:]
    left = recurring[: len(recurring) - len(listed)]
    more = sum(due.more for due in cut) + len(left)
    from_ms = min([due.more_from_ms for due in cut] + left[:1], default=-1)
    until_ms = max([until_ms, *left[-1:]])
    return Due(sorted(once + listed), from_ms, until_ms, more, None, None, delays), sources


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


def due_times(tx: Tx, job_id: int, source: Source, c: Fire | TriggerFire, delay_ms: int) -> Due:
    """Returns the times of one trigger that are due, as far as their jitter is over. `delay_ms`: that of the first."""
    trigger, limit = source.trigger, tx.meta.settings.catch_up_max
    times, total, upcoming = _by_now(tx, source, c, limit + 2)
    gap_ms, delays = c.gap_ms, _delays(tx, job_id, trigger, times, upcoming)
    if delays:
        delays[c.nominal_at_ms] = delay_ms
    for position in range(max(1, bisect_left(times, tx.now - trigger.jitter_ms)), len(times)):
        if times[position] + delays.get(times[position], 0) > tx.now:
            gap_ms = _gap_ms(tx, times, position, upcoming)
            upcoming = times[position]  # its jitter is not over yet: it fires by itself, and those after it then
            total -= len(times) - position
            del times[position:]
            break
    if total > len(times) > 1 and len(times) <= limit:
        limit = len(times) - 1  # the oldest that is known ends the gap of those before it
    until = times[-limit - 1] if len(times) > limit else c.nominal_at_ms
    times = times[-limit:]
    return Due(times, c.nominal_at_ms, until, total - len(times), upcoming, gap_ms, delays)


def _delays(tx: Tx, job_id: int, trigger: Trigger, times: list[int], upcoming: int | None) -> dict[int, int]:
    """Returns the jitter of each of these times; empty: the trigger has none."""
    if not trigger.jitter_ms:
        return {}
    gaps = (_gap_ms(tx, times, position, upcoming) for position in range(len(times)))
    return {at_ms: jitter_ms(trigger, job_id, at_ms, gap_ms) for at_ms, gap_ms in zip(times, gaps, strict=True)}


def _gap_ms(tx: Tx, times: list[int], position: int, upcoming: int | None) -> int | None:
    """Returns the time from one of these times to the next, None where it does not bound the jitter."""
    if tx.meta.level < JITTER_ENDS_BEFORE_NEXT:
        return None
    following = times[position + 1] if position + 1 < len(times) else upcoming
    return None if following is None else following - times[position]


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

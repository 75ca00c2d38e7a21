"""Computes the nominal times of a trigger.

Pure: the same trigger, anchor, job and time zone data give the same times. Everything is integer UTC milliseconds.
`starts_at_ms` and `ends_at_ms` are inclusive bounds on nominal times. What a nominal time becomes afterwards (jitter,
the maximum number of runs, misfires, overlap) is decided by core.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftsched.bounds import TIME_MAX_MS
from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.core.rules.intervals import grid_due, next_every
from raftsched.schedule import cron
from raftsched.schedule.budget import COUNT_STEPS_MAX, search
from raftsched.schedule.exclusions import Exclusion, exclusion, not_given
from raftsched.schedule.expression import compiled
from raftsched.schedule.rule import recurrence
from raftsched.schedule.zones import Zone, zone

TRIES_MAX = 300  # times in excluded hours that are looked at for the first that is not: six years of weekly ones
LATEST_MS = TIME_MAX_MS // 1_000 * 1_000  # fire times of calendar triggers are whole seconds


@dataclass(frozen=True, slots=True)
class Missed:
    """Nominal times that went by."""

    times: tuple[int, ...]  # the newest of them, ascending
    count: int  # of all
    until_ms: int | None  # the last; None when there were none


def next_nominal(
    trigger: Trigger, after_ms: int, *, anchor_ms: int = 0, hash_id: int = 0, calendar: bytes | None = None
) -> int | None:
    """The first nominal time strictly after `after_ms` and within the bounds; None: never again.

    `anchor_ms` is what EVERY counts from (the grid is anchor, anchor + period, ..), what IN adds its delay to, and the
    start of a RRULE without starts_at.
    For EVERY with a fixed delay, pass the end of the previous run as `after_ms`: the answer is that plus the period.
    The arithmetic of EVERY is core's own, so that this room and apply cannot disagree.
    `hash_id` feeds `H` in cron expressions. `calendar` is the content of the trigger's calendar, which it must have.

    Raises:
        TriggerError: the trigger is not valid (see `validate`).
    """
    with search(trigger):
        held = _held(trigger, calendar)
        if held is None:
            return _next(trigger, after_ms, anchor_ms, hash_id)
        if trigger.calendar_moves:
            return _next_moved(trigger, held, after_ms, anchor_ms, hash_id)
        return _next_free(trigger, held, after_ms, anchor_ms, hash_id)


def _next_free(trigger: Trigger, held: Exclusion, after_ms: int, anchor_ms: int, hash_id: int) -> int | None:
    at_ms = after_ms
    for _ in range(TRIES_MAX):
        found = _next(trigger, at_ms, anchor_ms, hash_id)
        free = None if found is None else held.free_from(found // 1000)
        if free is None or found is None or free == found // 1000:
            return None if free is None else found
        at_ms = free * 1000 - 1
    return None


def _next_moved(trigger: Trigger, held: Exclusion, after_ms: int, anchor_ms: int, hash_id: int) -> int | None:
    """The first time after `after_ms`. What falls into excluded time comes at its end, once: that may be by what was
    before `after_ms`."""
    found: int | None = None
    if held.holds(after_ms // 1000):
        end = held.free_from(after_ms // 1000)
        if end is None:
            return None
        found = end * 1000 if _gathers(trigger, held, end, anchor_ms, hash_id) else None
        after_ms = end * 1000 - 1
    if found is None:
        plain = _next(trigger, after_ms, anchor_ms, hash_id)
        free = None if plain is None else held.free_from(plain // 1000)
        if free is None or plain is None:
            return None
        found = plain if free == plain // 1000 else free * 1000
    return found if found <= _end(trigger) else None


def _gathers(trigger: Trigger, held: Exclusion, end: int, anchor_ms: int, hash_id: int) -> bool:
    """Returns whether a time falls into the excluded time that ends at this second."""
    found = _next(trigger, _begin_of_excluded(trigger, held, end, anchor_ms) - 1, anchor_ms, hash_id)
    return found is not None and found < end * 1000


def _begin_of_excluded(trigger: Trigger, held: Exclusion, end: int, anchor_ms: int) -> int:
    """The begin of the excluded time that ends at this second. Where the job was made within it, that."""
    begin_ms = held.held_since(end - 1) * 1000
    made_within = trigger.starts_at_ms is None and begin_ms <= anchor_ms < end * 1000
    return anchor_ms + 1 if made_within else begin_ms


def moved_to(
    trigger: Trigger, at_ms: int, *, anchor_ms: int = 0, hash_id: int = 0, calendar: bytes | None = None
) -> tuple[int, int, int] | None:
    """The first and the last of the times that the trigger's calendar moves to this one, and how many these are; None:
    it moves none there. Errors as `next_nominal`."""
    with search(trigger):
        held = _held(trigger, calendar)
        end = at_ms // 1000
        if held is None or not trigger.calendar_moves or at_ms % 1000 or held.holds(end) or not held.holds(end - 1):
            return None
        begin_ms = _begin_of_excluded(trigger, held, end, anchor_ms)
        first = _next(trigger, begin_ms - 1, anchor_ms, hash_id)
        found = _missed(trigger, begin_ms - 1, at_ms - 1, 0, anchor_ms, hash_id)
    return None if first is None or found.until_ms is None else (first, found.until_ms, found.count)


def never_fires(trigger: Trigger, after_ms: int, *, anchor_ms: int = 0, hash_id: int = 0) -> bool:
    """Returns whether a trigger that has no next time would have one without its calendar."""
    with search(trigger):
        return trigger.calendar is not None and _next(trigger, after_ms, anchor_ms, hash_id) is not None


def is_fixed(trigger: Trigger, *, anchor_ms: int = 0, hash_id: int = 0) -> bool:
    """Returns whether the trigger is fixed, as `cron` has it: it names its hours, and does not follow the clock."""
    if trigger.kind not in (TriggerKind.CRON, TriggerKind.RRULE):
        return False
    with search(trigger):
        return _resolve(trigger, anchor_ms, hash_id)[0].fixed


def _held(trigger: Trigger, calendar: bytes | None) -> Exclusion | None:
    if trigger.calendar is None:
        return None
    if calendar is None:
        raise not_given(trigger.calendar)
    return exclusion(calendar, trigger.timezone)


def is_excluded(trigger: Trigger, at_ms: int, calendar: bytes | None) -> bool:
    """Returns whether the trigger's calendar excludes this time. Errors as `next_nominal`."""
    with search(trigger):
        held = _held(trigger, calendar)
        return held is not None and held.holds(at_ms // 1000)


def _next(trigger: Trigger, after_ms: int, anchor_ms: int, hash_id: int) -> int | None:
    found: int | None
    match trigger.kind:
        case TriggerKind.CRON | TriggerKind.RRULE:
            found = _next_matching(trigger, _after(trigger, after_ms), anchor_ms, hash_id)
        case TriggerKind.EVERY:
            found = next_every(trigger, after_ms, anchor_ms)
        case TriggerKind.AT:
            found = trigger.at_ms if trigger.at_ms > _after(trigger, after_ms) else None
        case TriggerKind.IN:
            at_ms = anchor_ms + trigger.period_ms
            found = at_ms if at_ms > _after(trigger, after_ms) else None
        case _:  # MANUAL
            found = None
    if found is None or found > _end(trigger):
        return None
    return found


def missed(
    trigger: Trigger,
    after_ms: int,
    until_ms: int,
    *,
    keep: int,
    anchor_ms: int = 0,
    hash_id: int = 0,
    calendar: bytes | None = None,
) -> Missed:
    """The nominal times in after_ms < time <= until_ms: all counted, the newest `keep` listed.

    The cost does not grow with how many went by, only with `keep` and the number of months; with a calendar, with how
    often it begins or ends to exclude. `calendar` and the others as for `next_nominal`.

    Raises:
        TriggerError: the trigger is not valid (see `validate`).
    """
    with search(trigger, COUNT_STEPS_MAX):
        held = _held(trigger, calendar)
        if held is None:
            return _missed(trigger, after_ms, until_ms, keep, anchor_ms, hash_id)
        return _missed_outside(trigger, held, after_ms, until_ms, keep, anchor_ms, hash_id)


def _missed_outside(
    trigger: Trigger, held: Exclusion, after_ms: int, until_ms: int, keep: int, anchor_ms: int, hash_id: int
) -> Missed:
    """The same, of what the calendar does not exclude."""
    until_ms = min(until_ms, _end(trigger), cron.HORIZON * 1000)
    low_ms = max(after_ms, _after(trigger, after_ms)) + 1
    total = 0
    newest: tuple[int, ...] = ()
    last_ms: int | None = None
    for begin, end in reversed(list(held.stretches(low_ms // 1000, until_ms // 1000 + 1))):
        first_ms, final_ms = max(begin * 1000, low_ms), min(end * 1000 - 1, until_ms)
        found = _missed(trigger, first_ms - 1, final_ms, keep - len(newest), anchor_ms, hash_id)
        total += found.count
        newest = found.times + newest
        last_ms = found.until_ms if last_ms is None else last_ms
        if trigger.calendar_moves and first_ms == begin * 1000 and held.holds(begin - 1):
            own = _next(trigger, first_ms - 1, anchor_ms, hash_id) == first_ms
            if not own and _gathers(trigger, held, begin, anchor_ms, hash_id):
                total += 1
                newest = (first_ms, *newest) if len(newest) < keep else newest
                last_ms = first_ms if last_ms is None else last_ms
    return Missed(newest, total, last_ms)


def _missed(trigger: Trigger, after_ms: int, until_ms: int, keep: int, anchor_ms: int, hash_id: int) -> Missed:
    until_ms = min(until_ms, _end(trigger))
    if trigger.kind in (TriggerKind.CRON, TriggerKind.RRULE):
        return _missed_matching(trigger, _after(trigger, after_ms), until_ms, keep, anchor_ms, hash_id)
    if trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE:
        first = next_every(trigger, after_ms, anchor_ms)
        if first is None or first > until_ms:
            return Missed((), 0, None)
        newest, count = grid_due(trigger, first, until_ms, max(keep, 1))
        return Missed(tuple(newest) if keep > 0 else (), count, newest[-1])
    # once, or after a run that has not ended: one at most
    found = _next(trigger, after_ms, anchor_ms, hash_id)
    if found is None or found > until_ms:
        return Missed((), 0, None)
    return Missed((found,) if keep > 0 else (), 1, found)


def _after(trigger: Trigger, after_ms: int) -> int:
    """`after_ms`, or just before the first time allowed; no earlier than 1970, which is before any job."""
    start = 0 if trigger.starts_at_ms is None else trigger.starts_at_ms
    if trigger.kind is TriggerKind.RRULE:
        start -= start % 1000  # the rule begins there, with the second
    return min(max(after_ms, start - 1), LATEST_MS)


def _end(trigger: Trigger) -> int:
    return LATEST_MS if trigger.ends_at_ms is None else trigger.ends_at_ms


def _resolve(trigger: Trigger, anchor_ms: int, hash_id: int) -> tuple[cron.Pattern, Zone, int, int]:
    """The pattern, its zone, and the first and last second it may come at."""
    place = zone(trigger.timezone)
    if trigger.kind is TriggerKind.CRON:
        return compiled(trigger.expr, trigger.dialect, hash_id), place, 0, cron.HORIZON
    rule = recurrence(trigger, anchor_ms)
    return rule, place, rule.first, cron.HORIZON if rule.until is None else min(rule.until, cron.HORIZON)


def _next_matching(trigger: Trigger, after_ms: int, anchor_ms: int, hash_id: int) -> int | None:
    pattern, place, first, last = _resolve(trigger, anchor_ms, hash_id)
    found = cron.next_after(pattern, place, max(after_ms // 1000, first - 1))
    return None if found is None or found > last else found * 1000


def _missed_matching(trigger: Trigger, after_ms: int, until_ms: int, keep: int, anchor_ms: int, hash_id: int) -> Missed:
    pattern, place, first, last = _resolve(trigger, anchor_ms, hash_id)
    after, until = max(after_ms // 1000, first - 1), min(until_ms // 1000, last)
    count = cron.count_between(pattern, place, after, until)
    if not count:
        return Missed((), 0, None)
    newest = _newest_matching(pattern, place, after, until, min(max(keep, 1), count))
    return Missed(newest if keep > 0 else (), count, newest[-1])


def _newest_matching(pattern: cron.Pattern, place: Zone, after: int, until: int, keep: int) -> tuple[int, ...]:
    """The newest `keep` fires (ms) in after < fire <= until, of which there are at least that many."""
    # The count from x to the end falls as x grows: the latest x that still has `keep` behind it is just before the
    # first one wanted. Only what is between x and `high` is counted anew.
    low, high, behind = after, until, 0
    step = 60
    while until - step > after:  # most often they are recent: look there first
        count = cron.count_between(pattern, place, until - step, high)
        if behind + count >= keep:
            low = until - step
            break
        high, behind = until - step, behind + count
        step *= 8
    while high - low > 1:
        middle = (low + high) // 2
        count = cron.count_between(pattern, place, middle, high)
        if behind + count >= keep:
            low = middle
        else:
            high, behind = middle, behind + count
    times: list[int] = []
    at: int | None = low
    while at is not None and len(times) < keep:
        at = cron.next_after(pattern, place, at)
        if at is not None:
            times.append(at * 1000)
    return tuple(times)

"""Computes the next times of a trigger, with a note where the clocks change."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule import cron
from raftsched.schedule.cron import Pattern
from raftsched.schedule.describe import duration_text
from raftsched.schedule.exclusions import Exclusion, exclusion
from raftsched.schedule.expression import compiled
from raftsched.schedule.rule import recurrence
from raftsched.schedule.triggers import missed, moved_to, next_nominal
from raftsched.schedule.zones import Stretch, Zone, local_text, zone

PREVIEW_MAX = 100  # times at once; who wants more asks again from the last one on
_LOOK_BACK_S = 366 * 86_400


class Occurrence(NamedTuple):
    at_ms: int
    note: str | None  # "DST: ..", in the wall time of the trigger's zone; what a calendar leaves out; "jitter: .."
    trigger: str = ""  # id of the one of several that it is of


def preview(
    trigger: Trigger,
    from_ms: int,
    count: int,
    *,
    anchor_ms: int = 0,
    hash_id: int = 0,
    calendar: bytes | None = None,
) -> list[Occurrence]:
    """The first `count` (at most PREVIEW_MAX) nominal times after `from_ms`, `max_runs` aside.

    `anchor_ms`, `hash_id` and `calendar` as for `next_nominal`. A fixed delay is shown as if runs took no time. A note
    says where the clocks change, what a calendar leaves out, and where the next time bounds the jitter.

    Raises:
        TriggerError: the trigger is not valid (see `validate`).
    """
    found: list[Occurrence] = []
    at: int | None = from_ms
    limit = min(count, PREVIEW_MAX)
    if trigger.max_runs is not None:
        limit = min(limit, trigger.max_runs)
    while len(found) < limit:
        before = from_ms if at is None else at
        at = next_nominal(trigger, before, anchor_ms=anchor_ms, hash_id=hash_id, calendar=calendar)
        if at is None:
            break
        note = None
        pattern = _pattern(trigger, anchor_ms, hash_id)
        if pattern is not None:
            note = _note(pattern, zone(trigger.timezone), before // 1000, at // 1000)
        if calendar is not None and trigger.calendar is not None:
            left_out = _left_out(trigger, before, at, anchor_ms, hash_id, calendar)
            note = "; ".join(part for part in (left_out, note) if part) or None
        if trigger.jitter_ms:
            following = next_nominal(trigger, at, anchor_ms=anchor_ms, hash_id=hash_id, calendar=calendar)
            note = "; ".join(part for part in (note, _jitter_note(trigger, at, following)) if part) or None
        found.append(Occurrence(at, note, trigger.id))
        if trigger.once:
            break
    return found


def _jitter_note(trigger: Trigger, at: int, following: int | None) -> str | None:
    """Returns a note where the jitter of a time is shorter than what is asked for; None: it is not."""
    fixed_rate = trigger.kind is not TriggerKind.EVERY or trigger.mode is EveryMode.FIXED_RATE
    if following is None or not fixed_rate or following - at > trigger.jitter_ms:
        return None
    return f"jitter: less than {duration_text(following - at)}, for the next time comes then"


def _left_out(trigger: Trigger, before: int, at: int, anchor_ms: int, hash_id: int, calendar: bytes) -> str | None:
    """Returns a note on the times that the calendar excludes between two times, or moves to the second one; None: it
    does neither."""
    if trigger.calendar_moves:
        moved = moved_to(trigger, at, anchor_ms=anchor_ms, hash_id=hash_id, calendar=calendar)
        if moved is None:
            return None
        words, (first_ms, last_ms, count) = "moved here", moved
    else:
        plain = replace(trigger, calendar=None)
        gone = missed(plain, before, at - 1, keep=0, anchor_ms=anchor_ms, hash_id=hash_id)
        first = next_nominal(plain, before, anchor_ms=anchor_ms, hash_id=hash_id)
        if gone.until_ms is None or first is None:
            return None
        words, first_ms, last_ms, count = "left out before this", first, gone.until_ms, gone.count
    return (
        f"{trigger.calendar}: {words}: {_times_text(exclusion(calendar, trigger.timezone), first_ms, last_ms, count)}"
    )


def _times_text(days: Exclusion, first_ms: int, last_ms: int, count: int) -> str:
    first, last = days.text(first_ms // 1000), days.text(last_ms // 1000)
    span = first if first == last else f"{first} {'and' if count == 2 else 'to'} {last}"
    return span if count == 1 or (count == 2 and first != last) else f"{span} ({count} times)"


def _pattern(trigger: Trigger, anchor_ms: int, hash_id: int) -> Pattern | None:
    if trigger.kind is TriggerKind.CRON:
        return compiled(trigger.expr, trigger.dialect, hash_id)
    return recurrence(trigger, anchor_ms) if trigger.kind is TriggerKind.RRULE else None


def _note(expression: Pattern, place: Zone, before: int, at: int) -> str | None:
    """Returns what a change of the clocks did to the fire at `at`, the one before it having been at `before`."""
    stretch = place.stretch(at)
    if expression.fixed:
        return _fixed_note(expression, place, stretch, at)
    wall = at + stretch.offset
    seconds = expression.has_seconds
    shown = local_text(at, stretch.offset, seconds=seconds)
    if wall < stretch.reached:
        return f"DST: {shown} happens twice on this day; this is the second time"
    if _again(place, at, stretch):
        return f"DST: {shown} happens twice on this day; this is the first time"
    return _dropped(expression, place, before, at)


def _fixed_note(expression: Pattern, place: Zone, stretch: Stretch, at: int) -> str | None:
    seconds = expression.has_seconds
    if at == stretch.start:
        gap = cron.skipped_in_gap(expression, stretch)
        if gap:
            now = local_text(at, stretch.offset, seconds=seconds)
            return f"DST: {_span(gap, seconds)} on this day; runs at {now}"
    if _again(place, at, stretch):
        shown = local_text(at, stretch.offset, seconds=seconds)
        return f"DST: {shown} happens twice on this day; runs once, the first time"
    return None


def _again(place: Zone, at: int, stretch: Stretch) -> bool:
    """Returns whether the wall shows the time of `at` once more."""
    following = place.stretch(stretch.end)
    return following.start + following.offset <= at + stretch.offset < following.reached


def _dropped(expression: Pattern, place: Zone, before: int, at: int) -> str | None:
    """The nearest gap between the two fires, at most a year back, that swallowed some."""
    stretch = place.stretch(at)
    before = max(before, at - _LOOK_BACK_S)
    while stretch.start > before:
        gap = cron.skipped_in_gap(expression, stretch)
        if gap:
            day = "on this day" if at - stretch.start < 43_200 else "on the day the clocks went forward"
            return f"DST: {_span(gap, expression.has_seconds)} {day}; nothing runs for that"
        stretch = place.stretch(stretch.start - 1)
    return None


def _span(gap: tuple[int, int, int], seconds: bool) -> str:
    first, last, count = gap
    if count == 1:
        return f"{local_text(first, 0, seconds=seconds)} does not exist"
    word = "and" if count == 2 else "to"
    return f"{local_text(first, 0, seconds=seconds)} {word} {local_text(last, 0, seconds=seconds)} do not exist"

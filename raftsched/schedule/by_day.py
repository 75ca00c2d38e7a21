"""Counts how many times of a trigger each day has: by arithmetic, so that one that is due each second costs no more
than another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from raftsched.core.model import Trigger
from raftsched.schedule.exclusions import day_text
from raftsched.schedule.local_days import begin_of, day_of
from raftsched.schedule.triggers import missed
from raftsched.schedule.zones import Zone, zone

LISTED_MAX = 3_000  # times of one day of several triggers that are listed, so that shared ones are counted once


class DueDay(NamedTuple):
    date: str
    due: int
    left_out: int  # times that the trigger's calendar excludes, or moves to the end of what it excludes


def due_days(
    trigger: Trigger,
    from_ms: int,
    to_ms: int,
    zone_name: str,
    *,
    anchor_ms: int = 0,
    hash_id: int = 0,
    calendar: bytes | None = None,
    most: int | None = None,
) -> Iterator[DueDay]:
    """Yields the days of a time zone on which the trigger has nominal times in from_ms <= time < to_ms, or would have
    but for its calendar. `most`: no more times than that in all; the other parameters as for `next_nominal`.

    Raises:
        TriggerError: the trigger is not valid (see `validate`), or there is no such zone.
    """
    whose: dict[str, Any] = {"keep": 0, "anchor_ms": anchor_ms, "hash_id": hash_id}
    plain, stays = replace(trigger, calendar=None), replace(trigger, calendar_moves=False)
    for day, first_ms, end_ms in _spans(zone(zone_name), from_ms, to_ms):
        every = missed(plain, first_ms - 1, end_ms - 1, **whose).count
        stay = every
        if every and trigger.calendar is not None:
            stay = missed(stays, first_ms - 1, end_ms - 1, **whose, calendar=calendar).count
        left_out = every - stay
        count = stay
        if trigger.calendar_moves:
            count = missed(trigger, first_ms - 1, end_ms - 1, **whose, calendar=calendar).count
        if most is not None:
            count = min(count, most)
            most -= count
        if count or left_out:
            yield DueDay(day, count, left_out)
        if most == 0:
            return


def due_days_of_several(
    sources: Sequence[tuple[Trigger, dict[str, Any]]],
    from_ms: int,
    to_ms: int,
    zone_name: str,
    *,
    most: int | None = None,
) -> Iterator[DueDay]:
    """Yields the same for several triggers of a job, each with its other parameters. A time that several of them have
    is one, but on days that have more than LISTED_MAX: there it counts for each.

    Raises:
        TriggerError: as `due_days`.
    """
    for day, first_ms, end_ms in _spans(zone(zone_name), from_ms, to_ms):
        span = first_ms - 1, end_ms - 1
        due = _count_together([(trigger, whose) for trigger, whose in sources], span)
        plain = [(replace(trigger, calendar=None), {**whose, "calendar": None}) for trigger, whose in sources]
        every = due if all(trigger.calendar is None for trigger, _ in sources) else _count_together(plain, span)
        left_out = every - due
        if most is not None:
            due = min(due, most)
            most -= due
        if due or left_out:
            yield DueDay(day, due, left_out)
        if most == 0:
            return


def _count_together(sources: Sequence[tuple[Trigger, dict[str, Any]]], span: tuple[int, int]) -> int:
    counts = [missed(trigger, *span, keep=0, **whose).count for trigger, whose in sources]
    if sum(counts) > LISTED_MAX:
        return sum(counts)
    times: set[int] = set()
    for (trigger, whose), count in zip(sources, counts, strict=True):
        if count:
            times.update(missed(trigger, *span, keep=count, **whose).times)
    return len(times)


def _spans(place: Zone, from_ms: int, to_ms: int) -> Iterator[tuple[str, int, int]]:
    """Yields (date, first, end) for each local day that has a part of from_ms <= time < to_ms, cut to it."""
    day, low_ms = day_of(place, from_ms // 1000), from_ms
    while low_ms < to_ms:
        end_ms = min(begin_of(place, low_ms // 1000, day + 1) * 1000, to_ms)
        if end_ms > low_ms:  # no clock ever showed the day when a zone moved to the other side of the date line
            yield day_text(day), low_ms, end_ms
        day, low_ms = day + 1, end_ms

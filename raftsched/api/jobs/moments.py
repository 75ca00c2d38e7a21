"""The times of a trigger as answers show them: a list, and how many each day has. Other requests have their turn
between the pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from aiohttp import web

from raftsched import schedule
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.durations import format_time
from raftsched.api.http.problems import FieldError
from raftsched.api.http.replies import reply_fields
from raftsched.api.http.slices import Slices
from raftsched.bounds import DAY_MS
from raftsched.core.levels import HASHED_BY_NAME
from raftsched.core.model import Job, Policy, Trigger, TriggerKind
from raftsched.core.rules.creation import seed_after_edit, seed_of
from raftsched.core.rules.selection import DEFAULT_NAMESPACE
from raftsched.core.tables import ReadView
from raftsched.schedule import Occurrence, TriggerError

COUNT_DEFAULT = 10
COUNT_MAX = 1_000
DAYS = 31  # counted, unless `to` says otherwise
DAYS_MAX = 400  # counted at once: a year, and the rest of its weeks


class Window(NamedTuple):
    """The times that are asked for: from_ms < time, < to_ms where that is said. `zone`: of whose days they are counted;
    `most`: there are no more than these, all told."""

    from_ms: int
    to_ms: int | None
    limit: int
    zone: str | None = None
    most: int | None = None


class Source(NamedTuple):
    """A trigger, and what its times depend on beside it."""

    trigger: Trigger
    anchor_ms: int
    hash_id: int = 0  # what `H` is hashed from; 0: that is not known


def sources_of(policy: Policy, now_ms: int, job: Job | None = None, seed: int = 0) -> list[Source]:
    """Returns the triggers of a job with this policy. `job`: as it is until now; a trigger that it has already counts
    from where it did, others from now. `seed`: of a job that is not there yet, or will have another one."""
    known: dict[Trigger, int] = {}
    if job is not None:
        anchors = [state.anchor_at_ms for state in job.triggers] or [job.anchor_at_ms]
        known = dict(zip(job.policy.all_triggers, anchors, strict=True))
    hash_id = seed or (0 if job is None else job.hash_id)
    return [Source(one, known.get(one, _anchor_ms(one, now_ms)), hash_id) for one in policy.all_triggers]


def seed_of_new(view: ReadView, namespace: str | None, name: str | None, policy: Policy) -> int:
    """Returns what `H` will be hashed from in a job that is made now under this name; 0: that is not known before."""
    if meta(view).level < HASHED_BY_NAME:
        return 0
    return seed_of(namespace or DEFAULT_NAMESPACE, name, policy)


def seed_of_changed(view: ReadView, job: Job, name: str | None, policy: Policy) -> int:
    """Returns the same for a job that gets this name and content; 0: it is its id."""
    return job.seed if meta(view).level < HASHED_BY_NAME else seed_after_edit(job, name, policy)


def _anchor_ms(trigger: Trigger, now_ms: int) -> int:
    return now_ms if trigger.starts_at_ms is None else trigger.starts_at_ms


def words_of(policy: Policy, sources: Sequence[Source], *, is_job: bool = True) -> str:
    """Returns the triggers in words. `is_job`: of a job that there is, so that it is known what a rule begins with.
    Raises TriggerError."""
    anchors = [source.anchor_ms if is_job else None for source in sources]
    hash_id = sources[0].hash_id
    if policy.triggers:
        limit = policy.trigger.max_runs
        return schedule.describe_several(policy.triggers, max_runs=limit, hash_id=hash_id, anchors_ms=anchors)
    return schedule.describe(policy.trigger, hash_id=hash_id, anchor_ms=anchors[0])


def wrong_window(from_ms: int, to_ms: int | None, zone: str | None) -> FieldError | None:
    """Returns an error of `to` or `by_day`, None when there is none."""
    if zone is None:
        return None
    if to_ms is not None and to_ms - from_ms > DAYS_MAX * DAY_MS:
        return FieldError("/to", f"is more than {DAYS_MAX} days after from; ask for fewer at once", "out-of-range")
    try:
        schedule.check_zone(zone)
    except TriggerError as error:
        return FieldError("/by_day", f"names {error.detail}", "unknown-reference")
    return None


async def times_of(ctx: ApiContext, sources: Sequence[Source], window: Window) -> tuple[list[Occurrence], bool]:
    """Returns the times, and whether there are more. A time that several triggers share is that of the first."""
    slices = Slices()
    if len(sources) == 1:
        return await _times_of(ctx, sources[0], window, slices)
    found: dict[int, Occurrence] = {}
    more = False
    for source in sources:
        times, beyond = await _times_of(ctx, source, window._replace(most=None), slices)
        more |= beyond
        for time in times:
            found.setdefault(time.at_ms, time)
    together = sorted(found.values(), key=lambda time: time.at_ms)
    if window.most is not None and len(together) >= window.most:
        together, more = together[: window.most], False
    return together[: window.limit], more or len(together) > window.limit


async def _times_of(ctx: ApiContext, source: Source, window: Window, slices: Slices) -> tuple[list[Occurrence], bool]:
    trigger = source.trigger
    if trigger.kind in (TriggerKind.MANUAL, TriggerKind.AFTER):
        return [], False
    limit = window.limit + 1 if window.most is None else min(window.limit + 1, window.most)
    found: list[Occurrence] = []
    at_ms = window.from_ms
    whose = _whose(ctx, source)
    while len(found) < limit:
        following = schedule.preview(trigger, at_ms, 1, **whose)  # one may be a long search
        await slices.turn()
        if not following or (window.to_ms is not None and following[0].at_ms >= window.to_ms):
            break
        found += following
        if trigger.once:
            break
        at_ms = following[0].at_ms
    return found[: window.limit], len(found) > window.limit


async def answer_times(ctx: ApiContext, words: str, sources: Sequence[Source], window: Window) -> web.Response:
    """Answers with the times of triggers, and how many each day has where that is asked for. `sources`: empty where
    there are no times."""
    times, more = await times_of(ctx, sources, window) if sources else ([], False)
    fields = moments(words, times, more=more)
    if window.zone is not None:
        fields["days"] = await _days_of(ctx, sources, window, window.zone) if sources else []
    return reply_fields(fields)


def moments(words: str, times: list[Occurrence], *, more: bool) -> dict[str, Any]:
    shown = [{"at": format_time(t.at_ms), "note": t.note, "trigger": t.trigger or None} for t in times]
    return {"description": words, "next": shown, "more": more, "days": None}


async def _days_of(ctx: ApiContext, sources: Sequence[Source], window: Window, zone: str) -> list[dict[str, Any]]:
    to_ms = window.from_ms + DAYS * DAY_MS if window.to_ms is None else window.to_ms
    found: list[dict[str, Any]] = []
    span = window.from_ms + 1, to_ms, zone
    if len(sources) == 1:
        days = schedule.due_days(sources[0].trigger, *span, **_whose(ctx, sources[0]), most=window.most)
    else:
        several = [(source.trigger, _whose(ctx, source)) for source in sources]
        days = schedule.due_days_of_several(several, *span, most=window.most)
    slices = Slices()
    for day in days:
        found.append(day._asdict())
        await slices.turn()
    return found


def _whose(ctx: ApiContext, source: Source) -> dict[str, Any]:
    name = source.trigger.calendar
    content = None if name is None else ctx.calendar(name)
    return {"anchor_ms": source.anchor_ms, "hash_id": source.hash_id, "calendar": content}

"""A forecast of jobs at random, against a walk through the next times of each."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.api.auth.callers import Caller, RequestContext, begin_request, end_request
from raftsched.api.jobs.forecast_jobs import Forecast
from raftsched.api.jobs.forecast_load import Load
from raftsched.core.model import Job, JobState, Policy, Trigger, TriggerKind, TriggerState
from raftsched.core.subjects.access import Role
from raftsched.core.subjects.calendar import Calendar
from raftsched.core.tables import Table
from raftsched.schedule import next_nominal
from raftsched.schedule.due_counts import Window
from tests.support.amounts import examples
from tests.support.cron_times import cron, ms
from tests.support.memory_view import MemoryView

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOW = ms("2027-03-27T22:10:07Z")  # clocks in Madrid go forward three hours later
CALENDAR = msgspec.json.encode({"weekdays": ["sun"]})

EXPRESSIONS = ["* * * * *", "*/7 * * * *", "30 2 * * *", "0 * * * *", "H * * * *", "*/15 1-4 * * *", "*/20 * * * * *"]
PERIODS = [7_000, 20_000, 60_000, 90_000, HOUR_MS, 7 * MINUTE_MS + 1]


@st.composite
def triggers(draw: st.DrawFn) -> Trigger:
    kind = draw(st.sampled_from(["cron", "every", "every", "at"]))
    ends = draw(st.sampled_from([None, None, NOW + 5 * HOUR_MS + 1]))
    if kind == "cron":
        zone, calendar = draw(st.sampled_from(["UTC", "Europe/Madrid"])), draw(st.sampled_from([None, None, "c"]))
        moves = calendar is not None and draw(st.booleans())
        expr = draw(st.sampled_from(EXPRESSIONS))
        return cron(expr, zone, ends_at_ms=ends, calendar=calendar, calendar_moves=moves)
    if kind == "every":
        starts = draw(st.sampled_from([None, None, NOW + 2 * HOUR_MS]))
        period_ms = draw(st.sampled_from(PERIODS))
        return Trigger(kind=TriggerKind.EVERY, period_ms=period_ms, starts_at_ms=starts, ends_at_ms=ends)
    return Trigger(kind=TriggerKind.AT, at_ms=NOW + draw(st.integers(1, 12 * HOUR_MS)))


def first_of(job: Job, trigger: Trigger, anchor_ms: int, after_ms: int) -> int | None:
    content = None if trigger.calendar is None else CALENDAR
    return next_nominal(trigger, after_ms, anchor_ms=anchor_ms, hash_id=job.id, calendar=content)


@st.composite
def jobs(draw: st.DrawFn, job_id: int) -> Job:
    several = draw(st.integers(0, 3)) == 0
    owns = [draw(triggers()) for _ in range(draw(st.integers(2, 3)) if several else 1)]
    limit = draw(st.sampled_from([None, None, 1, 5, 100]))
    if several:
        policy = Policy(trigger=Trigger(kind=TriggerKind.SEVERAL, max_runs=limit), triggers=tuple(owns))
    else:
        once = owns[0].kind is TriggerKind.AT
        policy = Policy(trigger=owns[0] if once else msgspec.structs.replace(owns[0], max_runs=limit))
    anchor_ms = NOW - draw(st.integers(0, 5 * HOUR_MS))
    job = Job(
        id=job_id,
        namespace="default",
        name=None,
        revision=1,
        state=JobState.SCHEDULED,
        policy=msgspec.structs.replace(policy, queue=draw(st.sampled_from(["a", "b"]))),
        body=b"{}",
        created_at_ms=NOW,
        modified_at_ms=NOW,
        anchor_at_ms=anchor_ms,
        runs=draw(st.sampled_from([0, 0, 3])),
    )
    anchors = [one.starts_at_ms if one.starts_at_ms is not None else anchor_ms for one in owns]
    job.anchor_at_ms = anchors[0]
    paused = draw(st.integers(0, 4))
    if paused < 2:
        job.state = JobState.SUSPENDED
        job.resume_at_ms = NOW + draw(st.integers(1, 8 * HOUR_MS)) if paused else None
    firsts = [first_of(job, one, anchor, NOW) for one, anchor in zip(owns, anchors, strict=True)]
    if several:
        job.triggers = tuple(TriggerState(a, f, f, over=f is None) for a, f in zip(anchors, firsts, strict=True))
    if job.state is JobState.SCHEDULED:
        job.nominal_at_ms = job.fire_at_ms = min((at for at in firsts if at is not None), default=None)
        if draw(st.booleans()) and not several and owns[0].kind is not TriggerKind.AT:
            job.skipped_until_ms = job.nominal_at_ms
    return job


def due(job: Job, window: Window) -> Counter[int]:
    """What the job is due by, walked through."""
    if job.state is not JobState.SCHEDULED and job.resume_at_ms is None:
        return Counter()
    times: set[int] = set()
    begin_ms = max(NOW, job.skipped_until_ms + 1 if job.skipped_until_ms else 0)
    anchors = [state.anchor_at_ms for state in job.triggers] or [job.anchor_at_ms]
    for trigger, anchor_ms in zip(job.policy.all_triggers, anchors, strict=True):
        from_ms = max(begin_ms, job.resume_at_ms or 0)
        if trigger.once and job.resume_at_ms:
            times |= {max(trigger.at_ms, job.resume_at_ms)}
            continue
        at_ms = first_of(job, trigger, anchor_ms, max(from_ms - 1, NOW))
        while at_ms is not None and at_ms < window.high_ms:
            times.add(at_ms)
            at_ms = first_of(job, trigger, anchor_ms, at_ms)
    limit = job.policy.trigger.max_runs
    left = sorted(times) if limit is None else sorted(times)[: max(0, limit - job.runs)]
    return Counter(window.bucket(at_ms) for at_ms in left if window.low_ms <= at_ms < window.high_ms)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_counted_as_walked(data: st.DataObject) -> None:
    step_ms = data.draw(st.sampled_from([MINUTE_MS, 5 * MINUTE_MS, HOUR_MS]))
    ahead_ms = data.draw(st.sampled_from([0, 0, 3 * HOUR_MS]))
    low_ms = NOW + ahead_ms - (NOW + ahead_ms) % step_ms
    window = Window(low_ms, step_ms, data.draw(st.integers(1, 4 * HOUR_MS // step_ms)))
    view = MemoryView()
    calendar = Calendar(name="c", revision=1, content=CALENDAR, created_at_ms=0, modified_at_ms=0)
    view.put(Table.CALENDARS, b"c", msgspec.msgpack.encode(calendar))
    queue = data.draw(st.sampled_from([None, "a"]))
    found = Forecast(window, NOW, None, queue, [], False)
    wanted: Counter[int] = Counter()
    for job_id in range(1, data.draw(st.integers(1, 4)) + 1):
        job = data.draw(jobs(job_id))
        candidate = found.look(view, msgspec.msgpack.encode(job))
        if candidate is not None:
            list(found.count(candidate))
        if queue in (None, job.policy.queue):
            wanted += due(job, window)
    load = Load(window.buckets, window.step_ms)
    for group in found.groups.values():
        sum(load.add(group))
    assert load.due() == [wanted[step] for step in range(window.buckets)]


def counted(window: Window, some: list[Job]) -> tuple[Forecast, list[int]]:
    found, load = Forecast(window, NOW, None, None, [], False), Load(window.buckets, window.step_ms)
    for job in some:
        candidate = found.look(MemoryView(), msgspec.msgpack.encode(job))
        if candidate is not None:
            list(found.count(candidate))
    for group in found.groups.values():
        sum(load.add(group))
    return found, load.due()


def plain(job_id: int, trigger: Trigger, namespace: str = "default") -> Job:
    return Job(
        id=job_id,
        namespace=namespace,
        name=None,
        revision=1,
        state=JobState.SCHEDULED,
        policy=Policy(trigger=trigger),
        body=b"{}",
        created_at_ms=NOW,
        modified_at_ms=NOW,
        anchor_at_ms=NOW - job_id * 997,
        nominal_at_ms=None,
    )


def test_jobs_that_are_hashed_alike_are_one_group() -> None:
    window = Window(NOW - NOW % MINUTE_MS, MINUTE_MS, 120)
    some = [plain(job_id, cron("H * * * *")) for job_id in range(1, 200)]
    found, due_by_step = counted(window, some)
    wanted = sum((due(job, window) for job in some), Counter[int]())
    assert due_by_step == [wanted[step] for step in range(window.buckets)]
    assert len(found.groups) <= 60


def test_jobs_at_a_fixed_rate_are_few_groups_whenever_they_were_made() -> None:
    window = Window(NOW - NOW % MINUTE_MS, MINUTE_MS, 60)
    some = [plain(job_id, Trigger(kind=TriggerKind.EVERY, period_ms=7_000)) for job_id in range(1, 300)]
    found, due_by_step = counted(window, some)
    wanted = sum((due(job, window) for job in some), Counter[int]())
    assert due_by_step == [wanted[step] for step in range(window.buckets)]
    assert len(found.groups) <= 8


def test_what_the_caller_may_not_see_is_not_counted() -> None:
    window = Window(NOW - NOW % MINUTE_MS, MINUTE_MS, 60)
    every = Trigger(kind=TriggerKind.EVERY, period_ms=60_000)
    token = begin_request(RequestContext(Caller(Role.VIEWER, frozenset({"mine"}))))
    try:
        found, _ = counted(window, [plain(1, every, "mine"), plain(2, every, "theirs"), plain(3, every, "_system")])
    finally:
        end_request(token)
    assert found.jobs == 1

"""The jobs of a forecast: what each of them is due by, and what its runs take. Looks, and decides; the arithmetic is in
`schedule.due_counts` and `forecast_load`.

Jobs with the same times are a group, whose times are counted once: a million that are due each second cost little
more than one, beside the look at their rows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, islice
from math import gcd
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from raftsched.api.auth.callers import sees
from raftsched.api.jobs.forecast_load import Group, Shape, Work, limited, shape_of, shifted
from raftsched.api.rows import instances_of
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.model import (
    AfterOn,
    EveryMode,
    InstanceState,
    Job,
    JobState,
    Trigger,
    TriggerKind,
    TriggerState,
)
from raftsched.core.rows import CALENDARS, decode_instance, decode_job
from raftsched.core.rules.concurrency import concurrency_limit
from raftsched.core.rules.eligibility import Offer
from raftsched.core.rules.intervals import next_every
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.subjects.workflow import waits_for_all
from raftsched.core.tables import ReadView
from raftsched.schedule import TriggerError
from raftsched.schedule.due_counts import Due, Source, Window, due_in, runs_of
from raftsched.schedule.expression import compiled

DECODED = 10  # units of work that a decoded row counts for, and a look at a schedule; one that is passed over: 1
MEASURED_MAX = 2_000  # jobs of which the newest runs are looked at; of others the newest one alone is known
RUNS_LOOKED = 8  # of each
ROOTS_MAX = 20  # beginnings of workflows that a job which follows others is known to be started by
_NO_TIMES = (TriggerKind.MANUAL, TriggerKind.AFTER)
_BY_ITSELF = (InstanceState.SUCCEEDED, InstanceState.FAILED, InstanceState.TIMED_OUT)


class _Glance(msgspec.Struct, array_like=True):
    """The first fields of a job's row, which say of most whether they have to be decoded."""

    id: int
    namespace: str
    name: str | None
    revision: int
    state: JobState
    policy: msgspec.Raw
    body: msgspec.Raw
    created_at_ms: int
    modified_at_ms: int
    anchor_at_ms: int
    nominal_at_ms: int | None = None


_glance = msgspec.msgpack.Decoder(_Glance).decode


class Candidate(NamedTuple):
    """A job that may be due. `duration_ms`: what its runs take in the mean; None: none has ended."""

    job: Job
    duration_ms: int | None
    calendars: dict[str, bytes | None]


class _Known(NamedTuple):
    """A job that others may follow: its due times, by the job with which the workflow begins, and what a run takes."""

    by_root: dict[str, tuple[Due, ...]]
    total: int
    duration_ms: int


@dataclass(slots=True)
class Forecast:
    """The jobs that were counted so far. `namespace`, `queue`: only of these; None: of all."""

    window: Window
    now_ms: int
    namespace: str | None
    queue: str | None
    offers: list[Offer]  # of those who take runs
    follows: bool  # there are jobs that follow others
    groups: dict[tuple[str, object], Group] = field(default_factory=dict)
    work: int = 0
    left_out: int = 0
    jobs: int = 0
    unmeasured: int = 0
    estimated: int = 0
    _shapes: dict[object, Shape] = field(default_factory=dict)
    _hashed: dict[object, int] = field(default_factory=dict)  # one job of those whose `H` are the same numbers
    _measured: int = 0
    _calendars: dict[str, bytes | None] = field(default_factory=dict)
    _known: dict[str, _Known] = field(default_factory=dict)
    _following: list[Candidate] = field(default_factory=list)

    # ------------------------------------------------------------ looking

    def look(self, view: ReadView, raw: bytes) -> Candidate | None:
        """Returns the job of a row; None: it is not due in the window, or not asked about."""
        self.work += 1
        head = _glance(raw)
        if head.state in (JobState.DELETED, JobState.EXPIRED):
            return None
        if head.namespace != self.namespace and (self.namespace is not None or head.namespace == SYSTEM_NAMESPACE):
            return None
        if not sees(head.namespace):
            return None
        if head.nominal_at_ms is not None and head.nominal_at_ms >= self.window.high_ms:
            return None
        self.work += DECODED
        job = decode_job(raw)
        if job.policy.trigger.kind is TriggerKind.MANUAL:
            return None
        if job.state is not JobState.SCHEDULED and not self._resumes(job):
            self.left_out += self.queue in (None, job.policy.queue)
            return None
        found = Candidate(job, self._duration_ms(view, job), self._calendars)
        for name in job.policy.calendars:
            if name not in self._calendars:
                row = CALENDARS.get(view, name)
                self._calendars[name] = None if row is None else row.content
        if job.policy.trigger.kind is TriggerKind.AFTER:
            self._following.append(found)
            return None
        return found

    def _resumes(self, job: Job) -> bool:
        """Returns whether the job was paused until a time in the window."""
        return job.resume_at_ms is not None and job.resume_at_ms < self.window.high_ms

    def _duration_ms(self, view: ReadView, job: Job) -> int | None:
        if job.recent_ms:
            return sum(job.recent_ms) // len(job.recent_ms)
        if job.last_end_at_ms is None:
            return None
        if self._measured < MEASURED_MAX:
            self._measured += 1
            took = list(_took(view, job))
            self.work += RUNS_LOOKED * DECODED
            if took:
                return sum(took) // len(took)
        if job.last_start_at_ms is None or job.last_start_at_ms > job.last_end_at_ms:
            return None
        return job.last_end_at_ms - job.last_start_at_ms

    # ------------------------------------------------------------ counting

    def count(self, found: Candidate) -> Iterator[None]:
        """Counts the due times of a job; yields where others may have their turn."""
        job = found.job
        sources = list(_sources(found, max(self.window.low_ms, self.now_ms)))
        if not sources:
            return
        limit = job.policy.trigger.max_runs
        left = None if limit is None else max(0, limit - job.runs)
        try:
            if left is not None and self.window.low_ms > self.now_ms:
                before = Window(self.now_ms, self.window.low_ms - self.now_ms, 1)
                spent = 0
                for _, count in self._pieces(list(_sources(found, self.now_ms)), before):
                    spent += count
                    yield
                left = max(0, left - spent)
            key = tuple(self._for_all(source) for source in sources)
            if len(key) == 1:
                key = (_alike(key[0], self.window),)
            if key not in self._shapes:
                pieces: list[tuple[int, int]] = []
                for piece in self._pieces(key, self.window):
                    pieces.append(piece)
                    yield
                self._shapes[key] = shape_of(runs_of(pieces))
        except TriggerError:
            self.left_out += self.queue in (None, job.policy.queue)
            return
        shape = self._shapes[key]
        if left is not None and left < shape.total:
            self._add(found, shape_of(limited(shape.due, left)), (key, left), estimated=_is_estimate(job))
        else:
            self._add(found, shape, key, estimated=_is_estimate(job))

    def _for_all(self, source: Source) -> Source:
        """Returns a source with the same times, without what only its job knows and they do not depend on. Raises
        TriggerError."""
        trigger, hash_id = source.trigger, 0
        if trigger.kind is not TriggerKind.CRON:
            return source._replace(hash_id=0)
        expression = compiled(trigger.expr, trigger.dialect, source.hash_id)
        if expression.hashed:
            self.work += DECODED
            times = expression.times
            own = (times.seconds, times.minutes, times.hours, times.months, times.years)
            days = f"{times.days.day} {times.days.weekday}"
            hash_id = self._hashed.setdefault((trigger, own, days), source.hash_id)
        return source._replace(hash_id=hash_id, anchor_ms=source.anchor_ms if trigger.calendar_moves else 0)

    def _pieces(self, sources: tuple[Source, ...] | list[Source], window: Window) -> Iterator[tuple[int, int]]:
        for piece in due_in(sources, window):
            self.work += DECODED
            yield piece

    def _add(self, found: Candidate, shape: Shape, key: object, *, estimated: bool) -> None:
        job = found.job
        if not shape.total:
            return
        if self.follows and job.name is not None:
            name = _name(job)
            self._known.setdefault(name, _Known({name: shape.due}, shape.total, found.duration_ms or 0))
        if self.queue not in (None, job.policy.queue):
            return
        group = self.groups.setdefault((job.policy.queue, key), Group(job.policy.queue, shape))
        self.work += group.add(job.id, job.namespace, job.name, self._work(found), self.window)
        self.jobs += 1
        self.unmeasured += found.duration_ms is None
        self.estimated += shape.total if estimated else 0

    def _work(self, found: Candidate) -> Work | None:
        policy = found.job.policy
        if not found.duration_ms:
            return None if found.duration_ms is None else Work(0)
        width = policy.shards or 1
        if policy.on_all:
            width = sum(offer.can(policy, found.job.namespace) for offer in self.offers)
        return Work(found.duration_ms, width, concurrency_limit(policy))

    def forget(self) -> Iterator[None]:
        """Drops what was found, part by part; to free millions of objects at once would hold others up, too."""
        kept: dict[Any, Any]
        for kept in (self._known, self._shapes, self._hashed, self.groups):
            while kept:
                kept.popitem()
                yield
        while self._following:
            self._following.pop()
            yield

    # ------------------------------------------------------------ following

    def follow(self) -> Iterator[None]:
        """Counts the jobs that follow others, each after those that it follows; what goes in a circle is left out."""
        waiting: dict[str, list[int]] = {}
        missing: list[int] = []
        own = {_name(found.job) for found in self._following}
        for place, found in enumerate(self._following):
            after = found.job.policy.trigger.after
            targets = [target for target in dict.fromkeys(() if after is None else after.jobs) if target in own]
            missing.append(len(targets))
            for target in targets:
                waiting.setdefault(target, []).append(place)
        ahead = deque(place for place, count in enumerate(missing) if not count)
        while ahead:
            found = self._following[ahead.popleft()]
            yield from self._add_follower(found)
            yield
            for place in waiting.pop(_name(found.job), ()):
                missing[place] -= 1
                if not missing[place]:
                    ahead.append(place)

    def _add_follower(self, found: Candidate) -> Iterator[None]:
        """Yields after the times of each root: there may be hundreds."""
        after, name = found.job.policy.trigger.after, _name(found.job)
        if after is None or after.on is AfterOn.FAILED:
            return
        targets = [self._known.get(target, _Known({}, 0, 0)) for target in after.jobs]
        if waits_for_all(after):
            targets = [min(targets, key=lambda one: one.total)]
        by_root: dict[str, tuple[Due, ...]] = {}
        changes: Counter[int] = Counter()  # from one step to the next
        for target in targets:
            by = target.duration_ms // self.window.step_ms
            self.work += len(target.by_root)
            for root, due in target.by_root.items():
                if root not in by_root:
                    by_root[root] = shifted(due, by, self.window.buckets)
                    for first, end, count in by_root[root]:
                        changes[first] += count
                        changes[end] -= count
                    self.work += len(due)
                    yield
        together = runs_of(enumerate(accumulate(changes[step] for step in range(self.window.buckets))))
        self.work += sum(end - first for first, end, _ in together)
        limit = found.job.policy.trigger.max_runs
        due = together if limit is None else limited(together, max(0, limit - found.job.runs))
        known = by_root if len(by_root) <= ROOTS_MAX else {name: due}
        self._known[name] = _Known(known, _total(known), found.duration_ms or 0)
        self._add(found, shape_of(due), found.job.id, estimated=True)


def _name(job: Job) -> str:
    return f"{job.namespace}/{job.name}"


def _total(by_root: dict[str, tuple[Due, ...]]) -> int:
    return sum((end - first) * count for due in by_root.values() for first, end, count in due)


def _from_ms(job: Job, from_ms: int) -> int:
    """Returns from when on times of the job count that come at this time or later."""
    if job.skipped_until_ms is not None:
        from_ms = max(from_ms, job.skipped_until_ms + 1)
    if job.state is not JobState.SCHEDULED and job.resume_at_ms is not None:
        from_ms = max(from_ms, job.resume_at_ms)
    return from_ms


def _is_delay(trigger: Trigger) -> bool:
    return trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_DELAY


def _is_estimate(job: Job) -> bool:
    return any(map(_is_delay, job.policy.all_triggers))


def _once_at(job: Job, trigger: Trigger, state: TriggerState) -> int | None:
    """Returns when a trigger is due that is due once; None: it was."""
    if job.state is JobState.SCHEDULED or job.resume_at_ms is None:
        return state.nominal_at_ms
    at_ms = trigger.at_ms if trigger.kind is TriggerKind.AT else state.anchor_at_ms + trigger.period_ms
    return max(at_ms, job.resume_at_ms)


def _sources(found: Candidate, from_ms: int) -> Iterator[Source]:
    """Yields the triggers by which a job is due from this time on, with what their times depend on."""
    job = found.job
    pairs = [(job.policy.trigger, TriggerState(job.anchor_at_ms, job.nominal_at_ms, never_fires=job.never_fires))]
    if job.triggers:
        pairs = list(zip(job.policy.triggers, job.triggers, strict=True))
    for trigger, state in pairs:
        if trigger.kind in _NO_TIMES or state.over or state.never_fires:
            continue
        if trigger.once:
            at_ms = _once_at(job, trigger, state)
            if at_ms is not None:
                yield Source(Trigger(kind=TriggerKind.AT, at_ms=at_ms), from_ms, 0, 0)
        else:
            yield _source(found, trigger, state, _from_ms(job, from_ms))


def _source(found: Candidate, trigger: Trigger, state: TriggerState, from_ms: int) -> Source:
    job, anchor_ms = found.job, state.anchor_at_ms
    plain = replace(trigger, jitter_ms=0, max_runs=None, id="")
    if _is_delay(trigger):
        duration_ms = found.duration_ms or 0
        anchor_ms = _first_delayed(job, trigger, state, from_ms, duration_ms)
        period_ms = trigger.period_ms + duration_ms
        plain = replace(plain, mode=EveryMode.FIXED_RATE, period_ms=period_ms, starts_at_ms=None)
    content = None if trigger.calendar is None else found.calendars[trigger.calendar]
    skipped_ms = -1 if state.skipped_until_ms is None else state.skipped_until_ms
    from_ms = max(from_ms, skipped_ms + 1, state.nominal_at_ms or 0)  # nothing is due before its next time
    return Source(plain, from_ms, anchor_ms, job.hash_id, content)


def _first_delayed(job: Job, trigger: Trigger, state: TriggerState, from_ms: int, duration_ms: int) -> int:
    """Returns when a job with a fixed delay is due first: after the end that is expected of its run."""
    if state.nominal_at_ms is not None:
        return state.nominal_at_ms
    ends_ms = from_ms - 1
    if job.active:
        ends_ms = max(ends_ms, (job.last_start_at_ms or from_ms) + duration_ms)
    return next_every(replace(trigger, ends_at_ms=None), ends_ms, state.anchor_at_ms) or ends_ms


def _alike(source: Source, window: Window) -> Source:
    """Returns a source with as many times in each step, such as many jobs have in common."""
    trigger, from_ms, anchor_ms, _, _ = source
    if trigger.kind is TriggerKind.AT:
        at_ms = trigger.at_ms
        in_it = from_ms <= at_ms < window.high_ms
        at_ms -= (at_ms - window.low_ms) % window.step_ms if in_it else 0
        return Source(replace(trigger, at_ms=at_ms), window.low_ms if in_it else from_ms, 0, 0)
    whole = trigger.ends_at_ms is None or trigger.ends_at_ms >= window.high_ms
    if trigger.kind is not TriggerKind.EVERY or trigger.calendar is not None or not whole:
        return source
    first_ms = next_every(trigger, from_ms - 1, anchor_ms)
    if first_ms is None or first_ms >= window.high_ms:
        first_ms = window.high_ms
    # Steps and period are multiples of their divisor: where in such a part of a step it begins changes no count.
    first_ms -= (first_ms - window.low_ms) % gcd(window.step_ms, trigger.period_ms)
    plain = replace(trigger, starts_at_ms=None, ends_at_ms=None)
    return Source(plain, window.low_ms, first_ms, 0)


def _took(view: ReadView, job: Job) -> Iterator[int]:
    """Yields what the newest runs took that ended by themselves, all their attempts together."""
    for _, raw in islice(instances_of(view, job, 0, TIME_MAX_MS, None), RUNS_LOOKED):
        run = decode_instance(raw)
        spans = [(one.started_at_ms, one.ended_at_ms) for one in run.attempts]
        took = [end - start for start, end in spans if start is not None and end is not None]
        if run.state in _BY_ITSELF and took:
            yield max(0, sum(took))

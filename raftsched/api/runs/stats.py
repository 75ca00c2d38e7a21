"""/v1/stats and /v1/jobs/{id}/stats: how runs went, counted from the instances that are kept.

The newest are looked at first, a bounded number of them; an answer says how far back it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field

from aiohttp import web

from raftsched.api.context import ApiContext, meta, own_jobs
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import Query, bad_parameter
from raftsched.api.http.slices import Slices
from raftsched.api.rows import instances_of, requested_job
from raftsched.api.runs.states import instance_states
from raftsched.api.serving import serves
from raftsched.bounds import HOUR_MS
from raftsched.core.model import ASKED_FOR, Instance, InstanceState, JobState, Outcome
from raftsched.core.rows import decode_instance
from raftsched.core.rules.filters import JobFilter, filter_error
from raftsched.core.rules.lateness import lateness_ms
from raftsched.core.rules.selection import match, walk
from raftsched.core.tables import ReadView, Table, from_u64, u64
from raftsched.surface import statistics as surface
from raftsched.surface.statistics import DistributionOut, StatsOut

LOOK_MAX = 50_000  # instances, and jobs, looked at for one answer
SPAN_MS = HOUR_MS  # of the statistics of all jobs, unless `from` says otherwise
_BY_THEMSELVES = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT)
_SHOWN = tuple(state for state in JobState if state is not JobState.DELETED)

_Rows = Callable[[ReadView, bytes | None], Iterable[tuple[bytes, bytes]]]


@dataclass(slots=True)
class _Tally:
    states: Counter[InstanceState] = field(default_factory=Counter)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    skipped: int = 0
    dead: int = 0
    durations: list[int] = field(default_factory=list)
    lateness: list[int] = field(default_factory=list)

    def add(self, row: Instance) -> None:
        self.states[row.state] += 1
        self.skipped += row.gap_count or (row.state is InstanceState.SKIPPED and row.steps[0].detail not in ASKED_FOR)
        self.dead += row.dead_letter
        for attempt in row.attempts:
            if attempt.outcome is None:
                continue
            self.outcomes[attempt.outcome] += 1
            if (
                attempt.outcome in _BY_THEMSELVES
                and attempt.started_at_ms is not None
                and attempt.ended_at_ms is not None
            ):
                self.durations.append(max(0, attempt.ended_at_ms - attempt.started_at_ms))
        late_ms = lateness_ms(row)
        if late_ms is not None:
            self.lateness.append(late_ms)


@serves(surface.OF_JOB)
async def of_job(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    states = instance_states(query)
    low_ms, high_ms = _range(ctx, query, None)
    with ctx.read() as view:
        job = requested_job(view, call)

    def rows(view: ReadView, before: bytes | None) -> Iterable[tuple[bytes, bytes]]:
        return instances_of(view, job, low_ms, high_ms, before)

    since_ms = None if query.time("from") is not None else min(job.created_at_ms, high_ms)
    return await _answer(ctx, rows, low_ms, high_ms, states, None, None, since_ms=since_ms)


@serves(surface.ALL)
async def of_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    states = instance_states(query)
    low_ms, high_ms = _range(ctx, query, SPAN_MS)
    wanted = JobFilter(namespace=query.text("namespace"), owner=query.text("owner"))
    if filter_error(wanted) is not None:
        raise bad_parameter("owner", "is too long to be that of a job", "out-of-range")

    def rows(view: ReadView, before: bytes | None) -> Iterable[tuple[bytes, bytes]]:
        high = u64(high_ms) if before is None else before
        return view.scan(Table.INSTANCES, u64(low_ms), max(u64(low_ms), high), reverse=True)

    return await _answer(
        ctx,
        rows,
        low_ms,
        high_ms,
        states,
        None if wanted.is_empty else wanted,
        await _count_jobs(ctx, wanted),
        hides=wanted.namespace is None,
    )


def _range(ctx: ApiContext, query: Query, span_ms: int | None) -> tuple[int, int]:
    """(from, to) in ms"""
    low_ms = query.time("from")
    high_ms = query.time("to")
    if high_ms is None:
        high_ms = max(ctx.now_ms() + 1, low_ms or 0)  # from a time to come on there is nothing yet
    if low_ms is None:
        low_ms = 0 if span_ms is None else max(0, high_ms - span_ms)
    if low_ms > high_ms:
        raise bad_parameter("from", 'is after "to"; it must not be', "inconsistent")
    return low_ms, high_ms


async def _answer(
    ctx: ApiContext,
    rows: _Rows,
    low_ms: int,
    high_ms: int,
    states: Set[InstanceState] | None,
    wanted: JobFilter | None,
    jobs: dict[str, int] | None,
    *,
    hides: bool = False,
    since_ms: int | None = None,
) -> web.Response:
    """`states`: only instances in these count; None: in any. `hides`: what the cluster runs for itself does not.
    `since_ms`: the answer begins there, or with the first instance before that; None: at `low_ms`."""
    tally = _Tally()
    chosen: dict[int, bool] = {}  # of the jobs met so far
    slices = Slices()
    seen, before, counted_from_ms = 0, None, low_ms
    complete = False
    while not complete and seen < LOOK_MAX:
        await slices.turn()
        with ctx.read() as view:
            for key, raw in rows(view, before):
                before = key
                seen += 1
                row = decode_instance(raw)
                counts = (
                    row.parent is None
                    and not (hides and row.notice is not None)
                    and (states is None or row.state in states)
                )
                if counts and (wanted is None or _is_of(view, wanted, row.job_id, chosen)):
                    tally.add(row)
                if seen >= LOOK_MAX or slices.over:
                    break
            else:
                complete = True
    if since_ms is not None:
        low_ms = counted_from_ms = since_ms if before is None else min(since_ms, from_u64(before[:8]))
    if not complete and before is not None:
        counted_from_ms = from_u64(before[:8])
    return reply_value(
        StatsOut(
            from_=format_time(low_ms),
            to=format_time(high_ms),
            counted_from=format_time(counted_from_ms),
            complete=complete,
            instances={state.name: tally.states[state] for state in InstanceState},
            attempts={outcome.name.lower(): tally.outcomes[outcome] for outcome in Outcome},
            skipped_fires=tally.skipped,
            dead_letters=tally.dead,
            duration=distribution(tally.durations),
            lateness=distribution(tally.lateness),
            jobs=jobs,
        )
    )


def _is_of(view: ReadView, wanted: JobFilter, job_id: int, chosen: dict[int, bool]) -> bool:
    if job_id not in chosen:
        raw = view.get(Table.JOBS, u64(job_id))
        chosen[job_id] = raw is not None and match(wanted, raw) is not None
    return chosen[job_id]


async def _count_jobs(ctx: ApiContext, wanted: JobFilter) -> dict[str, int] | None:
    """Counts jobs by their states; None: they are too many to be counted for one answer."""
    with ctx.read() as view:
        cluster = meta(view)
    if wanted.is_empty:
        counts = own_jobs(cluster)
        return {state.name: counts[state] for state in _SHOWN}
    found: Counter[JobState] = Counter()
    slices, looked = Slices(), 0
    for way in walk(wanted).parts:
        last, done = None, False
        while not done:
            await slices.turn()
            with ctx.read() as view:
                for key, value in way.rows(view, last):
                    last = key
                    looked += 1
                    if looked >= LOOK_MAX:
                        return None
                    raw = way.job(view, key, value)
                    job = None if raw is None else match(wanted, raw)
                    if job is not None:
                        found[job.state] += 1
                    if slices.over:
                        break
                else:
                    done = True
    return {state.name: found[state] for state in _SHOWN}


def distribution(values: list[int]) -> DistributionOut:
    """Percentiles by nearest rank."""
    if not values:
        return DistributionOut(0, None, None, None, None, None)
    values = sorted(values)
    count = len(values)

    def rank(percent: int) -> int:
        return values[max(0, -(-percent * count // 100) - 1)]

    return DistributionOut(count, round(sum(values) / count), rank(50), rank(90), rank(99), values[-1])

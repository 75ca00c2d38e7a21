"""GET /v1/forecast: how many runs are due in the steps of a window, by queue, and whether there are slots for them.

Counted, not walked through; the jobs are looked at in the order of their ids, a bounded number for one answer, and
others have their turn between the slices. A node makes one forecast at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from heapq import nlargest

from aiohttp import web

from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time, parse_duration
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import Query, bad_parameter, check_namespace
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.forecast_jobs import Candidate, Forecast
from raftsched.api.jobs.forecast_load import SHOWN, Load
from raftsched.api.runs.minutes import STEPS
from raftsched.api.runs.waiting import takers
from raftsched.api.serving import serves
from raftsched.bounds import DAY_MS
from raftsched.core import rows
from raftsched.core.ids import job_text
from raftsched.core.rules.eligibility import Offer
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import walk
from raftsched.core.tables import from_u64
from raftsched.schedule.due_counts import Window
from raftsched.surface import forecast

STEPS_MAX = 1_500  # of one answer: a day of minutes, two months of hours
WORK_MAX = 2_000_000  # rows that one answer passes over; what is decoded or counted weighs more
QUEUES_MAX = 20  # that are shown
PEAKS = 5

FORECASTS: web.AppKey[asyncio.Lock] = web.AppKey("forecasts", asyncio.Lock)


@serves(forecast.FORECAST)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    namespace, queue = query.text("namespace"), query.text("queue")
    check_namespace(namespace)
    now_ms = ctx.now_ms()
    window = _window(query, now_ms)
    async with call.request.app[FORECASTS]:
        with ctx.read() as view:
            cluster = meta(view)
            offers = takers(view, cluster)
        found = Forecast(window, now_ms, namespace, queue, offers, cluster.followers > 0)
        turns = _Turns(found)
        stopped_at = await _count(ctx, found, turns)
        complete = stopped_at is None and await turns.take(found.follow())
        out = await _answer(ctx, found, turns)
        await turns.end(found.forget())
    out.complete, out.stopped_at = complete, stopped_at
    return reply_value(out)


def _window(query: Query, now_ms: int) -> Window:
    """Raises Problem invalid-parameter."""
    step = query.choice("step", *STEPS)
    low_ms, high_ms, length_ms = query.time("from"), query.time("to"), query.parsed("for", parse_duration)
    if low_ms is None:
        low_ms = now_ms
    if high_ms is not None and length_ms is not None:
        raise bad_parameter("for", "and to exclude each other; give one of them", "inconsistent")
    if high_ms is None:
        high_ms = low_ms + (DAY_MS if length_ms is None else length_ms)
    if low_ms > high_ms:
        raise bad_parameter("from", 'is after "to"; it must not be', "inconsistent")
    for step_ms in STEPS.values() if step is None else (STEPS[step],):
        begin_ms = low_ms - low_ms % step_ms
        steps = -(-(high_ms - begin_ms) // step_ms)
        if steps <= STEPS_MAX:
            return Window(begin_ms, step_ms, steps)
    name = "to" if length_ms is None else "for"
    raise bad_parameter(
        name, f"makes {steps:,} steps; the limit is {STEPS_MAX:,}: take longer ones, or fewer", "out-of-range"
    )


class _Turns:
    """Lets others have their turn, and sees when one answer has had all the work that it may."""

    def __init__(self, found: Forecast) -> None:
        self._found = found
        self._slices = Slices()

    @property
    def is_over(self) -> bool:
        return self._slices.over

    async def pause(self) -> bool:
        """Returns whether there is work left for this answer."""
        await self._slices.turn()
        return self._found.work < WORK_MAX

    async def end(self, steps: Iterable[None]) -> None:
        """Goes through the steps, however much work there was before."""
        for _ in steps:
            await self._slices.turn()

    async def take(self, steps: Iterable[None]) -> bool:
        """Goes through the steps. Returns whether it came to their end."""
        for _ in steps:
            if self.is_over and not await self.pause():
                return False
        return True


async def _count(ctx: ApiContext, found: Forecast, turns: _Turns) -> str | None:
    """Looks at all jobs. Returns the one at which it stopped; None: it has come to their end."""
    way, last = walk(JobFilter(namespace=found.namespace)), None
    job_id = None
    while True:
        candidates: list[Candidate] = []
        done = True
        with ctx.read() as view:
            for key, value in way.rows(view, last):
                last = key
                raw = way.job(view, key, value)
                candidate = None if raw is None else found.look(view, raw)
                if candidate is not None:
                    candidates.append(candidate)
                if turns.is_over:
                    done = False
                    break
        for candidate in candidates:
            if not await turns.take(found.count(candidate)):
                return job_text(candidate.job.id if job_id is None else job_id)
            job_id = candidate.job.id
        if not await turns.pause() and not done and last is not None:
            return job_text(from_u64(last[-8:]))
        if done:
            return None


async def _answer(ctx: ApiContext, found: Forecast, turns: _Turns) -> forecast.ForecastOut:
    window, groups = found.window, list(found.groups.values())
    totals: Counter[str] = Counter()
    for group in groups:
        totals[group.queue] += group.total
        if turns.is_over:
            await turns.pause()
    shown = sorted(totals, key=lambda name: (-totals[name], name))[:QUEUES_MAX]
    loads = {name: Load(window.buckets, window.step_ms) for name in shown}
    load = Load(window.buckets, window.step_ms)  # of the queues that are not shown; then of all
    for group in groups:
        for sums in loads.get(group.queue, load).add(group):
            found.work += sums
            if turns.is_over:
                await turns.pause()
    for one in loads.values():
        load.include(one)
        await turns.pause()
    due, busy = load.due(), load.busy()
    best = nlargest(PEAKS, (at for at in range(window.buckets) if due[at]), key=lambda at: (due[at], busy[at], -at))
    peaks = []
    for at in best:
        peaks.append(await _peak(found, turns, at, due[at], busy[at]))
    queues = []
    for name in shown:
        await turns.pause()
        queues.append(_queue(ctx, found, name, totals[name], loads[name]))
    await turns.pause()
    return forecast.ForecastOut(
        from_=format_time(window.low_ms),
        to=format_time(window.high_ms),
        counted_from=format_time(max(window.low_ms, found.now_ms)),
        step=next(name for name, step_ms in STEPS.items() if step_ms == window.step_ms),
        total=sum(due),
        estimated=found.estimated,
        due=due,
        busy=busy,
        slots=_slots(found.offers, found.queue, found.namespace),
        queues=queues,
        queues_left_out=len(totals) - len(shown),
        peaks=peaks,
        jobs=found.jobs,
        unmeasured=found.unmeasured,
        left_out=found.left_out,
        complete=True,
        stopped_at=None,
    )


async def _peak(found: Forecast, turns: _Turns, at: int, due: int, busy: float) -> forecast.ForecastPeakOut:
    by_queue: Counter[str] = Counter()
    jobs = 0
    most: list[forecast.ForecastJobOut] = []
    for group in found.groups.values():
        count = group.due_at(at)
        found.work += 1
        if count:
            by_queue[group.queue] += count * group.jobs
            jobs += group.jobs
            if len(most) < SHOWN or count > most[-1].due:
                most += [forecast.ForecastJobOut(job_text(i), n, ns, group.queue, count) for i, ns, n in group.first]
                most = nlargest(SHOWN, most, key=lambda job: job.due)
        if turns.is_over:
            await turns.pause()
    queues = [forecast.ForecastShareOut(name, count) for name, count in by_queue.most_common(SHOWN)]
    start = format_time(found.window.low_ms + at * found.window.step_ms)
    return forecast.ForecastPeakOut(start, due, busy, queues, most, jobs)


def _queue(ctx: ApiContext, found: Forecast, name: str, total: int, load: Load) -> forecast.ForecastQueueOut:
    with ctx.read() as view:
        row = rows.QUEUES.get(view, name)
    most, paused = (None, False) if row is None else (row.max_running, row.paused)
    slots = _slots(found.offers, name, found.namespace)
    return forecast.ForecastQueueOut(name, total, load.due(), load.busy(), slots, most, paused)


def _slots(offers: Iterable[Offer], queue: str | None, namespace: str | None) -> int:
    """Returns the slots of those who take runs of a queue and of a namespace; None: of any."""
    return sum(
        offer.slots
        for offer in offers
        if (queue is None or offer.queues is None or queue in offer.queues)
        and (namespace is None or offer.namespaces is None or namespace in offer.namespaces)
    )

"""GET /v1/jobs:graph: which jobs follow which, and which wait for a success of others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import islice

import msgspec
from aiohttp import web

from raftsched.api.auth.callers import sees
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import READ, check_namespace
from raftsched.api.jobs.render import STATE_NAMES
from raftsched.api.openapi.operation import operation
from raftsched.api.rows import referred_job
from raftsched.core.filters import JobFilter
from raftsched.core.ids import job_text
from raftsched.core.model import ConditionKind, Job, JobState
from raftsched.core.rows import decode_job
from raftsched.core.selection import followers, walk
from raftsched.core.tables import ReadView, Table, from_u64, name_key, u64
from raftsched.core.workflows import waits_for_all
from raftsched.schedule import TriggerError, describe

JOBS_MAX = 2_000  # of one answer
LOOK_MAX = 100_000  # jobs that are looked at for one
SLICE = 1_000  # of them at a time


class GraphJobOut(msgspec.Struct):
    """A job. `id`, `state` and `when` are null for one that does not exist, or is not for the caller to see."""

    name: str
    id: str | None = None
    state: str | None = None
    when: str | None = None


class GraphEdgeOut(msgspec.Struct):
    """`to` waits for `from_`. `kind`: after, or condition. `on`: the end that starts it. `mode`: one; all or any of
    several."""

    from_: str = msgspec.field(name="from")
    to: str
    kind: str
    on: str
    mode: str


class GraphOut(msgspec.Struct):
    """`complete`: false where there is more than one answer holds."""

    jobs: list[GraphJobOut]
    edges: list[GraphEdgeOut]
    complete: bool


@operation(
    "Read which jobs follow which",
    {200: GraphOut},
    query=("namespace", "job", *READ),
    codes=("not-found",),
    role="viewer",
)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    """With `job`, an id or "namespace/name": that one, what it waits for and what follows it, directly or by way of
    others. Else all jobs that wait for others, of a namespace or of all. What waits by a condition is found from the
    side of the job that waits."""
    query = call.query
    name, namespace = query.text("job"), query.text("namespace")
    check_namespace(namespace)
    graph = _Graph()
    if name is not None:
        with ctx.read() as view:
            job = referred_job(view, name, namespace)
            if job is None:
                raise Problem("not-found", f'There is no job "{name[:200]}"; give its id, or "namespace/name".')
            graph.around(view, job)
            shown = graph.shown(view)
    else:
        await _all(ctx, graph, namespace)
        with ctx.read() as view:
            shown = graph.shown(view)
    return reply_value(shown)


async def _all(ctx: ApiContext, graph: _Graph, namespace: str | None) -> None:
    """Looks at all jobs, a bounded number at a time."""
    rows, last, looked = walk(JobFilter(namespace=namespace)), None, 0
    while looked < LOOK_MAX:
        with ctx.read() as view:
            some = list(islice(rows.rows(view, last), SLICE))
            for key, value in some:
                raw = rows.job(view, key, value)
                if raw is not None and (raw.find(b'"after"') >= 0 or raw.find(b'"job_succeeded"') >= 0):
                    graph.add(decode_job(raw), namespace)
        looked += len(some)
        if len(some) < SLICE:
            return
        if len(graph.jobs) >= JOBS_MAX:
            break
        last = some[-1][0]
        await asyncio.sleep(0)
    graph.complete = False


class _Graph:
    def __init__(self) -> None:
        self.jobs: dict[str, Job | None] = {}
        self.edges: list[GraphEdgeOut] = []
        self.complete = True
        self._drawn: set[int] = set()

    def add(self, job: Job, namespace: str | None = None) -> list[str]:
        """Adds a job, if it waits for others, with those. Returns their names."""
        if job.state is JobState.DELETED or not sees(job.namespace) or namespace not in (None, job.namespace):
            return []
        edges = list(_edges(job))
        new = {edge.from_ for edge in edges} | {name_of(job)}
        if job.id in self._drawn or not edges:
            return []
        if len(self.jobs.keys() | new) > JOBS_MAX:
            self.complete = False
            return []
        self._drawn.add(job.id)
        self.jobs[name_of(job)] = job
        for edge in edges:
            self.jobs.setdefault(edge.from_, None)
        self.edges += edges
        return [edge.from_ for edge in edges]

    def around(self, view: ReadView, job: Job) -> None:
        """Adds what a job waits for, and what follows it."""
        self.jobs[name_of(job)] = job
        up: deque[str] = deque(self.add(job))
        while up:
            other = find(view, up.popleft())
            if other is not None:
                up.extend(self.add(other))
        down, seen = deque((name_of(job),)), {job.id}
        while down:
            target = down.popleft()
            for job_id in list(followers(view, target)):
                raw = view.get(Table.JOBS, u64(job_id))
                follower = None if raw is None or job_id in seen else decode_job(raw)
                after = None if follower is None else follower.policy.trigger.after
                if follower is None or after is None or target not in after.jobs:
                    continue
                seen.add(job_id)
                self.add(follower)
                if follower.id in self._drawn:
                    down.append(name_of(follower))

    def shown(self, view: ReadView) -> GraphOut:
        for name, job in self.jobs.items():
            if job is None and sees(name.partition("/")[0]):
                self.jobs[name] = find(view, name)
        return GraphOut([_job(name, job) for name, job in self.jobs.items()], self.edges, self.complete)


def name_of(job: Job) -> str:
    """Returns namespace/name, or namespace/id of a job without a name."""
    return f"{job.namespace}/{job.name or job_text(job.id)}"


def find(view: ReadView, name: str) -> Job | None:
    """Returns the job that is named as namespace/name, None when it does not exist for the caller."""
    namespace, _, short = name.partition("/")
    raw = view.get(Table.NAMES, name_key(namespace, short)) if sees(namespace) else None
    row = None if raw is None else view.get(Table.JOBS, u64(from_u64(raw)))
    return None if row is None else decode_job(row)


def _edges(job: Job) -> Iterable[GraphEdgeOut]:
    after, own = job.policy.trigger.after, name_of(job)
    if after is not None:
        mode = "all" if waits_for_all(after) else "any" if len(after.jobs) > 1 else "one"
        for target in after.jobs:
            yield GraphEdgeOut(target, own, "after", after.on.name.lower(), mode)
    for condition in job.policy.conditions:
        if condition.kind is ConditionKind.JOB:
            yield GraphEdgeOut(condition.target, own, "condition", "succeeded", "all")


def _job(name: str, job: Job | None) -> GraphJobOut:
    if job is None:
        return GraphJobOut(name)
    try:
        when = describe(job.policy.trigger, job_id=job.id, anchor_ms=job.anchor_at_ms)
    except TriggerError:
        when = None
    return GraphJobOut(name, job_text(job.id), STATE_NAMES[job.state], when)

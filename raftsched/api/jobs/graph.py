"""GET /v1/jobs:graph: which jobs follow which, and which wait for a success of others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from aiohttp import web

from raftsched.api.auth.callers import sees
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import check_namespace
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.render import STATE_NAMES
from raftsched.api.rows import referred_job
from raftsched.api.serving import serves
from raftsched.core.ids import job_text
from raftsched.core.model import ConditionKind, Job, JobState
from raftsched.core.rows import decode_job
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import followers, walk
from raftsched.core.subjects.workflow import waits_for_all
from raftsched.core.tables import ReadView, Table, from_u64, name_key, u64
from raftsched.schedule import TriggerError, describe
from raftsched.surface.graph import GRAPH, GraphEdgeOut, GraphJobOut, GraphOut

JOBS_MAX = 2_000  # of one answer
EDGES_MAX = 20_000
LOOK_MAX = 500_000  # rows and edges that are looked at for one
DECODED = 10  # rows that a job counts for which is decoded, or shown


@serves(GRAPH)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    name, namespace = query.text("job"), query.text("namespace")
    check_namespace(namespace)
    graph = _Graph()
    if name is not None:
        with ctx.read() as view:
            job = referred_job(view, name, namespace)
        if job is None:
            raise Problem("not-found", f'There is no job "{name[:200]}"; give its id, or "namespace/name".')
        await _around(ctx, graph, job)
    else:
        await _all(ctx, graph, namespace)
    return reply_value(await _shown(ctx, graph))


async def _all(ctx: ApiContext, graph: _Graph, namespace: str | None) -> None:
    """Looks at all jobs, a bounded number at a time."""
    rows, last = walk(JobFilter(namespace=namespace)), None
    while graph.goes_on():
        with ctx.read() as view:
            for key, value in rows.rows(view, last):
                last = key
                raw = rows.job(view, key, value)
                if raw is not None and (raw.find(b'"after"') >= 0 or raw.find(b'"job_succeeded"') >= 0):
                    graph.add(graph.decode(raw), namespace)
                if graph.slice_is_over():
                    break
            else:
                return
        await graph.slices.turn()


async def _around(ctx: ApiContext, graph: _Graph, job: Job) -> None:
    """Adds what a job waits for, and what follows it, the nearest first."""
    graph.jobs[name_of(job)] = job
    ahead: deque[_Step] = deque((_Step(name_of(job)), _Step(name_of(job), 0)))
    while ahead and graph.goes_on():
        with ctx.read() as view:
            while ahead:
                step = ahead.popleft()
                if step.behind is None:
                    ahead.extend(graph.awaited_by(view, step.name))
                else:
                    graph.followed_by(view, step.name, step.behind, ahead)
                if graph.slice_is_over():
                    break
        await graph.slices.turn()


async def _shown(ctx: ApiContext, graph: _Graph) -> GraphOut:
    names = list(graph.jobs)
    shown: list[GraphJobOut] = []
    while len(shown) < len(names):
        with ctx.read() as view:
            for name in names[len(shown) :]:
                shown.append(_job(name, graph.find(view, name)))
                if graph.slices.over:
                    break
        await graph.slices.turn()
    return GraphOut(shown, graph.edges, graph.complete)


class _Step(NamedTuple):
    """A name to go on from. `behind`: to the jobs that follow, those behind this id; None: to what it waits for."""

    name: str
    behind: int | None = None


class _Graph:
    def __init__(self) -> None:
        self.jobs: dict[str, Job | None] = {}
        self.edges: list[GraphEdgeOut] = []
        self.complete = True
        self.slices = Slices()
        self.work = 0  # in this slice
        self._done = 0  # in those before
        self._found: set[str] = set()  # names that were looked up
        self._awaited: set[str] = set()  # names of which it is known, or to be looked at, what they wait for
        self._drawn: set[int] = set()
        self._followers: set[int] = set()

    def goes_on(self) -> bool:
        """Begins a slice, unless all was looked at that one answer may take."""
        self._done += self.work
        self.work = 0
        if self._done >= LOOK_MAX:
            self.complete = False
        return self.complete

    def slice_is_over(self) -> bool:
        """Returns whether others are to have their turn. To be asked once for each row."""
        self.work += 1
        return self.slices.over or not self.complete

    def decode(self, raw: bytes) -> Job:
        self.work += DECODED
        return decode_job(raw)

    def find(self, view: ReadView, name: str) -> Job | None:
        """Returns the job that is named as namespace/name, None when it does not exist for the caller. Each is looked
        up once."""
        job = self.jobs.get(name)
        if job is not None or name in self._found:
            return job
        self._found.add(name)
        namespace, _, short = name.partition("/")
        raw = view.get(Table.NAMES, name_key(namespace, short)) if sees(namespace) else None
        row = None if raw is None else view.get(Table.JOBS, u64(from_u64(raw)))
        job = None if row is None else self.decode(row)
        if name in self.jobs:
            self.jobs[name] = job
        return job

    def add(self, job: Job, namespace: str | None = None) -> list[str]:
        """Adds a job, if it waits for others, with those. Returns their names."""
        if job.id in self._drawn or job.state is JobState.DELETED:
            return []
        if not sees(job.namespace) or namespace not in (None, job.namespace):
            return []
        edges = list(_edges(job))
        if not edges:
            return []
        self.work += len(edges)
        names = dict.fromkeys(edge.from_ for edge in edges)
        more = sum(name not in self.jobs for name in {name_of(job), *names})
        if len(self.jobs) + more > JOBS_MAX or len(self.edges) + len(edges) > EDGES_MAX:
            self.complete = False
            return []
        self._drawn.add(job.id)
        self.jobs[name_of(job)] = job
        for name in names:
            self.jobs.setdefault(name, None)
        self.edges += edges
        return list(names)

    def awaited_by(self, view: ReadView, name: str) -> list[_Step]:
        """Adds a job with what it waits for. Returns the steps to those."""
        job = self.find(view, name)
        new = [] if job is None else [target for target in self.add(job) if target not in self._awaited]
        self._awaited.update(new)
        return [_Step(target) for target in new]

    def followed_by(self, view: ReadView, target: str, behind: int, ahead: deque[_Step]) -> None:
        """Adds the jobs that follow one, those behind an id, as many as there is time for. Puts what is to be looked
        at then into `ahead`."""
        for job_id in followers(view, target, behind):
            raw = None if job_id in self._followers else view.get(Table.JOBS, u64(job_id))
            follower = None if raw is None else self.decode(raw)
            after = None if follower is None else follower.policy.trigger.after
            if follower is not None and after is not None and target in after.jobs:
                self._followers.add(job_id)
                self.add(follower)
                if job_id in self._drawn:
                    ahead.append(_Step(name_of(follower), 0))
            if self.slice_is_over():
                ahead.appendleft(_Step(target, job_id))
                return


def name_of(job: Job) -> str:
    """Returns namespace/name, or namespace/id of a job without a name."""
    return f"{job.namespace}/{job.name or job_text(job.id)}"


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
        when = describe(job.policy.trigger, hash_id=job.hash_id, anchor_ms=job.anchor_at_ms)
    except TriggerError:
        when = None
    return GraphJobOut(name, job_text(job.id), STATE_NAMES[job.state], when)

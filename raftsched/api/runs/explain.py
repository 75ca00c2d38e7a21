"""GET /v1/instances/{id}/explain: why it ran then and there, what it waited for, each step with its entry in the log.

All of it is read from the tables as of one moment: what was noted as it happened, and, for what still waits, what is in
its way now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from aiohttp import web

from raftsched.api.auth.callers import sees
from raftsched.api.cluster.overview import seen
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time, format_time_or_none, parse_time
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import instance_key_of
from raftsched.api.jobs.moved_words import moved_words
from raftsched.api.rows import requested_instance
from raftsched.api.runs.explain_words import (
    end_words,
    gap_words,
    going_words,
    step_words,
    then_words,
    there_words,
    trigger_words,
    unstarted_words,
    waiting_words,
)
from raftsched.api.runs.kept_words import notes_of, places_of
from raftsched.api.runs.notified import notifications_of
from raftsched.api.runs.outages import outage_words
from raftsched.api.runs.parts_words import parts_words
from raftsched.api.runs.render import JobNames
from raftsched.api.runs.waiting import Obstacle, waits_for
from raftsched.api.serving import serves
from raftsched.api.workers.seen import heard_of_worker, own_troubles, troubles_of_workers
from raftsched.core import rows
from raftsched.core.ids import instance_text, job_text, split_instance
from raftsched.core.model import FINAL, FOLLOWED, Attempt, Instance, InstanceState, Job, Policy, Step, StepKind
from raftsched.core.rules.executors import is_worker, node_name, worker_name
from raftsched.core.rules.lateness import lateness_ms
from raftsched.core.tables import ReadView
from raftsched.quantities import format_duration
from raftsched.surface import explain as surface
from raftsched.surface.explain import (
    ExplainOut,
    GapOut,
    MisfireShown,
    ObstacleOut,
    StepOut,
    ThenOut,
    ThereOut,
    WaitOut,
)

_OF_NODES = ("no_eligible_node", "no_free_slot", "start", "turn")  # obstacles of which the leader may know more


@serves(surface.INSTANCE)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    key = instance_key_of(call)
    found = _read(ctx, key, own_troubles(ctx))
    if found.obstacle is not None and found.obstacle.reason in _OF_NODES:
        troubles = await leaders_troubles(ctx, call.request)
        if troubles is not None:
            found = _read(ctx, key, troubles)
    live = found.row.live
    known = (
        live is None
        or live.node == ctx.node_id
        or is_worker(live.node)
        or any(p.node_id == live.node and p.connected for p in ctx.cluster.peers())
    )
    heard_ms = None if live is None else await _heard_ms(ctx, call, live.node)
    upstream = None if found.row.cause is None else _upstream(ctx, found.row.cause)
    told = explain(
        found.row,
        found.job,
        found.policy,
        found.obstacle,
        ctx.now_ms(),
        None if known else ctx.node_id,
        heard_ms,
        upstream,
        found.parts,
        found.outage,
    )
    with ctx.read() as view:
        told.outputs = [
            *notes_of(view, found.row, ctx.now_ms()),
            *places_of(
                view,
                found.row,
                ctx.now_ms(),
                node_id=ctx.node_id,
                reaches=lambda node: any(p.node_id == node and p.connected for p in ctx.cluster.peers()),
                is_removed=ctx.output.is_removed,
            ),
        ]
        told.notifications = list(notifications_of(view, found.row))
    return reply_value(told)


async def leaders_troubles(ctx: ApiContext, request: web.Request) -> Mapping[str, str] | None:
    """Returns why nodes and workers start nothing, by their ids, as the leader knows it. None: this node leads."""
    if ctx.cluster.status().role == "leader":
        return None
    nodes = (await seen(ctx, request)).nodes
    troubles = {node.id: node.trouble for node in nodes if node.trouble}
    return troubles | await troubles_of_workers(ctx, request)


def _upstream(ctx: ApiContext, cause: bytes) -> str | None:
    """Returns the job of a run, as namespace/name; None: it has no name, or is not for the caller to know."""
    with ctx.read() as view:
        head = JobNames(view).of(split_instance(cause)[1])
    return f"{head.namespace}/{head.name}" if head.name is not None and sees(head.namespace) else None


async def _heard_ms(ctx: ApiContext, call: Call[Any], node: str) -> int | None:
    """Returns when the leader last heard of the node's worker; None: nobody says. Of a remote worker, which is heard of
    four times in its lease, only when it was silent for half of that."""
    if is_worker(node):
        heard_ms = await heard_of_worker(ctx, call.request, node)
        silent_ms = ctx.settings().worker_ttl_ms // 2
        return None if heard_ms is None or ctx.now_ms() - heard_ms < silent_ms else heard_ms
    heard = next((n.last_heartbeat_at for n in (await seen(ctx, call.request)).nodes if n.id == node), None)
    return None if heard is None else parse_time(heard)


class _Read(NamedTuple):
    """The rows of an instance, and what they say of it. `parts`, `outage`: as of `explain`."""

    row: Instance
    job: Job | None
    policy: Policy | None
    obstacle: Obstacle | None
    parts: str
    outage: str


def _read(ctx: ApiContext, key: bytes, troubles: Mapping[str, str]) -> _Read:
    """Reads all rows that the explanation needs, as of one moment."""
    with ctx.read() as view:
        row = requested_instance(view, key)
        job = rows.JOBS.get(view, row.job_id)
        policy = None if job is None else policy_of(view, job, row)
        obstacle = None
        if job is not None and policy is not None:
            obstacle = waits_for(view, meta(view), ctx.cluster.status(), job, policy, row, ctx.now_ms(), troubles)
        return _Read(row, job, policy, obstacle, parts_words(view, row), held_up(view, row))


def policy_of(view: ReadView, job: Job, row: Instance) -> Policy | None:
    """Returns the policy of the row's revision. None: the job was edited since, and the revision is gone with the runs
    of it."""
    made_from = rows.revision_of(view, job, row)
    return None if made_from is None else made_from.policy


def explain(
    row: Instance,
    job: Job | None,
    policy: Policy | None,
    obstacle: Obstacle | None,
    now_ms: int,
    cut_off: str | None = None,
    heard_ms: int | None = None,
    upstream: str | None = None,
    parts: str = "",
    outage: str = "",
) -> ExplainOut:
    """`policy` is that of the row's revision, None when it is not kept any more. `cut_off`: the node that was asked,
    when it is not connected with the one that runs it. `heard_ms`: when the leader last heard of that one. `upstream`:
    the job of the run by whose end it was started, if the caller may know it. `parts`: what is said of its parts.
    `outage`: what kept it from being fired sooner."""
    attempts = {a.token: a for a in row.attempts}
    then = _then(row, job, policy, upstream, outage)
    skipped = row.state is InstanceState.SKIPPED and row.gap_count > 0
    told = skipped and then.made_by == "skipped"
    joined = skipped and then.made_by not in ("skipped", FOLLOWED)  # runs that did not start, as one record
    now = "" if told else now_words(row, policy, obstacle, now_ms, parts, cut_off, heard_ms)
    return ExplainOut(
        id=instance_text(row.key),
        job_id=job_text(row.job_id),
        job=None if job is None or job.name is None else f"{job.namespace}/{job.name}",
        state=row.state.name,
        text=now if joined else f"{then.text} {now}".strip(),
        why_then=then,
        why_there=[_there(a) for a in row.attempts],
        waits=list(_waits(row, attempts, obstacle, now_ms)),
        waiting_for=None if obstacle is None else ObstacleOut(obstacle.reason, obstacle.text),
        gap=_gap(row, policy, outage),
        steps=[_step(row, step, attempts, step is row.steps[-1]) for step in row.steps],
        steps_left_out=_left_out(row, attempts),
    )


def now_words(
    row: Instance,
    policy: Policy | None,
    obstacle: Obstacle | None,
    now_ms: int,
    parts: str = "",
    cut_off: str | None = None,
    heard_ms: int | None = None,
) -> str:
    """Returns sentences about the state of an instance: how it ended, how it goes, or for what it waits. The parameters
    are those of `explain`."""
    if row.state is InstanceState.SKIPPED and row.gap_count:
        return gap_words(row, policy)
    if row.state in FINAL:
        return end_words(row, parts)
    if obstacle is not None:
        return waiting_words(row, obstacle.text, parts)
    return going_words(row, policy, now_ms, cut_off, heard_ms, parts)


def made_by(row: Instance) -> str:
    """ "schedule", "missed", "manual", "backfill", "after", "part", "event" or "skipped"."""
    first = row.steps[0]
    if first.kind is not StepKind.CREATED:
        return "skipped"
    return first.detail or "schedule"


def held_up(view: ReadView, row: Instance) -> str:
    """Returns what kept an instance that the schedule made from being fired sooner; empty: nothing that is known."""
    how = made_by(row)
    if how == "skipped" and row.gap_count and row.steps[0].detail == "misfire":
        newest_ms = row.ended_at_ms if row.state is InstanceState.SKIPPED else None  # it may have been extended since
        return outage_words(view, row.nominal_at_ms, newest_ms or row.created_at_ms)
    if how not in ("schedule", "missed"):
        return ""
    return outage_words(view, row.due_at_ms, row.created_at_ms)


def _then(row: Instance, job: Job | None, policy: Policy | None, upstream: str | None, outage: str) -> ThenOut:
    how = made_by(row)
    trigger = trigger_words(row, job, policy)
    due = row.due_at_ms
    fired = how in ("schedule", "missed")
    moved = moved_words(job, row.nominal_at_ms) if fired and job is not None else ""
    return ThenOut(
        text=f"{then_words(row, how, trigger, policy, upstream, outage)} {moved}".strip(),
        made_by=how,
        trigger=trigger,
        trigger_id=row.trigger or None,
        scheduled_at=format_time(row.nominal_at_ms),
        jitter_ms=row.jitter_ms,
        due_at=format_time(due),
        fired_at=None if how == "skipped" else format_time(row.created_at_ms),
        fired_late_ms=row.created_at_ms - due if fired else None,
        started_late_ms=lateness_ms(row) if fired else None,
        misfire=None
        if policy is None
        else MisfireShown(policy.misfire.policy.name.lower(), format_duration(policy.misfire.grace_ms)),
    )


def _there(attempt: Attempt) -> ThereOut:
    seen = attempt.placement
    return ThereOut(
        text=there_words(attempt),
        attempt=attempt.number,
        node=node_name(attempt.node),
        session=attempt.session,
        token=attempt.token,
        running=None if seen is None else seen.running,
        slots=None if seen is None else seen.slots,
        eligible=None if seen is None else seen.eligible,
        nodes=None if seen is None else seen.nodes,
        worker=worker_name(attempt.node),
    )


def _gap(row: Instance, policy: Policy | None, outage: str) -> GapOut | None:
    if not row.gap_count:
        return None
    return GapOut(
        text=gap_words(row, policy, outage),
        reason=row.reason,
        first=format_time(row.nominal_at_ms),
        last=format_time(row.gap_until_ms or row.nominal_at_ms),
        count=row.gap_count,
    )


def _step(row: Instance, step: Step, attempts: dict[int, Attempt], last: bool) -> StepOut:
    attempt = attempts.get(step.token)
    return StepOut(
        at=format_time(row.created_at_ms + step.after_ms),
        kind=step.kind.name.lower(),
        text=step_words(row, step, attempt, last),
        index=step.index,
        term=step.term,
        token=step.token or None,
        attempt=None if attempt is None else attempt.number,
        node=None if attempt is None else node_name(attempt.node),
        worker=None if attempt is None else worker_name(attempt.node),
    )


def _left_out(row: Instance, attempts: dict[int, Attempt]) -> bool:
    """Steps are dropped behind the first one, so that then the first assignment that is shown is not the first."""
    first = next((s for s in row.steps if s.kind is StepKind.ASSIGNED), None)
    if first is None:
        return bool(row.attempts)
    attempt = attempts.get(first.token)
    return attempt is None or attempt.number > 1


# ---------------------------------------------------------------- what it waited for

_BEGINS = {
    StepKind.CREATED: ("worker", "for a node to take it"),
    StepKind.RERUN: ("worker", "for a node to take it"),
    StepKind.READY: ("worker", "for a node to take it"),
    StepKind.RELEASED: ("worker", "for a node to take it"),
    StepKind.CONDITIONS_MET: ("worker", "for a node to take it"),
    StepKind.LOST: ("worker", "for a node to take it"),
    StepKind.ENDED: ("worker", "for a node to take it"),
    StepKind.PERMIT: ("worker", "for a node to take it"),
    StepKind.HELD: ("overlap", "for another run of its job to end"),
    StepKind.IN_LINE: ("key", "for a permit of its key"),
    StepKind.CONDITIONS: ("conditions", "for its conditions"),
    StepKind.RETRY: ("retry", "for the delay of its retry"),
    StepKind.SNOOZED: ("snoozed", "until it goes on, as long as it was put off"),
    StepKind.UNPLACEABLE: ("no_eligible_node", "for a node that could take it"),
    StepKind.ASSIGNED: ("start", "for its node to start it"),
}


def _waits(row: Instance, attempts: dict[int, Attempt], obstacle: Obstacle | None, now_ms: int) -> Iterator[WaitOut]:
    """Returns the waits of an instance; those that lasted no millisecond are left out."""
    began: Step | None = None
    for step in row.steps:
        if step.kind is StepKind.KILL_ASKED:
            continue
        if began is not None:
            yield from _past(row, began, step, attempts)
        began = step if step.kind in _BEGINS else None
    if began is None or row.state in FINAL:
        return
    reason, text = _BEGINS[began.kind]
    start = row.created_at_ms + began.after_ms
    if obstacle is not None:
        reason, text = obstacle.reason, obstacle.text
    yield WaitOut(reason, text, format_time(start), None, max(0, now_ms - start))


def _past(row: Instance, began: Step, ended: Step, attempts: dict[int, Attempt]) -> Iterator[WaitOut]:
    reason, text = _BEGINS[began.kind]
    end_ms: int | None = ended.after_ms
    attempt = attempts.get(ended.token)
    if began.kind is StepKind.ASSIGNED:
        # That it started is heard of later on purpose, or with its end only; the attempt knows when it was.
        started = None if attempt is None else attempt.started_at_ms
        if started is not None:
            end_ms = min(ended.after_ms, started - row.created_at_ms)
        elif attempt is not None and ended.kind in (StepKind.LOST, StepKind.ENDED):
            reason, text = unstarted_words(attempt, ended)
        elif ended.kind is not StepKind.STARTED:
            end_ms = None
    if end_ms is None or end_ms <= began.after_ms:
        return
    if reason == "worker" and attempt is not None and attempt.queue:
        text = f'for its turn in the limited queue "{attempt.queue}", and for a node to take it'
    elif reason == "worker" and attempt is not None and attempt.quota:
        text = "for its turn among the runs of its namespace, and for a node to take it"
    if ended.term != began.term:
        text += f"; leadership changed meanwhile, from term {began.term} to {ended.term}"
    start, end = row.created_at_ms + began.after_ms, row.created_at_ms + end_ms
    yield WaitOut(reason, text, format_time(start), format_time_or_none(end), end - start)

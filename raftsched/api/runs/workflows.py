"""/v1/workflows: the runs that were started by the end of others, from the first of them on: list, show, kill."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import get_args

import msgspec
from aiohttp import web

from raftsched.api.auth.callers import allowed_namespaces, check_permitted, permits, sees, sees_all, within
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.cursors import encode_cursor
from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.http.idempotency import part, propose_once
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_page, reply_value
from raftsched.api.http.requests import bad_parameter, catch_up, check_namespace, instance_key_of
from raftsched.api.rows import SCAN_MAX, JobHead, get_instance, namespace_of, referred_job
from raftsched.api.runs.render import JobNames
from raftsched.api.serving import serves
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.ids import instance_text, job_text, split_instance
from raftsched.core.limits import KEY_SIZE
from raftsched.core.model import FINAL, Instance, InstanceState
from raftsched.core.rows import WORKFLOWS
from raftsched.core.rules.executors import node_name, worker_name
from raftsched.core.subjects.workflow import KillWorkflow, Workflow, members, roots
from raftsched.core.tables import ReadView, u64
from raftsched.surface import workflows as surface
from raftsched.surface.scalars import Nothing
from raftsched.surface.workflows import (
    WorkflowCounts,
    WorkflowHead,
    WorkflowKilledOut,
    WorkflowOut,
    WorkflowRunOut,
    WorkflowStateName,
)

COUNT_MAX = 20_000  # runs of a workflow that one answer counts; of a page of workflows, before it ends early
_DATED_MAX = 1_000  # runs of a workflow that are read for the time of its end
_READ_COST = 4  # of reading a run, in runs that are counted
_LISTING, _RUNS = "workflows", "workflow"
_STATES: tuple[WorkflowStateName, ...] = get_args(WorkflowStateName)
_encode = msgspec.json.Encoder().encode


@serves(surface.LIST)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    low_ms, high_ms = query.time("from") or 0, query.time("to")
    low, high = u64(low_ms), u64(TIME_MAX_MS if high_ms is None else high_ms)
    name, namespace = query.text("job"), query.text("namespace")
    check_namespace(namespace)
    state = query.choice("state", *_STATES)
    last, limit = query.cursor(_LISTING), query.limit()
    if last is not None:
        high = min(high, last)
    items: list[bytes] = []
    with ctx.read() as view:
        job = None if name is None else referred_job(view, name, namespace)
        if name is not None and job is None:
            raise Problem("not-found", f'There is no job "{name[:200]}"; give its id, or "namespace/name".')
        names, left, last = JobNames(view), COUNT_MAX, None
        for looked, root in enumerate(roots(view, low, high) if low < high else ()):
            if len(items) >= limit or looked >= SCAN_MAX or left <= 0:
                break
            last = root
            head = names.of(split_instance(root)[1])
            if (
                (job is not None and head.id != job.id)
                or namespace not in (None, head.namespace)
                or not sees(head.namespace)
            ):
                continue
            runs = _runs_of(view, root)
            left -= len(runs)
            shown = _head(root, head, runs, WORKFLOWS.get(view, root))
            if state in (None, shown.state):
                left -= _READ_COST * _set_times(view, root, shown, runs)
                items.append(_encode(shown))
        else:
            last = None
    return reply_page(call.request, items, _LISTING, query.filters(), last)


@serves(surface.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    query, key = call.query, instance_key_of(call)
    behind = query.cursor(_RUNS)
    if behind is not None and len(behind) != KEY_SIZE:
        raise bad_parameter("cursor", "is not a cursor of this list", "unknown-reference")
    with ctx.read() as view:
        root, workflow = _requested(view, key)
        names = JobNames(view)
        found, last = _page(view, root, behind or b"", query.limit())
        items = [_run(row, names) for row in found if sees_all() or sees(names.of(row.job_id).namespace)]
        runs = _runs_of(view, root)
        head = _head(root, names.of(split_instance(root)[1]), runs, workflow)
        _set_times(view, root, head, runs)
    cursor = None if last is None else encode_cursor(_RUNS, query.filters(), last)
    return reply_value(WorkflowOut(**msgspec.structs.asdict(head), items=items, next=cursor))


_COUNTED = (
    InstanceState.SUCCEEDED,
    InstanceState.FAILED,
    InstanceState.TIMED_OUT,
    InstanceState.KILLED,
    InstanceState.SKIPPED,
)


def _requested(view: ReadView, key: bytes) -> tuple[bytes, Workflow | None]:
    """Returns the root that is meant, and what is said of its workflow. Raises Problem not-found, forbidden."""
    row = get_instance(view, key)
    root = key if row is None or row.root is None else row.root
    workflow = WORKFLOWS.get(view, root)
    limited = within() is not None
    spaces = _namespaces(view, key) if limited else set()
    if (row is None and workflow is None) or (limited and not any(sees(one) for one in spaces)):
        raise Problem("not-found", f"There is no instance {instance_text(key)}.")
    if row is not None and row.parent is not None:
        raise Problem("not-found", f"It is a part of {instance_text(row.parent)}; ask for that.")
    if limited and not any(permits(one) for one in spaces):
        check_permitted(min(one for one in spaces if sees(one)))
    return root, workflow


def _namespaces(view: ReadView, key: bytes) -> set[str]:
    """Returns the namespace of a run or, when its job is gone for good, those of the runs of the workflow that it
    began: what is left of that is theirs."""
    own = namespace_of(view, key)
    if own is not None:
        return {own}
    one_each = {split_instance(one)[1]: one for one, _ in islice(members(view, key), COUNT_MAX)}
    return {found for one in one_each.values() if (found := namespace_of(view, one)) is not None}


def _runs_of(view: ReadView, root: bytes) -> list[tuple[bytes, InstanceState]]:
    """Returns the keys of a workflow's runs and their states: one more than is counted, where there are as many."""
    found = list(islice(members(view, root), COUNT_MAX + 1))
    if not found:
        row = get_instance(view, root)
        found = [] if row is None else [(root, row.state)]
    return found


def _set_times(view: ReadView, root: bytes, shown: WorkflowHead, runs: list[tuple[bytes, InstanceState]]) -> int:
    """Sets when a workflow started and ended. Returns how many runs were read for it."""
    is_over = shown.state != "running" and len(runs) <= _DATED_MAX
    keys = {root, *(key for key, _ in runs if is_over)}
    rows = {row.key: row for row in (get_instance(view, key) for key in keys) if row is not None}
    first = rows.get(root)
    if first is not None and first.attempts:
        shown.started_at = format_time_or_none(first.attempts[0].started_at_ms)
    if is_over:
        shown.ended_at = format_time_or_none(max((row.ended_at_ms or 0 for row in rows.values()), default=0) or None)
    return len(keys)


def _page(view: ReadView, root: bytes, behind: bytes, limit: int) -> tuple[list[Instance], bytes | None]:
    keys = [key for key, _ in islice(members(view, root, behind), limit + 1)]
    if not keys and not behind:
        keys = [root]
    rows = [row for row in (get_instance(view, key) for key in keys[:limit]) if row is not None]
    return rows, keys[limit - 1] if len(keys) > limit else None


def _head(
    root: bytes, job: JobHead, runs: list[tuple[bytes, InstanceState]], workflow: Workflow | None
) -> WorkflowHead:
    counts = Counter(state for _, state in runs[:COUNT_MAX])
    return WorkflowHead(
        id=instance_text(root),
        job=f"{job.namespace}/{job.name}" if job.name is not None and sees(job.namespace) else None,
        state=_state_of(counts, workflow),
        scheduled_at=format_time(split_instance(root)[0]),
        killed_at=None if workflow is None else format_time_or_none(workflow.killed_at_ms),
        reruns=0 if workflow is None else workflow.reruns,
        counts=WorkflowCounts(
            sum(counts.values()) - sum(counts[state] for state in FINAL), *(counts[state] for state in _COUNTED)
        ),
        exact=len(runs) <= COUNT_MAX,
    )


def _state_of(counts: Counter[InstanceState], workflow: Workflow | None) -> WorkflowStateName:
    if any(count and state not in FINAL for state, count in counts.items()):
        return "running"
    if counts[InstanceState.KILLED] or (workflow is not None and workflow.killed_at_ms is not None):
        return "killed"
    return "failed" if counts[InstanceState.FAILED] or counts[InstanceState.TIMED_OUT] else "succeeded"


def _run(row: Instance, names: JobNames) -> WorkflowRunOut:
    job = names.of(row.job_id)
    last = row.attempts[-1] if row.attempts else None
    return WorkflowRunOut(
        id=instance_text(row.key),
        job_id=job_text(row.job_id),
        job=None if job.name is None else f"{job.namespace}/{job.name}",
        state=row.state.name,
        reason=row.reason,
        error=row.error or (None if last is None else last.error),
        cause=None if row.cause is None else instance_text(row.cause),
        joined=[instance_text(one) for one in row.joined] or None,
        attempt=0 if last is None else last.number,
        node=None if last is None else node_name(last.node),
        worker=None if last is None else worker_name(last.node),
        created_at=format_time(row.created_at_ms),
        started_at=None if last is None else format_time_or_none(last.started_at_ms),
        ended_at=format_time_or_none(row.ended_at_ms),
    )


@serves(surface.KILL)
async def kill(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    key = instance_key_of(call)
    if not _is_known(ctx, key):
        await catch_up(ctx)
    with ctx.read() as view:
        _requested(view, key)
    name, allowed = call.key("kill-workflow", key), allowed_namespaces()
    killed, behind = 0, b""
    while True:
        accepted = await propose_once(ctx, part(name, behind), KillWorkflow(key, behind, allowed))
        killed += accepted.number or 0
        behind = accepted.note
        if not behind:
            shown = WorkflowKilledOut(instance_text(key), killed)
            return reply_value(shown, 202, {"Location": surface.GET.at(id=shown.id)})


def _is_known(ctx: ApiContext, key: bytes) -> bool:
    with ctx.read() as view:
        return get_instance(view, key) is not None or WORKFLOWS.get(view, key) is not None

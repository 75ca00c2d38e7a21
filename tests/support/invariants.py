"""What holds between the replicated tables after every entry, whatever was asked of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec

from raftsched.core.apply.indexes import waits_in_ready
from raftsched.core.apply.jobs.several import has_all_runs
from raftsched.core.ids import BACKFILL
from raftsched.core.limits import HISTORY_MAX
from raftsched.core.model import (
    FINAL,
    ConditionKind,
    Delivery,
    EveryMode,
    Instance,
    Job,
    JobState,
    StepKind,
    TriggerKind,
)
from raftsched.core.model import InstanceState as I
from raftsched.core.rows import (
    decode_calendar,
    decode_instance,
    decode_job,
    decode_meta,
    decode_namespace,
    decode_node_rule,
    decode_operation,
    decode_queue,
    decode_session,
)
from raftsched.core.rules.concurrency import can_start, concurrency_limit
from raftsched.core.rules.selection import TAGGED_STATES, split_tags, state_tag, tags_of
from raftsched.core.subjects.cluster import NodeRule
from raftsched.core.subjects.notices import QUOTA_QUEUE, quota_queue
from raftsched.core.subjects.operations import OperationState
from raftsched.core.tables import (
    LANE_NOBODY,
    ReadView,
    Table,
    assigned_key,
    awaited_key,
    by_job_key,
    dead_key,
    due_key,
    due_later_key,
    from_lane,
    from_u64,
    held_key,
    name_key,
    purge_key,
    ready_key,
    resume_key,
    timer_key,
    u64,
)
from tests.support.invariants_cluster import cluster_violations, same
from tests.support.invariants_keys import keys_violations
from tests.support.invariants_parts import parts_violations
from tests.support.invariants_watches import watches_violations
from tests.support.invariants_workflows import workflow_violations


def violations(view: ReadView) -> list[str]:
    """Empty when all is well."""
    jobs = {from_u64(k): decode_job(v) for k, v in view.scan(Table.JOBS)}
    rows = {k: decode_instance(v) for k, v in view.scan(Table.INSTANCES)}
    found: list[str] = []
    _jobs(view, jobs, found)
    _instances(view, jobs, rows, found)
    _counters(view, jobs, rows, found)
    _sessions(view, found)
    _attempts(view, rows, found)
    _queues(view, rows, found)
    parts_violations(view, rows, found)
    keys_violations(view, jobs, rows, decode_meta(view.get(Table.META, b"meta")).now_ms, found)
    workflow_violations(view, jobs, rows, found)
    _node_rules(view, found)
    _revisions(view, found)
    _conditions(view, jobs, rows, found)
    _chances(view, jobs, rows, found)
    _tags(view, jobs, found)
    _operations(view, found)
    _calendars(view, jobs, found)
    cluster_violations(view, jobs, rows, found)
    watches_violations(view, jobs, rows, found)
    return found


def _jobs(view: ReadView, jobs: dict[int, Job], found: list[str]) -> None:
    due: dict[bytes, bytes] = {}
    far: dict[bytes, bytes] = {}
    resumes: dict[bytes, bytes] = {}
    names: dict[bytes, bytes] = {}
    unscheduled = {from_u64(k) for k, _ in view.scan(Table.UNSCHEDULED)}
    meta = decode_meta(view.get(Table.META, b"meta"))
    last_id = meta.last_id
    for job_id, job in jobs.items():
        trigger, triggers = job.policy.trigger, job.policy.all_triggers
        jitter_ms = max(t.jitter_ms for t in triggers)
        what = f"job {job_id} ({job.state.name}, {trigger.kind.name})"
        if job.id != job_id or job_id > last_id:
            found.append(f"{what} has the id {job.id}, the last one made is {last_id}")
        if job.fire_at_ms is not None:
            far_row = due_later_key(job.fire_at_ms, job_id)
            if view.get(Table.DUE_LATER, far_row) is None:  # it is in DUE, which is as good: the leader looks there
                due[due_key(job.fire_at_ms, job_id)] = b""
            else:
                far[far_row] = u64(job.fire_at_ms)
                if not meta.due_boundary or far_row < meta.due_boundary:
                    found.append(f"{what} is near, and the leader does not look where its due time is")
            if job.nominal_at_ms is None or not 0 <= job.fire_at_ms - job.nominal_at_ms <= max(0, jitter_ms):
                found.append(f"{what} fires at {job.fire_at_ms} for {job.nominal_at_ms}")
            if job.state is not JobState.SCHEDULED:
                found.append(f"{what} is due")
        elif job.nominal_at_ms is not None and (job.state is JobState.SCHEDULED or not trigger.once):
            found.append(f"{what} has a nominal time and is not due")
        if job.name is not None and job.state is not JobState.DELETED:
            names[name_key(job.namespace, job.name)] = u64(job_id)
        if job_id in unscheduled and (
            job.state is not JobState.SCHEDULED
            or not any(t.needs_calendar for t in triggers)
            or (job.nominal_at_ms is not None and not job.triggers)
        ):
            found.append(f"{what} waits for its next time")
        idle = job.fire_at_ms is None and job_id not in unscheduled and not job.active
        if job.never_fires and (
            job.state is not JobState.SCHEDULED
            or not job.policy.calendars
            or job.nominal_at_ms is not None
            or job_id in unscheduled
        ):
            found.append(f"{what} says that its calendar shuts it out")
        waits = trigger.kind in (TriggerKind.MANUAL, TriggerKind.AFTER)
        if job.state is JobState.SCHEDULED and idle and not waits and not job.never_fires:
            found.append(f"{what} will never fire again and does not say so")
        done = job.state is JobState.DELETED or (job.state is JobState.EXPIRED and trigger.once)
        if done and not job.active and job.purge_at_ms is None:
            found.append(f"{what} is done and never goes")
        if job.purge_at_ms is not None and (job.active or not done):
            found.append(f"{what} is to be purged")
        if job.resume_at_ms is not None:
            resumes[resume_key(job.resume_at_ms, job_id)] = b""
            if job.state not in (JobState.NEW, JobState.SUSPENDED):
                found.append(f"{what} is to be resumed")
        found += [f"{what}: {wrong}" for wrong in _wrong_triggers(job, job_id in unscheduled)]
        if job.gap is not None and view.get(Table.INSTANCES, job.gap) is None:
            found.append(f"{what} names a gap that is gone")
    same(found, view, Table.DUE, due)
    same(found, view, Table.DUE_LATER, far)
    same(found, view, Table.RESUMES, resumes)
    same(found, view, Table.NAMES, names)
    for job_id in unscheduled - jobs.keys():
        found.append(f"UNSCHEDULED holds {job_id}, which is gone")
    for key, _ in view.scan(Table.REVISIONS):
        owner = jobs.get(from_u64(key[:8]))
        if owner is None or not owner.active or from_u64(key[8:]) >= owner.revision:
            found.append(f"REVISIONS row {key.hex()} is of no use to anybody")


def _wrong_triggers(job: Job, unscheduled: bool) -> Iterator[str]:
    """What is wrong with the states of several triggers."""
    if len(job.triggers) != len(job.policy.triggers) or (job.policy.trigger.kind is TriggerKind.SEVERAL) != bool(
        job.triggers
    ):
        yield f"has {len(job.policy.triggers)} triggers, and states of {len(job.triggers)}"
        return
    owed = [state for state in job.triggers if state.unscheduled_since_ms is not None]
    if job.triggers and bool(owed) is not unscheduled:
        yield f"{len(owed)} triggers wait for their next times, and UNSCHEDULED says otherwise"
    timed = [state for state in job.triggers if state.fire_at_ms is not None]
    if job.triggers and job.fire_at_ms != min((state.fire_at_ms or 0 for state in timed), default=None):
        yield "is not due with the first of its triggers"
    if (timed or owed) and job.state is not JobState.SCHEDULED:
        yield "has triggers with times"
    for trigger, state in zip(job.policy.triggers, job.triggers, strict=True):
        said = (state.fire_at_ms is not None, state.unscheduled_since_ms is not None, state.never_fires, state.over)
        if sum(said) > 1 or (state.nominal_at_ms is None) is not (state.fire_at_ms is None):
            yield f"its trigger {trigger.id} is in two states"
        if state.unscheduled_since_ms is not None and not trigger.needs_calendar:
            yield f"its trigger {trigger.id} waits for its next time"
        if state.never_fires and trigger.calendar is None:
            yield f"its trigger {trigger.id} says that its calendar shuts it out"
        delayed = trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_DELAY
        if job.state is JobState.SCHEDULED and not any(said) and not (delayed and job.active) and not has_all_runs(job):
            yield f"its trigger {trigger.id} will never fire again and does not say so"


def _instances(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    steps_kept = decode_meta(view.get(Table.META, b"meta")).settings.steps_kept
    ready: dict[bytes, bytes] = {}
    held: dict[bytes, bytes] = {}
    timers: dict[bytes, bytes] = {}
    purge = {purge_key(j.purge_at_ms, i): b"" for i, j in jobs.items() if j.purge_at_ms is not None}
    assigned: dict[bytes, bytes] = {}
    dead: dict[bytes, bytes] = {}
    listed: dict[bytes, Instance] = {}
    for key, row in rows.items():
        what = f"instance {key.hex()} ({row.state.name})"
        job = jobs.get(row.job_id)
        if row.key != key:
            found.append(f"{what} has the key {row.key.hex()}")
        if job is None:
            found.append(f"{what} has no job")
            continue
        if waits_in_ready(row):
            ready[ready_key(row.lane, row.score_ms, key)] = b""
        if row.held:
            held[held_key(row.job_id, row.ready_at_ms, key)] = b""
            if row.state is not I.WAITING:
                found.append(f"{what} is held")
        if row.wake_at_ms is not None:
            timers[timer_key(row.wake_at_ms, key)] = b""
            parts = row.state is I.RUNNING and row.parts is not None
            if row.state not in (I.WAITING, I.RETRYING) and not parts and row.telling is None:
                found.append(f"{what} has a timer")
        elif row.state is I.RETRYING:
            found.append(f"{what} has no timer")
        if row.purge_at_ms is not None:
            purge[purge_key(row.purge_at_ms, row.job_id, key)] = b""
            if row.state not in FINAL:
                found.append(f"{what} is to be purged")
        if row.dead_at_ms is not None:
            dead[dead_key(row.dead_at_ms, key)] = b""
            if row.state not in (I.FAILED, I.TIMED_OUT):
                found.append(f"{what} is a dead letter")
        if row.dead_letter != (row.dead_at_ms is not None):
            found.append(f"{what} is a dead letter: {row.dead_letter}; since {row.dead_at_ms}")
        live = row.live
        if (live is not None) != (row.state in (I.LAUNCHED, I.RUNNING) and row.parts is None):
            found.append(f"{what} and its attempts disagree")
        if live is not None:
            assigned[assigned_key(live.session, live.token)] = key
        if len(row.steps) > steps_kept:
            found.append(f"{what} keeps {len(row.steps)} steps; {steps_kept} is the limit")
        if not row.steps or (row.steps[-1].kind is StepKind.FINAL) != (row.state in FINAL):
            found.append(f"{what} ends its steps with {row.steps[-1:]}")
        if (row.ended_at_ms is not None) != (row.state in FINAL):
            found.append(f"{what} ended at {row.ended_at_ms}")
        if row.state in FINAL and row.purge_at_ms is None and row.parent is None and not _own(job, row):
            found.append(f"{what} is kept forever")
        if row.parent is None and not _own(job, row):
            listed[by_job_key(key)] = row
    same(found, view, Table.READY, ready)
    same(found, view, Table.HELD, held)
    same(found, view, Table.TIMERS, timers)
    same(found, view, Table.PURGE, purge)
    same(found, view, Table.ASSIGNED, assigned)
    same(found, view, Table.DEAD, dead)
    counted = decode_meta(view.get(Table.META, b"meta")).dead_letters
    if counted != len(dead):
        found.append(f"meta counts {counted} dead letters; there are {len(dead)}")
    there = dict(view.scan(Table.BY_JOB))
    for key in there.keys() ^ listed.keys():
        found.append(f"BY_JOB row {key.hex()} is {'unowned' if key in there else 'missing'}")
    for key in there.keys() & listed.keys():
        state = I(there[key][0])
        if (state in FINAL or listed[key].state in FINAL) and state is not listed[key].state:
            found.append(f"BY_JOB says {state.name} of an instance that is {listed[key].state.name}")


def _own(job: Job, row: Instance) -> bool:
    """The one scheduled instance of a one-shot: the job itself names it."""
    trigger = job.policy.trigger
    if row.request or not trigger.once:
        return False
    nominal = trigger.at_ms if trigger.kind is TriggerKind.AT else job.anchor_at_ms + trigger.period_ms
    return row.nominal_at_ms == nominal


def _counters(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    states: dict[int, Counter[I]] = defaultdict(Counter)
    held: Counter[int] = Counter()
    live: Counter[int] = Counter()
    for row in rows.values():
        if row.parent is not None:
            continue
        states[row.job_id][row.state] += row.state not in FINAL or row.request != BACKFILL
        held[row.job_id] += row.held
        live[row.job_id] += row.live is not None
    limits: dict[int, dict[int, int | None]] = {
        i: {job.revision: concurrency_limit(job.policy)} for i, job in jobs.items()
    }
    for key, raw in view.scan(Table.REVISIONS):
        limits.setdefault(from_u64(key[:8]), {})[from_u64(key[8:])] = concurrency_limit(decode_job(raw).policy)
    oldest: dict[int, int] = {}  # revision that something active is of: what went on under it still does
    for row in rows.values():
        if row.state not in FINAL:
            oldest[row.job_id] = min(row.job_revision, oldest.get(row.job_id, row.job_revision))
    for job_id, job in jobs.items():
        count = states[job_id]
        active = sum(n for state, n in count.items() if state not in FINAL)
        failed, others = count[I.FAILED] + count[I.TIMED_OUT], count[I.KILLED] + count[I.SKIPPED]
        wanted = (active, held[job_id], count[I.SUCCEEDED], failed, others)
        counted = (job.active, job.held, job.succeeded, job.failed, job.others)
        if counted != wanted:
            found.append(f"job {job_id} counts {counted}; there are {wanted} (active, held, succeeded, failed)")
        if job.held and can_start(job):
            found.append(f"job {job_id} holds {job.held} and has room: {job.active} are active")
        # An edit may have let more go, and be forgotten: that is one whose revision is not kept.
        since = [limits[job_id].get(r) for r in range(oldest.get(job_id, job.revision), job.revision + 1)]
        limit = max((n for n in since if n is not None), default=0)
        if None not in since and (active - held[job_id] > limit or live[job_id] > limit):
            found.append(f"job {job_id} has {active - held[job_id]} going, {live[job_id]} running, and {limit} may")


def _sessions(view: ReadView, found: list[str]) -> None:
    sessions = {from_u64(k): decode_session(v) for k, v in view.scan(Table.SESSIONS)}
    nodes = {k.decode(): from_u64(v) for k, v in view.scan(Table.NODES)}
    last = decode_meta(view.get(Table.META, b"meta")).last_session
    for number, session in sessions.items():
        if session.id != number or number > last:
            found.append(f"session {number} is numbered {session.id}, the last one is {last}")
        if nodes.get(session.node) != number:
            found.append(f"session {number} of {session.node} is not its newest")
    for node, number in nodes.items():
        if number not in sessions:
            found.append(f"the session {number} of {node} is gone")
    for key, _ in view.scan(Table.ASSIGNED):
        owner = sessions.get(from_u64(key[:8]))
        if owner is None or not owner.open:
            found.append(f"ASSIGNED row {key.hex()} is of a session that is over")


def _attempts(view: ReadView, rows: dict[bytes, Instance], found: list[str]) -> None:
    last = decode_meta(view.get(Table.META, b"meta")).last_token
    seen: set[int] = set()
    for key, row in rows.items():
        tokens = [attempt.token for attempt in row.attempts]
        if tokens != sorted(set(tokens)) or (tokens and tokens[-1] > last) or not seen.isdisjoint(tokens):
            found.append(f"instance {key.hex()} has the tokens {tokens}; the last one given is {last}")
        seen.update(tokens)
        if any(attempt.outcome is None for attempt in row.attempts[:-1]):
            found.append(f"instance {key.hex()} has an earlier attempt that never ended")


def _chances(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    """No more goes than the revision allows that an active instance was made from; that is kept for it."""
    kept = {k: decode_job(v).policy for k, v in view.scan(Table.REVISIONS)}
    for key, row in rows.items():
        if row.state in FINAL:
            continue
        what = f"instance {key.hex()} ({row.state.name})"
        job = jobs[row.job_id]
        policy = job.policy if row.job_revision == job.revision else kept.get(u64(job.id) + u64(row.job_revision))
        if policy is None:
            found.append(f"{what} is of revision {row.job_revision}, which is gone")
            continue
        retries = len(policy.retry.delays_ms)  # those of a webhook may be made fewer while deliveries wait
        if (row.notice is None and row.tried > retries) or (row.state is I.RETRYING) > row.tried + row.snoozes:
            found.append(f"{what} was tried {row.tried} times; {retries} retries are allowed")
        if row.lost > policy.max_lost:
            found.append(f"{what} was lost {row.lost} times; {policy.max_lost} are allowed")
        if policy.delivery is Delivery.AT_MOST_ONCE and row.lost:
            found.append(f"{what} was lost, and is to run at most once")


def _conditions(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    kept = {k: decode_job(v).policy for k, v in view.scan(Table.REVISIONS)}
    awaited = [key for key, _ in view.scan(Table.AWAITED)]
    owed: dict[bytes, set[bytes]] = {}
    for key, row in rows.items():
        if row.checking != (row.checks_end_at_ms is not None):
            found.append(f"instance {key.hex()} is checking: {row.checking}, until {row.checks_end_at_ms}")
        if not row.checking:
            continue
        job = jobs[row.job_id]
        policy = job.policy if row.job_revision == job.revision else kept[u64(job.id) + u64(row.job_revision)]
        if row.state is not I.WAITING or row.held or not policy.conditions:
            found.append(f"instance {key.hex()} ({row.state.name}) has nothing to check")
        if row.wake_at_ms is None or row.wake_at_ms > (row.checks_end_at_ms or 0):
            found.append(f"instance {key.hex()} looks again at {row.wake_at_ms} of {row.checks_end_at_ms}")
        names = (x.target.split("/") for x in policy.conditions if x.kind is ConditionKind.JOB)
        owed[key] = {awaited_key(name_key(space, name), key) for space, name in names}
    for key in awaited:
        if key not in owed.get(key[-24:], ()):
            found.append(f"AWAITED row {key.hex()} belongs to nobody")
    if decode_meta(view.get(Table.META, b"meta")).awaited != len(awaited):
        found.append(f"meta does not count {len(awaited)} that are awaited")


def _queues(view: ReadView, rows: dict[bytes, Instance], found: list[str]) -> None:
    meta = decode_meta(view.get(Table.META, b"meta"))
    queues = {k.decode(): decode_queue(v) for k, v in view.scan(Table.QUEUES)}
    if meta.queues != len(queues):
        found.append(f"meta counts {meta.queues} queues; there are {len(queues)}")
    lanes = [queue.lane for queue in queues.values()]
    if len(set(lanes)) != len(lanes) or not all(0 < lane <= meta.last_lane for lane in lanes):
        found.append(f"the queues have the lanes {lanes}; the last one made is {meta.last_lane}")
    running = Counter(row.live.queue for row in rows.values() if row.live is not None)
    running += Counter(row.live.quota for row in rows.values() if row.live is not None)
    limited = {
        quota_queue(one.name): (one.max_running, one.max_starts_per_minute)
        for _, raw in view.scan(Table.NAMESPACES)
        if ((one := decode_namespace(raw)).max_running, one.max_starts_per_minute) != (None, None)
    }
    quotas = {
        name: (queue.max_running, queue.rate_count) for name, queue in queues.items() if name.startswith(QUOTA_QUEUE)
    }
    if quotas != limited or meta.quotas != len(quotas):
        found.append(f"namespaces have the limits {limited}, their queues {quotas}; meta counts {meta.quotas}")
    for name, queue in queues.items():
        if queue.name != name or queue.running != running[name]:
            found.append(f"queue {name} counts {queue.running} running in {queue.name}; there are {running[name]}")
    nobody = sum(1 for key, _ in view.scan(Table.READY) if from_lane(key) == LANE_NOBODY)
    if meta.unplaceable != nobody:
        found.append(f"meta counts {meta.unplaceable} that no node could take; there are {nobody}")
    for key, row in rows.items():
        if row.reason == "no_eligible_node" and row.state not in FINAL and row.lane != LANE_NOBODY:
            found.append(f"instance {key.hex()} waits in lane {row.lane} and says that nobody could take it")


def _node_rules(view: ReadView, found: list[str]) -> None:
    members = {m.node for m in decode_meta(view.get(Table.META, b"meta")).members}
    for key, raw in view.scan(Table.NODE_RULES):
        rule = decode_node_rule(raw)
        if key.decode() not in members or msgspec.structs.replace(rule, revision=0) == NodeRule():
            found.append(f"the rule of {key.decode()} is {rule}; members are {sorted(members)}")
        if rule.labels is not None and list(rule.labels) != sorted(dict(rule.labels).items()):
            found.append(f"the labels of {key.decode()} are {rule.labels}")


def _revisions(view: ReadView, found: list[str]) -> None:
    """Of what operators say: no two have the same, none is from the future."""
    meta = decode_meta(view.get(Table.META, b"meta"))
    said = [decode_queue(raw).revision for _, raw in view.scan(Table.QUEUES)]
    said += [decode_calendar(raw).revision for _, raw in view.scan(Table.CALENDARS)]
    said += [decode_node_rule(raw).revision for _, raw in view.scan(Table.NODE_RULES)]
    said = [one for one in (*said, meta.settings_revision) if one]  # 0: none was ever given to it
    if len(set(said)) != len(said) or not all(one <= meta.last_revision for one in said):
        found.append(f"there are the revisions {sorted(said)}; the last one made is {meta.last_revision}")


def _calendars(view: ReadView, jobs: dict[int, Job], found: list[str]) -> None:
    """They are counted, and each that a job uses is there."""
    rows = {key: decode_calendar(raw) for key, raw in view.scan(Table.CALENDARS)}
    counted = decode_meta(view.get(Table.META, b"meta")).calendars
    if counted != len(rows) or any(key != row.name.encode() for key, row in rows.items()):
        found.append(f"meta counts {counted} calendars; there are {sorted(rows)}")
    for job_id, job in jobs.items():
        for name in job.policy.calendars:
            if job.state is not JobState.DELETED and name.encode() not in rows:
                found.append(f"job {job_id} uses the calendar {name}, which is not there")


def _tags(view: ReadView, jobs: dict[int, Job], found: list[str]) -> None:
    """Each job is found by what its content says, and by a rare state; and counted in its state."""
    wanted: dict[bytes, bytes] = {}
    counts = [0] * (len(JobState) + 1)
    past = 0
    for job_id, job in jobs.items():
        counts[job.state] += 1
        if job.state is not JobState.DELETED:
            tags = split_tags(tags_of(job.namespace, job.body, job.policy))
            if job.state in TAGGED_STATES:
                tags.append(state_tag(job.state))
            wanted.update({tag + u64(job_id): b"" for tag in tags})
        past += min(job.revision - 1, HISTORY_MAX)
    same(found, view, Table.TAGS, wanted)
    counted = decode_meta(view.get(Table.META, b"meta")).jobs
    if counted != counts:
        found.append(f"meta counts {counted} jobs by their states; there are {counts}")
    kept = [key for key, _ in view.scan(Table.HISTORY)]
    if len(kept) != past or any(from_u64(key[:8]) not in jobs for key in kept):
        found.append(f"HISTORY holds {len(kept)} contents; there should be {past}")


def _operations(view: ReadView, found: list[str]) -> None:
    meta = decode_meta(view.get(Table.META, b"meta"))
    rows = {key: decode_operation(raw) for key, raw in view.scan(Table.OPERATIONS)}
    running = {key: b"" for key, row in rows.items() if row.state is OperationState.RUNNING}
    same(found, view, Table.OPERATIONS_RUNNING, running)
    if (meta.operations, meta.operations_running) != (len(rows), len(running)):
        found.append(f"meta counts {meta.operations} operations, {meta.operations_running} running")
    for key, row in rows.items():
        what = f"operation {key.hex()} ({row.state.name})"
        if row.id != from_u64(key) or row.changed + row.refused > row.matched or row.matched > row.examined:
            found.append(f"{what} has the id {row.id} and counts {row}")
        if (row.ended_at_ms is None) != (row.state is OperationState.RUNNING):
            found.append(f"{what} ended at {row.ended_at_ms}")

"""Edits queues with limits, and moves instances between the lanes of READY that follow from them."""

from __future__ import annotations

from raftsched.bounds import COUNT_MAX, ERROR_MAX, PRIORITY_MAX
from raftsched.core.actions import QueueChanged
from raftsched.core.apply.indexes import waits_in_ready
from raftsched.core.apply.runs.run_keys import ask, give_back
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE, is_stale, put_refused, stale_revision
from raftsched.core.commands import Accepted, Answer, DeleteQueue, NoteUnplaceable, PutQueue, Rejected, SortReady
from raftsched.core.levels import NODES_DELIVER
from raftsched.core.limits import QUEUE_NAME_MAX, SORT_MAX, rate_error
from raftsched.core.model import Instance, Job, Policy, StepKind
from raftsched.core.rows import decode_job, decode_session
from raftsched.core.rules.admission import blocked_reason, take
from raftsched.core.rules.eligibility import Offer, need_of, offer
from raftsched.core.subjects.cluster import NodeRule, Session
from raftsched.core.subjects.notices import QUOTA_QUEUE, SYSTEM_QUEUE, SYSTEM_QUEUES, quota_queue
from raftsched.core.subjects.queue import Queue, QueueLimits, limits_of
from raftsched.core.subjects.webhook import NAME_MAX
from raftsched.core.tables import LANE_FREE, LANE_NOBODY, Table

NO_QUEUES = ("", "")
UNPLACEABLE = "no_eligible_node"


def put_queue(tx: Tx, c: PutQueue) -> Answer:
    wrong = _queue_error(c)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    if c.name.startswith(SYSTEM_QUEUES):
        return _of_the_cluster(c.name)
    queue = tx.queue(c.name)
    created = queue is None
    if c.was is not None and (queue is None or limits_of(queue) != c.was):
        return Rejected("stale", f"The queue {c.name} was changed meanwhile; read it again.")
    what = f"The queue {c.name}"
    absent = f"{what} has no limits now; leave out the condition to give it some."
    refused = put_refused(c, queue, what, f"{what} has limits already.", absent)
    if refused is not None:
        return refused
    if queue is None:
        limit = tx.meta.settings.queues_max
        own = tx.meta.queues - tx.meta.webhooks - tx.meta.quotas  # each webhook has one
        if own >= limit:
            return Rejected("not-possible", f"There are {own} queues with limits; {limit} is the limit.")
        queue = make_queue(tx, c.name)
    period = 0 if c.rate_count is None else c.rate_period_ms
    if (c.rate_count, period) != (queue.rate_count, queue.rate_period_ms):
        queue.arrival_ns = 0
    wanted = QueueLimits(c.max_running, c.rate_count, period, c.paused)
    unchanged = not created and wanted == limits_of(queue)
    if not unchanged:
        queue.max_running, queue.paused = c.max_running, c.paused
        queue.rate_count, queue.rate_period_ms = c.rate_count, period
        queue.modified_at_ms = tx.now
        queue.revision = tx.new_revision()
        tx.put_queue(queue)
        tx.actions.append(QueueChanged(c.name))
    return Accepted(created=created, unchanged=unchanged)


def make_queue(tx: Tx, name: str) -> Queue:
    """Makes a queue with a lane of its own. Attempts that run already count. Instances that wait in another lane are
    sorted into this one by the leader, some at a time: there may be a million."""
    tx.flush_new()  # what was fired in this entry may be of it
    tx.meta.last_lane += 1
    tx.meta.queues += 1
    queue = Queue(name=name, lane=tx.meta.last_lane, created_at_ms=tx.now)
    for _, key in list(tx.view.scan(Table.ASSIGNED)):
        instance = tx.instance(key)
        job = None if instance is None else tx.job(instance.job_id)
        if instance is None or job is None or instance.live is None:
            continue
        if instance.live.queue == name or tx.policy_of(job, instance).queue == name:
            instance.live.queue = name
            queue.running += 1
            tx.put_instance(instance)
    return queue


def delete_queue(tx: Tx, c: DeleteQueue) -> Answer:
    if c.name.startswith(SYSTEM_QUEUES):
        return _of_the_cluster(c.name)
    queue = tx.queue(c.name)
    if queue is None:
        return Rejected("not-found", f"The queue {c.name[:100]} has no limits.")
    if is_stale(c.if_revision, queue):
        return stale_revision(f"The queue {c.name}", queue)
    drop_queue(tx, c.name)
    return Accepted()


def drop_queue(tx: Tx, name: str) -> None:
    tx.meta.queues -= 1
    tx.delete_queue(name)
    tx.actions.append(QueueChanged(name))


def _of_the_cluster(queue: str) -> Rejected:
    if queue.startswith(QUOTA_QUEUE):
        name = queue.removeprefix(QUOTA_QUEUE)[:NAME_MAX]
        return Rejected("not-possible", f"The queue is that of a namespace; change /v1/namespaces/{name} instead.")
    name = queue.removeprefix(SYSTEM_QUEUE)[:NAME_MAX]
    return Rejected("not-possible", f"The queue is that of a webhook; change /v1/webhooks/{name} instead.")


def quota_of(tx: Tx, namespace: str) -> Queue | None:
    """Returns the queue of a namespace that has limits for its runs, None when it has none."""
    return tx.queue(quota_queue(namespace)) if tx.meta.quotas else None


def acquire_queue_slot(tx: Tx, job_raw: bytes, instance: Instance) -> tuple[str, str] | Rejected:
    """Counts the instance as running in its queue and in that of its namespace. Returns their names, "" for none, or
    refuses the start. The row of the job is decoded only when there are such queues: every start comes by here."""
    if not may_be_limited(tx, instance):
        return NO_QUEUES
    job = decode_job(job_raw)
    queue, quota = tx.queue(tx.policy_of(job, instance).queue), quota_of(tx, job.namespace)
    for one, kind in ((queue, "queue"), (quota, "quota")):
        why = None if one is None else blocked_reason(one, tx.now)
        if why is not None:
            return Rejected(f"{kind}-{why}")
    for one in (queue, quota):
        if one is not None:
            take(one, tx.now)
            tx.put_queue(one)
    return "" if queue is None else queue.name, "" if quota is None else quota.name


def release_queue_slot(tx: Tx, name: str) -> None:
    """Counts one run less in the queue. The queue may be gone, or have been made again: then it counted that run
    too."""
    queue = tx.queue(name) if name else None
    if queue is not None and queue.running > 0:
        queue.running -= 1
        tx.put_queue(queue)


def may_be_limited(tx: Tx, instance: Instance) -> bool:
    """Returns whether the queue of the instance may have limits. Queues of webhooks are for deliveries alone."""
    meta = tx.meta
    return meta.queues > meta.webhooks or (instance.notice is not None and meta.queues > 0)


def lane_of(tx: Tx, job: Job, instance: Instance) -> int:
    """Returns the lane of READY in which the instance has to wait."""
    if not may_be_limited(tx, instance):
        return LANE_FREE
    queue = tx.queue(tx.policy_of(job, instance).queue) or tx.queue(quota_queue(job.namespace))
    return LANE_FREE if queue is None else queue.lane


def rank(tx: Tx, job: Job, instance: Instance) -> None:
    """Gives an instance that waits for a worker its place in READY, behind what is more urgent: a level of priority is
    worth `ageing_ms` of waiting. One that needs a permit of its key, and finds none, gets that place in its line."""
    ageing_ms = tx.meta.settings.ageing_ms
    if instance.parent is not None and instance.only_on and instance.wake_at_ms is None:
        # Who it is for may never come back: it waits no longer than the start deadline.
        instance.wake_at_ms = tx.now + tx.meta.settings.start_deadline_ms
    if instance.expires_at_ms is not None:
        instance.wake_at_ms = instance.expires_at_ms
    instance.score_ms = instance.ready_at_ms + (PRIORITY_MAX - instance.priority) * ageing_ms
    instance.lane = lane_of(tx, job, instance) if tx.meta.queues else LANE_FREE
    if instance.permit is not None:
        ask(tx, job, instance)


def note_unplaceable(tx: Tx, c: NoteUnplaceable) -> Answer:
    instance = tx.instance(c.instance)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or not waits_in_ready(instance):
        return STALE
    only = instance.only_on if instance.parent is not None else ""
    if some_node_can(tx, tx.policy_of(job, instance), job.namespace, only):
        return STALE  # a node came since that was found
    detail = c.detail[:ERROR_MAX]
    if instance.lane == LANE_NOBODY and instance.error == detail:
        return Accepted()
    if instance.lane != LANE_NOBODY:
        instance.lane = LANE_NOBODY
        instance.reason = UNPLACEABLE
        if instance.permit is not None:
            give_back(tx, instance)  # others of its key may be for nodes that there are
    instance.error = detail
    add_step(tx, instance, StepKind.UNPLACEABLE, detail)
    tx.put_instance(instance)
    return Accepted()


def sort_ready(tx: Tx, c: SortReady) -> Answer:
    for key in c.instances[:SORT_MAX]:
        instance = tx.instance(key)
        job = None if instance is None else tx.job(instance.job_id)
        if instance is None or job is None or not waits_in_ready(instance):
            continue
        lane = lane_of(tx, job, instance)
        if lane == instance.lane:
            continue
        aside = instance.lane == LANE_NOBODY
        instance.lane = lane
        if aside:
            clear_unplaceable(instance)
            add_step(tx, instance, StepKind.READY)
            if instance.permit is not None:
                ask(tx, job, instance)
        tx.put_instance(instance)
    return Accepted()


def offer_of(tx: Tx, session: Session) -> Offer:
    """Returns what a node or worker with an open session offers."""
    rule = tx.node_rule(session.node) or NodeRule()
    return offer(session, rule, workers_deliver=tx.meta.level < NODES_DELIVER, reading=tx.reading)


def some_node_can(tx: Tx, policy: Policy, namespace: str, only: str = "") -> bool:
    """Returns whether a node with an open session could take it, busy, drained or not. `only`: this one."""
    if only:
        session = tx.session(tx.node_session(only))
        if session is None or not session.open:
            return False
        return offer_of(tx, session).can(policy, namespace)
    need = need_of(policy, namespace)
    known = tx.some_can.get(need)
    if known is None:
        if not tx.offers:
            sessions = [decode_session(raw) for _, raw in tx.view.scan(Table.SESSIONS)]
            tx.offers = [offer_of(tx, session) for session in sessions if session.open]
        known = tx.some_can[need] = any(one.can(policy, namespace) for one in tx.offers)
    return known


def clear_unplaceable(instance: Instance) -> None:
    """Clears the note that no node can take the instance. Its error is that of its last attempt."""
    if instance.reason == UNPLACEABLE:
        instance.reason = None
        instance.error = instance.attempts[-1].error if instance.attempts else None


def _queue_error(queue: PutQueue) -> str | None:
    """Returns what is wrong and what would be right; None: nothing is wrong."""
    if not 1 <= len(queue.name.encode()) <= QUEUE_NAME_MAX:
        return f"the name of a queue takes 1 to {QUEUE_NAME_MAX} bytes."
    if queue.max_running is not None and not 1 <= queue.max_running <= COUNT_MAX:
        return f"max_running is {queue.max_running}; use 1 or more, or pause the queue."
    return None if queue.rate_count is None else rate_error(queue.rate_count, queue.rate_period_ms, "starts")

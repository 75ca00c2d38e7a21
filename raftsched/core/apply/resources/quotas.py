"""Limits of the runs of a namespace: a queue of its own, which the cluster keeps beside those that operators limit. A
run counts in the queue that its job names and in its namespace's."""

from __future__ import annotations

from raftsched.bounds import MINUTE_MS
from raftsched.core.actions import QueueChanged
from raftsched.core.apply.resources.queue_edits import drop_queue
from raftsched.core.apply.tx import Tx
from raftsched.core.subjects.namespace import Namespace
from raftsched.core.subjects.notices import quota_queue
from raftsched.core.subjects.queue import Queue
from raftsched.core.tables import Table


def follow(tx: Tx, namespace: Namespace) -> None:
    """Makes the limits of the namespace hold from now on."""
    name = quota_queue(namespace.name)
    queue = tx.queue(name)
    max_running, starts = namespace.max_running, namespace.max_starts_per_minute
    if max_running is None and starts is None:
        if queue is not None:
            tx.meta.quotas -= 1
            drop_queue(tx, name)
        return
    if queue is None:
        queue = _make(tx, namespace.name)
    elif (queue.max_running, queue.rate_count) == (max_running, starts):
        return
    if queue.rate_count != starts:
        queue.arrival_ns = 0
    queue.max_running = max_running
    queue.rate_count, queue.rate_period_ms = starts, 0 if starts is None else MINUTE_MS
    queue.modified_at_ms = tx.now
    tx.put_queue(queue)
    tx.actions.append(QueueChanged(name))


def _make(tx: Tx, namespace: str) -> Queue:
    """Makes the queue of a namespace. Attempts that run already count; instances that wait in other lanes are sorted
    into this one by the leader, some at a time."""
    tx.flush_new()  # what was fired in this entry may be of it
    tx.meta.last_lane += 1
    tx.meta.queues += 1
    tx.meta.quotas += 1
    queue = Queue(name=quota_queue(namespace), lane=tx.meta.last_lane, created_at_ms=tx.now)
    for _, key in list(tx.view.scan(Table.ASSIGNED)):
        instance = tx.instance(key)
        job = None if instance is None else tx.job(instance.job_id)
        if instance is None or instance.live is None or job is None or job.namespace != namespace:
            continue
        instance.live.quota = queue.name
        queue.running += 1
        tx.put_instance(instance)
    return queue

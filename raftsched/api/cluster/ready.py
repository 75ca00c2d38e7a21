"""Counts of what waits for a worker, by queue: exact up to bounds that are named here, and always cheap.

READY is a table of lanes, and each queue with limits has one of its own: its rows are counted without looking at them.
Queues without limits share a lane, as do runs under the limits of a namespace, and runs that nothing there is could
take, whatever their queue. Of these lanes the first rows are looked at, to find whose they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from raftsched.api.rows import get_instance
from raftsched.core import rows
from raftsched.core.subjects.notices import QUOTA_QUEUE
from raftsched.core.tables import LANE_FREE, LANE_NOBODY, ReadView, Table, after, from_ready, lane_key

LANE_MAX = 10_000  # rows counted of the lane of one queue
OWN_MAX = 50_000  # of all such lanes
SHARED_MAX = 1_000  # rows looked at of each shared lane; runs of webhooks among them
QUOTAS_MAX = 2_000  # of the lanes of all namespaces
OLDEST_MAX = 50  # of a lane: the one that has waited the longest is looked for among so many that come next


@dataclass(slots=True)
class Waiting:
    """Instances of one queue that wait for a worker: at least so many, of which one waits at least since then."""

    count: int = 0
    since_ms: int | None = None

    def add(self, ready_at_ms: int) -> None:
        self.count += 1
        self.see(ready_at_ms)

    def see(self, ready_at_ms: int) -> None:
        self.since_ms = ready_at_ms if self.since_ms is None else min(self.since_ms, ready_at_ms)


@dataclass(slots=True)
class Ready:
    """`exact`: none was left out of the counts."""

    queues: dict[str, Waiting] = field(default_factory=dict)
    exact: bool = True


def count_lane(view: ReadView, lane: int, limit: int) -> tuple[int, bool]:
    """Returns how many rows a lane of READY has, `limit` at most, and whether that is all."""
    prefix = lane_key(lane)
    found = sum(1 for _ in islice(view.scan(Table.READY, prefix, after(prefix)), limit + 1))
    return min(found, limit), found <= limit


def oldest_wait_ms(view: ReadView, lane: int, now_ms: int) -> int:
    """Returns how long the first instance of a lane has waited for a worker; 0 where none does. Where all have one
    priority, none has waited longer."""
    first = next(iter(_first(view, lane, 1)), None)
    instance = None if first is None else get_instance(view, first)
    return 0 if instance is None else max(0, now_ms - instance.ready_at_ms)


def ready_by_queue(view: ReadView) -> Ready:
    """Returns what waits, by the names of queues; queues with limits are there also when nothing does."""
    found = Ready()
    limited = list(rows.QUEUES.all(view))
    left, left_of_quotas = OWN_MAX, QUOTAS_MAX
    for queue in limited:
        if queue.name.startswith(QUOTA_QUEUE):
            left_of_quotas -= _look(view, found, queue.lane, min(SHARED_MAX, left_of_quotas))
            continue
        count, exact = count_lane(view, queue.lane, min(LANE_MAX, left))
        left -= count
        found.exact &= exact
        waiting = found.queues.setdefault(queue.name, Waiting())
        waiting.count += count
        for row in _first(view, queue.lane, OLDEST_MAX):
            instance = get_instance(view, row)
            if instance is not None:
                waiting.see(instance.ready_at_ms)
    for lane in (LANE_FREE, LANE_NOBODY):
        _look(view, found, lane, SHARED_MAX)
    return found


def _look(view: ReadView, found: Ready, lane: int, limit: int) -> int:
    """Counts the rows of a lane that queues share, and returns how many were looked at."""
    looked = 0
    for key in _first(view, lane, limit + 1):
        if looked == limit:
            found.exact = False
            break
        looked += 1
        instance = get_instance(view, key)
        job = None if instance is None else rows.job_of(view, instance)
        if instance is not None and job is not None and instance.notice is None:  # deliveries are the cluster's own
            found.queues.setdefault(job.policy.queue, Waiting()).add(instance.ready_at_ms)
    return looked


def _first(view: ReadView, lane: int, limit: int) -> Iterable[bytes]:
    prefix = lane_key(lane)
    high = after(prefix) if lane < LANE_NOBODY else None
    return (from_ready(row) for row, _ in islice(view.scan(Table.READY, prefix, high), max(0, limit)))

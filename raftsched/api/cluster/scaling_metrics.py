"""Metrics by which workers are made more or fewer: what waits in each queue and for how long, slots, and what runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.cluster.ready import Ready, Waiting, ready_by_queue
from raftsched.api.context import ApiContext, meta
from raftsched.api.rows import newest_session, node_rule
from raftsched.core import rows
from raftsched.core.rules.eligibility import slots_of
from raftsched.core.rules.executors import WORKER_KEYS
from raftsched.core.subjects.cluster import Session
from raftsched.core.subjects.notices import SYSTEM_QUEUE
from raftsched.core.tables import ReadView, Table, from_u64

FRESH_S = 5.0  # for so long one look at the tables does, however often the metrics are read
QUEUES_MAX = 200  # of which there are series: those in which most waits
ASSIGNED_MAX = 50_000  # attempts that are counted
WORKERS_SEEN = 2_000  # of which the session is remembered decoded
KINDS = ("node", "worker")
# What runs wait for that could be given to somebody now or later: each such run has a row in one of these tables.
WAITS = {"worker": Table.READY, "key": Table.KEY_LINES, "job": Table.HELD}


class _Seen(NamedTuple):
    ready: Ready
    now_ms: int
    there: dict[str, int]  # executors by kind
    slots: dict[str, int]
    running: dict[str, int]
    served: dict[str, int]  # slots of the workers that take runs of this queue, by queue
    for_all: int  # slots of the workers that take runs of all
    waiting: dict[str, int]  # all runs, by what they wait for


class ScalingMetrics(Collector):
    def __init__(self, ctx: ApiContext) -> None:
        self._ctx = ctx
        self._until_s = -1.0
        self._seen: _Seen | None = None

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        now_s = self._ctx.clock.monotonic()
        if self._seen is None or not now_s < self._until_s <= now_s + FRESH_S:
            with self._ctx.read() as view:
                self._seen = _look(view, self._ctx.now_ms())
            self._until_s = now_s + FRESH_S
        yield from _metrics(self._seen)
        words = (
            "Remote workers without an open poll, which are given no new runs until the next. Only the leader says it."
        )
        yield GaugeMetricFamily("raftsched_workers_quiet", words, len(self._ctx.cluster.quiet_workers()))


def _look(view: ReadView, now_ms: int) -> _Seen:
    there, slots, running, served = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for_all = 0
    workers: set[int] = set()
    cluster = meta(view)
    for member in cluster.members:
        session = newest_session(view, member.node)
        if session is not None and session.open:
            there["node"] += 1
            slots["node"] += slots_of(session, node_rule(view, member.node))
    for _, number in islice(view.scan(Table.NODES, *WORKER_KEYS), cluster.workers):
        raw = view.get(Table.SESSIONS, number)
        session = None if raw is None else _session(raw)
        if session is None:
            continue
        workers.add(session.id)
        there["worker"] += 1
        slots["worker"] += session.slots
        if session.queues is None:
            for_all += session.slots
        for queue in session.queues or ():
            served[queue] += session.slots
    for row, _ in islice(view.scan(Table.ASSIGNED), ASSIGNED_MAX):
        running["worker" if from_u64(row[:8]) in workers else "node"] += 1
    return _Seen(ready_by_queue(view), now_ms, there, slots, running, served, for_all, waiting_for(view))


def waiting_for(view: ReadView) -> dict[str, int]:
    """Returns how many runs wait, deliveries of webhooks among them, by what they wait for. It is exact, however many
    there are."""
    return {what: view.count(table) for what, table in WAITS.items()}


@lru_cache(WORKERS_SEEN)
def _session(raw: bytes) -> Session:
    return rows.decode_session(raw)


def _metrics(seen: _Seen) -> Iterator[Metric]:
    labels = ["queue"]
    words = "Runs that wait for a worker, by queue; at least so many where raftsched_queue_ready_exact is 0."
    ready = GaugeMetricFamily("raftsched_queue_ready", words, labels=labels)
    words = "How long the run has waited that waits the longest, among those that come next."
    oldest = GaugeMetricFamily("raftsched_queue_oldest_wait_seconds", words, labels=labels)
    words = "Slots of the remote workers that take runs of the queue."
    served = GaugeMetricFamily("raftsched_queue_worker_slots", words, labels=labels)
    found = dict.fromkeys(seen.served, Waiting()) | seen.ready.queues
    for name, one in sorted(found.items(), key=lambda item: (-item[1].count, item[0]))[:QUEUES_MAX]:
        ready.add_metric([name], one.count)
        waits_ms = 0 if one.since_ms is None else max(0, seen.now_ms - one.since_ms)
        oldest.add_metric([name], waits_ms / 1000)
        delivers = name.startswith(SYSTEM_QUEUE)  # which workers do not
        served.add_metric([name], 0 if delivers else seen.served.get(name, 0) + seen.for_all)
    yield from (ready, oldest, served)
    words = "Runs that wait for a worker, for a permit of their key or for another run of their job; all are counted."
    waiting = GaugeMetricFamily("raftsched_instances_waiting", words, labels=["for"])
    for what, count in seen.waiting.items():
        waiting.add_metric([what], count)
    yield waiting
    words = "1 while no run is left out of raftsched_queue_ready."
    yield GaugeMetricFamily("raftsched_queue_ready_exact", words, seen.ready.exact and len(found) <= QUEUES_MAX)
    for name, words, counts in (
        ("raftsched_executors", "Nodes and remote workers with an open session.", seen.there),
        ("raftsched_executor_slots", "Slots of nodes and remote workers with an open session.", seen.slots),
        (
            "raftsched_executor_running",
            "Runs that nodes and workers were given and have not ended.",
            seen.running,
        ),
    ):
        family = GaugeMetricFamily(name, words, labels=["kind"])
        for kind in KINDS:
            family.add_metric([kind], counts.get(kind, 0))
        yield family

"""Counters of what the cluster does, taken from the committed actions, so that every node can show them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.core.actions import (
    AttemptAssigned,
    AttemptEnded,
    ConditionsWanted,
    InstanceFired,
    InstanceReady,
    InstanceStarted,
    JobDue,
    SessionChanged,
)
from raftsched.core.entry import EntryResult

_LATE = frozenset({InstanceFired, InstanceStarted})
_LATE_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 6.0, 15.0, 60.0, 900.0)


class Lateness:
    """A histogram of milliseconds after the due time."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_LATE_S) + 1)
        self._total_ms = 0

    def add(self, late_ms: int) -> None:
        late_ms = max(0, late_ms)  # a worker's clock may be behind
        self._counts[bisect_left(_LATE_S, late_ms / 1000)] += 1
        self._total_ms += late_ms

    def metric(self, name: str, words: str) -> Metric:
        total = 0
        buckets = []
        for bound, count in zip((*map(str, _LATE_S), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return HistogramMetricFamily(name, words, buckets, self._total_ms / 1000)


class RunMetrics(Collector):
    """`on_applied` counts; `collect` puts it into words on request."""

    _NAMES = (
        (
            JobDue,
            "raftsched_jobs_scheduled",
            "Fire times set (each create, edit and fire of a job sets one).",
        ),
        (InstanceReady, "raftsched_instances_ready", "Instances that became ready for a worker."),
        (AttemptAssigned, "raftsched_attempts_assigned", "Attempts assigned to a worker."),
        (AttemptEnded, "raftsched_attempts_ended", "Attempts that ended, whatever their outcome."),
        (ConditionsWanted, "raftsched_condition_looks", "Times that nodes were to look at the conditions of a run."),
        (SessionChanged, "raftsched_session_changes", "Worker sessions opened and ended."),
    )

    def __init__(
        self,
        disk: Callable[[], tuple[int, int]],
        due_soon: Callable[[], int],
        late: Callable[[], tuple[list[tuple[float, int]], float]],
        starts: Callable[[], tuple[int, bool]] = lambda: (0, False),
    ) -> None:
        """`disk`: bytes of the store, bytes free; `due_soon`: entries in the leader's window; `late`: the
        heartbeats sent by their lateness (seconds, how many up to that), and its sum in seconds; `starts`: runs that
        could not be started here, and whether nothing can be now."""
        self._counts: Counter[type] = Counter()
        self._disk = disk
        self._due_soon = due_soon
        self._late = late
        self._starts = starts
        self._fired = Lateness()
        self._started = Lateness()

    def on_applied(self, results: Sequence[EntryResult]) -> None:
        for result in results:
            kinds = Counter(map(type, result.actions))
            self._counts.update(kinds)
            if _LATE.isdisjoint(kinds):
                continue
            for action in result.actions:
                if type(action) is InstanceFired:
                    self._fired.add(action.late_ms)
                elif type(action) is InstanceStarted:
                    self._started.add(action.late_ms)

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        for kind, name, words in self._NAMES:
            yield CounterMetricFamily(name, f"{words} Since this node started.", self._counts[kind])
        size, free = self._disk()
        yield GaugeMetricFamily("raftsched_store_bytes", "Disk taken by the store.", size)
        yield GaugeMetricFamily("raftsched_disk_free_bytes", "Disk space left.", free)
        yield GaugeMetricFamily("raftsched_leader_due_soon", "Fire times in the leader's window.", self._due_soon())
        not_begun, cannot = self._starts()
        words = "Attempts that this node could not start, and handed back."
        yield CounterMetricFamily("raftsched_attempts_not_begun", f"{words} Since this node started.", not_begun)
        words = "1 while this node starts nothing: it lacks processes, memory or room, or waits for an earlier run."
        yield GaugeMetricFamily("raftsched_node_starts_nothing", words, cannot)
        yield self._fired.metric(
            "raftsched_fire_late_seconds",
            "How long after its due time (jitter included) a run was made, by the leader's clock.",
        )
        yield self._started.metric(
            "raftsched_start_late_seconds",
            "How long after the due time (jitter included) its first attempt started, by the worker's clock.",
        )
        counts, total_s = self._late()
        yield HistogramMetricFamily(
            "raftsched_heartbeat_late_seconds",
            "How late heartbeats were sent while this node led.",
            [("+Inf" if bound == inf else str(bound), float(count)) for bound, count in counts],
            total_s,
        )

"""Counts what the cluster does, from the committed actions, so that every node can show it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.core.actions import (
    AttemptAssigned,
    AttemptEnded,
    ConditionsWanted,
    DeadLettered,
    DueTimesSkipped,
    InstanceFired,
    InstanceReady,
    InstanceStarted,
    JobDue,
    SessionChanged,
)
from raftsched.core.entry import EntryResult
from raftsched.core.model import Outcome

NAMESPACES_MAX = 200  # that have series of their own
OTHERS = "(other)"  # no namespace has such a name
_FAILURES = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.LOST})  # as the recording rules have it
_LATE_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 6.0, 15.0, 60.0, 900.0)


_TOOK_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0)


class Durations:
    """A histogram of milliseconds over bounds in seconds."""

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._total_ms = 0

    def add(self, ms: int) -> None:
        ms = max(0, ms)  # a worker's clock may be behind
        self._counts[bisect_left(self._bounds_s, ms / 1000)] += 1
        self._total_ms += ms

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        """Returns each upper bound with the number up to it, and the sum in seconds."""
        bounds = (*map(str, self._bounds_s), "+Inf")
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True)), self._total_ms / 1000

    def metric(self, name: str, words: str) -> Metric:
        return HistogramMetricFamily(name, words, *self.buckets())


class RunMetrics(Collector):
    """Metrics of runs: `on_applied` counts, `collect` puts the counts into words on request."""

    _NAMES = (
        (
            JobDue,
            "raftsched_jobs_scheduled",
            "Fire times set (each create, edit and fire of a job sets one).",
        ),
        (InstanceReady, "raftsched_instances_ready", "Instances that became ready for a worker."),
        (AttemptAssigned, "raftsched_attempts_assigned", "Attempts assigned to a worker."),
        (DeadLettered, "raftsched_instances_dead_lettered", "Instances that failed for good and became dead letters."),
        (ConditionsWanted, "raftsched_condition_looks", "Times that nodes were to look at the conditions of a run."),
        (SessionChanged, "raftsched_session_changes", "Worker sessions opened and ended."),
    )

    def __init__(
        self,
        disk: Callable[[], tuple[int, int]],
        due_soon: Callable[[], int],
        starts: Callable[[], tuple[int, bool]] = lambda: (0, False),
    ) -> None:
        """`disk`: bytes of the store, bytes free; `due_soon`: entries in the leader's window; `starts`: runs that could
        not be started here, and whether nothing can be now."""
        self._counts: Counter[type] = Counter()
        self._disk = disk
        self._due_soon = due_soon
        self._starts = starts
        self._fired = Durations(_LATE_S)
        self._started = Durations(_LATE_S)
        self._ended: Counter[tuple[str, str, Outcome | None]] = Counter()  # by namespace and handler
        self._skipped: Counter[str] = Counter()  # by reason
        self._namespaces: set[str] = set()  # that have series of their own
        self._took: dict[str, Durations] = {}  # by handler

    def on_applied(self, results: Sequence[EntryResult]) -> None:
        for result in results:
            self._counts.update(map(type, result.actions))
            for action in result.actions:
                if type(action) is InstanceFired:
                    self._fired.add(action.late_ms)
                elif type(action) is InstanceStarted:
                    self._started.add(action.late_ms)
                elif type(action) is AttemptEnded:
                    self._count_end(action)
                elif type(action) is DueTimesSkipped:
                    self._skipped[action.reason] += action.count

    def _count_end(self, action: AttemptEnded) -> None:
        handler = action.need.partition(":")[0]  # "call:NAME": as many names as there are jobs would be too many series
        self._ended[self._namespace(action.namespace), handler, action.outcome] += 1
        if action.took_ms is not None:
            took = self._took.get(handler)
            if took is None:
                took = self._took[handler] = Durations(_TOOK_S)
            took.add(action.took_ms)

    def _namespace(self, name: str) -> str:
        """Returns the namespace as it is shown: whoever may create jobs may name as many as they like."""
        if name in self._namespaces:
            return name
        if len(self._namespaces) >= NAMESPACES_MAX:
            return OTHERS
        self._namespaces.add(name)
        return name

    def counts(self) -> dict[tuple[str, str], float]:
        """Returns the counters of which `node.recent_counts.RecentCounts` shows how they have grown."""
        found: Counter[tuple[str, str]] = Counter({("dead_letters", ""): self._counts[DeadLettered]})
        for (namespace, _, outcome), count in self._ended.items():
            if outcome is Outcome.SUCCEEDED or outcome in _FAILURES:
                found["ended", namespace] += count
                found["failed", namespace] += count if outcome in _FAILURES else 0
        for of, durations, limit_s in (("fires", self._fired, 1.0), ("starts", self._started, 60.0)):
            buckets = dict(durations.buckets()[0])
            found[of, ""] = int(buckets["+Inf"])
            found[f"late_{of}", ""] = int(buckets["+Inf"] - buckets[str(limit_s)])
        return dict(found)

    def describe(self) -> Iterator[Metric]:
        """Gives nothing, so that nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        for kind, name, words in self._NAMES:
            yield CounterMetricFamily(name, f"{words} Since this node started.", self._counts[kind])
        yield from self._runs()
        words = "Due times that did not run, by reason. Since this node started."
        skipped = CounterMetricFamily("raftsched_due_times_skipped", words, labels=["reason"])
        for reason, count in self._skipped.items():
            skipped.add_metric([reason], count)
        yield skipped
        size, free = self._disk()
        yield GaugeMetricFamily("raftsched_store_bytes", "Disk taken by the store.", size)
        yield GaugeMetricFamily("raftsched_disk_free_bytes", "Disk space left for the data directory.", free)
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
            "How long after its due time (jitter included) a run first started, by the worker's clock.",
        )

    def _runs(self) -> Iterator[Metric]:
        """Gives attempts by namespace, kind of handler and outcome; jobs that are gone have "" for both."""
        words = "Attempts that ended, by namespace, handler and outcome. Since this node started."
        ended = CounterMetricFamily("raftsched_attempts_ended", words, labels=["namespace", "handler", "outcome"])
        for (namespace, handler, outcome), count in self._ended.items():
            ended.add_metric([namespace, handler, "" if outcome is None else outcome.name.lower()], count)
        yield ended
        words = "How long attempts ran that were said to have started, by the worker's clock."
        took = HistogramMetricFamily("raftsched_attempt_seconds", words, labels=["handler"])
        for handler, durations in self._took.items():
            took.add_metric([handler], *durations.buckets())
        yield took

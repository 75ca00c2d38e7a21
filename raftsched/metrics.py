"""Counters of what the cluster does, taken from the committed actions, so that every node can show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.core.commands import AttemptAssigned, AttemptEnded, InstanceReady, JobDue, SessionChanged
from raftsched.core.entry import EntryResult


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
        (SessionChanged, "raftsched_session_changes", "Worker sessions opened and ended."),
    )

    def __init__(self, disk: Callable[[], tuple[int, int]], due_soon: Callable[[], int]) -> None:
        """`disk`: bytes of the store, bytes free; `due_soon`: entries in the leader's window."""
        self._counts: Counter[type] = Counter()
        self._disk = disk
        self._due_soon = due_soon

    def on_applied(self, results: Sequence[EntryResult]) -> None:
        for result in results:
            self._counts.update(map(type, result.actions))

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

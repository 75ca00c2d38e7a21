"""Renders metrics of a node's part in consensus, and of its disk, which the raft room counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from math import inf

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.core.rows import decode_webhook
from raftsched.core.subjects.leasing import DiskUse
from raftsched.core.tables import ReadView, Table
from raftsched.raft import Measured, Times
from raftsched.store import Usage
from raftsched.system import background
from raftsched.version import __version__

SINCE = "Since this node started."
WRITE_SLOW_S, COMMIT_SLOW_S = 0.25, 0.5  # as the alerts have it (deploy/prometheus/alerts.yml)


class NodeMetrics(Collector):
    def __init__(
        self,
        raft: Callable[[], Measured],
        refused: Callable[[], Mapping[str, int]],
        disk: Callable[[], DiskUse | None],
        tables: Callable[[], Usage],
    ) -> None:
        """`refused`: connections and messages refused at the Raft port, by reason; `disk`: None where it does not
        say."""
        self._tables = tables
        self._raft = raft
        self._refused = refused
        self._disk = disk

    def counts(self) -> dict[tuple[str, str], float]:
        """Returns the counters of which `recent_counts.RecentCounts` shows how they have grown."""
        counts = self._raft().counts
        found: dict[tuple[str, str], float] = {("refused", why): count for why, count in self._refused().items()}
        found |= {("faults", name): background.failures[name] for name in background.NAMES}
        for of, times, limit_s in (("writes", counts.writes, WRITE_SLOW_S), ("commits", counts.commits, COMMIT_SLOW_S)):
            buckets = times.cumulative()
            found[of, ""] = buckets[-1][1]
            found[f"slow_{of}", ""] = buckets[-1][1] - dict(buckets)[limit_s]
        return found

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("raftsched_build_info", "1, with the version of this node.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        yield from _of_raft(self._raft())
        words = f"Connections and messages that were refused at the Raft port, by reason. {SINCE}"
        yield _counters("raftsched_raft_refused", words, "why", self._refused())
        words = "Faults of tasks that nobody waits for, by task. Since this process started."
        yield _counters(
            "raftsched_task_faults", words, "task", {name: background.failures[name] for name in background.NAMES}
        )
        words = "Bytes of the store that were given back by rows that are gone: what comes next is written there."
        yield GaugeMetricFamily("raftsched_store_free_bytes", words, self._tables().free)
        use = self._disk()
        if use is not None:
            yield GaugeMetricFamily(
                "raftsched_disk_bytes", "Size of the file system with the data directory.", use.total
            )
            yield GaugeMetricFamily(
                "raftsched_output_bytes",
                "Output of runs that is kept on this node, also that of others as a second copy.",
                use.output,
            )


def counts_of(read: Callable[[], AbstractContextManager[ReadView]]) -> dict[tuple[str, str], float]:
    """Returns the counters of the replicated state of which `recent_counts.RecentCounts` shows how they have grown."""
    with read() as view:
        webhooks = [decode_webhook(raw) for _, raw in view.scan(Table.WEBHOOKS)]
    return {("dropped", one.name): one.dropped for one in webhooks}


def _of_raft(seen: Measured) -> Iterator[Metric]:
    counts = seen.counts
    for name, words, count in (
        ("raftsched_raft_elections", "Elections that this node stood in.", counts.elections),
        ("raftsched_raft_elections_won", "Elections that this node won.", counts.won),
        ("raftsched_raft_leader_changes", "Leaderships that this node saw begin, its own too.", counts.leaders),
        (
            "raftsched_raft_snapshots_sent",
            "Snapshots that a follower took whole from this node.",
            counts.snapshots_sent,
        ),
        ("raftsched_raft_snapshots_loaded", "Snapshots that this node loaded.", counts.snapshots_loaded),
    ):
        yield CounterMetricFamily(name, f"{words} {SINCE}", count)
    for name, words, times in (
        (
            "raftsched_raft_commit_seconds",
            "How long an entry took from when this node made it, as leader, until a majority had it on disk.",
            counts.commits,
        ),
        ("raftsched_raft_write_seconds", "How long a write of the log took, with its flush.", counts.writes),
        (
            "raftsched_heartbeat_late_seconds",
            "How late heartbeats were sent while this node led.",
            counts.heartbeats_late,
        ),
    ):
        yield _histogram(name, words, times)
    yield GaugeMetricFamily("raftsched_raft_log_entries", "Entries of the log on this node.", seen.log_entries)
    yield GaugeMetricFamily("raftsched_raft_log_index", "Newest entry of the log, committed or not.", seen.log_index)
    yield GaugeMetricFamily("raftsched_raft_log_term", "Term of the newest entry of the log.", seen.log_term)
    yield GaugeMetricFamily("raftsched_raft_voters", "Members that vote.", seen.voters)
    words = "Members that vote and are connected with this node, itself among them."
    yield GaugeMetricFamily("raftsched_raft_voters_connected", words, seen.voters_connected)
    words = "How long the oldest entry has waited for its commit that this node made as the leader; 0: none waits."
    yield GaugeMetricFamily("raftsched_raft_uncommitted_seconds", words, seen.uncommitted_s)
    words = "How long the write of the log takes that is under way; 0: none is."
    yield GaugeMetricFamily("raftsched_raft_write_under_way_seconds", words, seen.writing_s)
    words = "1 for each other member that is connected with this node."
    yield _gauges("raftsched_raft_peer_connected", words, seen.connected)
    words = "Entries that the leader has and a follower is not known to have. Only the leader says it."
    yield _gauges("raftsched_raft_follower_lag_entries", words, seen.lag_entries)
    words = "A follower's clock minus the leader's. Only the leader says it."
    yield _gauges("raftsched_raft_clock_offset_seconds", words, seen.clock_offset_s)


def _histogram(name: str, words: str, times: Times) -> Metric:
    buckets = [("+Inf" if bound == inf else str(bound), float(count)) for bound, count in times.cumulative()]
    return HistogramMetricFamily(name, words, buckets, times.total_s)


def _gauges(name: str, words: str, values: Mapping[str, float]) -> Metric:
    """Returns one series for each node."""
    family = GaugeMetricFamily(name, words, labels=["node"])
    for node, value in values.items():
        family.add_metric([node], value)
    return family


def _counters(name: str, words: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, words, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family

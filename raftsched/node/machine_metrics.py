"""Metrics of a node's machine, and of how the node was started, for who looks from afar (`raftsched doctor`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from platform import python_version

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.config.node import NodeConfig
from raftsched.quantities import format_duration
from raftsched.system import descriptors, machine

_DAY_MS = 86_400_000


class MachineMetrics(Collector):
    """`info`: texts that hold while the node runs; `raft_ends_ms`: when the certificate that it shows to other members
    expires, by the wall clock `now_ms`; None: it has none."""

    def __init__(
        self, info: Mapping[str, str], raft_ends_ms: Callable[[], int | None], now_ms: Callable[[], int]
    ) -> None:
        self._info = dict(info)
        self._raft_ends_ms = raft_ends_ms
        self._now_ms = now_ms

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        words = "1, with what this node runs on and was started with."
        info = GaugeMetricFamily("raftsched_node_info", words, labels=list(self._info))
        info.add_metric(list(self._info.values()), 1)
        yield info
        yield GaugeMetricFamily("raftsched_open_files_max", "Files that this node may have open.", descriptors.limit())
        words = "1 while a time service keeps the clock right, as the kernel has heard."
        yield _gauge("raftsched_clock_synchronised", words, machine.clock_synchronised())
        found = machine.memory()
        words = "Memory of the machine, or of the node's control group where that has less."
        yield _gauge("raftsched_memory_bytes", words, None if found is None else found.total)
        yield _gauge(
            "raftsched_memory_available_bytes", "What is left of it.", None if found is None else found.available
        )
        yield _gauge(
            "raftsched_swapped_bytes",
            "Memory of the node that is swapped out.",
            None if found is None else found.swapped,
        )
        words = "Share of the last minute in which something on the machine waited for memory."
        yield _gauge("raftsched_memory_stalled_ratio", words, machine.stalled())
        ends_ms = self._raft_ends_ms()
        words = "Days until the certificate that other members are shown expires; negative when it has."
        yield _gauge("raftsched_raft_certificate_days_left", words, days_left(ends_ms, self._now_ms()))
        words = "Unix time at which the certificate that other members are shown expires."
        name = "raftsched_raft_certificate_expiry_timestamp_seconds"
        yield _gauge(name, words, None if ends_ms is None else ends_ms / 1000)


def _gauge(name: str, words: str, value: float | None) -> Metric:
    """Returns it without a series where the value is not known."""
    gauge = GaugeMetricFamily(name, words, labels=())
    if value is not None:
        gauge.add_metric((), value)
    return gauge


def info_of(config: NodeConfig, whole_runs: bool, jobs_as: str = "", no_python: str = "") -> dict[str, str]:
    """Returns the labels of raftsched_node_info: what is judged for itself, and settings that nodes should share.
    `jobs_as`: whose user programs of jobs run as, or that they are held back. `no_python`: users of jobs who cannot
    start the node's Python."""
    return {
        "zones": machine.zone_files().version,
        "zone_files": machine.zone_files().digest,
        "file_system": machine.file_system(config.data.resolve()),
        "limits": ("whole runs" if whole_runs else "each process") if config.slots else "",
        "jobs_as": jobs_as if config.slots else "",
        "no_python": no_python,
        "python": python_version(),
        "api": "plain" if config.tls_cert is None else "tls",
        "members": "open" if config.insecure_raft else "key" if config.raft_cert is None else "certificates",
        "log_keep_entries": str(config.log_keep_entries),
        "log_keep_bytes": str(config.log_keep_bytes),
        "leader_wait": format_duration(config.leader_wait_ms),
        "election_timeout": format_duration(config.election_timeout_ms),
        "grace": format_duration(config.grace_ms),
        "output_store": config.output_store or "none",
        "output_ship": "none" if config.output_ship is None else config.output_ship.to,
    }


def days_left(ends_ms: int | None, now_ms: int) -> float | None:
    """Returns the days until a time; None where it has no end."""
    return None if ends_ms is None else (ends_ms - now_ms) / _DAY_MS

"""What figures are held against: at first, and then. They are for three nodes and the load on two cores, fsync on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bar:
    value: float
    then: float | None
    least: bool  # the value is the least that will do; else the most

    def met(self, measured: Any) -> bool:
        if not isinstance(measured, float | int):
            return False
        return measured >= self.value if self.least else measured <= self.value

    def words(self, quantity: Callable[[Any], str]) -> str:
        """`quantity` writes a value with its name and unit."""
        then = "" if self.then is None else f", then {quantity(self.then)}"
        return f"{'at least' if self.least else 'at most'} {quantity(self.value)}{then}"


def at_least(value: float, then: float | None = None) -> Bar:
    return Bar(value, then, True)


def at_most(value: float, then: float | None = None) -> Bar:
    return Bar(value, then, False)


# (name of the figure as table.name makes it, field) -> bar
BARS: dict[tuple[str, str], Bar] = {
    ("create, 256 in flight, through the leader", "per_second"): at_least(9_500, 13_000),
    ("create, 1 in flight, through the leader", "p50_ms"): at_most(2.0, 1.0),
    ("create-batch, batches of 200, 8 in flight, through the leader", "jobs_per_second"): at_least(25_000, 40_000),
    ("create-sdk, 32 in flight, through the leader", "per_second"): at_least(12_000, 24_000),
    ("create-sdk, 256 in flight, through the leader", "per_second"): at_least(12_000, 24_000),
    ("follower-share, of create, 256 in flight", "share"): at_least(0.7, 0.85),
    ("tls-share, api, 256 in flight", "share"): at_least(0.8),
    ("tls-share, raft, 256 in flight", "share"): at_least(0.9),
    ("against, etcd, of create, 256 in flight", "ratio"): at_least(1.15, 2),
    ("against, etcd, of create, 1 in flight, p50", "ratio"): at_most(1.25),
    ("against, bullmq, of create-sdk, 32 in flight", "ratio"): at_least(1),
    ("against, bullmq, of run, 10,000 runs", "ratio"): at_least(1),
    ("run, python, 10,000 runs", "per_second"): at_least(3_000, 18_000),
    ("run, exec, 2,000 runs", "per_second"): at_least(300),
    ("burst, 10,000 due at once", "last_start_ms"): at_most(3_000, 1_000),
    ("periodic, spread, 10,000 jobs", "p99_ms"): at_most(60, 20),
    ("sustained, 1,157/s, leader killed", "not_run"): at_most(0),
    ("sustained, 1,157/s, leader killed", "p99_ms"): at_most(60),
    ("sustained, 1,157/s, leader killed", "failover_max_ms"): at_most(6_000),
    ("sustained, 1,157/s, leader killed", "written_kib_per_start"): at_most(40, 15),
    ("sustained, 1,157/s, leader killed", "anonymous_growth"): at_most(1.05),
    ("sustained, 1,157/s, leader killed", "pages_growth"): at_most(1.05),
    ("ratio, of exec run, one-shot, against 70aca22", "ratio"): at_most(0.45),
    ("ratio, of python run, one-shot, against 70aca22", "ratio"): at_most(0.85),
    ("ratio, of job of a batch of 200, against 70aca22", "ratio"): at_most(0.75),
    ("floor, of exec run, below the node, over posix_spawn of true", "ratio"): at_most(2, 1.5),
    ("floor, of exec run as another user, below the node, over posix_spawn of true", "ratio"): at_most(2.2, 1.5),
    ("floor, of apply of a one-shot's life, over LMDB and msgspec of its rows", "ratio"): at_most(2.3, 2.0),
    ("floor, of apply of a periodic run, over a one-shot's run", "ratio"): at_most(1.3),
    ("floor, of job of a batch, over a single create", "ratio"): at_most(0.35),
    ("floor, of no-op python run with concurrency, over BullMQ's job", "ratio"): at_most(1.3, 1.0),
    ("restore, 1,000,000 jobs", "seconds"): at_most(30),
    ("node-start, empty directory", "node_cpu_s"): at_most(0.6),
    ("node-start, used directory", "node_cpu_s"): at_most(0.6),
    ("killed-cluster", "p50_s"): at_most(2),
    ("scale, 3,000,000 jobs stored", "per_second_share"): at_least(0.8),
    ("scale, 3,000,000 jobs stored", "anonymous_mib"): at_most(300),
    ("scale, 3,000,000 jobs stored", "page_p99_ms"): at_most(10),
    ("scale, 3,000,000 jobs stored", "get_p99_ms"): at_most(3),
    ("scale, 3,000,000 jobs stored", "restart_s"): at_most(3),
    ("scale, 3,000,000 jobs stored", "failover_s"): at_most(4),
    ("scale, 3,000,000 jobs stored", "cpu_per_start_us_share"): at_most(1.1),
    ("graph, 1,000 jobs", "over_s"): at_most(2),
    ("graph, 1,000 jobs", "not_succeeded"): at_most(0),
    ("workers-idle, 200 workers", "leader_cpu_share"): at_most(0.05),
    ("workers-idle, 200 workers", "lost_sessions"): at_most(0),
    ("workers-share, workers, 5,000 runs", "share"): at_least(0.8),
    ("workers-late, workers", "p50_ms"): at_most(15),
    ("workers-late, workers", "p99_ms"): at_most(50),
    ("workers-killed", "beyond_s"): at_most(1),
    ("workers-killed", "early"): at_most(0),
    ("workers-killed", "overlaps"): at_most(0),
    ("page-paint", "p50_ms"): at_most(300),
    ("page-size", "br_kb"): at_most(90),
    ("page-change", "p99_ms"): at_most(1_000),
    ("page-list, 100,000 jobs", "first_rows_p50_ms"): at_most(500),
    ("page-list, 100,000 jobs", "longest_task_ms"): at_most(50),
    ("page-output, 20 MiB/s", "anonymous_mib"): at_most(200),
    ("page-creates, 256 in flight, 10 pages open", "replayed_share"): at_least(0.95),
    ("scale, 10,000,000 jobs stored", "cpu_per_start_us_share"): at_most(1.1),
}

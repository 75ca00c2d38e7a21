"""Metrics of a node: what the raft room counted, in Prometheus' words."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from raftsched.core.subjects.leasing import DiskUse
from raftsched.doctor import samples_of
from raftsched.node.machine_metrics import MachineMetrics, days_left
from raftsched.node.metrics import NodeMetrics
from raftsched.node.recent_counts import MARKS, RecentCounts
from raftsched.raft.measures import Measured, Measures
from raftsched.store import Usage
from raftsched.system import background, machine


def lines(seen: Measured, use: DiskUse | None = None) -> list[str]:
    registry = CollectorRegistry()
    registry.register(
        NodeMetrics(lambda: seen, lambda: {"tls": 3, "wrong-key": 0}, lambda: use, lambda: Usage(4096, 1024))
    )
    return generate_latest(registry).decode().splitlines()


def seen(counts: Measures | None = None) -> Measured:
    return Measured(
        counts or Measures(), 20, 3, {"n2": True, "n3": False}, {"n2": 0, "n3": 7}, {"n2": -0.25}, 2, 40.5, 7.25
    )


def test_counts_and_times() -> None:
    counts = Measures()
    counts.elections, counts.won, counts.leaders = 4, 1, 2
    counts.snapshots_sent, counts.snapshots_loaded = 5, 6
    counts.commits.add(0.004)
    counts.writes.add(20.0)
    counts.heartbeats_late.add(0.04)
    found = lines(seen(counts))
    for wanted in (
        "raftsched_raft_elections_total 4.0",
        "raftsched_raft_elections_won_total 1.0",
        "raftsched_raft_leader_changes_total 2.0",
        "raftsched_raft_snapshots_sent_total 5.0",
        "raftsched_raft_snapshots_loaded_total 6.0",
        'raftsched_raft_commit_seconds_bucket{le="0.0025"} 0.0',
        'raftsched_raft_commit_seconds_bucket{le="0.005"} 1.0',
        "raftsched_raft_commit_seconds_sum 0.004",
        'raftsched_raft_write_seconds_bucket{le="10.0"} 0.0',
        'raftsched_raft_write_seconds_bucket{le="+Inf"} 1.0',
        'raftsched_heartbeat_late_seconds_bucket{le="0.05"} 1.0',
    ):
        assert wanted in found


def test_members() -> None:
    found = lines(seen())
    for wanted in (
        "raftsched_raft_log_entries 20.0",
        "raftsched_raft_voters 3.0",
        "raftsched_raft_voters_connected 2.0",
        "raftsched_raft_uncommitted_seconds 40.5",
        "raftsched_raft_write_under_way_seconds 7.25",
        'raftsched_raft_peer_connected{node="n2"} 1.0',
        'raftsched_raft_peer_connected{node="n3"} 0.0',
        'raftsched_raft_follower_lag_entries{node="n3"} 7.0',
        'raftsched_raft_clock_offset_seconds{node="n2"} -0.25',
    ):
        assert wanted in found


def test_refusals_are_there_before_the_first() -> None:
    found = lines(seen())
    assert 'raftsched_raft_refused_total{why="tls"} 3.0' in found
    assert 'raftsched_raft_refused_total{why="wrong-key"} 0.0' in found


def test_a_disk_that_says_nothing_has_no_series() -> None:
    assert not any("raftsched_disk_bytes" in line for line in lines(seen()))
    found = lines(seen(), DiskUse(free=1, total=100, store=10, output=9))
    assert "raftsched_disk_bytes 100.0" in found
    assert "raftsched_output_bytes 9.0" in found


def test_what_happened_lately() -> None:
    """The difference to the oldest of the marks, of which there are as many as minutes."""
    count = {("writes", ""): 5.0, ("dead_letters", ""): 3.0}
    lately = RecentCounts(lambda: dict(count))

    def shown() -> dict[str, float]:
        registry = CollectorRegistry()
        registry.register(lately)
        return samples_of(generate_latest(registry).decode())

    def series(of: str, name: str = "") -> str:
        return f'raftsched_lately{{name="{name}",of="{of}"}}'

    assert shown() == {series("writes"): 0, series("dead_letters"): 0}, "nothing since it started"
    count["writes", ""] = 25.0
    count["dead_letters", ""] = 1.0
    count["ended", 'a "b"'] = 2.0
    assert shown() == {series("writes"): 20, series("dead_letters"): 0, series("ended", 'a \\"b\\"'): 2}
    for _ in range(MARKS):
        lately.mark()
    assert shown()[series("writes")] == 0
    count["writes", ""] = 26.0
    assert shown()[series("writes")] == 1


def test_the_counters_of_a_node_that_are_looked_at_lately() -> None:
    counts = Measures()
    for seconds in (0.2, 0.25, 0.3, 20.0):
        counts.writes.add(seconds)
        counts.commits.add(seconds)
    background.failures["peers"] = 2
    metrics = NodeMetrics(lambda: seen(counts), lambda: {"tls": 3}, lambda: None, lambda: Usage(0, 0))
    found = metrics.counts()
    assert {name: found.pop(("faults", name)) for name in background.NAMES if name != "peers"}.keys() >= {"leader"}
    background.forget()
    assert found == {
        ("faults", "peers"): 2,
        ("refused", "tls"): 3,
        ("writes", ""): 4,
        ("slow_writes", ""): 2,
        ("commits", ""): 4,
        ("slow_commits", ""): 1,
    }


def test_the_machine_that_a_node_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(ends_ms: int | None) -> list[str]:
        registry = CollectorRegistry()
        registry.register(MachineMetrics({"zones": "2025b", "grace": "10s"}, lambda: ends_ms, lambda: 86_400_000))
        return generate_latest(registry).decode().splitlines()

    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(16, 8, 1))
    monkeypatch.setattr(machine, "stalled", lambda: 0.5)
    monkeypatch.setattr(machine, "clock_synchronised", lambda: False)
    found = shown(43_200_000)
    for wanted in (
        'raftsched_node_info{grace="10s",zones="2025b"} 1.0',
        "raftsched_clock_synchronised 0.0",
        "raftsched_memory_bytes 16.0",
        "raftsched_memory_available_bytes 8.0",
        "raftsched_swapped_bytes 1.0",
        "raftsched_memory_stalled_ratio 0.5",
        "raftsched_raft_certificate_days_left -0.5",
        "raftsched_raft_certificate_expiry_timestamp_seconds 43200.0",
    ):
        assert wanted in found
    monkeypatch.setattr(machine, "memory", lambda: None)
    monkeypatch.setattr(machine, "clock_synchronised", lambda: None)
    unknown = [line for line in shown(None) if not line.startswith("#")]
    assert not any("certificate" in line or "clock" in line or "_bytes" in line for line in unknown)
    assert (days_left(None, 0), days_left(86_400_000, 43_200_000)) == (None, 0.5)

"""Metrics of a node: what the raft room counted, in Prometheus' words."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from raftsched.core.leasing import DiskUse
from raftsched.node.metrics import NodeMetrics
from raftsched.raft.measures import Measured, Measures


def lines(seen: Measured, use: DiskUse | None = None) -> list[str]:
    registry = CollectorRegistry()
    registry.register(NodeMetrics(lambda: seen, lambda: {"tls": 3, "wrong-key": 0}, lambda: use))
    return generate_latest(registry).decode().splitlines()


def seen(counts: Measures | None = None) -> Measured:
    return Measured(counts or Measures(), 20, 3, {"n2": True, "n3": False}, {"n2": 0, "n3": 7}, {"n2": -0.25})


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

"""The checks of a cluster: each trouble is found, named, and says what to do; a healthy cluster gets no advice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from raftsched.doctor import (
    CHECKS,
    Facts,
    Finding,
    Pauses,
    Tokens,
    WorkerSeen,
    examine,
    joined,
    of_checks,
    samples_of,
    worst,
    worst_first,
)
from raftsched.doctor.disks import DISK_WARN, LAG

NAMES = ("n1", "n2", "n3")
DAY_MS = 86_400_000
LOCAL = set(list(CHECKS)[list(CHECKS).index("answers") :])  # checks that the command makes
INFO = {"zones": "2025b", "zone_files": "a0", "file_system": "ext4", "limits": "whole runs", "grace": "10s",
        "log_keep_entries": "50000", "output_store": "none", "jobs_as": "another user"}  # fmt: skip


def node(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "role": "follower", "voter": True, "alive": True, "http": "", "lag": 0, "clock_offset_ms": 1.0,
            "running": 1, "slots": 4, "version": "1", "session_open": True, "drained": False, "level": 4,
            **fields}  # fmt: skip


def series(name: str, /, **labels: str) -> str:
    return name + "{" + ",".join(f'{label}="{text}"' for label, text in sorted(labels.items())) + "}"


class Seen:
    """The facts of a healthy cluster, to be made worse."""

    def __init__(self) -> None:
        self.nodes = [node(name) for name in NAMES]
        self.cluster: dict[str, Any] = {
            "leader": "n1",
            "term": 3,
            "waits_for": None,
            "waiting": [],
            "paused": False,
            "level": 4,
            "level_held": False,
        }
        self.info = {name: dict(INFO) for name in NAMES}
        self.samples: dict[str, dict[str, float]] = {
            name: {
                "raftsched_disk_free_bytes": 5e12,
                "raftsched_store_bytes": 1e6,
                "raftsched_dead_letters": 0,
                "raftsched_instances_unplaceable": 0,
                "raftsched_raft_log_entries": 60_000,
                "raftsched_open_files_max": 65_536,
                "raftsched_clock_synchronised": 1,
                "raftsched_memory_bytes": 16e9,
                "raftsched_memory_available_bytes": 8e9,
                "raftsched_swapped_bytes": 0,
                "raftsched_tls_certificate_days_left": 80,
                "raftsched_raft_certificate_days_left": 80,
                "raftsched_output_uncopied_seconds": 3,
                "raftsched_output_store_failing": 0,
                "raftsched_loop_longest_stretch_seconds": 0.02,
                "raftsched_output_unshipped_seconds": 3,
                "raftsched_backup_log_time_seconds": 1_000_000,
                "raftsched_backup_log_index": 7,
                "raftsched_memory_stalled_ratio": 0.0,
                series("raftsched_executor_slots", kind="node"): 12,
                series("raftsched_executor_running", kind="node"): 3,
                series("raftsched_queue_oldest_wait_seconds", queue="mails"): 3,
                series("raftsched_webhook_active", webhook="ops"): 1,
                series("raftsched_webhook_failures_in_a_row", webhook="ops"): 0,
                series("raftsched_webhook_oldest_wait_seconds", webhook="ops"): 299,
                series("raftsched_webhook_gone", webhook="ops"): 0,
            }
            for name in NAMES
        }
        self.facts = Facts(
            asker="n1",
            now_ms=1_000_000_000 + 3_600_000,
            cluster={},
            samples={},
            newest_level=4,
            elected_ms_ago=[DAY_MS],
            tokens=Tokens(required=True, never=1),
            waiting=3,
            workers=[WorkerSeen(name="gpu", version="1", silent_ms=100)],
            audit_keep_ms=90 * DAY_MS,
        )
        for name in NAMES:
            self.lately(name, "output", output_lost=0)
            self.lately(name, writes=900, slow_writes=1, commits=900, slow_commits=0)
            self.lately(name, fires=500, late_fires=0, starts=500, late_starts=1)
            self.lately(name, "billing", ended=100, failed=3)

    def lately(self, name: str, of_whom: str = "", /, **counts: float) -> None:
        for of, count in counts.items():
            self.samples[name][series("raftsched_lately", name=of_whom, of=of)] = count

    def everywhere(self, **samples: float) -> None:
        for found in self.samples.values():
            found.update({f"raftsched_{name}": value for name, value in samples.items()})

    def but(self, **facts: Any) -> None:
        self.facts = replace(self.facts, **facts)

    def found(self) -> list[Finding]:
        samples = {
            name: dict(found) | ({series("raftsched_node_info", **self.info[name]): 1.0} if self.info[name] else {})
            for name, found in self.samples.items()
        }
        return list(examine(replace(self.facts, cluster={**self.cluster, "nodes": self.nodes}, samples=samples)))


def test_a_healthy_cluster_is_told_so() -> None:
    found = Seen().found()
    assert [f for f in found if f.state != "ok" or f.do] == []
    assert worst(found) == "ok"
    assert {f.check: f.detail for f in found}["quorum"] == (
        "3 of 3 voting members are connected, 2 are needed; 1 more may be lost"
    )
    assert {f.check for f in found} == CHECKS.keys() - LOCAL - {"metrics"}


def test_a_store_that_is_mostly_free_is_told() -> None:
    cluster = Seen()
    for free, samples in ((300 << 20, True), (150 << 20, False)):
        cluster.everywhere(store_bytes=400 << 20, store_free_bytes=free)
        (disk,) = (found for found in cluster.found() if found.check == "disk")
        assert disk.state == "ok"
        assert ("a restart of n1 gives them back" in disk.detail) == samples


def drop(cluster: Seen, name: str) -> None:
    cluster.nodes = [one for one in cluster.nodes if one["id"] != name]
    del cluster.samples[name]


TROUBLES: list[tuple[Callable[[Seen], Any], str, str, str, str]] = [
    (lambda c: c.everywhere(output_uncopied_seconds=901), "output-copies", "warn", "n1 has output without", "log"),
    (
        lambda c: c.lately("n2", "output", output_lost=3),
        "output-files",
        "warn",
        "n2 lost files within 15 minutes: 3 with output of runs",
        "log of n2",
    ),
    (
        lambda c: c.lately("n2", "copies", output_lost=1),
        "output-files",
        "warn",
        "n2 lost files within 15 minutes: 1 with copies of other nodes' output",
        "mounted over",
    ),
    (lambda c: c.everywhere(output_store_failing=1), "output-store", "warn", "n1, n2, n3 cannot use", "log of n1"),
    (lambda c: c.info["n2"].update(output_store="s3://b/p"), "alike", "warn", "output_store", "same"),
    (lambda c: c.everywhere(output_unshipped_seconds=901), "output-shipping", "warn", "that is not shipped", "log"),
    (
        lambda c: c.samples["n1"].update({series("raftsched_lately", name="refused", of="output_dropped"): 2048}),
        "output-shipping",
        "warn",
        "n1 gave up output within 15 minutes: 2.0 kB refused",
        "never shipped",
    ),
    (
        lambda c: c.everywhere(backup_log_time_seconds=1_000_000 - 25 * 3_600 - 1),
        "backup",
        "warn",
        "nobody has kept one for 1d2h",
        "backup run",
    ),
    (
        lambda c: c.everywhere(backup_log_time_seconds=1_000_000 - 25 * 3_600 - 1, backup_log_index=0),
        "backup", "warn", "there was none for 1d2h", "backup run",
    ),
    (lambda c: c.but(silent={"n2": "10.0.0.2:7401"}), "reachable", "warn", "not n2 (10.0.0.2:7401)", "log"),
    (lambda c: c.samples["n2"].clear() or c.info["n2"].clear(), "metrics", "warn", "n2 answers", "log"),
    (lambda c: c.cluster.update(leader=None, waits_for="n1 waits"), "leader", "fail", "n1 waits", "majority"),
    (lambda c: [n.update(alive=False) for n in c.nodes[1:]], "quorum", "fail", "1 of 3", "start n2, n3"),
    (lambda c: [n.update(voter=False, alive=n["id"] == "n1") for n in c.nodes], "quorum", "fail", "no voting member",
     "start n2, n3"),
    (lambda c: [n.update(voter=False) for n in c.nodes], "quorum", "fail", "not formed yet", "the check leader says"),
    (lambda c: c.nodes[2].update(alive=False), "quorum", "warn", "no other may be lost", "bring n3 back"),
    (lambda c: drop(c, "n3"), "quorum", "warn", "2 of 2", "three members"),
    (lambda c: c.nodes.append(node("n4")), "quorum", "warn", "4 of 4", "even number"),
    (lambda c: c.cluster.update(waiting=[{"id": "n9"}]), "members", "warn", "n9 ask", "cluster members"),
    (
        lambda c: c.cluster.update(waiting=[{"id": "n3", "why": "disk-went-back"}]),
        "members", "fail", "disk of n3 went back", "members replace n3",
    ),
    (lambda c: c.nodes[2].update(voter=False), "members", "warn", "n3 catch up", "wait"),
    (
        lambda c: c.nodes[2].update(raft="10.0.0.3:7501", raft_announced="10.0.0.9:7501"),
        "moved", "warn", "n3 is at 10.0.0.9:7501, and the members have 10.0.0.3:7501", "--advertise-raft",
    ),
    (lambda c: c.but(elected_ms_ago=[1, 2, 60_000, 899_999, 900_000]), "elections", "warn", "4 leader", "step down"),
    (lambda c: c.lately("n2", "wrong-key", refused=11), "raft-port", "warn", "n2 refused", "key"),
    (
        lambda c: c.samples["n3"].update({"raftsched_loop_longest_stretch_seconds": 0.7}),
        "loop", "warn", "held n3 for 700 ms", "which request",
    ),
    (
        lambda c: c.samples["n2"].update({series("raftsched_lately", name="peers", of="faults"): 2}),
        "task-faults", "warn", "n2 met faults within 15 minutes: 2 in peers", "met a fault",
    ),
    (lambda c: c.nodes[2].update(version="2"), "versions", "warn", "n1, n2, worker gpu: 1; n3: 2", "newest"),
    (lambda c: c.but(workers=[WorkerSeen(name="w", version="0")]), "versions", "warn", "worker w: 0", "workers"),
    (lambda c: c.cluster.update(level=3), "level", "warn", "it is 3, and 4 is known", "rises"),
    (
        lambda c: (c.cluster.update(level=3), c.nodes[1].update(level=3)),
        "level", "warn", "n2 keeps it there", "cluster upgrade",
    ),
    (lambda c: (c.cluster.update(level=3), c.nodes[1].update(level=None)), "level", "warn", "n2 keeps", "remove it"),
    (
        lambda c: (c.cluster.update(level=3, level_held=True), c.but(pauses=Pauses(level_held_for_ms=3 * DAY_MS))),
        "level", "warn", "held at 3 for 3d, 4 is known", "--no-hold",
    ),
    (lambda c: c.cluster.update(level_held=True), "level", "warn", "nothing is held back", "--no-hold"),
    (lambda c: c.nodes[2].update(lag=LAG + 1), "lag", "warn", "n3 by 1,001", "slow"),
    (lambda c: c.lately("n1", slow_commits=10), "commits", "warn", "10 of 900 writes of n1", "cluster transfer"),
    (lambda c: c.lately("n3", slow_writes=10), "flushes", "warn", "10 of 900 writes of n3", "disk"),
    (lambda c: c.samples["n2"].update(raftsched_raft_log_entries=300_000), "log", "warn", "300,000 entries", "n2"),
    (lambda c: c.everywhere(disk_free_bytes=DISK_WARN // 2), "disk", "warn", "free", "make room"),
    (lambda c: c.everywhere(disk_free_bytes=1e6), "disk", "fail", "free", "refuses writes"),
    (
        lambda c: c.everywhere(disk_free_bytes=DISK_WARN // 2, store_bytes=400 << 20, store_free_bytes=300 << 20),
        "disk",
        "warn",
        "free",
        "a restart of n1 gives them back",
    ),
    (lambda c: c.everywhere(store_bytes=4e12), "disk", "warn", "free", "a copy of the store"),
    (lambda c: c.nodes[2].update(clock_offset_ms=-300.0), "clocks", "warn", "n3 is off by -300 ms", "chrony"),
    (lambda c: c.nodes[2].update(clock_offset_ms=900.0), "clocks", "fail", "clock_limit", "chrony"),
    (lambda c: [n.update(clock_offset_ms=None) for n in c.nodes], "clocks", "warn", "not measured", "leader"),
    (lambda c: c.everywhere(clock_synchronised=0), "clock-service", "warn", "n1, n2, n3", "chrony"),
    (lambda c: c.info["n2"].update(zone_files="b0"), "time-zones", "warn", "a0 (n1 n3), b0 (n2)", "tzdata"),
    (lambda c: c.info["n2"].update(zones="2024a"), "time-zones", "warn", "2024a (n2), 2025b (n1 n3)", "tzdata"),
    (lambda c: c.info["n2"].update(grace="1m"), "alike", "warn", "grace: 10s (n1 n3), 1m (n2)", "same"),
    (lambda c: c.everywhere(memory_available_bytes=1e8), "memory", "warn", "100.0 MB of 16.0 GB left", "slots"),
    (lambda c: c.everywhere(swapped_bytes=1e8), "memory", "warn", "swapped out", "slots"),
    (
        lambda c: c.samples["n3"].update({"raftsched_memory_stalled_ratio": 0.25}),
        "memory", "warn", "waited for memory in 25%", "nodes slots n3",
    ),
    (lambda c: c.everywhere(open_files_max=4_096), "open-files", "warn", "4,096", "LimitNOFILE"),
    (lambda c: c.everywhere(open_files_max=512), "open-files", "fail", "512", "LimitNOFILE"),
    (lambda c: c.info["n1"].update(file_system="nfs4"), "file-system", "fail", "n1: nfs4", "local disk"),
    (lambda c: c.info["n1"].update(file_system="tmpfs"), "file-system", "fail", "restarts", "on a disk"),
    (lambda c: c.info["n1"].update(file_system="overlay"), "file-system", "warn", "container", "volume"),
    (lambda c: c.info["n1"].update(limits="each process"), "run-limits", "warn", "each process (n1)", "Delegate"),
    (lambda c: c.info["n1"].update(jobs_as="held back"), "programs", "warn", "n1 offers http", "--run-as"),
    (lambda c: c.info["n2"].update(no_python="svc"), "programs", "warn", "n2 runs no python", "chmod"),
    (lambda c: c.info["n2"].update(jobs_as="the node's user"), "programs", "warn", "n2 runs jobs as", "--run-as"),
    (
        lambda c: (
            [info.update(limits="each process") for info in c.info.values()],
            c.but(users={"n1": ("default:nobody",), "n2": ("a:x", "b:y")}, namespaces=["a", "b"]),
        ),
        "run-users", "warn", "nobody runs jobs of a, b (n1): without control groups", "--run-as NAMESPACE=USER",
    ),
    (
        lambda c: (
            [info.update(limits="each process") for info in c.info.values()],
            c.but(users={"n1": ()}, namespaces=["a", "b"]),
        ),
        "run-users", "warn", "the user of the node runs jobs of a, b (n1)", "--run-as NAMESPACE=USER",
    ),
    (
        lambda c: (c.nodes[0].update(http="10.0.0.1:1"), c.but(tokens=Tokens())),
        "access", "warn", "open", "tokens bootstrap",
    ),
    (lambda c: c.nodes[0].update(http="10.0.0.1:1"), "plain-http", "warn", "n1", "--tls-cert"),
    (
        lambda c: c.but(tokens=Tokens(required=True, expire_in_ms=[2 * DAY_MS, 20 * DAY_MS], never=2, exact=False)),
        "tokens", "warn", "1 expires within 14 days, the first in 2.0; 2+ never do", "tokens create",
    ),
    (lambda c: c.but(unreadable=2), "secrets", "warn", "2 are sealed", "key file"),
    (lambda c: c.everywhere(tls_certificate_days_left=13.5), "certificates", "warn", "13.5 days", "put a new"),
    (lambda c: c.everywhere(tls_certificate_days_left=-1), "certificates", "fail", "has expired", "put a new"),
    (lambda c: c.everywhere(raft_certificate_days_left=3), "raft-certificates", "warn", "3.0 days", "certs node n1"),
    (
        lambda c: (c.cluster.update(paused=True), c.but(pauses=Pauses(cluster=True, cluster_for_ms=90_061_000))),
        "paused", "warn", "paused for 1d1h", "cluster resume",
    ),
    (lambda c: c.but(pauses=Pauses(queues=[("mails", 30_000)])), "queues", "warn", "mails for 30s", "resume mails"),
    (lambda c: c.nodes[1].update(drained=True), "workers", "warn", "drained: n2", "nodes undrain n2"),
    (lambda c: c.nodes[1].update(session_open=False), "workers", "warn", "no session", "restart"),
    (lambda c: c.nodes[1].update(trouble="no process"), "workers", "warn", "n2: no process", "ulimit"),
    (
        lambda c: c.but(workers=[WorkerSeen(name="gpu", silent_ms=6_000)]),
        "remote-workers", "warn", "gpu for 6s", "every 2s500ms",
    ),
    (
        lambda c: c.but(workers=[WorkerSeen(name="gpu", trouble="no memory")]),
        "remote-workers", "warn", "gpu: no memory", "memory",
    ),
    (lambda c: c.everywhere(instances_unplaceable=2), "placement", "warn", "2 runs", "WAITING"),
    (lambda c: c.but(waiting=500), "backlog", "warn", "500 instances", "slots"),
    (
        lambda c: [node.update(slots=4_000) for node in c.nodes] and c.but(waiting=99_000),
        "backlog", "warn", "99,000 instances", "slots",
    ),
    (
        lambda c: c.samples["n1"].update({series("raftsched_executor_running", kind="node"): 12}),
        "slots", "warn", "12 of 12 are taken, and runs wait", "more slots",
    ),
    (
        lambda c: c.samples["n1"].update({series("raftsched_queue_oldest_wait_seconds", queue="mails"): 901}),
        "waits", "warn", "mails 15m1s", "explain",
    ),
    (
        lambda c: c.samples["n1"].update({"raftsched_due_overdue_seconds": 61}),
        "late", "warn", "has not been made for 1m1s", "transfer",
    ),
    (lambda c: c.everywhere(raft_uncommitted_seconds=31), "commits", "fail", "committed for 31s", "write_under_way"),
    (lambda c: c.lately("n1", fires=900, late_fires=10), "late", "warn", "10 of 900 runs", "leader"),
    (lambda c: c.lately("n1", fires=900, late_starts=10), "late", "warn", "10 of 500 runs", "explain"),
    (lambda c: c.everywhere(dead_letters=4), "dead-letters", "warn", "4", "dlq list"),
    (lambda c: c.lately("n1", "billing", failed=51), "failing", "warn", "billing 51 of 100", "-N billing"),
    (
        lambda c: c.samples["n2"].update({series("raftsched_webhook_failures_in_a_row", webhook="ops"): 3}),
        "webhooks", "warn", "ops 3 in a row", "webhooks deliveries ops",
    ),
    (lambda c: c.lately("n2", "ops", dropped=7), "webhooks", "warn", "ops 7", "narrow"),
    (
        lambda c: c.samples["n2"].update({series("raftsched_webhook_oldest_wait_seconds", webhook="ops"): 301}),
        "webhooks", "warn", "ops 5m1s", "max_running",
    ),
    (
        lambda c: c.samples["n2"].update({series("raftsched_webhook_failing_seconds", webhook="ops"): 901}),
        "webhooks", "warn", "nothing was delivered: ops for 15m1s", "webhooks deliveries ops",
    ),
    (
        lambda c: c.samples["n2"].update({series("raftsched_webhook_gone", webhook="ops"): 1}),
        "webhooks", "warn", "nothing is sent to ops", "edit ops --active",
    ),
    (
        lambda c: c.but(audit_short_ms={"job": 17 * 3_600_000}),
        "audit", "warn", "of kind job are kept for 17h, not for 90d", "--kind job",
    ),
]  # fmt: skip


@pytest.mark.parametrize("change, check, state, says, do", TROUBLES)
def test_what_is_wrong(change: Callable[[Seen], Any], check: str, state: str, says: str, do: str) -> None:
    cluster = Seen()
    change(cluster)
    found = [f for f in cluster.found() if f.check == check]
    assert found, "the check was left out"
    bad = [f for f in found if f.state == state]
    assert any(says in f.detail and do in f.do for f in bad), found


def test_each_check_that_can_be_bad_is_tried_and_says_where_more_is() -> None:
    tried = {check for _, check, *_ in TROUBLES}
    assert tried == CHECKS.keys() - LOCAL
    finding = Finding("leader", "fail", "none")
    assert (finding.why, finding.see) == (CHECKS["leader"].why, CHECKS["leader"].see)
    unknown = Finding("of-tomorrow", "fail", "it is", why="it matters")
    assert (unknown.why, unknown.see) == ("it matters", "")


@pytest.mark.parametrize(
    "change, check",
    [
        (lambda c: c.but(elected_ms_ago=[1, 2, 3]), "elections"),
        (lambda c: c.lately("n1", slow_writes=9), "flushes"),
        (lambda c: c.lately("n1", commits=4, slow_commits=4), "commits"),
        (lambda c: c.lately("n2", "wrong-key", refused=10), "raft-port"),
        (lambda c: c.lately("n1", "_system", ended=100, failed=100), "failing"),
        (lambda c: c.lately("n1", "some", ended=10, failed=10), "failing"),
        (
            lambda c: c.samples["n1"].update({
                series("raftsched_queue_oldest_wait_seconds", queue="mails"): 9_000,
                series("raftsched_queue_paused", queue="mails"): 1,
            }),
            "waits",
        ),
        (
            lambda c: [
                samples.update({
                    series("raftsched_webhook_failures_in_a_row", webhook="ops"): 9,
                    series("raftsched_webhook_active", webhook="ops"): 0,
                })
                for samples in c.samples.values()
            ],
            "webhooks",
        ),
        (lambda c: c.but(tokens=Tokens(required=True, expire_in_ms=[14 * DAY_MS])), "tokens"),
        (lambda c: [samples.pop("raftsched_backup_log_time_seconds") for samples in c.samples.values()], "backup"),
        (lambda c: c.everywhere(backup_log_time_seconds=1_000_000 - 25 * 3_600), "backup"),
        (lambda c: c.everywhere(backup_log_time_seconds=1_000_000 - 25 * 3_600, backup_log_index=0), "backup"),
        (
            lambda c: c.everywhere(backup_log_time_seconds=1_000, backup_log_index=0) or c.but(tokens=Tokens()),
            "backup",
        ),
        (lambda c: c.but(waiting=0) or c.everywhere(executor_running=99), "slots"),
        (lambda c: [i.update(zones="unknown") for i in list(c.info.values())[:1]], "time-zones"),
    ],
)  # fmt: skip
def test_what_is_not_wrong(change: Callable[[Seen], Any], check: str) -> None:
    cluster = Seen()
    change(cluster)
    assert {f.state for f in cluster.found() if f.check == check} == {"ok"}


def test_who_may_ask() -> None:
    def states(check: str, **fields: Any) -> set[str]:
        cluster = Seen()
        cluster.but(tokens=Tokens())
        for one in cluster.nodes:
            one.update(fields)
        return {f.detail for f in cluster.found() if f.check == check}

    assert states("access") == {"open, to this machine only"}
    assert states("access", http="127.0.0.1:7401") == {"open, to this machine only"}
    assert states("plain-http", http="https://10.0.0.1:1") == {"nowhere beyond a node's own machine"}
    assert states("plain-http", http="[::1]:7401") == {"nowhere beyond a node's own machine"}
    assert not states("tokens")


def test_a_cluster_of_which_nothing_else_is_known() -> None:
    """As where a node is asked that refuses its metrics, or none but it answers."""
    cluster = Seen()
    cluster.samples = {"n1": {}}
    cluster.info["n1"].clear()
    cluster.but(silent={"n2": "", "n3": ""})
    states = {f.check: f.state for f in cluster.found()}
    assert states["reachable"] == states["metrics"] == "warn"
    assert "disk" not in states
    assert {state for check, state in states.items() if check not in ("reachable", "metrics")} == {"ok"}


def test_samples() -> None:
    text = "\n".join([
        "# HELP raftsched_dead_letters x",
        "raftsched_dead_letters 2.0",
        "raftsched_raft_term 7.0",
        'raftsched_lately{name="a \\"b\\" \\\\ {c}",of="failed"} 3.0',
        "raftsched_disk_free_bytes NaN",
        "raftsched_store_bytes 1e+06",
    ])  # fmt: skip
    assert samples_of(text) == {
        "raftsched_dead_letters": 2.0,
        'raftsched_lately{name="a \\"b\\" \\\\ {c}",of="failed"}': 3.0,
        "raftsched_store_bytes": 1e6,
    }
    cluster = Seen()
    cluster.samples["n1"] |= samples_of(text) | samples_of(
        'raftsched_lately{name="a \\"b\\" \\\\ {c}",of="ended"} 20.0\n'
        'raftsched_lately{name="a \\"b\\" \\\\ {c}",of="failed"} 19.0'
    )
    (found,) = [f for f in cluster.found() if f.check == "failing"]
    assert 'a "b" \\ {c} 19 of 20' in found.detail


def test_some_checks_only() -> None:
    found = Seen().found()
    assert {f.check for f in of_checks(found, ["leader", "disk"])} == {"leader", "disk"}
    assert {f.check for f in of_checks(found, ["leader", "disk"], ["disk"])} == {"leader"}
    assert {f.check for f in of_checks(found, (), ["disk"])} == {f.check for f in found} - {"disk"}
    assert worst([]) == "ok"


def of(node: str, **fields: Any) -> Finding:
    one = Finding("disk", "warn", f"{node} has none", f"the log of {node} says why", (node,), why="w", see="s")
    return replace(one, **fields)


def test_one_cause_is_one_finding() -> None:
    (one,) = joined([of("n1"), of("n2"), of("n10")])
    assert (one.detail, one.nodes) == ("n1, n2, n10 has none", ("n1", "n2", "n10"))
    assert one.do == "the log of n1 says why; the same for n2, n10"


def test_figures_that_differ_are_all_told() -> None:
    (one,) = joined([of("n1", detail="n1 has 1 MB", do="mend it"), of("n2", detail="n2 has 2 MB", do="mend it")])
    assert (one.detail, one.do) == ("n1 has 1 MB; n2 has 2 MB", "mend it")


@pytest.mark.parametrize("other", [{"state": "fail"}, {"check": "log"}, {"do": "something else"}, {"nodes": ()}])
def test_other_causes_stay_apart(other: dict[str, Any]) -> None:
    findings = [of("n1"), of("n2", **other)]
    assert joined(findings) == findings


def test_what_is_not_well_comes_first() -> None:
    findings = [Finding("leader", "ok", "n1"), of("n1"), Finding("quorum", "fail", "none"), of("n2", check="log")]
    assert [f.check for f in worst_first(findings)] == ["quorum", "disk", "log", "leader"]


def test_who_is_apart_is_named_with_the_wrong_key() -> None:
    """At once, before many were refused."""
    seen = Seen()
    seen.nodes[2]["alive"] = False
    for name in ("n1", "n2"):
        seen.samples[name][series("raftsched_lately", of="refused", name="wrong-key")] = 1
    (found,) = (f for f in seen.found() if f.check == "raft-port")
    assert (found.state, found.nodes) == ("warn", ("n3", "n1", "n2"))
    assert "n1 refused 1 (wrong-key); n2 refused 1 (wrong-key); n3 is connected with nobody" in found.detail
    assert "compare the cluster key and the certificate of n3" in found.do

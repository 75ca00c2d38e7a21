"""A restore and what was due since the backup: run again or skipped, and never again what is to run at most once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from raftsched.api.http.durations import parse_time
from tests.e2e.steps import create, instances, run
from tests.support.local_cluster import LocalCluster
from tests.unit.cli.house import run as command

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("due", ["run", "skip"])
def test_what_ran_after_the_backup(due: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    all_times = {"trigger": {"every": "1s"}, "overlap": "allow", "misfire": {"policy": "all"}}
    kinds = {
        "often": all_times,
        "once": {**all_times, "delivery": "at_most_once"},
        "waited": {"trigger": {"manual": True}, "delivery": "at_most_once", "queue": "closed"},
    }

    def ran(name: str) -> Counter[str]:
        file = ledger / name
        return Counter(file.read_text().split() if file.exists() else ())

    with LocalCluster(1, directory=tmp_path / "nodes") as cluster:
        node = cluster.nodes[0]
        assert node.request("PUT", "/v1/queues/closed", {"paused": True}).status in (200, 201)
        jobs = {
            name: create(node, {**kind, "name": name,
                                "handler": {"shell": f"echo $RAFTSCHED_SCHEDULED_AT >>{ledger / name}"}})
            for name, kind in kinds.items()
        }  # fmt: skip
        run(node, jobs["waited"]["id"])
        cluster.wait("runs before the backup", lambda: len(ran("often")) > 1 and len(ran("once")) > 1)
        file = tmp_path / "state.backup"
        assert command("--server", node.url, "cluster", "backup", str(file)).exit_code == 0
        said = json.loads(command("cluster", "verify", "--unsigned", str(file), "-o", "json").output)
        live_until_ms = parse_time(said["log_time"]) + 1_000  # what was live in the backup is lost, and runs again
        raft = node.get("/v1/cluster")["nodes"][0]["raft"]
        assert node.request("PUT", "/v1/queues/closed", {"paused": False}).status == 200
        since = {name: len(ran(name)) for name in ("often", "once")}
        cluster.wait("what waited to run", lambda: ran("waited"))
        cluster.wait("runs after it", lambda: all(len(ran(name)) > count + 2 for name, count in since.items()))
        node.stop()
        old = {name: ran(name) for name in kinds}
        shutil.move(node.data, tmp_path / "old")
        new = ["--data", str(node.data), "--id", "n1", "--raft", raft]
        node.data.mkdir(mode=0o700)
        shutil.copy(tmp_path / "old" / "cluster.key", node.data)
        done = command("cluster", "restore", str(file), *new, "--due", due)
        assert done.exit_code == 0, done.output
        assert "needs that key" not in done.output, "it is there"
        assert "skipped, and on record with the reason restored: " in done.output
        assert "ended, for they may have run and are to run at most once: 1 run\n" in done.output
        node.start()
        cluster.wait("the restored node to lead", node.ready)
        latest = max(set(old["often"] + old["once"]))
        cluster.wait("both to go on", lambda: all(max(ran(name)) > latest for name in ("often", "once")))
        for name in ("once", "waited"):
            assert max(ran(name).values()) == 1, f"{name} ran twice"
        (waited,) = instances(node, jobs["waited"]["id"])
        assert (waited["state"], waited["reason"]) == ("SKIPPED", "restored")
        twice = [at for at, count in ran("often").items() if count > 1 and parse_time(at) > live_until_ms]
        assert bool(twice) == (due == "run"), twice
        records = [row for row in instances(node, jobs["often"]["id"]) if row["reason"] == "restored"]
        assert len(records) == (due == "skip")
        if records:
            assert records[0]["skipped"] >= 3, records[0]

"""A backup under load, and a new cluster from it: nothing acknowledged is missing, nothing that ended runs again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.load import Writers
from tests.e2e.steps import create, instances, run, wait_final, wait_instances
from tests.support.cluster import Cluster, NodeProcess
from tests.support.patience import patient

pytestmark = pytest.mark.e2e


def command(*words: str, via: NodeProcess | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    server = [] if via is None else ["--server", f"http://127.0.0.1:{via.http_port}"]
    done = subprocess.run(
        [sys.executable, "-m", "raftsched", *server, "cluster", *words],
        capture_output=True, text=True, timeout=patient(120), check=False,
    )  # fmt: skip
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done


def listed(node: NodeProcess) -> dict[str, dict[str, Any]]:
    found, cursor = {}, ""
    while True:
        page = node.get(f"/v1/jobs?limit=1000{cursor}")
        found.update({job["id"]: job for job in page["items"]})
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def lines(file: Path) -> list[str]:
    return file.read_text().split("\n")[:-1] if file.exists() else []


def test_a_new_cluster_from_a_backup_that_was_made_under_load(tmp_path: Path) -> None:
    ended, long, file = tmp_path / "ended", tmp_path / "long", tmp_path / "state.backup"
    with Cluster(3, directory=tmp_path / "old") as old:
        node = old.leader()
        once = create(node, {"trigger": {"in": "1s"}, "handler": {"shell": f"echo x >>{ended}"}})
        by_hand = create(node, {"trigger": {"manual": True}, "handler": {"shell": f"echo x >>{ended}"}})
        ticking = create(node, {"trigger": {"every": "1s"}, "handler": {"exec": ["true"]}})
        script = f"echo $RAFTSCHED_FENCING_TOKEN >>{long}; [ $RAFTSCHED_ATTEMPT -gt 1 ] || sleep 600"
        sleeping = create(node, {"trigger": {"manual": True}, "timeout": "1h", "handler": {"shell": script}})
        assert wait_final(old, node, run(node, by_hand["id"]))["state"] == "SUCCEEDED"
        wait_instances(old, node, once["id"], 1)
        under_way = run(node, sleeping["id"])
        old.wait("the long run to begin", lambda: lines(long))
        node.request("PATCH", "/v1/cluster/settings", {"backfill_max": 77})
        with Writers(old, 2) as writers:
            writers.go_on("before the backup")
            acknowledged = list(writers.acknowledged)
            command("backup", str(file), via=old.followers_of(node)[0])
            writers.go_on("after it")
        old_token = int(lines(long)[0])
    said = json.loads(command("verify", "--unsigned", str(file), "-o", "json").stdout)
    assert said["members"] == ["n1", "n2", "n3"]
    assert sum(said["jobs"].values()) >= len(acknowledged) + 4

    with_old_disk = tmp_path / "old" / "n2"
    new = Cluster(3, directory=tmp_path / "new")
    for node, before in zip(new.nodes, old.nodes, strict=True):  # where the old nodes look for one another
        node.http_port, node.raft_port = before.http_port, before.raft_port
        node.reached_port = before.reached_port
    first, second, third = new.nodes
    raft = f"127.0.0.1:{first.raft_port}"
    command("restore", "--unsigned", str(file), "--data", str(first.data), "--id", "n1", "--raft", raft)
    again = command("restore", "--unsigned", str(file), "--data", str(first.data), "--id", "n1", "--raft", raft, code=1)
    assert "is not empty" in again.stderr
    try:
        first.start()
        new.wait("n1 to lead alone", first.ready)
        shutil.copytree(with_old_disk, second.data)
        second.start()  # with what it had in the old cluster: it must stay outside
        new.wait("the old disk to be refused", lambda: "belongs to another cluster" in second.log.read_text())
        second.terminate()
        shutil.rmtree(second.data)
        for other in (second, third):
            other.start()
            command("members", "add", other.id, "--wait", via=first)
        new.wait_ready()
        for one in new.nodes:
            jobs = listed(one)
            missing = [job for job in acknowledged if job not in jobs]
            assert not missing, f"{one.id} lacks {len(missing)} of {len(acknowledged)}"
        assert first.get("/v1/cluster/settings")["backfill_max"] == 77
        assert first.get("/v1/cluster")["cluster_id"] != said["cluster_id"]

        row = wait_final(new, first, under_way)
        assert (row["state"], [a["outcome"] for a in row["attempts"]]) == ("SUCCEEDED", ["lost", "succeeded"])
        assert [int(token) for token in lines(long)] == [old_token, row["token"]]
        assert row["token"] > old_token + 1_000_000
        had = {row["id"] for row in instances(first, ticking["id"])}
        new.wait("the schedule to go on", lambda: len({r["id"] for r in instances(first, ticking["id"])} - had) > 1)
        assert wait_final(new, third, run(third, acknowledged[0]))["state"] == "SUCCEEDED"
        assert lines(ended) == ["x", "x"], "what had ended ran again"
    finally:
        new.stop()


def test_a_habit_of_backups_goes_on_through_kills_and_leads_back_to_any_point(tmp_path: Path) -> None:
    vault, new = str(tmp_path / "vault"), tmp_path / "new"

    def backup(*words: str, via: NodeProcess | None = None) -> subprocess.CompletedProcess[str]:
        server = [] if via is None else ["--server", f"http://127.0.0.1:{via.http_port}"]
        return subprocess.run(
            [sys.executable, "-m", "raftsched", *server, "backup", words[0], vault, *words[1:]],
            capture_output=True, text=True, timeout=patient(120), check=False,
        )  # fmt: skip

    def last() -> int:
        found = json.loads(backup("list", "-o", "json").stdout)["items"]
        assert len(found) == 1, "no gap"
        return int(found[0]["last"])

    with Cluster(1, directory=tmp_path / "old") as old:
        node = old.leader()
        kept = create(node, {"name": "kept", "trigger": {"manual": True}, "handler": {"exec": ["true"]}})
        assert backup("run", via=node).returncode == 0
        words = ["--server", f"http://127.0.0.1:{node.http_port}", "backup", "run", vault, "--every", "10s"]
        process = subprocess.Popen([sys.executable, "-m", "raftsched", *words], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert "backed up: 1 segment" in process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        create(node, {"name": "late", "trigger": {"manual": True}, "handler": {"exec": ["true"]}})
        assert backup("run", via=node).returncode == 0
        before = last()
        node.request("DELETE", f"/v1/jobs/{kept['id']}")
        assert backup("run", via=node).returncode == 0
        assert last() > before
        raft = node.raft_port

    shown = json.loads(backup("show", "-o", "json").stdout)["items"]
    assert [job["name"] for job in shown] == ["late"], "the newest state is that after the deletion"
    said = json.loads(backup("verify", "--unsigned", "-o", "json").stdout)
    said["jobs"].pop("DELETED", None)  # the row of the other one, where it was not cleared away yet
    assert said["jobs"] == {"SCHEDULED": 1}
    made = backup(
        "restore",
        "--unsigned",
        "--at",
        str(before),
        "--data",
        str(new / "n1"),
        "--id",
        "n1",
        "--raft",
        f"127.0.0.1:{raft}",
    )
    assert made.returncode == 0, made.stderr
    again = Cluster(1, directory=new)
    (first,) = again.nodes
    first.raft_port = first.reached_port = raft
    try:
        first.start()
        again.wait("n1 to lead alone", first.ready)
        assert {job["name"] for job in listed(first).values()} == {"kept", "late"}
        assert wait_final(again, first, run(first, kept["id"]))["state"] == "SUCCEEDED"
    finally:
        again.stop()

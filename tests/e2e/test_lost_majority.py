"""The disks of two of three nodes are lost, or go back: each command says what is to be done, and what it says works.

The commands are taken from what `raftsched cluster status` prints, and run as they are."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from raftsched.lost_majority import ELSE, SEE
from tests.e2e.steps import create
from tests.support.local_cluster import LocalCluster, LocalNode
from tests.unit.cli.house import run

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs" / "runbook.md"


def make(cluster: LocalCluster, *numbers: int) -> list[str]:
    """Makes jobs, which are acknowledged, and waits until each node has them."""
    made = [create(cluster.leader(), {"name": f"k{k}", "trigger": {"manual": True}, "handler": {"exec": ["true"]}})
            for k in numbers]  # fmt: skip
    cluster.wait("each node to have them", lambda: all(has_all(node, made) for node in cluster.nodes))
    return [job["id"] for job in made]


def has_all(node: LocalNode, jobs: list[dict[str, Any]]) -> bool:
    return all(node.find(f"/v1/jobs/{job['id']}") for job in jobs)


def stop_all(cluster: LocalCluster) -> None:
    for node in cluster.nodes:
        node.stop()


def go_back(copies: Path, data: Path) -> None:
    shutil.rmtree(data)
    shutil.copytree(copies / data.name, data)


def lose(copies: Path, data: Path) -> None:
    shutil.rmtree(data)


@pytest.mark.parametrize("fault", [go_back, lose])
def test_what_is_said_brings_all_acknowledged_jobs_back(
    fault: Callable[[Path, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with LocalCluster(3, directory=tmp_path / "nodes") as cluster:
        jobs = make(cluster, *range(5))
        for node in cluster.nodes[:2]:  # one after the other: of one moment they would be a majority, and know nothing
            node.stop()
            shutil.copytree(node.data, tmp_path / "copies" / node.id)
            node.start()
            cluster.wait_ready()
        jobs += make(cluster, *range(5, 10))
        stop_all(cluster)
        for name in ("n1", "n2"):
            fault(tmp_path / "copies", cluster.directory / name)
        for node in cluster.nodes:
            node.start()
        first, _, survivor = cluster.nodes

        def command(*words: str) -> Result:
            return run("--server", cluster.servers, *words)

        def told() -> str:
            said = command("cluster", "status").output
            return said if "is left, so that none can lead" in said else ""

        status = cluster.wait("the nodes to see that a majority is lost", told)
        assert "n3 has most, up to entry " in status
        assert SEE in status
        rows = {line.split()[0]: line.split()[5] for line in status.splitlines() if line.split()[1:2] == ["follower"]}
        applied = {node.id: node.get("/v1/cluster") for node in cluster.nodes}
        assert rows["n3"] == str(next(n for n in applied["n3"]["nodes"] if n["id"] == "n3")["applied_index"])
        alone = run("--server", first.url, "cluster", "status").output
        if fault is go_back:  # an empty disk knows of no other node's address
            assert "n3 has most" in alone, "whichever node is asked"
        waits_for = survivor.request("GET", "/readyz").json["waits_for"]
        assert waits_for.startswith("No leader, and none can come: the disks of n1, n2 are lost, or went back")
        assert waits_for.endswith(f"Empty no data directory: {SEE}.")
        outside = first.request("GET", "/readyz").json["waits_for"]
        assert "members replace n1'" in outside
        assert "ith a majority of the members healthy" in outside
        assert ELSE in outside

        for words in (["replace", "n1", "--wait"], ["remove", "n1"]) if fault is go_back else (["replace", "n1"],):
            refused = command("cluster", "members", *words)
            assert (refused.exit_code, "n3 has most" in refused.stderr) == (6, True), refused.output
        refused = command("cluster", "backup", "raftsched.backup")
        assert (refused.exit_code, "cluster backup --local" in refused.stderr) == (6, True), refused.output
        findings = {f["check"]: f for f in json.loads(command("doctor", "-o", "json").output)["items"]}
        for check in ("leader", "quorum"):
            assert "n3 has most" in findings[check]["do"], findings[check]
        found = {f["check"]: f for f in survivor.get("/v1/cluster/doctor")["items"]}
        for check in ("leader", "quorum", "members"):
            assert (found[check]["state"], "n3 has most" in found[check]["do"]) == ("fail", True), found[check]

        _, _, steps = status.partition("n3 has most")
        commands = [shlex.split(line)[1:] for line in steps.splitlines() if line.startswith("  raftsched ")]
        assert [words[-2] for words in commands[-2:]] == ["n1", "n2"]
        backup, verify, restore, *adds = commands
        assert run(*backup).exit_code == 0
        shutil.copy(cluster.key_file, "cluster.key")
        assert sum(json.loads(run(*verify, "-o", "json").output)["jobs"].values()) == 10
        stop_all(cluster)
        for node in cluster.nodes:
            shutil.move(node.data, tmp_path / f"moved-{node.id}")
        places = {"DIR": str(survivor.data), "OLD": str(tmp_path / "moved-n3")}
        done = run(*(places.get(word, word) for word in restore))
        assert done.exit_code == 0, done.output
        assert "start n3 with --cluster-key-file, or copy it to" in done.output
        survivor.start()
        cluster.wait("the restored node to lead", survivor.ready)
        for node, words in zip(cluster.nodes, adds, strict=False):
            node.start()
            added = run("--server", survivor.url, *words)
            assert added.exit_code == 0, added.output
        cluster.wait_ready()
        for node in cluster.nodes:
            assert [job for job in jobs if node.find(f"/v1/jobs/{job}") is None] == [], f"{node.id} has all ten"


def test_the_runbook_has_the_section_that_is_named() -> None:
    page, _, section = SEE.partition(", ")
    assert page == "docs/runbook.md"
    assert f"## {section.strip(chr(34))}\n" in PAGE.read_text()

"""raftsched.testing: clusters for other people's tests, and the pytest plugin that brings them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import raftsched
from raftsched.testing import cluster, running_cluster
from tests.integration.embedded.house import children, open_files
from tests.support.patience import patient

ROOT = Path(raftsched.__file__).parent.parent
# As users write them: with an event loop of their own, without one, and with a cluster that tests share.
USERS_TESTS = """
import asyncio
import urllib.request

import pytest
import raftsched.testing


def test_a_job_runs(raftsched_cluster):
    job = raftsched_cluster.client.jobs.create(trigger={"manual": True}, handler={"shell": "echo hello"})
    run = raftsched_cluster.client.jobs.run(job)
    assert raftsched_cluster.client.instances.wait(run, timeout=60).state == "SUCCEEDED"


def test_a_leader_goes(raftsched_cluster):
    leader = raftsched_cluster.leader()
    raftsched_cluster.stop(leader)
    raftsched_cluster.client.jobs.create(name="kept", trigger={"manual": True}, handler={"shell": "true"})
    raftsched_cluster.start(leader)
    for address in raftsched_cluster.servers.split(","):
        urllib.request.urlopen(f"{address}/v1/namespaces/default/jobs/kept?consistency=leader").close()


@pytest.fixture(scope="module")
def one_node():
    with raftsched.testing.running_cluster(1, labels={"disk": "ssd"}) as cluster:
        yield cluster


def test_of_ones_own(one_node):
    assert len(one_node.nodes) == 1
    assert one_node.client.cluster.status().leader == "n1"


def test_in_ones_own_event_loop():
    async def main():
        async with raftsched.testing.cluster(1) as nodes:
            await nodes[0].jobs.create(trigger={"manual": True}, handler={"shell": "true"})

    asyncio.run(main())
"""


def test_the_plugin_serves_tests_of_users(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(USERS_TESTS)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "RAFTSCHED"))}
    env |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "raftsched.testing.plugin", str(tmp_path)]
    done = subprocess.run(
        command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=patient(200), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_plugin_is_announced_where_pytest_looks() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"raftsched": "raftsched.testing.plugin"}


def test_the_plugin_costs_a_run_without_clusters_next_to_nothing() -> None:
    """pytest loads it in every run where raftsched is installed."""
    script = "import sys, pytest, raftsched.testing.plugin; print(*sorted(sys.modules))"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    out = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout
    loaded = out.split()
    assert not {"aiohttp", "lmdb", "msgspec", "pysyncobj", "asyncio"} & set(loaded)
    ours = [name for name in loaded if name.startswith("raftsched")]
    assert ours == ["raftsched", "raftsched.testing", "raftsched.testing.plugin", "raftsched.version"]


def test_nothing_is_left_of_a_cluster_in_a_thread(tmp_path: Path) -> None:
    before = children(), open_files(first=True)
    with running_cluster(3, directory=tmp_path) as running:
        assert running.client.cluster.status().formed
        assert len(children()) > len(before[0])
    assert (children(), open_files()) == before
    with running_cluster(3, directory=tmp_path / "other"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cluster.key", "n1", "n2", "n3", "other"]


def test_what_fails_in_the_block_ends_the_cluster_and_is_not_hidden() -> None:
    before = children()

    def fail() -> None:
        with running_cluster(1):
            raise LookupError("of the test")

    with pytest.raises(LookupError, match="of the test"):
        fail()
    assert children() == before


def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "n2").write_text("a file where a directory belongs")

    async def main() -> None:
        before = children()
        with pytest.raises(raftsched.errors.StartupError, match="n2"):
            await cluster(3, directory=tmp_path).__aenter__()
        assert children() == before

    asyncio.run(main())


def test_nodes_that_run_nothing() -> None:
    with running_cluster(1, no_run=True) as running:
        (node,) = running.client.nodes.list()
        assert node.slots == 0


@pytest.mark.parametrize("size", [0, 8, -1])
def test_a_size_that_is_no_clusters_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"1 to 7 nodes here, not {size}"):
        cluster(size)

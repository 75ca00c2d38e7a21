"""Conditions on real processes: a run waits for a file, a server, another job, and starts where its file is.

The nodes share this machine's files; what only one of them has is the directory of its own main thread in /proc/self.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import Cluster, NodeProcess

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cluster(processes: Cluster) -> Cluster:
    return processes


@pytest.fixture(scope="module", autouse=True)
def _look_often(cluster: Cluster) -> None:
    reply = cluster.leader().request("PATCH", "/v1/cluster/settings", {"condition_check": "1s"})
    assert reply.status == 200, reply.body


@pytest.fixture
def gate() -> Iterator[tuple[str, list[int]]]:
    """The address of a server, and the status it answers with."""
    status = [503]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/ready", status
        server.shutdown()
        thread.join()


def only_on(node: NodeProcess) -> dict[str, str]:
    """A condition that only this node can see to be met."""
    assert node.process is not None
    return {"path": f"/proc/self/task/{node.process.pid}/sta*"}


def job(*conditions: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "conditions": list(conditions), **fields}


def wait_for_words(cluster: Cluster, node: NodeProcess, instance: str, words: str) -> None:
    """Until it waits and says so."""

    def said() -> bool:
        row = node.get(f"/v1/instances/{instance}")
        return row["state"] == "WAITING" and row["reason"] == "conditions" and words in (row["error"] or "")

    cluster.wait(f"{instance} to wait: {words}", said)


def test_one_after_the_other(cluster: Cluster, tmp_path: Path, gate: tuple[str, list[int]]) -> None:
    address, status = gate
    leader = cluster.leader()
    arrived = tmp_path / "in" / "a.csv"
    conditions = [
        {"path": f"{tmp_path}/in/*.csv"},
        {"http": address},
        {"job_succeeded": "default/import", "within": "1h"},
    ]
    waiting = run(leader, create(leader, job(*conditions))["id"])
    wait_for_words(cluster, leader, waiting, "The job default/import has not succeeded within 1h.")
    imports = create(leader, {"name": "import", "trigger": {"manual": True}, "handler": {"exec": ["true"]}})
    wait_final(cluster, leader, run(leader, imports["id"]))
    wait_for_words(cluster, leader, waiting, f"No file matches {tmp_path}/in/*.csv.")
    arrived.parent.mkdir()
    arrived.touch()
    wait_for_words(cluster, leader, waiting, f"GET {address} answered 503; 200 to 299 is wanted.")
    told = leader.get(f"/v1/instances/{waiting}/explain")
    assert "conditions" in str(told)
    status[0] = 204
    row = wait_final(cluster, leader, waiting)
    assert (row["state"], row["error"], row["attempt"]) == ("SUCCEEDED", None, 1)


def test_it_runs_where_its_file_is(cluster: Cluster) -> None:
    leader = cluster.leader()
    for node in cluster.nodes:
        row = wait_final(cluster, leader, run(leader, create(leader, job(only_on(node)))["id"]))
        assert (row["state"], row["node"]) == ("SUCCEEDED", node.id)


def test_when_that_node_dies_the_others_are_asked_and_at_last_it_is_given_up(cluster: Cluster) -> None:
    leader = cluster.leader()
    node = cluster.followers()[0]
    made = create(leader, job(only_on(node), handler={"exec": ["sleep", "600"]}, conditions_timeout="4s"))
    instance = run(leader, made["id"])
    cluster.wait("it to run", lambda: leader.get(f"/v1/instances/{instance}")["state"] == "RUNNING")
    node.kill()
    row = wait_final(cluster, leader, instance)
    assert (row["state"], row["reason"], row["dead_letter"]) == ("TIMED_OUT", "conditions_timeout", True)
    assert row["error"].startswith("Its conditions were not met within 4s: No file matches /proc/self/task/")
    assert [a["outcome"] for a in row["attempts"]] == ["lost"]
    node.start()
    cluster.wait("the node to be back", lambda: node.find("/v1/cluster") is not None)

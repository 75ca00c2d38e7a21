"""A worker of a few lines over HTTP, against three nodes that run nothing themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import Cluster, NodeProcess

pytestmark = pytest.mark.e2e

JOB = {"trigger": {"manual": True}, "handler": {"call": "note"}, "params": {"n": 1}, "overlap": "allow"}
PATIENCE_S = 30.0
TTL_S = 4.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, flags=["--no-run"]) as running:
        assert running.leader().request("PATCH", "/v1/cluster/settings", {"worker_ttl": f"{TTL_S:g}s"}).status == 200
        yield running


@pytest.fixture(autouse=True)
def all_nodes(cluster: Cluster) -> Iterator[None]:
    yield
    for node in cluster.nodes:
        if not node.alive:
            node.start()
    cluster.wait_ready()


class FakeWorker:
    """Asks one node after the other until one answers. It keeps no lease: it runs nothing."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.after = 0
        self.opening = 0
        self.answered = ""  # the node that answered last
        self.session = self.open()["session"]

    def open(self) -> Any:
        self.opening += 1
        body = {"name": self.name, "slots": 8, "handlers": ["call:note"], "incarnation": "e2e", "opening": self.opening}
        return self.ask("/v1/worker-sessions", body)

    def ask(self, path: str, body: Any, nodes: list[NodeProcess] | None = None) -> Any:
        """Returns the answer; None: the session is over."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            for node in nodes or self.cluster.alive():
                try:
                    reply = node.request("POST", path, body)
                except OSError:
                    continue
                if reply.status == 410:
                    return None
                if reply.status < 300:
                    self.answered = node.id
                    return reply.json if reply.body else {}
                assert reply.status in (503, 504), (reply.status, reply.body)
            time.sleep(0.05)
        raise AssertionError(f"no node answers {path}")

    def poll(self, nodes: list[NodeProcess] | None = None, **said: Any) -> Any:
        body = {"after": self.after, "wait_ms": 500, **said}
        answer = self.ask(f"/v1/worker-sessions/{self.session}/poll", body, nodes)
        if answer is not None and answer["runs"]:
            self.after = answer["runs"][-1]["token"]
        return answer

    def take(self, nodes: list[NodeProcess] | None = None) -> Any:
        """Returns the next run."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            answer = self.poll(nodes)
            assert answer is not None, "the session is over"
            if answer["runs"]:
                return answer["runs"][0]
        raise AssertionError("nothing is given")

    def report(self, token: int, outcome: str | None = None, **more: Any) -> Any:
        return self.poll(reports=[{"token": token, "outcome": outcome, **more}], wait_ms=0)

    def close(self) -> None:
        self.ask(f"/v1/worker-sessions/{self.session}/close", {"ran": []})


@contextmanager
def polling(worker: FakeWorker) -> Iterator[None]:
    """Keeps the session while something else takes its time, such as the start of a node."""
    ends = threading.Event()
    answers: list[Any] = []

    def poll() -> None:
        while not ends.is_set():
            answers.append(worker.poll())

    polls = threading.Thread(target=poll)
    polls.start()
    try:
        yield
    finally:
        ends.set()
        polls.join()
    assert None not in answers, "the session is over"


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[FakeWorker]:
    one = FakeWorker(cluster, "fake")
    yield one
    one.close()


def started(cluster: Cluster) -> str:
    node = cluster.alive()[0]
    return run(node, create(node, JOB)["id"])


def test_a_run_from_its_assignment_to_its_report(cluster: Cluster, worker: FakeWorker) -> None:
    instance = started(cluster)
    given = worker.take()
    assert (given["instance"], given["handler"], given["params"]) == (instance, {"call": "note"}, {"n": 1})
    assert given["env"]["RAFTSCHED_WORKER"] == "fake"
    assert worker.report(given["token"])["refused"] == []
    assert cluster.alive()[0].get(f"/v1/instances/{instance}")["state"] == "RUNNING"
    report = {"outcome": "succeeded", "exit_code": 0, "output": "done\n", "result": [1]}
    assert worker.report(given["token"], **report)["refused"] == []
    row = wait_final(cluster, cluster.alive()[0], instance)
    assert (row["state"], row["worker"], row["result"]) == ("SUCCEEDED", "fake", [1])
    for node in cluster.nodes:
        cluster.wait("its output", lambda node=node: node.find(f"/v1/instances/{instance}") is not None)
        assert node.request("GET", f"/v1/instances/{instance}/output").body == b"done\n"
    assert [one["code"] for one in worker.report(given["token"], "failed")["refused"]] == ["stale"]


def test_the_same_run_is_given_by_each_node_until_it_is_taken(cluster: Cluster, worker: FakeWorker) -> None:
    started(cluster)
    token = worker.take()["token"]
    for node in cluster.nodes:
        worker.after = token - 1
        assert worker.take([node])["token"] == token
    worker.report(token, "succeeded")


def test_a_kill_wakes_a_poll(cluster: Cluster, worker: FakeWorker) -> None:
    instance = started(cluster)
    token = worker.take()["token"]
    worker.report(token)
    asked: list[Any] = []
    waits = threading.Thread(target=lambda: asked.append(worker.poll(wait_ms=2_500)))
    waits.start()
    assert cluster.alive()[-1].request("POST", f"/v1/instances/{instance}/kill", {}).status < 300
    waits.join()
    answer = asked[0] if asked[0]["kill"] else worker.poll()
    assert answer["kill"] == [token]
    worker.report(token, "killed", error="on request")
    assert wait_final(cluster, cluster.alive()[0], instance)["state"] == "KILLED"


def test_when_its_node_is_killed_the_next_one_goes_on_with_the_session(cluster: Cluster, worker: FakeWorker) -> None:
    instance = started(cluster)
    token = worker.take()["token"]
    victim = cluster.node(worker.answered)
    victim.kill()
    assert worker.report(token, "succeeded")["refused"] == []
    assert wait_final(cluster, cluster.alive()[0], instance)["state"] == "SUCCEEDED"
    assert worker.answered != victim.id


def test_a_session_outlives_two_leaders(cluster: Cluster, worker: FakeWorker) -> None:
    number = int(worker.session.partition("-")[0])
    for _ in range(2):
        leader = cluster.leader()
        instance = started(cluster)
        token = worker.take()["token"]
        leader.kill()
        until = time.monotonic() + 2 * TTL_S  # a lease that nobody renewed would be over, with its margin
        while time.monotonic() < until:
            assert worker.poll(cluster.alive()) is not None, "the session is over"
        assert worker.report(token, "succeeded")["refused"] == []
        assert wait_final(cluster, cluster.alive()[0], instance)["attempt"] == 1
        leader.start()
        with polling(worker):
            cluster.wait_ready()
            (shown,) = cluster.leader().get("/v1/workers")["items"]
        assert (shown["name"], shown["session"]) == ("fake", number)


def test_without_polls_the_session_ends_and_the_run_is_given_to_another(cluster: Cluster, worker: FakeWorker) -> None:
    instance = started(cluster)
    token = worker.take()["token"]
    other = FakeWorker(cluster, "other")
    given = other.take()  # polls until it gets it
    assert (given["instance"], given["attempt"]) == (instance, 2)
    assert given["token"] > token
    assert worker.report(token, "succeeded") is None, "a late report is refused with its session"
    assert other.report(given["token"], "succeeded")["refused"] == []
    other.close()


def test_a_node_that_stops_does_not_wait_for_polls(cluster: Cluster, worker: FakeWorker) -> None:
    node = cluster.followers()[0]
    answers: list[Any] = []

    def wait() -> None:
        answers.append(node.request("POST", f"/v1/worker-sessions/{worker.session}/poll", {"wait_ms": 2_500}).status)

    waits = threading.Thread(target=wait)
    waits.start()
    cluster.wait("the poll to be heard of", lambda: cluster.leader().get("/v1/workers")["items"])
    assert node.terminate() == 0
    waits.join()
    assert answers[0] in (200, 503)
    assert worker.poll() is not None

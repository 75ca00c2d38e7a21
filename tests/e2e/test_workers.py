"""Remote workers on three nodes that run nothing themselves: what each kind does, `raftsched worker` and those of
examples/; what only the first can do; what nodes answer to a worker; and what becomes of workers when nodes end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.api_nodes import AnyCluster, ApiNode, Reply
from tests.support.cluster import Cluster
from tests.support.fake_worker import FakeWorker, polling
from tests.support.local_cluster import LocalCluster
from tests.support.patience import PATIENCE_S, patient, wait_until
from tests.support.remote_workers import Kind, Worker, Workers, Written
from tests.support.worker_sessions import sent

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TTL_S = 4.0
EVERY_MS = 50
LONG = 10_000  # lines, of a run that a test ends
TAKEN = "Another process works under the name"
FAILS = "attempt 1 fails, as it was asked to"


def with_ttl(cluster: AnyCluster) -> None:
    reply = cluster.leader().request("PATCH", "/v1/cluster/settings", {"worker_ttl": f"{TTL_S:g}s"})
    assert reply.status == 200, reply.body


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, no_run=True) as running:
        with_ttl(running)
        yield running


@pytest.fixture(scope="module")
def processes() -> Iterator[Cluster]:
    with Cluster(3, flags=["--no-run"]) as running:
        with_ttl(running)
        yield running


@pytest.fixture
def mortal(processes: Cluster) -> Iterator[Cluster]:
    """Nodes that a test may kill: they are there again when it is over."""
    yield processes
    for node in processes.nodes:
        if not node.alive:
            node.start()
    processes.wait_ready()


@pytest.fixture(scope="module")
def raftsched(kinds: dict[str, Kind]) -> Kind:
    return kinds["raftsched"]


@pytest.fixture
def written(cluster: LocalCluster, tmp_path: Path) -> Written:
    return Written(cluster, tmp_path / "lines")


def begin(node: ApiNode, handler: dict[str, Any], **fields: Any) -> str:
    """A run of a job; its instance."""
    return run(node, create(node, {"trigger": {"manual": True}, "handler": handler, **fields})["id"])


def count(node: ApiNode, kind: Kind, to: Any, *, every_ms: int = 0, file: Path | None = None, **fields: Any) -> str:
    """A run that counts, at a worker of the kind: it prints its lines or writes them into a file."""
    params = {"to": to, "every_ms": every_ms, **({} if file is None else {"file": str(file)})}
    return begin(node, kind.count, params=params, queue=kind.queue, **fields)


def long_run(node: ApiNode, kind: Kind, written: Written) -> str:
    """A run that writes, and goes on until it is ended."""
    instance = count(node, kind, LONG, every_ms=EVERY_MS, file=written.file)
    written.begun()
    return instance


def ended(cluster: AnyCluster, node: ApiNode, instance: str) -> Any:
    """The run, killed."""
    assert node.request("POST", f"/v1/instances/{instance}/kill", {}).status == 202
    row = wait_final(cluster, node, instance)
    assert row["state"] == "KILLED"
    return row


def ended_at_the_second(cluster: AnyCluster, node: ApiNode, instance: str, written: Written) -> Any:
    """The run, killed when it has begun a second time: never were there two."""
    written.begun_again()
    row = ended(cluster, node, instance)
    assert len(written.tokens()) == 2, "two lived at once"
    return row


def numbers(node: ApiNode, instance: str) -> list[int]:
    """What a run that counts has printed. The node that has it may take a while to be reached: it says so by 503."""

    said = b""

    def printed() -> Reply | None:
        nonlocal said
        reply = node.request("GET", f"/v1/instances/{instance}/output")
        said = reply.body
        assert reply.status in (200, 503), reply.body
        return reply if reply.status == 200 else None

    reply = wait_until(printed, lambda: f"the output of {instance}: {said!r}", passing=(OSError,))
    return [int(line.split()[1]) for line in reply.body.decode().splitlines()]


def follow(node: ApiNode, instance: str, read: bytearray) -> None:
    """Reads what a run prints until it ends."""
    with urlopen(f"{node.url}/v1/instances/{instance}/output?follow=true", timeout=PATIENCE_S) as answer:
        while piece := answer.read1(1 << 16):
            read += piece


# ---------------------------------------------------------------- what each kind does


@pytest.fixture(scope="class")
def worker(cluster: LocalCluster, kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One that serves several tests. Told to stop when it has nothing to do, it ends well."""
    workers = Workers(tmp_path_factory.mktemp("one"))
    worker = workers.start(kind, cluster)
    yield worker
    code = worker.stop()
    workers.close()
    assert code == 0


class TestOneWorker:
    def test_it_runs_jobs(self, cluster: LocalCluster, kind: Kind, worker: Worker) -> None:
        node = cluster.leader()
        row = wait_final(cluster, node, count(node, kind, 3))
        assert (row["state"], row["worker"], row["node"]) == ("SUCCEEDED", worker.name, None), worker.log.read_text()
        assert numbers(node, row["id"]) == [1, 2, 3]
        several = [count(node, kind, 2, every_ms=100) for _ in range(5)]
        assert {wait_final(cluster, node, one)["state"] for one in several} == {"SUCCEEDED"}

    def test_its_results_and_failures(self, cluster: LocalCluster, kind: Kind, worker: Worker) -> None:
        node = cluster.leader()
        if kind.name in ("raftsched", "bash"):  # a count of nothing at all is an error of the command
            row = wait_final(cluster, node, count(node, kind, "nothing"))
            assert (row["state"], row["exit_code"]) == ("FAILED", 1), worker.log.read_text()
        else:
            row = wait_final(cluster, node, begin(node, {"call": "greet"}, params={"name": "Ana"}, queue=kind.queue))
            assert (row["state"], row["result"]) == ("SUCCEEDED", {"greeting": "Hello Ana"}), worker.log.read_text()
            row = wait_final(cluster, node, begin(node, {"call": "fail"}, queue=kind.queue))
            assert (row["state"], row["error"]) == ("FAILED", FAILS)

    def test_a_long_output_is_whole_and_in_order(self, cluster: LocalCluster, kind: Kind, worker: Worker) -> None:
        if kind.name == "bash":
            pytest.skip("the worker in bash sends the first 60,000 bytes, and says so")
        node = cluster.leader()
        row = wait_final(cluster, node, count(node, kind, 30_000))
        assert row["state"] == "SUCCEEDED", worker.log.read_text()
        assert numbers(node, row["id"]) == list(range(1, 30_001))

    def test_a_run_is_killed_on_request_and_at_its_timeout(
        self, cluster: LocalCluster, kind: Kind, worker: Worker, written: Written
    ) -> None:
        node = cluster.leader()
        ended(cluster, node, long_run(node, kind, written))
        row = wait_final(cluster, node, count(node, kind, LONG, every_ms=EVERY_MS, timeout="300ms"))
        assert row["state"] == "TIMED_OUT", worker.log.read_text()


def test_killed_while_it_works(cluster: LocalCluster, kind: Kind, workers: Workers, written: Written) -> None:
    """Its run begins at another worker, not before the lease is over."""
    node = cluster.leader()
    first = workers.start(kind, cluster)
    instance = long_run(node, kind, written)
    other = workers.start(kind, cluster).waited()
    killed = time.monotonic()
    first.stop(signal.SIGKILL)
    written.begun_again()
    # The last poll was sent at most a quarter of the lease, and a request, before the kill.
    assert time.monotonic() - killed > TTL_S / 2
    row = ended_at_the_second(cluster, node, instance, written)
    assert [(a["outcome"], a["worker"]) for a in row["attempts"]] == [("lost", first.name), ("killed", other.name)]
    assert wait_final(cluster, node, count(node, kind, 1))["state"] == "SUCCEEDED", other.log.read_text()


def test_killed_it_is_given_nothing_more(cluster: LocalCluster, raftsched: Kind, workers: Workers) -> None:
    """Nobody reads its poll: what is due goes to others at once, though its lease lasts for a minute."""
    leader = cluster.leader()
    assert leader.request("PATCH", "/v1/cluster/settings", {"worker_ttl": "60s"}).status == 200
    try:
        first, other = workers.start(raftsched, cluster).waited(), workers.start(raftsched, cluster).waited()
    finally:
        with_ttl(cluster)
    first.stop(signal.SIGKILL)
    for node in cluster.nodes:
        path = f"/v1/workers/{first.name}"
        wait_until(lambda node=node, path=path: node.request("GET", path).json["quiet_since"], f"{node.id} to say so")
    assert leader.request("GET", f"/v1/workers/{other.name}").json["quiet_since"] is None
    instances = [count(leader, raftsched, 1) for _ in range(6)]
    rows = [wait_final(cluster, leader, instance) for instance in instances]
    assert {attempt["worker"] for row in rows for attempt in row["attempts"]} == {other.name}, other.log.read_text()
    first.start()  # with its data it takes its session's place; else the next test would wait for a minute
    path = f"/v1/workers/{first.name}"
    cluster.wait("it to be there again", lambda: leader.request("GET", path).json["quiet_since"] is None)


def test_stopped_while_it_works(cluster: LocalCluster, kind: Kind, workers: Workers, written: Written) -> None:
    """SIGSTOP of the worker: its run ends by itself, before another one begins."""
    node = cluster.leader()
    first = workers.start(kind, cluster)
    instance = long_run(node, kind, written)
    other = workers.start(kind, cluster).waited()
    first.process.send_signal(signal.SIGSTOP)
    written.begun_again()
    first.process.send_signal(signal.SIGCONT)
    ended_at_the_second(cluster, node, instance, written)
    if kind.name == "raftsched":
        cluster.wait("it has lost its session", lambda: first.says("lapsed"))
    other.close()
    row = wait_final(cluster, node, count(node, kind, 1))  # by the first, in another session
    assert (row["state"], row["worker"]) == ("SUCCEEDED", first.name), first.log.read_text()


def test_told_to_stop_it_ends_what_it_has(
    cluster: LocalCluster, kind: Kind, workers: Workers, written: Written
) -> None:
    node = cluster.leader()
    worker = workers.start(kind, cluster)
    instance = count(node, kind, 20, every_ms=EVERY_MS, file=written.file)
    written.begun()
    assert worker.stop() == 0
    row = wait_final(cluster, node, instance)
    assert (row["state"], len(row["attempts"])) == ("SUCCEEDED", 1), worker.log.read_text()
    assert not worker.has_session()


def test_told_to_stop_it_hands_back_what_takes_too_long(
    cluster: LocalCluster, kind: Kind, workers: Workers, written: Written
) -> None:
    if kind.name == "bash":
        pytest.skip("the worker in bash lets its run end, however long that takes, and says so")
    node = cluster.leader()
    worker = workers.start(kind, cluster, *kind.grace(1))
    instance = long_run(node, kind, written)
    workers.start(kind, cluster).waited()
    assert worker.stop() == 0
    row = ended_at_the_second(cluster, node, instance, written)
    assert row["attempts"][0]["outcome"] != "lost", "it had to wait for the end of the lease"


# ---------------------------------------------------------------- what `raftsched worker` does besides


def test_every_kind_of_handler(cluster: LocalCluster, raftsched: Kind, workers: Workers) -> None:
    node = cluster.leader()
    workers.start(raftsched, cluster, name="w1").waited()
    rows = {}
    for what, handler, params in (
        ("exec", {"exec": ["sh", "-c", 'echo "$RAFTSCHED_WORKER"; echo wrong >&2; exit 3']}, {}),
        ("shell", {"shell": "echo $RAFTSCHED_PARAMS"}, {"n": 1}),
        ("python", {"python": "invoices:add"}, {"a": 1, "b": 2}),
        ("call", {"call": "send-invoice"}, {"number": 7}),
    ):
        rows[what] = wait_final(cluster, node, begin(node, handler, params=params))
        assert (rows[what]["worker"], rows[what]["node"]) == ("w1", None)
    assert (rows["exec"]["state"], rows["exec"]["exit_code"]) == ("FAILED", 3)
    assert rows["python"]["result"] == 3
    assert rows["call"]["result"] == {"sent": 7, "worker": "w1", "node": ""}
    assert node.request("GET", f"/v1/instances/{rows['shell']['id']}/output").body == b'{"n":1}\n'
    assert b"wrong" in cluster.followers()[0].request("GET", f"/v1/instances/{rows['exec']['id']}/output").body


def test_it_takes_what_is_for_its_queues_and_labels(cluster: LocalCluster, raftsched: Kind, workers: Workers) -> None:
    node = cluster.leader()
    workers.start(raftsched, cluster, "--queues", "mail", name="mail").waited()
    workers.start(raftsched, cluster, "--labels", "disk=ssd,zone=a", name="rest").waited()
    placed = begin(node, {"shell": "true"}, placement={"labels": {"disk": "ssd"}})
    assert wait_final(cluster, node, placed)["worker"] == "rest"
    assert wait_final(cluster, node, begin(node, {"shell": "true"}))["worker"] == "rest"


def test_drained_it_takes_nothing_new(
    cluster: LocalCluster, raftsched: Kind, workers: Workers, written: Written
) -> None:
    node = cluster.leader()
    first = workers.start(raftsched, cluster, "--grace", "1h", name="w1").waited()
    instance = long_run(node, raftsched, written)
    workers.start(raftsched, cluster, name="w2").waited()
    first.process.send_signal(signal.SIGTERM)
    cluster.wait("it winds down", lambda: first.says("stops"))
    assert wait_final(cluster, node, count(node, raftsched, 1))["worker"] == "w2"
    assert len(written.tokens()) == 1
    assert first.stop() == 0, "a second signal hurries"
    assert not first.has_session()
    ended_at_the_second(cluster, node, instance, written)


def test_started_again_with_its_data_it_replaces_itself_at_once(
    cluster: LocalCluster, raftsched: Kind, workers: Workers, written: Written
) -> None:
    node = cluster.leader()
    worker = workers.start(raftsched, cluster).waited()
    instance = long_run(node, raftsched, written)
    worker.stop(signal.SIGKILL)
    worker.start()
    written.begun_again()
    assert not worker.says(TAKEN), "it waited for its old session to be over"
    ended_at_the_second(cluster, node, instance, written)


def test_from_elsewhere_its_name_is_taken_until_its_session_is_over(
    cluster: LocalCluster, raftsched: Kind, workers: Workers, written: Written
) -> None:
    node = cluster.leader()
    first = workers.start(raftsched, cluster, name="w1").waited()
    instance = long_run(node, raftsched, written)
    second = workers.start(raftsched, cluster, name="w1", data="elsewhere")
    cluster.wait("it is refused", lambda: second.says(TAKEN))
    killed = time.monotonic()
    first.stop(signal.SIGKILL)
    written.begun_again()
    assert time.monotonic() - killed > TTL_S / 2
    ended_at_the_second(cluster, node, instance, written)


def test_two_with_one_directory(cluster: LocalCluster, raftsched: Kind, workers: Workers) -> None:
    workers.start(raftsched, cluster, name="w1").waited()
    second = workers.start(raftsched, cluster, name="w1")
    assert second.process.wait(patient(60)) == 1
    assert second.says("Another worker uses")


def test_a_server_that_is_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "raftsched", "worker", "--server", "ftp://x", "--data", str(tmp_path / "w")]
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == 2
    assert b"is not a server address" in done.stderr


# ---------------------------------------------------------------- what nodes answer to a worker over HTTP


@pytest.fixture
def fake(cluster: LocalCluster) -> Iterator[FakeWorker]:
    one = FakeWorker(cluster, "fake")
    yield one
    one.close()


@pytest.fixture
def guest(mortal: Cluster) -> Iterator[FakeWorker]:
    one = FakeWorker(mortal, "fake")
    yield one
    one.close()


def started(cluster: AnyCluster) -> str:
    node = cluster.alive()[0]
    return begin(node, {"call": "note"}, params={"n": 1}, overlap="allow")


def test_a_run_from_its_assignment_to_its_report(cluster: LocalCluster, fake: FakeWorker) -> None:
    instance = started(cluster)
    given = fake.take()
    assert (given["instance"], given["handler"], given["params"]) == (instance, {"call": "note"}, {"n": 1})
    assert given["env"]["RAFTSCHED_WORKER"] == "fake"
    assert fake.report(given["token"])["refused"] == []
    assert cluster.alive()[0].get(f"/v1/instances/{instance}")["state"] == "RUNNING"
    report = {"outcome": "succeeded", "exit_code": 0, "output": "done\n", "result": [1]}
    assert fake.report(given["token"], **report)["refused"] == []
    row = wait_final(cluster, cluster.alive()[0], instance)
    assert (row["state"], row["worker"], row["result"]) == ("SUCCEEDED", "fake", [1])
    for node in cluster.nodes:
        cluster.wait("its output", lambda node=node: node.find(f"/v1/instances/{instance}") is not None)
        assert node.request("GET", f"/v1/instances/{instance}/output").body == b"done\n"
    assert [one["code"] for one in fake.report(given["token"], "failed")["refused"]] == ["stale"]


def test_the_same_run_is_given_by_each_node_until_it_is_taken(cluster: LocalCluster, fake: FakeWorker) -> None:
    started(cluster)
    token = fake.take()["token"]
    for node in cluster.nodes:
        fake.after = token - 1
        assert fake.take([node])["token"] == token
    fake.report(token, "succeeded")


# ---------------------------------------------------------------- what becomes of them when nodes are killed


@pytest.mark.parametrize("leads", [False, True])
def test_a_node_that_is_killed_takes_nothing_along(
    mortal: Cluster, kinds: dict[str, Kind], workers: Workers, tmp_path: Path, leads: bool
) -> None:
    """Every worker asks that node. Runs go on for longer than a lease: it is renewed at another node, and there their
    ends are reported."""
    asked = mortal.leader() if leads else mortal.followers()[0]
    others = mortal.followers_of(asked)
    files = {name: Written(mortal, tmp_path / name) for name in kinds}
    cast, runs = {}, {}
    for name, kind in kinds.items():
        cast[name] = workers.start(kind, mortal, nodes=[asked, *others])
        runs[name] = count(others[0], kind, int(2 * TTL_S * 1000 / EVERY_MS), every_ms=EVERY_MS, file=files[name].file)
    for written in files.values():
        written.begun()
    asked.kill()
    for name, worker in cast.items():
        row = wait_final(mortal, others[0], runs[name])
        assert (row["state"], len(row["attempts"])) == ("SUCCEEDED", 1), (name, worker.log.read_text())
        assert len(files[name].tokens()) == 1, name
        assert not worker.says("lapsed")
    for name, worker in cast.items():
        later = long_run(others[0], kinds[name], Written(mortal, tmp_path / f"{name}-later"))
        assert ended(mortal, others[0], later)["worker"] == worker.name, worker.log.read_text()
        assert worker.stop() == 0, name


def test_the_node_that_has_their_output_is_killed(
    mortal: Cluster, kinds: dict[str, Kind], workers: Workers, tmp_path: Path
) -> None:
    """Another one is sent all of it, and who reads it meanwhile at the others misses nothing, and gets nothing twice.
    The worker in bash sends what was printed when the run has ended."""
    asked = mortal.followers()[0]
    others = mortal.followers_of(asked)
    gate = tmp_path / "gate"  # no run ends before the node is killed: the output of one that has ended lies there alone
    cast = {name: kind for name, kind in kinds.items() if name != "bash"}
    made = {name: workers.start(kind, mortal, nodes=[asked, *others]) for name, kind in cast.items()}
    params = {"to": 10_000, "gate": str(gate)}
    runs = {name: begin(others[0], kind.halves, params=params, queue=kind.queue) for name, kind in cast.items()}
    for instance in runs.values():
        path = f"/v1/instances/{instance}/output"
        mortal.wait("output at the node", lambda path=path: len(asked.request("GET", path).body) > 4_096)
    with ThreadPoolExecutor(len(runs) * len(others)) as pool:
        readers = [(instance, node, bytearray()) for instance in runs.values() for node in others]
        reading = [pool.submit(follow, node, instance, read) for instance, node, read in readers]
        mortal.wait("all to have read some", lambda: all(len(read) > 4_096 for _, _, read in readers))
        asked.kill()
        gate.touch()
        wait(reading)
    for name, instance in runs.items():
        row = wait_final(mortal, others[0], instance)
        assert (row["state"], len(row["attempts"])) == ("SUCCEEDED", 1), (name, made[name].log.read_text())
        for node in others:
            assert numbers(node, instance) == list(range(1, 10_001))
        assert made[name].stop() == 0
    for (instance, node, read), done in zip(readers, reading, strict=True):
        assert done.exception() is None
        assert bytes(read) == node.request("GET", f"/v1/instances/{instance}/output").body


def test_a_session_outlives_two_leaders(mortal: Cluster, guest: FakeWorker) -> None:
    number = int(guest.session.partition("-")[0])
    for _ in range(2):
        leader = mortal.leader()
        instance = started(mortal)
        token = guest.take()["token"]
        leader.kill()
        until = time.monotonic() + 2 * TTL_S  # a lease that nobody renewed would be over, with its margin
        while time.monotonic() < until:
            assert guest.poll(mortal.alive()) is not None, "the session is over"
        assert guest.report(token, "succeeded")["refused"] == []
        assert wait_final(mortal, mortal.alive()[0], instance)["attempt"] == 1
        leader.start()
        with polling(guest):
            mortal.wait_ready()
            (shown,) = mortal.leader().get("/v1/workers")["items"]
        assert (shown["name"], shown["session"]) == ("fake", number)


def test_a_node_that_stops_does_not_wait_for_polls(mortal: Cluster, guest: FakeWorker) -> None:
    node = mortal.followers()[0]
    (path, headers), answers = sent(guest.session, "/poll"), []

    def ask() -> None:
        answers.append(node.request("POST", path, {"wait_ms": 2_500}, headers=headers).status)

    waits = threading.Thread(target=ask)
    waits.start()
    mortal.wait("the poll to be heard of", lambda: mortal.leader().get("/v1/workers")["items"])
    assert node.terminate() == 0
    waits.join()
    assert answers[0] in (200, 503)
    assert guest.poll() is not None

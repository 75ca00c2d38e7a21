"""`raftsched worker`: real processes that run all jobs of a cluster whose nodes run none, and what befalls them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import HANDLERS
from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import AS_MYSELF, Cluster, NodeProcess

TTL_S = 4.0
TAKEN = "Another process works under the name"
LOOP = 'while :; do echo "$RAFTSCHED_FENCING_TOKEN $(date +%s%N)" >> "$FILE"; sleep 0.05; done'


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, flags=["--no-run"]) as running:
        reply = running.leader().request("PATCH", "/v1/cluster/settings", {"worker_ttl": f"{TTL_S:g}s"})
        assert reply.status == 200, reply.body
        yield running


@pytest.fixture(autouse=True)
def all_nodes(cluster: Cluster) -> Iterator[None]:
    yield
    for node in cluster.nodes:
        if not node.alive:
            node.start()
    cluster.wait_ready()


class Worker:
    """A `raftsched worker` process."""

    def __init__(self, cluster: Cluster, directory: Path, name: str, data: str = "") -> None:
        self.cluster = cluster
        self.name = name
        self.data = directory / (data or name)
        self.log = directory / f"{data or name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str, servers: list[NodeProcess] | None = None) -> Worker:
        urls = ",".join(node.url for node in servers or self.cluster.nodes)
        command = [sys.executable, "-m", "raftsched", "worker", "--server", urls, "--name", self.name]
        command += ["--data", str(self.data), "--pythonpath", str(HANDLERS), "--handlers", "invoices", *AS_MYSELF]
        command += ["--grace", "1s", "--slots", "4", *flags]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.cluster.environment
            )
        return self

    def has_session(self) -> bool:
        return self.name in {worker["name"] for worker in self.cluster.alive()[0].get("/v1/workers")["items"]}

    def waited(self) -> Worker:
        self.cluster.wait(f"a session of {self.name}", self.has_session)
        return self

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(60)

    def says(self, text: str) -> bool:
        return text in self.log.read_text()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


Make = Callable[..., Worker]


@pytest.fixture
def workers(cluster: Cluster, tmp_path: Path) -> Iterator[Make]:
    made: list[Worker] = []

    def make(name: str, data: str = "") -> Worker:
        made.append(Worker(cluster, tmp_path, name, data))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


def begin(node: NodeProcess, handler: dict[str, Any], **fields: Any) -> str:
    job = {"trigger": {"manual": True}, "handler": handler, **fields}
    return run(node, create(node, job)["id"])


def loop(node: NodeProcess, file: Path, **fields: Any) -> str:
    return begin(node, {"shell": LOOP, "env": {"FILE": str(file)}}, **fields)


def lines(file: Path) -> list[tuple[int, int]]:
    """(token, nanoseconds) of each whole line that runs have written."""
    if not file.exists():
        return []
    whole = file.read_text().rpartition("\n")[0]
    return [(int(words[0]), int(words[1])) for words in map(str.split, whole.splitlines())]


def tokens(file: Path) -> list[int]:
    """Of the runs, in the order in which they wrote; one that comes twice lived beside another."""
    found: list[int] = []
    for token, _ in lines(file):
        if not found or found[-1] != token:
            found.append(token)
    return found


def ended(cluster: Cluster, node: NodeProcess, instance: str) -> Any:
    assert node.request("POST", f"/v1/instances/{instance}/kill", {}).status == 202
    return wait_final(cluster, node, instance)


@contextmanager
def gap_of(file: Path) -> Iterator[list[float]]:
    """Seconds between the last line of the first run and the first of the next."""
    found: list[float] = []
    yield found
    written = lines(file)
    first = written[0][0]
    last = max(at for token, at in written if token == first)
    found.append((min(at for token, at in written if token != first) - last) / 1e9)


def test_every_kind_of_handler(cluster: Cluster, workers: Make) -> None:
    node = cluster.leader()
    workers("w1").start().waited()
    rows = {}
    for kind, handler, params in (
        ("exec", {"exec": ["sh", "-c", 'echo "$RAFTSCHED_WORKER"; echo wrong >&2; exit 3']}, {}),
        ("shell", {"shell": "echo $RAFTSCHED_PARAMS"}, {"n": 1}),
        ("python", {"python": "invoices:add"}, {"a": 1, "b": 2}),
        ("call", {"call": "send-invoice"}, {"number": 7}),
    ):
        rows[kind] = wait_final(cluster, node, begin(node, handler, params=params))
        assert (rows[kind]["worker"], rows[kind]["node"]) == ("w1", None)
    assert (rows["exec"]["state"], rows["exec"]["exit_code"]) == ("FAILED", 3)
    assert rows["python"]["result"] == 3
    assert rows["call"]["result"] == {"sent": 7, "worker": "w1", "node": ""}
    assert node.request("GET", f"/v1/instances/{rows['shell']['id']}/output").body == b'{"n":1}\n'
    assert b"wrong" in cluster.followers()[0].request("GET", f"/v1/instances/{rows['exec']['id']}/output").body


def test_killed_on_request_and_timed_out(cluster: Cluster, workers: Make) -> None:
    node = cluster.leader()
    workers("w1").start().waited()
    instance = begin(node, {"shell": "sleep 1000"})
    cluster.wait("it runs", lambda: node.get(f"/v1/instances/{instance}")["state"] == "RUNNING")
    assert ended(cluster, node, instance)["state"] == "KILLED"
    row = wait_final(cluster, node, begin(node, {"shell": "sleep 1000"}, timeout="300ms", grace="1s"))
    assert row["state"] == "TIMED_OUT"


def test_only_its_queues(cluster: Cluster, workers: Make) -> None:
    node = cluster.leader()
    workers("mail").start("--queues", "mail").waited()
    workers("rest").start("--labels", "disk=ssd,zone=a").waited()
    placed = wait_final(cluster, node, begin(node, {"shell": "true"}, placement={"labels": {"disk": "ssd"}}))
    assert placed["worker"] == "rest"
    assert wait_final(cluster, node, begin(node, {"shell": "true"}))["worker"] == "rest"


def test_what_a_killed_worker_ran_begins_elsewhere_when_its_lease_is_over(
    cluster: Cluster, workers: Make, tmp_path: Path
) -> None:
    node, file = cluster.leader(), tmp_path / "lines"
    first = workers("w1").start().waited()
    instance = loop(node, file)
    cluster.wait("it runs", lambda: len(lines(file)) > 3)
    workers("w2").start().waited()
    with gap_of(file) as gap:
        first.signal(signal.SIGKILL)
        cluster.wait("another runs it", lambda: len(tokens(file)) > 1)
        row = ended(cluster, node, instance)
    assert [a["worker"] for a in row["attempts"]] == ["w1", "w2"]
    assert row["attempts"][0]["outcome"] == "lost"
    assert len(tokens(file)) == 2, "two lived at once"
    # The last poll was sent a quarter of the lease before the kill at most, and a request.
    assert gap[0] > TTL_S / 2


def test_a_stopped_worker_s_run_ends_before_another_begins(cluster: Cluster, workers: Make, tmp_path: Path) -> None:
    node, file = cluster.leader(), tmp_path / "lines"
    first = workers("w1").start().waited()
    instance = loop(node, file)
    cluster.wait("it runs", lambda: len(lines(file)) > 3)
    workers("w2").start().waited()
    first.signal(signal.SIGSTOP)
    cluster.wait("another runs it", lambda: len(tokens(file)) > 1)
    first.signal(signal.SIGCONT)
    cluster.wait("it has lost its session", lambda: first.says("lapsed"))
    ended(cluster, node, instance)
    assert len(tokens(file)) == 2, "two lived at once"
    first.waited()  # and has another one


def test_drained_it_lets_runs_end_and_hands_back_the_rest(cluster: Cluster, workers: Make, tmp_path: Path) -> None:
    node, file = cluster.leader(), tmp_path / "lines"
    first = workers("w1").start("--grace", "3s").waited()
    short = begin(node, {"shell": "sleep 1.5"})
    long = loop(node, file)
    cluster.wait("both run", lambda: node.get(f"/v1/instances/{short}")["state"] == "RUNNING" and lines(file))
    workers("w2").start().waited()
    first.signal(signal.SIGTERM)
    later = begin(node, {"shell": "true"})
    assert wait_final(cluster, node, later)["worker"] == "w2"
    row = wait_final(cluster, node, short)
    assert (row["state"], row["worker"], len(row["attempts"])) == ("SUCCEEDED", "w1", 1)
    assert first.wait() == 0, first.log.read_text()
    assert not first.has_session()
    cluster.wait("it runs elsewhere at once", lambda: len(tokens(file)) > 1, TTL_S)
    row = ended(cluster, node, long)
    assert row["attempts"][0]["outcome"] != "lost"
    assert len(tokens(file)) == 2, "two lived at once"


def test_a_second_signal_hurries(cluster: Cluster, workers: Make, tmp_path: Path) -> None:
    node, file = cluster.leader(), tmp_path / "lines"
    first = workers("w1").start("--grace", "1h").waited()
    instance = loop(node, file)
    cluster.wait("it runs", lambda: lines(file))
    first.signal(signal.SIGTERM)
    cluster.wait("it winds down", lambda: first.says("stops"))
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    workers("w2").start().waited()
    cluster.wait("it runs elsewhere", lambda: len(tokens(file)) > 1)
    ended(cluster, node, instance)


@pytest.mark.parametrize("leads", [False, True])
def test_a_node_that_is_killed_takes_nothing_along(
    cluster: Cluster, workers: Make, tmp_path: Path, leads: bool
) -> None:
    file = tmp_path / "lines"
    asked = cluster.leader() if leads else cluster.followers()[0]
    others = cluster.followers_of(asked)
    worker = workers("w1").start(servers=[asked, *others]).waited()
    instance = loop(others[0], file)
    cluster.wait("it runs", lambda: len(lines(file)) > 3)
    asked.kill()
    time.sleep(2 * TTL_S)  # longer than the lease: it was renewed at another node
    assert len(tokens(file)) == 1
    assert not worker.says("lapsed")
    assert ended(cluster, others[0], instance)["state"] == "KILLED"
    assert wait_final(cluster, others[0], begin(others[0], {"shell": "true"}))["state"] == "SUCCEEDED"


def test_started_again_with_its_data_it_replaces_itself_at_once(
    cluster: Cluster, workers: Make, tmp_path: Path
) -> None:
    node, file = cluster.leader(), tmp_path / "lines"
    first = workers("w1").start().waited()
    instance = loop(node, file)
    cluster.wait("it runs", lambda: len(lines(file)) > 3)
    first.signal(signal.SIGKILL)
    first.wait()
    first.start()
    cluster.wait("it runs again", lambda: len(tokens(file)) > 1)
    assert not first.says(TAKEN), "it waited for its old session to be over"
    ended(cluster, node, instance)
    assert len(tokens(file)) == 2, "two lived at once"


def test_from_elsewhere_its_name_is_taken_until_its_session_is_over(
    cluster: Cluster, workers: Make, tmp_path: Path
) -> None:
    node, file = cluster.leader(), tmp_path / "lines"
    first = workers("w1").start().waited()
    instance = loop(node, file)
    cluster.wait("it runs", lambda: len(lines(file)) > 3)
    second = workers("w1", "elsewhere").start()
    cluster.wait("it is refused", lambda: second.says(TAKEN))
    with gap_of(file) as gap:
        first.signal(signal.SIGKILL)
        cluster.wait("it runs again", lambda: len(tokens(file)) > 1)
        ended(cluster, node, instance)
    assert gap[0] > TTL_S / 2
    assert len(tokens(file)) == 2, "two lived at once"


def test_two_with_one_directory(cluster: Cluster, workers: Make, tmp_path: Path) -> None:
    workers("w1").start().waited()
    second = workers("w1").start()
    assert second.wait() == 1
    assert second.says("Another worker uses")


def test_a_server_that_is_none(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "raftsched", "worker", "--server", "ftp://x", "--data", str(tmp_path / "w")]
    done = subprocess.run(
        command, check=False, env=cluster.environment | {"HOME": os.environ["HOME"]}, capture_output=True
    )
    assert done.returncode == 2
    assert b"is not a server address" in done.stderr

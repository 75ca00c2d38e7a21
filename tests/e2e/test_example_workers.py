"""The remote workers of examples/, in Go, Node.js and bash: started, killed, told to stop, and nodes killed too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import raftsched
from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import Cluster, NodeProcess

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

EXAMPLES = Path(raftsched.__file__).parent.parent / "examples"
TTL_S = 4.0
TOOLS = {"go": ("go",), "node": ("node",), "bash": ("bash", "curl", "jq", "setsid", "timeout")}
# The command of the bash worker does what the handler "count" of the others does.
COUNT = """\
import json, os, time
params = json.loads(os.environ["RAFTSCHED_PARAMS"])
for n in range(1, params["to"] + 1):
    line = os.environ["RAFTSCHED_FENCING_TOKEN"] + f" {n}"
    if "file" in params:
        with open(params["file"], "a") as file:
            file.write(line + "\\n")
    else:
        print(line)
    time.sleep(params.get("every_ms", 0) / 1000)
"""


class Example:
    """How the worker of one language is started."""

    def __init__(self, language: str, directory: Path) -> None:
        self.language = language
        self._directory = directory
        self._started = 0
        if language == "go":
            self._command = [str(directory / "worker")]
            env = {
                **os.environ,
                "GOCACHE": str(directory / "cache"),
                "GOPATH": str(directory / "path"),
                "GOPROXY": "off",
                "GOTOOLCHAIN": "local",
            }
            build = ["go", "build", "-gcflags=all=-N -l", "-o", self._command[0], "."]  # sooner: not optimized
            subprocess.run(build, cwd=EXAMPLES / "worker-go", env=env, check=True)
        elif language == "node":
            self._command = ["node", str(EXAMPLES / "worker-node" / "worker.js")]
        else:
            script = directory / "count.py"
            script.write_text(COUNT)
            self._command = [str(EXAMPLES / "worker-bash" / "worker.sh"), "count", sys.executable, "-S", str(script)]

    @contextmanager
    def started(self, servers: Sequence[NodeProcess], *flags: str) -> Iterator[Worker]:
        self._started += 1
        name = f"{self.language}-{self._started}"
        urls = ",".join(node.url for node in servers)
        env = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")}
        env |= {"RAFTSCHED_SERVERS": urls, "RAFTSCHED_WORKER": name}
        command = self._command if self.language == "bash" else [*self._command, "--name", name, *flags]
        log = self._directory / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            yield Worker(name, process, log)
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()  # so that nothing more is given to its session
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Worker:
    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture(scope="module", params=list(TOOLS))
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    missing = [tool for tool in TOOLS[request.param] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed here: {', '.join(missing)}")
    return Example(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
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


def begin(node: NodeProcess, call: str, **params: Any) -> str:
    """A run of a job; its instance."""
    job = {"trigger": {"manual": True}, "handler": {"call": call}, "params": params, "grace": "1s"}
    return run(node, create(node, job)["id"])


def lines(file: Path) -> list[tuple[int, int]]:
    """(token, number) of each line that runs have written."""
    if not file.exists():
        return []
    whole = file.read_text().rpartition("\n")[0]
    return [(int(words[0]), int(words[1])) for words in map(str.split, whole.splitlines())]


def wait_lines(cluster: Cluster, file: Path, enough: Callable[[list[tuple[int, int]]], bool]) -> None:
    cluster.wait(f"more lines in {file.name}", lambda: enough(lines(file)))


def tokens(file: Path) -> list[int]:
    """Of the runs, in the order in which they wrote; a token that comes twice lived beside another one."""
    found: list[int] = []
    for token, _ in lines(file):
        if not found or found[-1] != token:
            found.append(token)
    return found


def test_runs_jobs(cluster: Cluster, example: Example) -> None:
    node = cluster.leader()
    with example.started(cluster.nodes) as worker:
        row = wait_final(cluster, node, begin(node, "count", to=3))
        assert row["state"] == "SUCCEEDED", (row, worker.log.read_text())
        printed = node.request("GET", f"/v1/instances/{row['id']}/output").body.decode()
        assert [line.split()[1] for line in printed.splitlines()] == ["1", "2", "3"]
        several = [begin(node, "count", to=2, every_ms=100) for _ in range(5)]
        assert {wait_final(cluster, node, one)["state"] for one in several} == {"SUCCEEDED"}
        assert worker.stop() == 0


def test_results_and_failures(cluster: Cluster, example: Example) -> None:
    node = cluster.leader()
    with example.started(cluster.nodes) as worker:
        if example.language == "bash":  # a count of nothing at all is an error of the command
            row = wait_final(cluster, node, begin(node, "count", to="nothing"))
            assert (row["state"], row["exit_code"]) == ("FAILED", 1), worker.log.read_text()
        else:
            row = wait_final(cluster, node, begin(node, "greet", name="Ana"))
            assert (row["state"], row["result"]) == ("SUCCEEDED", {"greeting": "Hello Ana"}), worker.log.read_text()
            row = wait_final(cluster, node, begin(node, "fail"))
            assert (row["state"], row["error"]) == ("FAILED", "attempt 1 fails, as it was asked to")


def test_a_long_output_is_whole_and_in_order(cluster: Cluster, example: Example) -> None:
    if example.language == "bash":
        pytest.skip("the worker in bash sends the first 60,000 bytes, and says so")
    node = cluster.leader()
    with example.started(cluster.nodes) as worker:
        row = wait_final(cluster, node, begin(node, "count", to=30_000))
        assert row["state"] == "SUCCEEDED", worker.log.read_text()
        printed = node.request("GET", f"/v1/instances/{row['id']}/output").body.decode()
        assert [int(line.split()[1]) for line in printed.splitlines()] == list(range(1, 30_001))


def test_a_run_is_killed_on_request(cluster: Cluster, example: Example, tmp_path: Path) -> None:
    node, file = cluster.leader(), tmp_path / "lines"
    with example.started(cluster.nodes) as worker:
        instance = begin(node, "count", to=10_000, every_ms=50, file=str(file))
        wait_lines(cluster, file, lambda found: len(found) > 2)
        assert node.request("POST", f"/v1/instances/{instance}/kill", {}).status == 202
        assert wait_final(cluster, node, instance)["state"] == "KILLED", worker.log.read_text()


def test_killed_while_it_works(cluster: Cluster, example: Example, tmp_path: Path) -> None:
    """Its run begins at another worker, not before the lease is over."""
    node, file = cluster.leader(), tmp_path / "lines"
    with example.started(cluster.nodes) as worker:
        instance = begin(node, "count", to=60, every_ms=50, file=str(file))
        wait_lines(cluster, file, lambda found: len(found) > 2)
        with example.started(cluster.nodes) as other:
            killed = time.monotonic()
            worker.stop(signal.SIGKILL)
            wait_lines(cluster, file, lambda found: len({token for token, _ in found}) > 1)
            # The last poll was sent at most a quarter of the lease, and a request, before the kill.
            assert time.monotonic() - killed > TTL_S / 2
            row = wait_final(cluster, node, instance)
            assert row["state"] == "SUCCEEDED", other.log.read_text()
            assert [attempt["outcome"] for attempt in row["attempts"]] == ["lost", "succeeded"]
            assert len(tokens(file)) == 2, "two lived at once"


def test_stopped_while_it_works(cluster: Cluster, example: Example, tmp_path: Path) -> None:
    """SIGSTOP of the worker: its run ends by itself, before another one begins."""
    node, file = cluster.leader(), tmp_path / "lines"
    with example.started(cluster.nodes) as worker:
        instance = begin(node, "count", to=200, every_ms=50, file=str(file))
        wait_lines(cluster, file, lambda found: len(found) > 2)
        with example.started(cluster.nodes):
            worker.process.send_signal(signal.SIGSTOP)
            wait_lines(cluster, file, lambda found: len({token for token, _ in found}) > 1)
            worker.process.send_signal(signal.SIGCONT)
            assert wait_final(cluster, node, instance)["state"] == "SUCCEEDED"
            assert len(tokens(file)) == 2, "two lived at once"
        # It has lost its session, and opens another one.
        assert wait_final(cluster, node, begin(node, "count", to=1))["state"] == "SUCCEEDED", worker.log.read_text()


def test_told_to_stop_it_ends_what_it_has(cluster: Cluster, example: Example, tmp_path: Path) -> None:
    node, file = cluster.leader(), tmp_path / "lines"
    with example.started(cluster.nodes) as worker:
        instance = begin(node, "count", to=20, every_ms=50, file=str(file))
        wait_lines(cluster, file, lambda found: len(found) > 2)
        assert worker.stop() == 0
        row = wait_final(cluster, node, instance)
        assert (row["state"], len(row["attempts"])) == ("SUCCEEDED", 1), worker.log.read_text()


def test_told_to_stop_it_hands_back_what_takes_too_long(cluster: Cluster, example: Example, tmp_path: Path) -> None:
    if example.language == "bash":
        pytest.skip("the worker in bash lets its run end, however long that takes, and says so")
    node, file = cluster.leader(), tmp_path / "lines"
    grace = "1s" if example.language == "go" else "1"
    with example.started(cluster.nodes, "--grace", grace) as worker:
        instance = begin(node, "count", to=10_000, every_ms=50, file=str(file))
        wait_lines(cluster, file, lambda found: len(found) > 2)
        with example.started(cluster.nodes):
            assert worker.stop() == 0
            wait_lines(cluster, file, lambda found: len({token for token, _ in found}) > 1)
            assert len(tokens(file)) == 2, "two lived at once"
            assert node.request("POST", f"/v1/instances/{instance}/kill", {}).status == 202
            wait_final(cluster, node, instance)


def test_the_node_that_has_its_output_is_killed(cluster: Cluster, example: Example) -> None:
    """Another one is sent all of it."""
    if example.language == "bash":
        pytest.skip("the worker in bash sends what was printed when the run has ended")
    asked = cluster.followers()[0]
    others = cluster.followers_of(asked)
    with example.started([asked, *others]) as worker:
        instance = begin(others[0], "count", to=9_000, every_ms=1)
        cluster.wait(
            "output at the node", lambda: len(asked.request("GET", f"/v1/instances/{instance}/output").body) > 32_768
        )
        asked.kill()
        row = wait_final(cluster, others[0], instance)
        assert (row["state"], len(row["attempts"])) == ("SUCCEEDED", 1), worker.log.read_text()
        printed = others[0].request("GET", f"/v1/instances/{instance}/output").body.decode()
        assert [int(line.split()[1]) for line in printed.splitlines()] == list(range(1, 9_001))
        assert worker.stop() == 0


def test_the_node_that_it_asks_is_killed(cluster: Cluster, example: Example, tmp_path: Path) -> None:
    """The run goes on, and its end is reported to another node; once with a follower, once with the leader."""
    file = tmp_path / "lines"
    for asked in (cluster.followers()[0], cluster.leader()):
        others = cluster.followers_of(asked)
        with example.started([asked, *others]) as worker:
            file.unlink(missing_ok=True)
            instance = begin(others[0], "count", to=60, every_ms=50, file=str(file))
            wait_lines(cluster, file, lambda found: len(found) > 2)
            asked.kill()
            row = wait_final(cluster, others[0], instance)
            assert (row["state"], len(row["attempts"])) == ("SUCCEEDED", 1), worker.log.read_text()
            assert worker.stop() == 0
        asked.start()
        cluster.wait_ready()

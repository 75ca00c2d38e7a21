"""Remote workers as processes: `raftsched worker`, and those of examples/ in Go, Node.js and bash. All can count."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.api_nodes import AnyCluster, ApiNode
from tests.support.cluster import AS_MYSELF
from tests.support.examples import ROOT
from tests.support.patience import patient

EXAMPLES = ROOT / "examples"
HANDLERS = ROOT / "tests" / "e2e" / "handlers"
TOOLS = {"raftsched": (), "go": ("go",), "node": ("node",), "bash": ("bash", "curl", "jq", "setsid", "timeout")}
GO = ROOT / "build" / "go"  # what was compiled once: the standard library takes 18 s of processor time
# A command that does what the handler "count" of the workers in Go and Node.js does.
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
# What the handlers "halves" of tests/e2e/handlers do: half of the lines is printed when there is a file called `gate`.
HALVES = """\
import json, os, time
params = json.loads(os.environ["RAFTSCHED_PARAMS"])
for n in range(1, params["to"] + 1):
    print(os.environ["RAFTSCHED_FENCING_TOKEN"], n, "x" * 60, flush=n == params["to"] // 2)
    while n == params["to"] // 2 and not os.path.exists(params["gate"]):
        time.sleep(0.05)
"""


class Kind:
    """How the workers of one kind are started, and the jobs that only they take."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.started = 0
        self.queue = name if name in ("go", "node") else "default"  # those two have handlers of the same names
        command = _script(directory / "count.py", COUNT)
        self.count: dict[str, Any] = {"call": "count"}
        self.halves: dict[str, Any] = {"call": "halves"}
        if name == "raftsched":
            self.count, self.halves = {"exec": command}, {"exec": _script(directory / "halves.py", HALVES)}
            self._command = [sys.executable, "-m", "raftsched", "worker", "--pythonpath", str(HANDLERS), *AS_MYSELF]
            self._command += ["--handlers", "invoices"]
        elif name == "go":
            source = _copy(name, directory)
            shutil.copy(HANDLERS / "more.go", source)
            self._command = [str(directory / "worker")]
            env = {**os.environ, "GOCACHE": str(GO), "GOPATH": str(directory), "GOPROXY": "off", "GOTOOLCHAIN": "local"}
            build = ["go", "build", "-gcflags=all=-N -l", "-o", self._command[0], "."]  # sooner: not optimized
            subprocess.run(build, cwd=source, env=env, check=True)
        elif name == "node":
            source = _copy(name, directory)
            (source / "handlers.js").rename(source / "own.js")
            shutil.copy(HANDLERS / "more.js", source / "handlers.js")
            self._command = ["node", str(source / "worker.js")]
        else:
            self.count = {"call": "count-in-bash"}
            self._command = [str(EXAMPLES / "worker-bash" / "worker.sh"), "count-in-bash", *command]

    def grace(self, seconds: int) -> tuple[str, str]:
        """The flag that says how long runs may go on when the worker is told to stop."""
        return "--grace", f"{seconds}" if self.name == "node" else f"{seconds}s"

    def command(self, name: str, data: Path, urls: str, *flags: str) -> list[str]:
        if self.name == "bash":
            return self._command
        if self.name == "raftsched":
            where = ["--server", urls, "--data", str(data)]
        else:
            where = ["--servers", urls, "--queues", self.queue]
        return [*self._command, "--name", name, *where, *flags]


def _script(path: Path, text: str) -> list[str]:
    """The command that runs it."""
    path.write_text(text)
    return [sys.executable, "-S", str(path)]


def _copy(kind: str, directory: Path) -> Path:
    """The worker's source, for handlers of the tests to be added."""
    return Path(shutil.copytree(EXAMPLES / f"worker-{kind}", directory / "source"))


def missing(kind: str) -> list[str]:
    """The tools that workers of a kind need and that are not installed here."""
    return [tool for tool in TOOLS[kind] if shutil.which(tool) is None]


class Worker:
    """A process that works for a cluster."""

    def __init__(self, cluster: AnyCluster, name: str, command: list[str], env: dict[str, str], log: Path) -> None:
        self.cluster = cluster
        self.name = name
        self.log = log
        self._command = command
        self._env = env
        self.start()

    def start(self) -> None:
        """Also once more, where it was."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def has_session(self) -> bool:
        return self.name in {worker["name"] for worker in self.cluster.alive()[0].get("/v1/workers")["items"]}

    def waited(self) -> Worker:
        """This worker, once it has a session."""
        self.cluster.wait(f"a session of {self.name}", self.has_session)
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(patient(60))

    def says(self, text: str) -> bool:
        return text in self.log.read_text()

    def close(self) -> None:
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()  # so that nothing more is given to its session
        try:
            self.process.wait(patient(30))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Workers:
    """Those that a test has started."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._all: list[Worker] = []

    def start(
        self,
        kind: Kind,
        cluster: AnyCluster,
        *flags: str,
        name: str = "",
        data: str = "",
        nodes: Sequence[ApiNode] | None = None,
    ) -> Worker:
        """Returns one that may have no session yet. `nodes`: those that it asks, in this order."""
        kind.started += 1
        name = name or f"{kind.name}-{kind.started}"
        urls = ",".join(node.url for node in nodes or cluster.nodes)
        env = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")}
        env |= {"RAFTSCHED_SERVERS": urls, "RAFTSCHED_WORKER": name} if kind.name == "bash" else {}
        command = kind.command(name, self._directory / (data or name), urls, *flags)
        self._all.append(Worker(cluster, name, command, env, self._directory / f"{data or name}.log"))
        return self._all[-1]

    def close(self) -> None:
        """Ends them, and waits for the end of their sessions: what comes next would be given to one that is dead."""
        for worker in self._all:
            worker.close()
        for worker in self._all:
            worker.cluster.wait(f"{worker.name} to be gone", lambda worker=worker: not worker.has_session())


class Written:
    """What the runs of a job have written into a file: (token, number) of each whole line."""

    def __init__(self, cluster: AnyCluster, file: Path) -> None:
        self._cluster = cluster
        self.file = file

    def lines(self) -> list[tuple[int, int]]:
        if not self.file.exists():
            return []
        whole = self.file.read_text().rpartition("\n")[0]
        return [(int(words[0]), int(words[1])) for words in map(str.split, whole.splitlines())]

    def tokens(self) -> list[int]:
        """Of the runs, in the order in which they wrote; one that comes twice lived beside another."""
        found: list[int] = []
        for token, _ in self.lines():
            if not found or found[-1] != token:
                found.append(token)
        return found

    def begun(self) -> None:
        """Waits until a run writes."""
        self._wait(lambda: len(self.lines()) > 2)

    def begun_again(self) -> None:
        """Waits until another run writes."""
        self._wait(lambda: len({token for token, _ in self.lines()}) > 1)

    def _wait(self, enough: Callable[[], bool]) -> None:
        self._cluster.wait(f"more lines in {self.file.name}", enough)

"""Who may write jobs in one namespace is no more than that: what a job tries against its node comes to nothing, and
what it makes of its process is met by no other namespace.

The node is root, and runs jobs as it does when it is told nothing about that: as nobody."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.worker.processes.linux import descendants
from tests.e2e.conftest import HANDLERS
from tests.e2e.steps import FINAL
from tests.support.api_nodes import Reply
from tests.support.cluster import Cluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only a node that is root can run jobs as somebody else"),
]

PYTHON = "/usr/bin/python3"  # the interpreter of the tests may lie where only root has a way to
TOP = 2  # sentinel and supervisor

# As an editor would do it by hand. What works says so.
BY_HAND = r"""
d=$(tr '\0' '\n' < /proc/$NODE/cmdline | sed -n '/^--data$/{n;p;}')
k=$(tr '\0' '\n' < /proc/$NODE/cmdline | sed -n '/^--cluster-key-file$/{n;p;}')
echo "data $d"
for file in "$d/local.token" "$d/cluster.key" "$k" "$d"/store/*/data.mdb "$d"/output/* "$d"/output/*/*; do
  cat "$file" && echo "GOT $file"
done
ls "$d" && echo "GOT the list of $d"
echo planted > "$d/planted" && echo "GOT into $d"
cd "$d" && echo "GOT a way to $d"
for pid in $PIDS $PPID; do
  for name in environ maps mem auxv; do dd if=/proc/$pid/$name bs=64 count=1 && echo "GOT $name of $pid"; done
  for name in fd root/ cwd/ task/$pid/fd; do ls /proc/$pid/$name && echo "GOT $name of $pid"; done
  cat "/proc/$pid/root$d/local.token" && echo "GOT the token by the root of $pid"
  for fd in 0 3 4 5 6 7 8 9; do true < /proc/$pid/fd/$fd && echo "GOT descriptor $fd of $pid"; done
done
for fd in /proc/self/fd/*; do case $(readlink "$fd") in socket:*) echo "GOT a socket $fd";; esac; done
[ "$(sed -n 's/^NoNewPrivs:.//p' /proc/self/status)" = 1 ] || echo "GOT a way to privileges"
[ "$(sed -n 's/^CapEff:.//p' /proc/self/status)" = 0000000000000000 ] || echo "GOT capabilities"
for pid in $PIDS $PPID; do kill -9 $pid && echo "GOT $pid killed"; done
id -un
exit 0
"""


class Walled:
    """One node with tokens, and an editor for each of two namespaces."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.node = cluster.nodes[0]
        self.secrets: dict[str, str] = {}
        assert self.node.process is not None
        self.pid = self.node.process.pid
        self.between = [pid for pid, _ in descendants(self.pid)][:TOP]
        self.secrets["root"] = self._token("root", {"role": "admin"})
        assert self.ask("PUT", "/v1/cluster/access", {"required": True}).status == 200
        for namespace in ("a", "b"):
            assert self.ask("PUT", f"/v1/namespaces/{namespace}", {}).status in (200, 201)
            self.secrets[namespace] = self._token(f"ed-{namespace}", {"role": "editor", "namespaces": [namespace]})

    def _token(self, name: str, body: dict[str, Any]) -> str:
        reply = self.ask("POST", "/v1/tokens", {"name": name, **body})
        assert reply.status == 201, reply.body
        return str(reply.json["secret"])

    def ask(self, method: str, path: str, body: Any = None, who: str = "root") -> Reply:
        secret = self.secrets.get(who, who)
        headers = {"Authorization": f"Bearer {secret}"} if secret in self.secrets.values() or who != "root" else {}
        return self.node.request(method, path, body, headers)

    def run(self, namespace: str, handler: dict[str, Any], params: dict[str, Any] | None = None) -> dict[str, Any]:
        """By the namespace's editor; the instance when it is final, with what it printed as "output"."""
        job = {"namespace": namespace, "trigger": {"manual": True}, "handler": handler, "timeout": "60s"}
        reply = self.ask("POST", "/v1/jobs", {**job, "params": params} if params else job, namespace)
        assert reply.status == 201, reply.body
        reply = self.ask("POST", f"/v1/jobs/{reply.json['id']}/run", {}, namespace)
        assert reply.status == 202, reply.body
        path = f"/v1/instances/{reply.json['id']}"

        def final() -> dict[str, Any] | None:
            row: dict[str, Any] = self.ask("GET", path, who=namespace).json
            return row if row["state"] in FINAL else None

        row: dict[str, Any] = self.cluster.wait(f"{path} to end", final)
        return {**row, "output": self.ask("GET", f"{path}/output", who=namespace).body.decode()}

    def is_unharmed(self) -> None:
        """The same processes, nothing in the data directory that a job put there, no more tokens; and it works."""
        assert self.node.alive, self.cluster.logs()
        assert [pid for pid, _ in descendants(self.pid)][:TOP] == self.between
        for place in (self.pid, *self.between):
            assert Path(f"/proc/{place}/oom_score_adj").read_text() == "0\n"
        assert not [path for path in self.node.data.rglob("*") if "planted" in path.name]
        assert self.node.data.stat().st_mode & 0o77 == 0
        tokens = {row["name"] for row in self.ask("GET", "/v1/tokens").json["items"]}
        assert tokens == {"root", "ed-a", "ed-b"}
        assert self.run("b", {"exec": ["/bin/echo", "well"]})["output"] == "well\n"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that all users have a way into, so that it is the node's own that keeps them out."""
    directory = Path(tempfile.mkdtemp(prefix="raftsched-", dir="/tmp"))
    directory.chmod(0o711)
    functions = directory / "functions"  # where the tests lie, only root may have a way to
    functions.mkdir(mode=0o755)
    for name in ("grabs.py", "patches.py"):
        shutil.copy(HANDLERS / name, functions / name)
        (functions / name).chmod(0o644)
    yield directory
    shutil.rmtree(directory)


def interpreter() -> str:
    """The one of the tests, or PYTHON where nobody has a way to that one: a node takes functions only for users who can
    start its interpreter."""
    words = ["-I", "-c", "import sys; print(sys.version_info[:2])"]
    behind = str(getattr(sys, "_base_executable", None) or sys.executable)
    try:
        subprocess.run([behind, *words], user="nobody", check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        other = subprocess.run([PYTHON, *words], check=False, capture_output=True, text=True)
        if other.stdout.strip() != str(sys.version_info[:2]):
            pytest.skip(f"nobody can start neither {behind} nor {PYTHON} of the same version")
        return PYTHON
    return sys.executable


@pytest.fixture(scope="module")
def walled(place: Path) -> Iterator[Walled]:
    with Cluster(
        1, directory=place, pythonpath=place / "functions", as_myself=False, interpreter=interpreter()
    ) as cluster:
        cluster.wait("a session", lambda: cluster.nodes[0].get("/v1/nodes/n1")["session"])
        yield Walled(cluster)


@pytest.fixture(scope="module")
def marker(walled: Walled) -> str:
    """What a run of another namespace printed."""
    value = f"hunter2-{secrets.token_hex(8)}"
    for line in (value, value * 2_000):
        assert walled.run("b", {"exec": ["/bin/echo", line]})["state"] == "SUCCEEDED"
    return value


def no_admin(walled: Walled, found: str) -> None:
    """None of the words that a job came by, nor its editor's token, makes a token."""
    words = {word for word in found.split() if 8 <= len(word) <= 200 and word.isascii() and word.isprintable()}
    for word in ("a", *sorted(words)[:200]):
        reply = walled.ask("POST", "/v1/tokens", {"name": "evil", "role": "admin"}, word)
        assert reply.status in (400, 401, 403), (word, reply.body)


def test_by_shell(walled: Walled, marker: str) -> None:
    pids = " ".join(map(str, (walled.pid, *walled.between)))
    row = walled.run("a", {"shell": BY_HAND, "env": {"NODE": str(walled.pid), "PIDS": pids}})
    assert row["state"] == "SUCCEEDED", (row["error"], row["output"])
    output = row["output"]
    assert f"data {walled.node.data}\n" in output, "it knows where to look"
    assert output.count("Permission denied") + output.count("not permitted") > 60, output
    assert "GOT" not in output
    assert marker not in output
    assert "\nnobody\n" in output  # which may come before what its last command said on stderr
    no_admin(walled, output)
    walled.is_unharmed()


@pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason=f"there is no {PYTHON} for all users")
def test_by_a_program(walled: Walled, place: Path, marker: str) -> None:
    words = [walled.node.raft_port, walled.pid, *walled.between]
    row = walled.run("a", {"exec": [PYTHON, "-S", str(place / "functions/grabs.py"), *map(str, words)]})
    assert row["state"] == "SUCCEEDED", (row["error"], row["output"])
    refused(walled, json.loads(row["output"]), set())
    assert marker not in row["output"]
    walled.is_unharmed()


def test_by_a_function(walled: Walled, marker: str) -> None:
    params = {"node": walled.pid, "pids": [walled.pid, *walled.between], "raft_port": walled.node.raft_port}
    row = walled.run("a", {"python": "grabs:tries"}, params)
    assert row["state"] == "SUCCEEDED", (row["error"], row["output"])
    # Its process is told over a socket what to run, and answers there: see below what it may say.
    refused(walled, row["result"], {"a socket that was inherited"})
    assert marker not in json.dumps(row)
    walled.is_unharmed()


def refused(walled: Walled, told: dict[str, Any], but: set[str]) -> None:
    assert told["uid"] == 65534
    assert told["data"] == str(walled.node.data)
    assert len(told["keepers"]) == 1, "the keeper of the run was among those that were tried"
    assert set(told["got"]) <= but, told["got"]
    assert len(told["refused"]) > 140
    no_admin(walled, " ".join(told["got"].values()))


def test_a_function_speaks_for_no_other_run(walled: Walled) -> None:
    row = walled.run("a", {"python": "grabs:babble"}, {"others": list(range(1, 200))})
    assert row["state"] == "FAILED", row
    walled.is_unharmed()


def test_a_changed_process_for_python_serves_its_own_namespace_only(walled: Walled) -> None:
    """What a function makes of its process would see the parameters and secrets of all runs in it."""
    stolen = Path(tempfile.mkdtemp(prefix="raftsched-", dir="/tmp"))
    stolen.chmod(0o777)
    into = stolen / "seen"
    try:
        reply = walled.ask("PUT", "/v1/namespaces/b/secrets/pw", {"value": "password-of-b"})
        assert reply.status in (200, 201, 204), reply.body
        handler = {"python": "patches:nothing"}
        row = walled.run("a", {"python": "patches:patch"}, {"into": str(into)})
        assert row["state"] == "SUCCEEDED", (row["error"], row["output"])
        assert row["result"] >= 15, "it has changed its process"
        assert walled.run("a", handler, {"mark": "own-params"})["state"] == "SUCCEEDED"
        assert "own-params" in into.read_text(), "a run of its own namespace is seen: namespaces are what is kept apart"
        for i in range(12):
            told = {**handler, "env": {"PW": {"$secret": "pw"}, "ENV_OF": f"namespace-b-{i}"}}
            for fresh in ({}, {"fresh": True}):
                row = walled.run("b", {**told, **fresh}, {"mark": f"params-of-b-{i}"})
                assert row["state"] == "SUCCEEDED", (row["error"], row["output"])
            assert walled.run("a", {"python": "patches:patch"}, {"into": str(into)})["state"] == "SUCCEEDED"
        seen = into.read_text()
        for word in ("password-of-b", "namespace-b", "params-of-b"):
            assert word not in seen
    finally:
        shutil.rmtree(stolen)
    walled.is_unharmed()

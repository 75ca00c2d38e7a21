"""A node that cannot start says why in one line and exits with 1; its data stays as it was."""

from __future__ import annotations

import fcntl
import http.client as http_client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest

from tests.e2e.steps import at, create
from tests.support.cluster import Cluster
from tests.support.patience import patient
from tests.support.ports import free_ports

pytestmark = pytest.mark.e2e


def start(*flags: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """(exit code, standard error) of a node that is not expected to live."""
    done = subprocess.run(
        [sys.executable, "-m", "raftsched", "node", *flags],
        capture_output=True,
        text=True,
        timeout=patient(60),
        env={**os.environ, **(env or {})},
        check=False,
    )
    return done.returncode, done.stderr


def flags(node_id: str, data: Path, http: int, raft: int, peers: str) -> list[str]:
    return [
        *("--id", node_id, "--data", str(data), "--http", f"127.0.0.1:{http}"),
        *("--raft", f"127.0.0.1:{raft}", "--peers", peers),
    ]


def one_line(error: str, *words: str) -> None:
    lines = [line for line in error.splitlines() if line.strip()]
    assert len(lines) == 1, error
    for word in words:
        assert word in lines[0], error


def test_peer_list_without_itself(tmp_path: Path) -> None:
    http, raft, other = free_ports(3)
    code, error = start(*flags("n1", tmp_path, http, raft, f"n2=127.0.0.1:{other}"))
    assert code == 1
    one_line(error, "n1", "peers", "n2")


@pytest.mark.parametrize("which", ["http", "raft"])
def test_occupied_port(tmp_path: Path, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (other,) = free_ports(1)
        http, raft = (port, other) if which == "http" else (other, port)
        code, error = start(*flags("n1", tmp_path, http, raft, f"n1=127.0.0.1:{raft}"))
    assert code == 1
    one_line(error, str(port))


def test_foreign_data_directories() -> None:
    with Cluster(3) as cluster:
        made = create(cluster.leader(), {"name": "kept", "trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}})
        first = cluster.nodes[0]
        http, raft = free_ports(2)
        code, error = start(*flags("n1", first.data, http, raft, f"n1=127.0.0.1:{raft}"))
        assert code == 1
        one_line(error, "in use")
        first.kill()
        code, error = start(*flags("n9", first.data, http, raft, f"n9=127.0.0.1:{raft}"))
        assert code == 1
        one_line(error, "n1", "n9")
        first.start()
        cluster.wait_ready()
        assert first.get(f"/v1/jobs/{made['id']}?consistency=leader")["name"] == "kept"


def test_a_node_with_a_wiped_disk_waits_and_does_not_count() -> None:
    import shutil

    with Cluster(3) as cluster:
        leader = cluster.leader()
        made = create(leader, {"trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}})
        wiped = cluster.followers()[0]
        wiped.kill()
        shutil.rmtree(wiped.data)
        wiped.start()
        cluster.wait(
            "the wiped node to be told apart",
            lambda: "disk" in leader.log.read_text() + wiped.log.read_text() and wiped.alive,
        )
        assert not wiped.ready()
        other = next(n for n in cluster.followers_of(leader) if n is not wiped)
        other.kill()
        reply = leader.request("POST", "/v1/jobs", {"trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}})
        assert reply.status in (503, 504), "one of three must not accept with the help of a node that lost its disk"
        other.start()
        cluster.wait("a leader again", lambda: other.find(f"/v1/jobs/{made['id']}"))


def test_a_node_with_a_damaged_log_says_what_to_do() -> None:
    with Cluster(3) as cluster:
        create(cluster.leader(), {"name": "kept", "trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}})
        node = cluster.nodes[0]
        node.kill()
        with lmdb.open(str(node.data / "store" / "log"), max_dbs=64, map_size=1 << 30, lib_version=0) as env:
            log = env.open_db(b"log")
            with env.begin(write=True) as txn, txn.cursor(log) as cursor:
                assert cursor.last()
                key, raw = cursor.item()
                txn.put(key, raw[:-1] + bytes((raw[-1] ^ 1,)), db=log)
        http, raft = free_ports(2)
        code, error = start(*flags("n1", node.data, http, raft, f"n1=127.0.0.1:{raft}"))
        assert code == 1
        index = int.from_bytes(key, "big")
        one_line(error, f"damaged at entry {index}", "must not take part", "'raftsched cluster members replace ID'")


def test_another_library_version_is_refused(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "pysyncobj"
    import shutil

    import pysyncobj

    shutil.copytree(Path(pysyncobj.__file__).parent, package)
    with (package / "syncobj.py").open("a") as file:
        file.write("\n# changed\n")
    http, raft = free_ports(2)
    code, error = start(
        *flags("n1", tmp_path / "data", http, raft, f"n1=127.0.0.1:{raft}"),
        env={"PYTHONPATH": str(tmp_path / "lib")},
    )
    assert code == 1
    one_line(error, "pysyncobj", "0.3.17")


@pytest.mark.parametrize("moved", ["n1", "n3"])
def test_data_directory_of_another_cluster(tmp_path: Path, moved: str) -> None:
    with Cluster(3, directory=tmp_path / "other") as other:
        other.leader()
    with Cluster(3, directory=tmp_path / "home") as cluster:
        leader = cluster.leader()
        made = create(leader, {"trigger": {"at": at(3600)}, "handler": {"exec": ["true"]}})
        node = cluster.node(moved)
        node.kill()
        peers = ",".join(f"{n.id}=127.0.0.1:{n.raft_port}" for n in cluster.nodes)
        data = tmp_path / "other" / moved
        key = ("--cluster-key-file", str(cluster.key_file))
        code, error = start(*flags(moved, data, node.http_port, node.raft_port, peers), *key)
        assert code == 1
        said = [line for line in error.splitlines() if line.startswith("raftsched:")]
        assert len(said) == 1, error
        assert "cluster" in said[0], error
        assert "--data" in said[0], error
        node.start()
        cluster.wait_ready()
        assert node.get(f"/v1/jobs/{made['id']}?consistency=leader")["id"] == made["id"]


def test_a_node_that_waits_for_what_an_earlier_run_left_takes_part_and_says_so(tmp_path: Path) -> None:
    http, raft = free_ports(2)
    lock = tmp_path / "supervisor.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        node = subprocess.Popen(
            [sys.executable, "-m", "raftsched", "node", *flags("n1", tmp_path, http, raft, f"n1=127.0.0.1:{raft}")],
            stderr=subprocess.PIPE,
            text=True,
        )
        with node:
            made = b'{"trigger": {"manual": true}, "handler": {"exec": ["true"]}}'
            ask(node, http, "POST", "/v1/jobs", made, until=lambda status, _: status == 201)
            word = f"{os.getpid()} ("
            ask(
                node,
                http,
                "GET",
                "/readyz",
                until=lambda status, body: status == 200 and word in (body["trouble"] or ""),
            )
            ask(node, http, "GET", "/v1/nodes", until=lambda _, body: word in str(body["items"][0]["trouble"]))
            node.terminate()
            assert node.wait(patient(30)) == 0
            assert node.stderr is not None
            assert str(lock) in node.stderr.read()


def ask(
    node: subprocess.Popen[str],
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    until: Callable[[int, Any], bool],
) -> None:
    """Again and again, while the node lives."""
    while True:
        assert node.poll() is None, node.stderr and node.stderr.read()
        connection = http_client.HTTPConnection("127.0.0.1", port, timeout=patient(10))
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if until(answer.status, json.loads(answer.read())):
                return
        except ConnectionRefusedError:
            pass
        finally:
            connection.close()


def test_directories_that_are_in_the_way(tmp_path: Path) -> None:
    for name in ("output", "snapshots", "store"):
        data = tmp_path / name
        data.mkdir(mode=0o700)
        (data / name).touch(mode=0o600)  # else the node says that it narrows it
        http, raft = free_ports(2)
        code, error = start(*flags("n1", data, http, raft, f"n1=127.0.0.1:{raft}"))
        assert code == 1, name
        one_line(error, name)

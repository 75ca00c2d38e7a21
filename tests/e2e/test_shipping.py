"""Shipping of output by a real node: to a receiver that comes and goes, over a kill, and never a secret."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import Cluster, NodeProcess

pytestmark = pytest.mark.e2e


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A receiver of datagrams, as syslog has it on a machine; its socket is removed with it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(path))
        made.settimeout(60)
        try:
            yield made
        finally:
            path.unlink()


def messages(receiver: socket.socket, until: str) -> list[str]:
    """What comes, up to the first that ends so."""
    got: list[str] = []
    while not got or not got[-1].endswith(until):
        got.append(receiver.recv(65_536).decode())
    return got


def ran(cluster: Cluster, node: NodeProcess, script: str) -> str:
    job = create(
        node,
        {
            "namespace": "billing",
            "trigger": {"manual": True},
            "handler": {"shell": script, "env": {"PW": {"$secret": "smtp"}}},
        },
    )
    instance = run(node, job["id"])
    assert wait_final(cluster, node, instance)["state"] == "SUCCEEDED"
    return instance


def metrics(node: NodeProcess) -> list[str]:
    return node.request("GET", "/metrics").body.decode().splitlines()


def test_lines_reach_a_receiver_over_kills_and_secrets_never_do(tmp_path: Path) -> None:
    path, password = tmp_path / "log", secrets.token_hex(12)
    with Cluster(1, flags=["--output-ship", f"syslog+unix://{path}"]) as cluster:
        (node,) = cluster.nodes
        reply = node.request("PUT", "/v1/namespaces/billing/secrets/smtp", {"value": password})
        assert reply.status in (200, 201), reply.body
        with listening(path) as receiver:
            first = ran(cluster, node, 'echo "the password is $PW"; echo wrong >&2; sleep 0.3; seq 3')
            got = messages(receiver, "3")
        assert [one.rpartition("] ")[2] for one in got if 'stream="stdout"' in one] == [
            "the password is ***",
            "1",
            "2",
            "3",
        ]
        assert sum(one.endswith("] wrong") for one in got) == 1
        assert all(f'instance="{first}"' in one and 'namespace="billing"' in one for one in got)

        second = ran(cluster, node, 'echo "while nobody listened, $PW"')
        cluster.wait("a try", lambda: "does not take output, which waits" in node.log.read_text())
        node.kill()
        node.start()
        cluster.wait_ready()
        with listening(path) as receiver:
            again = messages(receiver, "while nobody listened, ***")
            third = ran(cluster, node, "echo the end")
            again += messages(receiver, "the end")
        assert [one.rpartition("] ")[2] for one in again] == ["while nobody listened, ***", "the end"], "none twice"
        assert [f'instance="{one}"' in two for one, two in zip((second, third), again, strict=True)] == [True, True]
        assert password not in "".join(got + again)
        wanted = ("raftsched_output_shipped_lines_total 2.0", "raftsched_output_unshipped_seconds 0.0")
        cluster.wait("the metrics to say so", lambda: all(one in metrics(node) for one in wanted))

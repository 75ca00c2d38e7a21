"""What real nodes export: docs/metrics.md lists it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.cluster import Cluster
from tests.support.ports import free_ports
from tests.support.prometheus import Exported, exported

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "metrics.md"


@dataclass
class Watched:
    """Three nodes on which something of everything happened that has metrics."""

    cluster: Cluster

    def texts(self) -> list[str]:
        replies = [node.request("GET", "/metrics") for node in self.cluster.nodes]
        assert {reply.status for reply in replies} == {200}
        return [reply.body.decode() for reply in replies]

    def metrics(self) -> dict[str, Exported]:
        return exported(self.texts())


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with Cluster(3, tls=True) as cluster:
        node = cluster.nodes[0]
        (closed,) = free_ports(1)
        hook = {"name": "deaf", "url": f"http://127.0.0.1:{closed}/", "retry_delays": ["100ms"], "events": ["failed"]}
        for method, path, body in (
            ("PUT", "/v1/queues/narrow", {"max_running": 2}),
            ("PUT", "/v1/queues/shut", {"paused": True}),
            ("PUT", "/v1/namespaces/billing", {"limits": {"max_running": 5}}),
            ("POST", "/v1/webhooks", hook),
        ):
            reply = node.request(method, path, body)
            assert reply.status in (200, 201), (path, reply.status, reply.body)
        manual = {"manual": True}
        good = create(node, {"trigger": manual, "handler": {"shell": "echo good"}, "queue": "narrow"})
        bad = create(node, {"trigger": manual, "handler": {"exec": ["false"]}, "namespace": "billing"})
        slow = create(node, {"trigger": manual, "handler": {"shell": "sleep 60"}, "timeout": "100ms"})
        once = create(node, {"trigger": {"in": "0s"}, "handler": {"shell": "true"}})
        waits = create(node, {"trigger": manual, "handler": {"shell": "true"}, "queue": "shut"})
        run(node, waits["id"])
        ends = [wait_final(cluster, node, run(node, job["id"]))["state"] for job in (good, bad, slow)]
        assert ends == ["SUCCEEDED", "FAILED", "TIMED_OUT"]
        with socket.create_connection(("127.0.0.1", node.http_port), 30) as plain:  # where TLS is spoken
            plain.sendall(b"GET / HTTP/1.1\r\nHost: n1\r\n\r\n")
            assert plain.recv(4096)
        watched = Watched(cluster)

        def told() -> bool:
            found = watched.metrics()
            ended = found["raftsched_attempts_ended_total"].values
            return {"failed", "timed_out", "succeeded"} <= ended.get("outcome", set()) and _failed(watched, "deaf")

        assert node.get(f"/v1/jobs/{once['id']}")
        cluster.wait("all of it in the metrics", told)
        yield watched


def _failed(watched: Watched, webhook: str) -> bool:
    line = f'raftsched_webhook_failures_in_a_row{{webhook="{webhook}"}}'
    return all(f"{line} 0.0" not in text and line in text for text in watched.texts())


def row(name: str, metric: Exported) -> str:
    labels = ", ".join(f"`{label}`" for label in sorted(metric.labels))
    return f"| `{name}` | {metric.kind} | {labels} | {metric.words} |"


def test_the_page_lists_what_nodes_export_and_nothing_else(watched: Watched) -> None:
    table = [line for line in PAGE.read_text().splitlines() if line.startswith("| `raftsched_")]
    wanted = [row(name, metric) for name, metric in sorted(watched.metrics().items())]
    assert table == wanted, "the table of docs/metrics.md should be:\n" + "\n".join(wanted)

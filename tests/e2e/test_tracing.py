"""Traces of real nodes as a collector gets them, and what becomes of a node whose collector is dead."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.e2e.steps import create, wait_final
from tests.support.cluster import Cluster
from tests.support.collector import collecting
from tests.support.local_cluster import LocalCluster
from tests.support.traces import CALLER, CALLER_SPAN, CALLER_TRACE

pytestmark = pytest.mark.e2e


def test_a_run_is_followed_from_its_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told"
    job = {"name": "report", "trigger": {"in": "0s"}, "handler": {"shell": f'printf %s "$TRACEPARENT" > {told}'}}
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "jobs")
        with LocalCluster(1, tracing=True) as cluster:
            made = cluster.leader().request("POST", "/v1/jobs", job, {"traceparent": CALLER})
            assert made.status == 201, made.body
            cluster.wait("the run", lambda: told.exists() and told.read_text())
        # The node has stopped, and its last spans are here.
        request, fire, run = (collector.named(name) for name in ("POST /v1/jobs", "fire", "run report"))
    assert (request.trace_id, request.parent_id) == (CALLER_TRACE, CALLER_SPAN)
    assert request.links == ((fire.trace_id, fire.span_id),)
    assert (fire.parent_id, run.trace_id, run.parent_id) == ("", fire.trace_id, fire.span_id)
    assert told.read_text() == f"00-{run.trace_id}-{run.span_id}-01"
    assert run.attributes["raftsched.instance.id"] == fire.attributes["raftsched.instance.id"]
    assert (run.resource["service.name"], run.resource["service.instance.id"]) == ("jobs", "n1")
    for span in (request, fire):
        (entry,) = [child for child in collector.spans if child.parent_id == span.span_id and child is not run]
        assert (entry.name, entry.trace_id) == ("log entry", span.trace_id)
        assert span.start_ns <= entry.start_ns <= entry.end_ns <= span.end_ns
    assert fire.start_ns <= run.start_ns


def test_a_dead_collector_changes_nothing() -> None:
    """One that takes connections and says nothing: the worst, as each request waits for its time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = Cluster(1, flags=["--tracing"])
        cluster.environment |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "OTEL_BSP_SCHEDULE_DELAY": "10",
            "OTEL_BSP_MAX_QUEUE_SIZE": "2",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1",
        }
        with cluster:
            node = cluster.leader()
            for _ in range(5):
                made = create(node, {"trigger": {"in": "0s"}, "handler": {"exec": ["true"]}})
                rows = cluster.wait("its run", lambda: node.get(f"/v1/jobs/{made['id']}/instances")["items"])  # noqa: B023
                assert wait_final(cluster, node, rows[0]["id"])["state"] == "SUCCEEDED"
            assert node.terminate() == 0
            log = node.log.read_text()
    assert log.count("the collector is slower than spans come") == 1
    assert log.count("the last spans did not get through") == 1
    assert "Traceback" not in log

"""Traces of a real node, as a collector gets them: from the request over the log and the fire to the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.collector import collecting

pytestmark = pytest.mark.e2e

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}


def test_a_run_is_followed_from_its_request(tmp_path: Path) -> None:
    with collecting() as collector:
        told = tmp_path / "told"
        cluster = Cluster(1, flags=["--tracing"])
        cluster.environment |= {**SOON, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with cluster:
            node = cluster.leader()
            job = {
                "name": "report",
                "trigger": {"in": "0s"},
                "handler": {"shell": f'printf %s "$TRACEPARENT" > {told}'},
            }
            made = node.request("POST", "/v1/jobs", job, {"traceparent": CALLER})
            assert made.status == 201, made.body
            run = collector.named("run report")
            fire = collector.named("fire")
            request = collector.named("POST /v1/jobs")
            entries = [
                collector.wait_for(lambda spans, of=of: [s for s in spans if s.parent_id == of])[0]
                for of in (request.span_id, fire.span_id)
            ]
        print(json.dumps([vars(s) for s in collector.spans], indent=1, default=str))
    _, trace_id, span_id, _ = CALLER.split("-")
    assert (request.trace_id, request.parent_id) == (trace_id, span_id)
    assert (fire.trace_id, fire.span_id) in request.links

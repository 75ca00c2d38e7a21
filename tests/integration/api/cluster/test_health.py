"""Previews, the cluster's page, health and metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.local_api import Client, LocalCluster, serving

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


async def test_a_preview_tells_times_and_clock_changes_and_saves_nothing(call: Client) -> None:
    before = call.cluster.store.applied_index
    body = {
        "trigger": {"cron": "30 2 * * *", "timezone": "Europe/Madrid"},
        "from": "2030-03-29T12:00:00Z",
        "count": 3,
    }
    status, shown = await call("POST", "/v1/schedules/preview", body)
    assert status == 200
    assert shown["description"]
    assert [n["at"] for n in shown["next"]] == [
        "2030-03-30T01:30:00.000Z",
        "2030-03-31T01:00:00.000Z",
        "2030-04-01T00:30:00.000Z",
    ]
    assert [n["note"] is None for n in shown["next"]] == [True, False, True]
    assert shown["next"][1]["note"].startswith("DST")
    for trigger, times in (
        ({"in": "30m"}, ["2030-01-01T00:30:00.000Z"]),
        ({"at": "2031-01-01T00:00:00Z"}, ["2031-01-01T00:00:00.000Z"]),
        ({"manual": True}, []),
        ({"every": "1h", "max_runs": 2}, ["2030-01-01T01:00:00.000Z", "2030-01-01T02:00:00.000Z"]),
        ({"cron": "@every 12h", "max_runs": 1}, ["2030-01-01T12:00:00.000Z"]),
    ):
        status, shown = await call("POST", "/v1/schedules/preview", {"trigger": trigger})
        assert (status, [n["at"] for n in shown["next"]]) == (200, times), trigger
    assert call.cluster.store.applied_index == before
    for bad, pointer in (
        ({}, "/trigger"),
        ({"trigger": {"cron": "61 * * * *"}}, "/trigger/cron"),
        ({"trigger": {"manual": True}, "count": 1001}, "/count"),
        ({"trigger": {"manual": True}, "from": "now"}, "/from"),
    ):
        status, problem = await call("POST", "/v1/schedules/preview", bad)
        assert (status, problem["errors"][0]["pointer"]) == (422, pointer)


def test_the_cluster_page_shows_every_member(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2", "n3"))
        try:
            cluster.open_session("n2", "127.0.0.1:7402")
            async with serving(cluster, "n2") as call:
                status, page = await call("GET", "/v1/cluster")
                assert (status, page["leader"], page["term"], page["node"]) == (200, "n1", 1, "n2")
                assert [(n["id"], n["role"]) for n in page["nodes"]] == [
                    ("n1", "leader"),
                    ("n2", "follower"),
                    ("n3", "follower"),
                ]
                own = page["nodes"][1]
                assert (own["http"], own["slots"], own["running"], own["lag"]) == ("127.0.0.1:7402", 4, 0, 0)
                assert own["alive"] is True
        finally:
            cluster.close()

    asyncio.run(main())


async def test_health_and_metrics(call: Client) -> None:
    assert await call("GET", "/livez") == (200, {"alive": True})
    assert (await call("GET", "/readyz"))[0] == 200
    await call("POST", "/v1/jobs", JOB)
    await call("POST", "/v1/jobs", {})
    status, text = await call("GET", "/metrics")
    assert status == 200
    assert 'raftsched_http_requests_total{method="POST",route="/v1/jobs",status="201"} 1.0' in text
    assert 'raftsched_http_requests_total{method="POST",route="/v1/jobs",status="422"} 1.0' in text
    assert 'raftsched_http_request_seconds_count{method="POST",route="/v1/jobs"} 2.0' in text
    assert "raftsched_raft_has_leader 1.0" in text
    call.cluster.leader = None
    status, body = await call("GET", "/readyz")
    assert (status, body["ready"], body["checks"]["leader"]) == (503, False, False)
    assert (await call("GET", "/livez"))[0] == 200
    assert (await call("HEAD", "/readyz"))[0] == 503

"""GET /v1/instances/{id}/explain over HTTP."""

from __future__ import annotations

import pytest

from raftsched.api.http.durations import format_time
from raftsched.core.commands import Fire, ScheduleJob, Split
from raftsched.core.ids import parse_instance, parse_job
from raftsched.core.rows import JOBS
from raftsched.core.subjects.zones import MoveJob, UseZones
from tests.support.local_api import Client

MANUAL = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "name": "by-hand"}


async def test_what_is_told_of_a_run_that_waits(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", MANUAL)
    _, made = await call("POST", f"/v1/jobs/{job['id']}/run", {})
    status, told = await call("GET", f"/v1/instances/{made['id']}/explain")
    assert status == 200
    assert (told["id"], told["job"], told["state"]) == (made["id"], "default/by-hand", "WAITING")
    assert told["waiting_for"]["reason"] == "no_eligible_node"
    assert told["text"].endswith(told["waiting_for"]["text"])
    assert [(s["kind"], s["term"]) for s in told["steps"]] == [("created", 1)]
    assert told["steps"][0]["index"] == call.cluster.store.applied_index
    assert told["waits"][0]["from"] == told["steps"][0]["at"]
    assert (await call("GET", f"/v1/instances/{made['id']}/explain?consistency=leader"))[0] == 200
    call.cluster.leader = None
    _, told = await call("GET", f"/v1/instances/{made['id']}/explain")
    assert told["waiting_for"]["reason"] == "no_leader"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/instances/0d3k5xw2a9f4m@1763600400000/explain", 404),
        ("/v1/instances/nonsense/explain", 404),
        ("/v1/instances/0d3k5xw2a9f4m@1763600400000/explain?why=1", 400),
    ],
)
async def test_what_is_refused(call: Client, path: str, status: int) -> None:
    assert (await call("GET", path))[0] == status


async def test_what_is_told_of_the_parts_of_a_run(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**MANUAL, "placement": {"shards": 2}})
    _, made = await call("POST", f"/v1/jobs/{job['id']}/run", {})
    key = parse_instance(made["id"])
    assert key is not None
    call.cluster.apply(Split(key))
    _, told = await call("GET", f"/v1/instances/{made['id']}/explain")
    assert "It is RUNNING: none of 2 parts succeeded; part 0, part 1 wait. It waits for part 0, as 1 " in told["text"]
    assert told["waiting_for"]["reason"] == "no_eligible_node"


async def test_a_run_that_is_late_by_a_pause_of_the_cluster_says_so(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**MANUAL, "trigger": {"every": "1h"}})
    assert (await call("POST", "/v1/cluster/pause"))[0] == 200
    call.cluster.clock.forward(3_600_000 + 60_000)
    assert (await call("POST", "/v1/cluster/resume"))[0] == 200
    number = parse_job(job["id"])
    assert number is not None
    with call.cluster.store.read() as view:
        row = JOBS.get(view, number)
    assert row is not None
    assert row.nominal_at_ms is not None
    call.cluster.apply(Fire(number, row.revision, row.nominal_at_ms))
    _, job = await call("GET", f"/v1/jobs/{job['id']}")
    _, told = await call("GET", f"/v1/instances/{job['last_instance']}/explain")
    assert "; it fired 1m later, for the cluster was paused from " in told["text"]


async def test_new_time_zone_data_is_told_of(call: Client) -> None:
    cluster = call.cluster
    _, made = await call("POST", "/v1/jobs", {"trigger": {"cron": "0 9 * * *"}, "handler": {"exec": ["true"]}})
    job_id = parse_job(made["id"])
    assert job_id is not None
    before, then = cluster.clock.wall + 120_000, cluster.clock.wall + 60_000
    cluster.apply(UseZones("2025a x", 0), ScheduleJob(job_id, 1, before, zones=1))
    _, told = await call("GET", f"/v1/jobs/{made['id']}/next")
    assert "time zone data" not in told["description"]
    cluster.apply(UseZones("2025b x", 1), MoveJob(job_id, 1, 2, before, then))
    words = (
        f"New time zone data made its next time {format_time(then)} at {format_time(cluster.clock.wall)};"
        f" until then it was {format_time(before)}."
    )
    _, told = await call("GET", f"/v1/jobs/{made['id']}/next")
    assert told["description"].endswith(words)
    _, told = await call("GET", f"/v1/jobs/{made['id']}/explain")
    assert {"reason": "time_zone_data", "text": words} in told["notes"]
    cluster.clock.forward(60_000)
    cluster.apply(Fire(job_id, 1, then, before + 86_400_000, zones=2))
    _, told = await call("GET", f"/v1/jobs/{made['id']}/next")
    assert "time zone data" not in told["description"]
    _, told = await call("GET", f"/v1/instances/{made['id']}@{then}/explain")
    assert told["why_then"]["text"].endswith(words)
    query = "follow=false&after=oldest&type=job.moved,zones.changed"
    async with call.session.get(f"{call.url}/v1/events?{query}") as answer:
        said = await answer.text()
    assert (said.count('"type":"job.moved"'), said.count('"subject":"2025b x"')) == (1, 1)

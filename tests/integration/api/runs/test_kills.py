"""POST /v1/instances:kill: all of a job or a namespace that are not at their end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import raftsched
from raftsched.api.runs import kills
from tests.support.local_api import Client
from tests.support.tokens import guarded, limited

EVERY = {"handler": {"exec": ["true"]}, "trigger": {"cron": "* * * * *"}, "overlap": "forbid"}
LAST_DAY = {"from": "2029-12-31T23:00:00Z", "to": "2030-01-01T00:00:00Z"}
PATH = "/v1/instances:kill"


async def backfilled(call: Any, name: str = "a", namespace: str = "default") -> str:
    """A job with 60 runs that wait for each other."""
    status, job = await call("POST", "/v1/jobs", {**EVERY, "name": name, "namespace": namespace})
    assert status == 201, job
    status, made = await call("POST", f"/v1/jobs/{job['id']}/backfill", LAST_DAY)
    assert (status, made["count"]) == (202, 60), made
    found: str = job["id"]
    return found


async def states(call: Any, job: str) -> dict[str, int]:
    _, listed = await call("GET", f"/v1/jobs/{job}/instances?limit=1000")
    found: dict[str, int] = {}
    for item in listed["items"]:
        found[item["state"]] = found.get(item["state"], 0) + 1
    return found


@pytest.mark.parametrize("wanted", [{"job": "a", "namespace": "default"}, {"namespace": "default"}, {"job": None}])
async def test_a_backfill_is_ended(call: Client, wanted: dict[str, Any]) -> None:
    job = await backfilled(call)
    other = await backfilled(call, "b", "elsewhere")
    given = {name: value or job for name, value in wanted.items()}
    status, seen = await call("POST", PATH, {"filter": given, "dry_run": True})
    assert (status, seen["matched"], seen["killed"], len(seen["sample"])) == (200, 60, 0, kills.SAMPLE_MAX)
    assert await states(call, job) == {"WAITING": 60}
    status, done = await call("POST", PATH, {"filter": given})
    assert (status, done["matched"], done["killed"], done["refused"], done["next"]) == (200, 60, 60, [], None)
    assert await states(call, job) == {"KILLED": 60}
    assert await states(call, other) == {"WAITING": 60}


async def test_by_state_and_time(call: Client) -> None:
    job = await backfilled(call)
    _, none = await call("POST", PATH, {"filter": {"job": job, "state": ["RUNNING", "RETRYING"]}})
    assert none["matched"] == 0
    some = {"job": job, "state": ["WAITING"], "from": "2029-12-31T23:30:00Z", "to": "2029-12-31T23:40:00Z"}
    _, done = await call("POST", PATH, {"filter": some})
    assert done["killed"] == 10
    assert await states(call, job) == {"WAITING": 50, "KILLED": 10}


async def test_in_steps_the_newest_first(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "ACT_MAX", 25)
    job = await backfilled(call)
    body: dict[str, Any] = {"filter": {"job": job}}
    killed = []
    while True:
        _, done = await call("POST", PATH, body)
        killed.append(done["killed"])
        _, listed = await call("GET", f"/v1/jobs/{job}/instances?state=WAITING&limit=1000")
        assert len(listed["items"]) == 60 - sum(killed)
        if done["next"] is None:
            break
        body["cursor"] = done["next"]
        assert listed["items"][-1]["scheduled_at"] == "2029-12-31T23:00:00.000Z", "the oldest are left"
    assert killed == [25, 25, 10]


async def test_it_is_done_once_under_its_key(call: Client) -> None:
    job = await backfilled(call)
    key = {"Idempotency-Key": "end-it"}
    _, first = await call("POST", PATH, {"filter": {"job": job}}, key)
    made = (await call("POST", f"/v1/jobs/{job}/run", {}))[1]["id"]
    _, again = await call("POST", PATH, {"filter": {"job": job}}, key)
    assert again == first
    assert (await call("GET", f"/v1/instances/{made}"))[1]["state"] == "WAITING"
    status, problem = await call("POST", PATH, {"filter": {"job": job, "state": ["WAITING"]}}, key)
    assert (status, problem["code"]) == (422, "idempotency-mismatch")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/filter"),
        ({"filter": {}}, "/filter"),
        ({"filter": {"state": ["WAITING"]}}, "/filter"),
        ({"filter": {"namespace": "default", "state": ["FAILED"]}}, "/filter/state/0"),
        ({"filter": {"namespace": "Not One"}}, "/filter/namespace"),
        ({"filter": {"namespace": "a", "from": "2030-01-02T00:00:00Z", "to": "2030-01-01T00:00:00Z"}}, "/filter/from"),
        ({"filter": {"namespace": "a"}, "cursor": "x"}, "/cursor"),
        ({"filter": {"namespace": "a"}, "all": True}, "/all"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, body: Any, pointer: str) -> None:
    status, problem = await call("POST", PATH, body)
    assert (status, problem["code"], problem["errors"][0]["pointer"]) == (422, "invalid-body", pointer), problem


async def test_a_token_for_some_namespaces(call: Client) -> None:
    admin = (await guarded(call))["admin"]
    mine, other = await backfilled(admin, "a", "mine"), await backfilled(admin, "b", "other")
    editor = await limited(admin, "ed", "editor", "mine")
    assert (await editor("POST", PATH, {"filter": {"namespace": "other"}}))[0] == 403
    assert (await editor("POST", PATH, {"filter": {"job": other}}))[0] == 404
    assert (await editor("POST", PATH, {"filter": {"job": mine}}))[1]["killed"] == 60
    assert await states(admin, other) == {"WAITING": 60}


async def test_with_the_client(call: Client) -> None:
    job = await backfilled(call)
    async with raftsched.AsyncClient(call.url, discover=False) as client:
        seen = await client.instances.kill_matching(job=job, dry_run=True)
        assert (seen.matched, seen.done) == (60, 0)
        done = await client.instances.kill_matching(
            job=job, state=["WAITING"], **{"from": datetime(2029, 12, 31, 23, 30, tzinfo=UTC)}
        )
        assert (done.matched, done.done) == (30, 30)
        with pytest.raises(ValueError, match="namespace"):
            await client.instances.kill_matching(state=["WAITING"])
    assert await states(call, job) == {"WAITING": 30, "KILLED": 30}

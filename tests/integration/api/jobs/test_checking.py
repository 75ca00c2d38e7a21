"""Checks of a job that is not there yet, and of a change: what they say is what the write says, and nothing is done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.local_api import Client
from tests.support.tokens import As, guarded, limited, make

JOB = {"trigger": {"cron": "0 2 * * *", "timezone": "Europe/Madrid"}, "handler": {"shell": "true"}}
CHECK = "/v1/jobs:check"
WRONG: list[dict[str, Any]] = [
    {**JOB, "timeout": "soon"},
    {**JOB, "timeout": "400d", "priority": 11, "nmae": "x"},
    {"handler": {"shell": "true"}},
    {**JOB, "trigger": {"cron": "61 * * * *"}},
    {**JOB, "trigger": {"cron": "* * * * *", "calendar": "nowhere"}},
    {**JOB, "handler": {"shell": "true", "env": {"A": {"$secret": "nowhere"}}}},
    {**JOB, "notify": {"webhook": "nowhere", "on": ["failed"]}},
    {**JOB, "name": "a", "conditions": [{"job_succeeded": "default/a", "within": "1h"}]},
    {**JOB, "name": "there", "priority": 9},
    {**JOB, "name": "there", "suspended": True},
    {**JOB, "namespace": "full"},
    {**JOB, "namespace": "System"},
    {**JOB, "name": "UPPER"},
]


async def filled(call: Client) -> dict[str, Any]:
    assert (await call("PUT", "/v1/namespaces/full", {"limits": {"max_jobs": 1}}))[0] == 201
    assert (await call("POST", "/v1/jobs", {**JOB, "namespace": "full"}))[0] == 201
    status, job = await call("POST", "/v1/jobs", {**JOB, "name": "there"})
    assert status == 201
    return dict(job)


@pytest.mark.parametrize("body", WRONG, ids=lambda body: ",".join(map(str, body))[:60])
async def test_it_refuses_what_a_create_refuses(call: Client, body: dict[str, Any]) -> None:
    await filled(call)
    checked = await call("POST", CHECK, body)
    assert checked[0] >= 400
    assert checked == await call("POST", "/v1/jobs", body)


async def test_it_says_what_would_come_and_does_nothing(call: Client) -> None:
    await call("PUT", "/v1/namespaces/billing", {"defaults": {"timeout": "10m", "queue": "slow"}})
    body = {**JOB, "namespace": "billing", "name": "report", "priority": 7}
    index = call.cluster.store.applied_index
    status, found = await call("POST", CHECK, body)
    assert (status, found["result"]) == (200, "created")
    assert found["description"] == "at 02:00 every day, Europe/Madrid time"
    assert (len(found["next"]), found["next"][0]["at"], found["more"]) == (10, "2030-01-01T01:00:00.000Z", True)
    shown = found["job"]
    assert (shown["timeout"], shown["queue"], shown["priority"], shown["suspended"]) == ("10m", "slow", 7, False)
    assert call.cluster.store.applied_index == index
    assert (await call("GET", "/v1/namespaces/billing/jobs/report"))[0] == 404
    assert (await call("POST", "/v1/jobs", body))[0] == 201
    assert (await call("POST", CHECK, body))[1]["result"] == "unchanged"
    status, problem = await call("POST", CHECK, body, {"If-None-Match": "*"})
    assert (status, problem["code"]) == (412, "exists")


CHANGES: list[dict[str, Any]] = [
    {"timeout": "soon"},
    {"timeuot": None},
    {"namespace": "other"},
    {"suspended": True},
    {"name": "taken"},
    {"trigger": {"cron": "* * * * *", "calendar": "nowhere"}},
    {"conditions": [{"job_succeeded": "default/there", "within": "1h"}]},
    {"misfire": {"policy": "all"}, "trigger": {"in": "1h"}},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_it_refuses_what_a_patch_refuses(call: Client, change: dict[str, Any]) -> None:
    job = await filled(call)
    await call("POST", "/v1/jobs", {**JOB, "name": "taken"})
    for path in (f"/v1/jobs/{job['id']}", "/v1/namespaces/default/jobs/there"):
        checked = await call("POST", f"{path}/check", change)
        assert checked[0] >= 400
        assert checked == await call("PATCH", path, change)


async def test_a_change_is_shown_merged_and_not_made(call: Client) -> None:
    job = await filled(call)
    path = f"/v1/jobs/{job['id']}"
    status, found = await call("POST", f"{path}/check", {"priority": 9, "trigger": {"every": "1h"}})
    assert (status, found["result"], found["job"]["priority"]) == (200, "changed", 9)
    assert found["job"]["handler"] == {"shell": "true"}
    assert found["description"].startswith("every 1h")
    assert (await call("POST", f"{path}/check", {"priority": 5}))[1]["result"] == "unchanged"
    assert (await call("GET", path))[1] == job
    assert (await call("POST", f"{path}/check", {"priority": 1}, {"If-Match": '"1"'}))[0] == 200
    status, problem = await call("POST", f"{path}/check", {"priority": 1}, {"If-Match": '"7"'})
    assert (status, problem["code"]) == (412, "stale-revision")
    assert (await call("POST", "/v1/jobs/0000000000000/check", {}))[0] == 404


async def test_who_may_not_create_may_not_check(call: Client) -> None:
    people = await guarded(call)
    _, job = await people["admin"]("POST", "/v1/jobs", {**JOB, "namespace": "theirs", "name": "j"})
    mine = await limited(people["admin"], "mine", "editor", "mine")
    viewer = As(call, await make(people["admin"], "looks", "viewer"))
    assert (await viewer("POST", CHECK, JOB))[0] == 403
    names_a_secret = {"shell": "true", "env": {"A": {"$secret": "nowhere"}}}
    theirs = {**JOB, "namespace": "theirs"}
    for body in (JOB, theirs, {**theirs, "name": "j"}, {**theirs, "handler": names_a_secret}):
        assert await mine("POST", CHECK, body) == await mine("POST", "/v1/jobs", body)
    assert (await mine("POST", f"/v1/jobs/{job['id']}/check", {"priority": 1}))[0] == 404
    assert (await mine("POST", CHECK, {**JOB, "namespace": "mine"}))[0] == 200

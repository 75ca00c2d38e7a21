"""Pausing until a time: what may be said, what is answered, and what replaces it."""

from __future__ import annotations

from raftsched.core.commands import ResumeJob
from raftsched.core.ids import parse_job
from tests.support.clock import START_MS
from tests.support.local_api import Client

JOB = {"trigger": {"every": "1m"}, "handler": {"exec": ["true"]}}


async def test_until_and_for(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", JOB)
    pause = f"/v1/jobs/{job['id']}/pause"
    status, job = await call("POST", pause, {"until": "2030-01-07T06:00:00Z"})
    assert (status, job["state"], job["resumes_at"]) == (200, "SUSPENDED", "2030-01-07T06:00:00.000Z")
    _, again = await call("POST", pause, {"for": "2h"})
    now = (await call("GET", f"/v1/jobs/{job['id']}"))[1]
    assert again["resumes_at"] == now["resumes_at"] != job["resumes_at"]
    assert (await call("GET", "/v1/jobs?fields=resumes_at"))[1]["items"] == [{"resumes_at": again["resumes_at"]}]
    assert (await call("PATCH", f"/v1/jobs/{job['id']}", {"owner": "ana"}))[1]["resumes_at"] == again["resumes_at"]
    assert (await call("POST", pause))[1]["resumes_at"] is None, "a later pause replaces an earlier one"
    await call("POST", pause, {"for": "2h"})
    _, job = await call("POST", f"/v1/jobs/{job['id']}/resume")
    assert (job["state"], job["resumes_at"]) == ("SCHEDULED", None)


async def test_what_is_wrong_is_told_by_its_place(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", JOB)
    for body, at in (
        ({"until": "2001-01-01T00:00:00Z"}, "/until"),
        ({"until": "tomorrow"}, "/until"),
        ({"for": "0s"}, "/for"),
        ({"for": "long"}, "/for"),
        ({"until": "2030-01-07T06:00:00Z", "for": "2h"}, "/for"),
    ):
        status, problem = await call("POST", f"/v1/jobs/{job['id']}/pause", body)
        assert (status, problem["errors"][0]["pointer"]) == (422, at), body
        status, problem = await call("POST", "/v1/jobs:actions", {"action": "pause", "all": True, **body})
        assert (status, problem["errors"][0]["pointer"]) == (422, at), body
    status, problem = await call("POST", "/v1/jobs:actions", {"action": "resume", "all": True, "for": "2h"})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/for")


async def test_many_at_a_time(call: Client) -> None:
    for name in ("a", "b"):
        await call("POST", "/v1/jobs", {**JOB, "name": name})
    until = {"until": "2030-01-07T06:00:00Z"}
    _, started = await call("POST", "/v1/jobs:actions", {"action": "pause", "all": True, **until})
    _, done = await call("GET", f"/v1/operations/{started['id']}")
    assert (done["state"], done["changed"], done["until"]) == ("DONE", 2, "2030-01-07T06:00:00.000Z")
    _, page = await call("GET", "/v1/jobs")
    assert {job["resumes_at"] for job in page["items"]} == {"2030-01-07T06:00:00.000Z"}
    _, started = await call("POST", "/v1/jobs:actions", {"action": "pause", "all": True})
    assert (await call("GET", f"/v1/operations/{started['id']}"))[1]["changed"] == 2
    _, page = await call("GET", "/v1/jobs")
    assert {job["resumes_at"] for job in page["items"]} == {None}


async def test_a_repeat_under_its_key_is_the_same_pause(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", JOB)
    pause, key = f"/v1/jobs/{job['id']}/pause", {"Idempotency-Key": "k"}
    _, first = await call("POST", pause, {"for": "1h"}, headers=key)
    call.cluster.clock.forward(1_000)
    _, again = await call("POST", pause, {"for": "1h"}, headers=key)
    assert again["resumes_at"] == first["resumes_at"]
    assert (await call("POST", pause, {"for": "2h"}, headers=key))[0] == 422


async def test_it_is_resumed_at_that_time(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", JOB)
    await call("POST", f"/v1/jobs/{job['id']}/pause", {"for": "1h"})
    call.cluster.clock.forward(3_600_000)
    call.cluster.apply(ResumeJob(parse_job(job["id"]) or 0, START_MS + 3_600_000))
    _, job = await call("GET", f"/v1/jobs/{job['id']}")
    assert (job["state"], job["resumes_at"]) == ("SCHEDULED", None)

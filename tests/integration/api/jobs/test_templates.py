"""Templates of a handler are held against the params that a run will have, by the requests that say these."""

from __future__ import annotations

from tests.support.local_api import Client

HANDLER = {"exec": ["./report.sh", "{due:%F}", "{params.region}"], "template": True}
JOB = {"trigger": {"manual": True}, "handler": HANDLER, "params": {"region": "south"}}


async def test_jobs_and_their_changes(call: Client) -> None:
    status, made = await call("POST", "/v1/jobs", JOB)
    assert (status, made["handler"]) == (201, HANDLER)
    job = f"/v1/jobs/{made['id']}"
    status, problem = await call("PATCH", job, {"params": {"region": None, "other": 1}})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/handler/exec/2")
    assert (await call("PATCH", job, {"handler": {"exec": HANDLER["exec"]}, "params": {"region": None}}))[0] == 200
    assert (await call("PATCH", job, {"handler": HANDLER}))[0] == 422
    assert (await call("POST", "/v1/jobs:check", {**JOB, "params": {}}))[0] == 422
    status, answer = await call("POST", "/v1/jobs:batch", [{**JOB, "params": {}}, JOB])
    assert (status, [item["status"] for item in answer["items"]]) == (200, [422, 201])


async def test_params_of_one_run(call: Client) -> None:
    _, made = await call("POST", "/v1/jobs", JOB)
    runs = f"/v1/jobs/{made['id']}/run"
    for params in ({}, {"region": None}, {"region": {"$secret": "x"}}):
        status, problem = await call("POST", runs, {"params": params})
        assert (status, problem["errors"][0]["pointer"]) == (422, "/params")
        assert "its /handler/exec/2 has {params.region}" in problem["errors"][0]["detail"]
    assert (await call("POST", runs, {"params": {"region": "north"}}))[0] == 202

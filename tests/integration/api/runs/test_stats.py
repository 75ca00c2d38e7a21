"""Statistics from the instances that are kept, and the revisions of a job."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.api.http import slices
from raftsched.api.runs import stats
from raftsched.core import commands as c
from raftsched.core.ids import parse_instance, parse_job
from raftsched.core.limits import HISTORY_MAX
from raftsched.core.model import Outcome
from tests.integration.api.jobs.test_lists import make as make_job
from tests.integration.api.jobs.test_on_call import fire
from tests.support.clock import START_MS
from tests.support.local_api import Client

JOB = {"trigger": {"every": "1m"}, "handler": {"exec": ["true"]}, "overlap": "allow"}
EMPTY = {"count": 0, "mean": None, "p50": None, "p90": None, "p99": None, "max": None}


async def make(call: Client, **fields: Any) -> str:
    status, answer = await call("POST", "/v1/jobs", {**JOB, **fields})
    assert status == 201, answer
    return str(answer["id"])


async def go(call: Client, job: str, late_ms: int, took_ms: int, outcome: Outcome = Outcome.SUCCEEDED) -> None:
    """Fires a job at its time; its attempt starts so late and takes so long."""
    cluster = call.cluster
    _, shown = await call("GET", f"/v1/jobs/{job}")
    job_id = parse_job(job)
    assert job_id is not None
    with cluster.store.read() as view:
        from raftsched.api.rows import get_job

        row = get_job(view, job_id)
    assert row is not None
    assert row.nominal_at_ms is not None
    cluster.clock.forward(max(0, row.nominal_at_ms - cluster.clock.wall))
    cluster.apply(c.Fire(job_id, shown["revision"], row.nominal_at_ms))
    _, shown = await call("GET", f"/v1/jobs/{job}")
    key = parse_instance(shown["last_instance"])
    assert key is not None
    session = cluster.sessions.get("n1") or cluster.open_session("n1", "127.0.0.1:1")
    (assigned,) = cluster.apply(c.Assign(key, session))
    assert isinstance(assigned, c.Accepted)
    assert assigned.number is not None
    start = row.nominal_at_ms + late_ms
    cluster.apply(c.Ended(session, assigned.number, outcome, start, start + took_ms))


async def test_of_a_job(call: Client) -> None:
    job, other = await make(call), await make(call)
    for i in range(10):
        await go(call, job, late_ms=i, took_ms=100 * (i + 1))
    await go(call, job, late_ms=20, took_ms=5_000, outcome=Outcome.FAILED)
    await go(call, other, late_ms=7, took_ms=7)
    status, found = await call("GET", f"/v1/jobs/{job}/stats")
    assert status == 200
    assert found["complete"]
    assert {k: n for k, n in found["instances"].items() if n} == {"SUCCEEDED": 10, "FAILED": 1}
    assert {k: n for k, n in found["attempts"].items() if n} == {"succeeded": 10, "failed": 1}
    assert found["dead_letters"] == 1
    assert found["duration"] == {"count": 11, "mean": 955, "p50": 600, "p90": 1_000, "p99": 5_000, "max": 5_000}
    assert found["lateness"] == {"count": 11, "mean": 6, "p50": 5, "p90": 9, "p99": 20, "max": 20}
    assert found["jobs"] is None
    _, found = await call("GET", f"/v1/jobs/{job}/stats?from=2030-01-01T00:02:00Z&to=2030-01-01T00:04:00Z")
    assert (found["duration"]["count"], found["duration"]["max"]) == (2, 300)
    assert found["counted_from"] == "2030-01-01T00:02:00.000Z"


async def test_stats_of_a_job_begin_where_it_does(call: Client) -> None:
    job = await make(call)
    _, found = await call("GET", f"/v1/jobs/{job}/stats")
    assert found["from"] == found["counted_from"] == "2030-01-01T00:00:00.000Z", "when it was made"
    past = "2029-12-31T23:58:00.000Z"
    once = await make_job(call, trigger={"at": past})
    fire(call, once)
    _, found = await call("GET", f"/v1/jobs/{once}/stats")
    assert found["from"] == found["counted_from"] == past, "when its first run was due"
    _, found = await call("GET", f"/v1/jobs/{job}/stats?from=2029-01-01T00:00:00Z")
    assert found["from"] == "2029-01-01T00:00:00.000Z"


async def test_nothing_ran_yet(call: Client) -> None:
    job = await make(call)
    _, found = await call("GET", f"/v1/jobs/{job}/stats")
    assert found["duration"] == found["lateness"] == EMPTY
    await call("POST", f"/v1/jobs/{job}/run")
    _, found = await call("GET", f"/v1/jobs/{job}/stats")
    assert found["instances"]["WAITING"] == 1
    assert found["lateness"] == EMPTY


async def test_of_all_by_owner_and_namespace(call: Client) -> None:
    ana = await make(call, owner="ana", namespace="billing", name="a")
    bo = await make(call, owner="bo", namespace="billing")
    await make(call, owner="bo", suspended=True)
    for _ in range(3):
        await go(call, ana, 0, 10)
    await go(call, bo, 0, 1_000)
    expected = {
        "": (4, {"NEW": 1, "SCHEDULED": 2, "SUSPENDED": 0, "EXPIRED": 0}),
        "?owner=ana": (3, {"NEW": 0, "SCHEDULED": 1, "SUSPENDED": 0, "EXPIRED": 0}),
        "?owner=bo": (1, {"NEW": 1, "SCHEDULED": 1, "SUSPENDED": 0, "EXPIRED": 0}),
        "?namespace=billing": (4, {"NEW": 0, "SCHEDULED": 2, "SUSPENDED": 0, "EXPIRED": 0}),
        "?namespace=default": (0, {"NEW": 1, "SCHEDULED": 0, "SUSPENDED": 0, "EXPIRED": 0}),
        "?owner=bo&namespace=default": (0, {"NEW": 1, "SCHEDULED": 0, "SUSPENDED": 0, "EXPIRED": 0}),
        "?from=2030-01-01T00:03:00Z": (2, {"NEW": 1, "SCHEDULED": 2, "SUSPENDED": 0, "EXPIRED": 0}),
    }
    for query, (runs, jobs) in expected.items():
        status, found = await call("GET", f"/v1/stats{query}")
        assert (status, found["instances"]["SUCCEEDED"], found["jobs"]) == (200, runs, jobs), query
    _, by_name = await call("GET", "/v1/namespaces/billing/jobs/a/stats")
    assert by_name["duration"]["count"] == 3
    call.cluster.clock.forward(stats.SPAN_MS + 1)
    _, found = await call("GET", "/v1/stats")
    assert found["duration"]["count"] == 0


async def test_so_many_are_looked_at_and_the_answer_says_how_far_back(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await make(call)
    for _ in range(9):
        await go(call, job, 0, 10)
    for slice_s, most, counted in ((0.0, 4, 4), (0.0, 100, 9), (0.0, 9, 9), (9.0, 9, 9)):
        monkeypatch.setattr(slices, "SLICE_S", slice_s)
        monkeypatch.setattr(stats, "LOOK_MAX", most)
        for path in ("/v1/stats", f"/v1/jobs/{job}/stats"):
            _, found = await call("GET", path)
            assert found["instances"]["SUCCEEDED"] == counted
            if counted == 4:
                assert (found["complete"], found["counted_from"]) == (False, "2030-01-01T00:06:00.000Z")


async def test_jobs_that_are_too_many_are_not_counted(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    monkeypatch.setattr(stats, "LOOK_MAX", 4)
    for i in range(5):
        await make(call, owner="ana")
        _, found = await call("GET", "/v1/stats?owner=ana")
        assert found["jobs"] == ({"NEW": 0, "SCHEDULED": i + 1, "SUSPENDED": 0, "EXPIRED": 0} if i < 3 else None)


@pytest.mark.parametrize(
    "query",
    ["from=x", "from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z", "namespace=A", "own=a", "owner=" + "x" * 5_000],
)
async def test_what_is_wrong_in_a_query(call: Client, query: str) -> None:
    status, answer = await call("GET", f"/v1/stats?{query}")
    assert (status, answer["code"]) == (400, "invalid-parameter")


# ---------------------------------------------------------------- revisions


async def test_each_edit_is_kept_with_its_time(call: Client) -> None:
    job = await make(call, name="a", owner="ana")
    path = f"/v1/jobs/{job}"
    assert call.cluster.clock.wall == START_MS
    call.cluster.clock.forward(60_000)
    await call("PATCH", path, {"owner": "bo"})
    call.cluster.clock.forward(60_000)
    await call("PATCH", path, {"priority": 9, "name": "b"})
    await call("POST", f"{path}/pause")
    status, found = await call("GET", f"{path}/revisions")
    assert status == 200
    assert found["next"] is None
    times = [f"2030-01-01T00:0{minute}:00.000Z" for minute in range(3)]
    shown = [(one["revision"], one["name"], one["from"], one["to"]) for one in found["items"]]
    assert shown == [(3, "b", times[2], None), (2, "a", times[1], times[2]), (1, "a", times[0], times[1])]
    assert [one["content"].get("owner") for one in found["items"]] == ["bo", "bo", "ana"]
    assert [one["content"].get("priority") for one in found["items"]] == [9, None, None]
    _, by_name = await call("GET", "/v1/namespaces/default/jobs/b/revisions")
    assert by_name == found
    await call("DELETE", path)
    assert (await call("GET", f"{path}/revisions"))[0] == 404


async def test_of_many_edits_the_newest_are_kept(call: Client) -> None:
    job = await make(call)
    for i in range(HISTORY_MAX + 2):
        await call("PATCH", f"/v1/jobs/{job}", {"params": {"n": i}})
    _, found = await call("GET", f"/v1/jobs/{job}/revisions")
    assert [one["revision"] for one in found["items"]] == list(range(HISTORY_MAX + 3, 2, -1))
    assert found["items"][-1]["from"] is None

"""What somebody on call asks of jobs: how their last runs ended, which of them fail, which are late."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.api.rows import get_job
from raftsched.core import commands as c
from raftsched.core.ids import parse_instance, parse_job
from raftsched.core.model import Outcome, Verdict
from tests.integration.api.jobs.test_lists import ids, make
from tests.support.local_api import Client

TOOK_MS = 120


async def start(call: Client, job: str) -> str:
    status, made = await call("POST", f"/v1/jobs/{job}/run")
    assert status == 202, made
    return str(made["id"])


def end(call: Client, instance: str, outcome: Outcome, verdict: Verdict | None = None) -> None:
    """Runs it on a node, with this outcome."""
    key = parse_instance(instance)
    assert key is not None
    cluster = call.cluster
    session = cluster.sessions.get("n1") or cluster.open_session("n1", "127.0.0.1:1")
    (assigned,) = cluster.apply(c.Assign(key, session))
    assert isinstance(assigned, c.Accepted)
    began_ms = cluster.clock.wall_ms()
    cluster.clock.forward(TOOK_MS)
    ended_ms = began_ms + TOOK_MS
    (answer,) = cluster.apply(
        c.EndedWithReport(session, assigned.number or 0, outcome, began_ms, ended_ms, verdict=verdict)
    )
    assert isinstance(answer, c.Accepted), answer


def fire(call: Client, job: str) -> None:
    """When it is due, which the clock goes to."""
    cluster = call.cluster
    with cluster.store.read() as view:
        row = get_job(view, parse_job(job) or 0)
    assert row is not None
    assert row.nominal_at_ms is not None
    cluster.clock.forward(max(0, row.nominal_at_ms - cluster.clock.wall_ms()))
    (answer,) = cluster.apply(c.Fire(row.id, row.revision, row.nominal_at_ms))
    assert isinstance(answer, c.Accepted), answer


async def run(call: Client, job: str, outcome: Outcome, verdict: Verdict | None = None) -> None:
    end(call, await start(call, job), outcome, verdict)


async def test_a_job_says_how_its_last_run_ended(call: Client) -> None:
    job = await make(call, name="report", trigger={"manual": True})
    _, found = await call("GET", f"/v1/jobs/{job}")
    assert (found["last_state"], found["last_duration_ms"], found["last_end_at"]) == (None, None, None)
    for outcome, verdict, state in (
        (Outcome.FAILED, None, "FAILED"),
        (Outcome.SUCCEEDED, None, "SUCCEEDED"),
        (Outcome.TIMED_OUT, None, "TIMED_OUT"),
        (Outcome.FAILED, Verdict.CANCEL, "KILLED"),
    ):
        await run(call, job, outcome, verdict)
        _, found = await call("GET", f"/v1/jobs/{job}")
        assert (found["last_state"], found["last_duration_ms"]) == (state, TOOK_MS)
        _, page = await call("GET", "/v1/jobs?fields=last_state,last_duration_ms")
        assert page["items"] == [{"last_state": state, "last_duration_ms": TOOK_MS}]


async def test_jobs_that_fail_are_listed(call: Client) -> None:
    fine, failed, slow, killed, never = [await make(call, trigger={"manual": True}) for _ in range(5)]
    await run(call, fine, Outcome.FAILED)
    await run(call, fine, Outcome.SUCCEEDED)
    await run(call, failed, Outcome.FAILED)
    await run(call, slow, Outcome.TIMED_OUT)
    await run(call, killed, Outcome.FAILED)
    await run(call, killed, Outcome.FAILED, Verdict.CANCEL)  # which says nothing of the job
    assert await ids(call, "failing=true") == [failed, slow, killed]
    assert await ids(call, "failing=false") == [fine, never]
    await call("POST", f"/v1/jobs/{failed}/pause")
    await call("POST", f"/v1/jobs/{failed}/resume")  # its count of failures begins anew
    assert await ids(call, "failing=true&limit=2") == [failed, slow, killed]


async def test_jobs_that_are_late_are_listed(call: Client) -> None:
    waits = await make(call, trigger={"every": "1m"})
    by_hand = await make(call, trigger={"manual": True})
    runs = await make(call, trigger={"every": "1m"})
    for job in (waits, runs):
        fire(call, job)
    assert await ids(call, "late=true") == []
    _, page = await call("GET", f"/v1/jobs/{runs}/instances")
    end(call, page["items"][0]["id"], Outcome.SUCCEEDED)
    await start(call, by_hand)
    call.cluster.clock.forward(2_000)
    assert await ids(call, "late=true") == [waits]
    assert await ids(call, "late=false") == [by_hand, runs]
    call.cluster.clock.forward(60_000)  # and nobody fires them
    assert await ids(call, "late=true") == [waits, runs]


async def test_late_does_not_go_with_due_times(call: Client) -> None:
    status, problem = await call("GET", "/v1/jobs?late=true&next_from=2030-01-01T00:00:00Z")
    assert (status, problem["code"]) == (400, "invalid-parameter")
    assert '"next_from"' in str(problem)


@pytest.mark.parametrize("query", ["failing=yes", "late=1"])
async def test_they_are_true_or_false(call: Client, query: str) -> None:
    status, problem = await call("GET", f"/v1/jobs?{query}")
    assert (status, problem["code"]) == (400, "invalid-parameter")


async def test_runs_that_began_late_are_listed(call: Client) -> None:
    job = await make(call, trigger={"every": "1m"})
    late: list[Any] = []
    for wait_ms in (0, 1_000, 1_001, 5_000):
        fire(call, job)
        _, page = await call("GET", f"/v1/jobs/{job}/instances?limit=1")
        run = page["items"][0]["id"]
        call.cluster.clock.forward(wait_ms)
        end(call, run, Outcome.SUCCEEDED)
        if wait_ms > 1_000:
            late.insert(0, run)
    for path in ("/v1/instances", f"/v1/jobs/{job}/instances"):
        _, page = await call("GET", f"{path}?late=true")
        assert [one["id"] for one in page["items"]] == late
    _, page = await call("GET", "/v1/instances?late=false")
    assert len(page["items"]) == 2

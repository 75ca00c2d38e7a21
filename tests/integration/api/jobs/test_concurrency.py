"""How many runs of a job at one time, its queue and its priority: accepted, shown, and handed to apply."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.ids import parse_job
from raftsched.core.model import Policy
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table, u64
from tests.support.local_api import Client

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


def policy(call: Client, job: dict[str, Any]) -> Policy:
    number = parse_job(job["id"])
    assert number is not None
    with call.cluster.store.read() as view:
        return decode_job(view.get(Table.JOBS, u64(number)) or b"").policy


@pytest.mark.parametrize(
    ("overlap", "given", "shown", "kept"),
    [
        ("forbid", None, 1, 0),
        ("forbid", 1, 1, 0),
        ("forbid", 3, 3, 3),
        ("queue_all", 1, 1, 0),
        ("replace", 10_000, 10_000, 10_000),
        ("allow", None, None, 0),
        ("allow", 1, 1, 1),
        ("allow", 2, 2, 2),
    ],
)
async def test_max_concurrency_goes_in_and_comes_out(
    call: Client, overlap: str, given: int | None, shown: int | None, kept: int
) -> None:
    body = {**JOB, "name": "a", "overlap": overlap, "max_concurrency": given}
    status, job = await call("POST", "/v1/jobs", body)
    assert (status, job["max_concurrency"], policy(call, job).max_concurrency) == (201, shown, kept)
    assert (await call("POST", "/v1/jobs", body))[0] == 200
    path = f"/v1/jobs/{job['id']}"
    assert (await call("GET", path))[1] == job
    assert await call("PUT", path, job) == (200, job)  # what was answered is no change
    status, job = await call("PATCH", path, {"max_concurrency": 7})
    assert (status, job["max_concurrency"], policy(call, job).max_concurrency) == (200, 7, 7)
    status, job = await call("PATCH", path, {"max_concurrency": None})
    assert (status, job["max_concurrency"]) == (200, None if overlap == "allow" else 1)
    assert policy(call, job).max_concurrency == 0


async def test_a_job_that_comes_to_allow_overlap_has_no_limit_that_nobody_gave(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "max_concurrency": 1})
    _, job = await call("PATCH", f"/v1/jobs/{job['id']}", {"overlap": "allow"})
    assert (job["overlap"], job["max_concurrency"]) == ("allow", None)
    _, job = await call("PATCH", f"/v1/jobs/{job['id']}", {"max_concurrency": 1})
    assert policy(call, job).max_concurrency == 1


async def test_queue_and_priority(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "queue": "reports", "priority": 9})
    assert (job["queue"], job["priority"]) == ("reports", 9)
    assert (policy(call, job).queue, policy(call, job).priority) == ("reports", 9)
    _, job = await call("PATCH", f"/v1/jobs/{job['id']}", {"queue": None, "priority": 0})
    assert (job["queue"], job["priority"], policy(call, job).queue) == ("default", 0, "default")
    for bad in ("Reports", "a" * 129, "", ".."):
        status, problem = await call("PATCH", f"/v1/jobs/{job['id']}", {"queue": bad})
        assert (status, [e["pointer"] for e in problem["errors"]]) == (422, ["/queue"])

"""Conditions of jobs: accepted, shown, and handed to apply."""

from __future__ import annotations

from typing import Any

from raftsched.bounds import HOUR_MS
from raftsched.core.ids import parse_job
from raftsched.core.model import Condition, ConditionKind, Policy
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table, u64
from tests.support.local_api import Client

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "name": "load"}
GIVEN = [
    {"path": "/data/in/*.csv"},
    {"http": "http://127.0.0.1:8080/ready"},
    {"http": "https://example.com/", "status": 204},
    {"job_succeeded": "billing/import", "within": "2h"},
]


def policy(call: Client, job: dict[str, Any]) -> Policy:
    number = parse_job(job["id"])
    assert number is not None
    with call.cluster.store.read() as view:
        return decode_job(view.get(Table.JOBS, u64(number)) or b"").policy


async def test_they_go_in_and_come_out(call: Client) -> None:
    body = {**JOB, "conditions": GIVEN}
    status, job = await call("POST", "/v1/jobs", body)
    assert status == 201
    assert (job["conditions"], job["conditions_timeout"]) == (GIVEN, "1h")
    kept = policy(call, job)
    assert kept.conditions == (
        Condition(ConditionKind.PATH, "/data/in/*.csv"),
        Condition(ConditionKind.HTTP, "http://127.0.0.1:8080/ready"),
        Condition(ConditionKind.HTTP, "https://example.com/", status=204),
        Condition(ConditionKind.JOB, "billing/import", within_ms=2 * HOUR_MS),
    )
    assert kept.conditions_timeout_ms == HOUR_MS
    assert (await call("POST", "/v1/jobs", body))[0] == 200
    path = f"/v1/jobs/{job['id']}"
    assert await call("PUT", path, job) == (200, job)  # what was answered is no change
    _, job = await call("PATCH", path, {"conditions_timeout": "90s"})
    assert (job["conditions"], job["conditions_timeout"]) == (GIVEN, "90s")
    assert policy(call, job).conditions_timeout_ms == 90_000
    _, job = await call("PATCH", path, {"conditions": None, "conditions_timeout": None})
    assert (job["conditions"], job["conditions_timeout"]) == ([], None)
    assert policy(call, job).conditions == ()


async def test_a_run_waits_and_says_for_what(call: Client) -> None:
    await call("POST", "/v1/jobs", {**JOB, "conditions": GIVEN[3:]})
    _, job = await call("GET", "/v1/namespaces/default/jobs/load")
    status, accepted = await call("POST", f"/v1/jobs/{job['id']}/run", {})
    assert status == 202
    _, found = await call("GET", f"/v1/instances/{accepted['id']}")
    assert (found["state"], found["reason"]) == ("WAITING", "conditions")
    assert found["error"] == "The job billing/import has not succeeded within 2h."


async def test_bounds_may_be_reached(call: Client) -> None:
    longest = [
        {"path": "/" + "a" * 2047},
        {"job_succeeded": "n" * 64 + "/" + "j" * 128, "within": "36525d"},
        *GIVEN,
        {"path": "/"},
        {"path": "/a/../b*/[x]?"},
    ]
    status, job = await call("POST", "/v1/jobs", {**JOB, "conditions": longest, "conditions_timeout": "36525d"})
    assert status == 201
    await call("POST", f"/v1/jobs/{job['id']}/run", {})

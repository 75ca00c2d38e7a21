"""/v1/jobs/{id}/skip-next and /backfill."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.core.commands import EditJob, Fire, ScheduleJob
from raftsched.core.ids import parse_job
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table, u64
from tests.support.clock import START_MS
from tests.support.local_api import Client

JOB = {"handler": {"exec": ["true"]}}
EVERY = {**JOB, "trigger": {"every": "1m"}}
CRON = {**JOB, "trigger": {"cron": "0 * * * *"}}
DAY = {"from": "2029-12-31T00:00:00Z"}


class TestSkipNext:
    async def test_the_next_time_or_the_one_that_is_meant(self, call: Client) -> None:
        _, job = await call("POST", "/v1/jobs", {**EVERY, "name": "a"})
        status, job = await call("POST", f"/v1/jobs/{job['id']}/skip-next")
        assert (status, job["next_fire_at"]) == (200, "2030-01-01T00:02:00.000Z")
        path = "/v1/namespaces/default/jobs/a/skip-next"
        for _ in range(2):  # a repeat leaves out no other
            status, job = await call("POST", path, {"at": "2030-01-01T00:02:00Z"})
            assert (status, job["next_fire_at"]) == (200, "2030-01-01T00:03:00.000Z")
        _, upcoming = await call("GET", f"/v1/jobs/{job['id']}/next?count=1")
        assert upcoming["next"][0]["at"] == "2030-01-01T00:03:00.000Z"
        status, problem = await call("POST", path, {"at": "2030-01-01T00:09:00Z"})
        assert (status, problem["code"]) == (409, "not-next")
        _, runs = await call("GET", f"/v1/jobs/{job['id']}/instances")
        assert [(r["state"], r["reason"], r["skipped"]) for r in runs["items"]] == [("SKIPPED", "skip_next", 2)]

    async def test_a_calendar_job(self, call: Client) -> None:
        _, job = await call("POST", "/v1/jobs", CRON)
        number = parse_job(job["id"]) or 0
        # as the leader does, a moment after the request has come
        call.cluster.before = lambda: call.cluster.apply(ScheduleJob(number, 1, START_MS + 3_600_000)) and None
        status, job = await call("POST", f"/v1/jobs/{job['id']}/skip-next")
        assert (status, job["next_fire_at"]) == (200, "2030-01-01T02:00:00.000Z")
        _, upcoming = await call("GET", f"/v1/jobs/{job['id']}/next?count=1")
        assert upcoming["next"][0]["at"] == "2030-01-01T02:00:00.000Z"

    async def test_the_next_one_fired_meanwhile(self, call: Client) -> None:
        _, job = await call("POST", "/v1/jobs", EVERY)
        number = parse_job(job["id"]) or 0
        call.cluster.clock.forward(60_000)
        call.cluster.before = lambda: call.cluster.apply(Fire(number, 1, START_MS + 60_000)) and None
        status, job = await call("POST", f"/v1/jobs/{job['id']}/skip-next")
        assert (status, job["next_fire_at"]) == (200, "2030-01-01T00:03:00.000Z")

    @pytest.mark.parametrize(
        ("job", "body", "headers", "status"),
        [
            ({**EVERY, "suspended": True}, None, {}, 409),
            ({**JOB, "trigger": {"in": "5m"}}, None, {}, 409),
            ({**JOB, "trigger": {"manual": True}}, None, {}, 409),
            (EVERY, {"at": "soon"}, {}, 422),
            (EVERY, {"time": "2030-01-01T00:01:00Z"}, {}, 422),
            (EVERY, None, {"If-Match": '"7"'}, 412),
        ],
    )
    async def test_refused(
        self, call: Client, job: dict[str, Any], body: Any, headers: dict[str, str], status: int
    ) -> None:
        _, made = await call("POST", "/v1/jobs", job)
        assert (await call("POST", f"/v1/jobs/{made['id']}/skip-next", body, headers))[0] == status


class TestBackfill:
    async def test_each_time_once(self, call: Client) -> None:
        _, job = await call("POST", "/v1/jobs", CRON)
        path = f"/v1/jobs/{job['id']}"
        body = {"from": "2029-12-31T20:00:00Z", "to": "2029-12-31T23:00:00Z"}
        status, would = await call("POST", f"{path}/backfill", {**body, "dry_run": True})
        assert (status, would["count"]) == (200, 3)
        assert would["times"][0] == "2029-12-31T20:00:00.000Z"
        assert (await call("GET", f"{path}/instances"))[1]["items"] == []
        status, made = await call("POST", f"{path}/backfill", body)
        assert (status, made) == (202, {"job_id": job["id"], "count": 3})
        assert call.headers["Location"] == f"{path}/instances"
        _, runs = await call("GET", f"{path}/instances")
        assert [r["scheduled_at"][11:16] for r in runs["items"]] == ["22:00", "21:00", "20:00"]
        assert [r["reason"] for r in runs["items"]] == ["overlap", "overlap", None]
        status, made = await call("POST", f"{path}/backfill", {"from": "2029-12-31T20:00:00Z"})
        assert (status, made["count"]) == (202, 2)  # 23:00, and midnight, which is just past

    async def test_of_a_grid_by_name_and_with_a_key(self, call: Client) -> None:
        trigger = {"every": "1m", "starts_at": "2029-12-31T23:50:00Z"}
        await call("POST", "/v1/jobs", {**JOB, "name": "a", "trigger": trigger})
        path = "/v1/namespaces/default/jobs/a/backfill"
        key = {"Idempotency-Key": "b"}
        for _ in range(2):
            status, made = await call("POST", path, DAY, key)
            assert (status, made["count"]) == (202, 11)
        assert (await call("POST", path, {"from": "2029-12-30T00:00:00Z"}, key))[0] == 422

    async def test_changed_meanwhile_the_times_are_computed_again(self, call: Client) -> None:
        _, job = await call("POST", "/v1/jobs", CRON)
        number = parse_job(job["id"]) or 0

        def edited() -> None:
            with call.cluster.store.read() as view:
                row = decode_job(view.get(Table.JOBS, u64(number)) or b"")
            trigger = msgspec.structs.replace(row.policy.trigger, expr="*/30 * * * *")
            policy = msgspec.structs.replace(row.policy, trigger=trigger)
            call.cluster.apply(EditJob(number, policy, row.body))

        call.cluster.before = edited
        status, made = await call("POST", f"/v1/jobs/{job['id']}/backfill", {"from": "2029-12-31T23:00:00Z"})
        assert (status, made["count"]) == (202, 3)

    @pytest.mark.parametrize(
        ("job", "body", "status"),
        [
            (CRON, {}, 422),
            (CRON, {"from": "x"}, 422),
            (CRON, {"from": "2030-01-01T00:00:00Z", "to": "2029-01-01T00:00:00Z"}, 422),
            (CRON, {"from": "2020-01-01T00:00:00Z"}, 422),  # too many
            (CRON, {**DAY, "until": "x"}, 422),
            ({**JOB, "trigger": {"manual": True}}, DAY, 409),
            ({**JOB, "trigger": {"in": "5m"}}, DAY, 409),
            ({**JOB, "trigger": {"every": "5m", "mode": "fixed_delay"}}, DAY, 409),
        ],
    )
    async def test_refused(self, call: Client, job: dict[str, Any], body: Any, status: int) -> None:
        _, made = await call("POST", "/v1/jobs", job)
        assert (await call("POST", f"/v1/jobs/{made['id']}/backfill", body))[0] == status

    async def test_nothing_to_make_up_for(self, call: Client) -> None:
        _, job = await call("POST", "/v1/jobs", CRON)
        body = {"from": "2031-01-01T00:00:00Z"}
        assert (await call("POST", f"/v1/jobs/{job['id']}/backfill", body))[1]["count"] == 0

"""GET /v1/forecast: how many runs are due, by queue, beside the slots there are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from raftsched.api.http import slices
from raftsched.api.http.durations import format_time
from raftsched.api.http.slices import SLICE_S
from raftsched.api.jobs import forecast
from raftsched.api.jobs.forecast_load import Group, Load
from raftsched.bounds import HOUR_MS, MINUTE_MS
from raftsched.core import commands as c
from raftsched.core.ids import parse_job
from raftsched.core.model import Outcome
from raftsched.schedule import TriggerError, triggers, zones
from tests.support.local_api import Client, LocalCluster
from tests.support.tokens import As, guarded, make

TRUE = {"exec": ["true"]}


async def create(call: Any, trigger: dict[str, Any], **fields: Any) -> int:
    status, made = await call("POST", "/v1/jobs", {"trigger": trigger, "handler": TRUE, **fields})
    assert status == 201, made
    job_id = parse_job(made["id"])
    assert job_id is not None
    return job_id


def ran(cluster: LocalCluster, job_id: int, took_ms: int) -> None:
    """A run of the job that took so long, a while ago."""
    if "n1" not in cluster.sessions:
        cluster.open_session("n1", "127.0.0.1:1")
    (made,) = cluster.apply(c.RunNow(job_id, 1 + took_ms))
    assert isinstance(made, c.Accepted)
    assert made.job is not None
    assert made.job.last_instance is not None
    (given,) = cluster.apply(c.Assign(made.job.last_instance, cluster.sessions["n1"]))
    assert isinstance(given, c.Accepted)
    assert given.number is not None
    begun_ms = cluster.clock.wall - HOUR_MS
    cluster.apply(c.Ended(cluster.sessions["n1"], given.number, Outcome.SUCCEEDED, begun_ms, begun_ms + took_ms))


async def told(call: Any, query: str = "") -> dict[str, Any]:
    status, found = await call("GET", f"/v1/forecast{query}")
    assert status == 200, found
    answer: dict[str, Any] = found
    return answer


def by_step(found: dict[str, Any]) -> dict[int, int]:
    return {step: count for step, count in enumerate(found["due"]) if count}


async def test_counts_lie_at_their_steps_by_queue(call: Client) -> None:
    call.cluster.open_session("n1", "127.0.0.1:1")
    await create(call, {"every": "1m"}, name="tick")
    await create(call, {"cron": "0 * * * *"}, name="hourly", queue="mail")
    await create(call, {"in": "90m"}, name="once", queue="mail")
    await create(call, {"manual": True})
    found = await told(call, "?step=1h")
    assert (len(found["due"]), found["total"]) == (24, 1_439 + 24 + 1), "the first minute ends later"
    assert sum(found["due"]) == found["total"]
    assert {one["queue"]: one["total"] for one in found["queues"]} == {"default": 1_439, "mail": 25}
    assert [one["queue"] for one in found["queues"]] == ["default", "mail"]
    assert (found["jobs"], found["unmeasured"], found["slots"], found["complete"]) == (3, 3, 4, True)
    only = await told(call, "?step=1h&queue=mail")
    assert (only["total"], only["jobs"], [one["queue"] for one in only["queues"]]) == (25, 2, ["mail"])
    assert only["due"] == next(one["due"] for one in found["queues"] if one["queue"] == "mail")


async def test_the_peak_names_what_is_due_then(call: Client) -> None:
    ids = [await create(call, {"in": "10m"}, queue="mail") for _ in range(7)]
    await create(call, {"every": "1m"}, name="tick", namespace="billing")
    peak, second = (await told(call))["peaks"][:2]
    assert (peak["due"], peak["jobs_due"]) == (8, 8)
    assert peak["queues"] == [{"queue": "mail", "due": 7}, {"queue": "default", "due": 1}]
    assert len(peak["jobs"]) == 5
    assert {one["id"] for one in peak["jobs"]} <= {job["id"] for job in (await call("GET", "/v1/jobs"))[1]["items"]}
    assert (second["due"], [one["name"] for one in second["jobs"]]) == (1, ["tick"])
    assert len(ids) == 7


async def test_slots_are_those_of_who_takes_the_queue_and_busy_what_runs_take(call: Client) -> None:
    tick = await create(call, {"every": "1m"}, overlap="allow")
    ran(call.cluster, tick, 20_000)
    ran(call.cluster, tick, 40_000)
    long = await create(call, {"every": "1m"}, queue="mail", overlap="allow")
    ran(call.cluster, long, 3 * MINUTE_MS)
    alone = await create(call, {"every": "1m"}, queue="alone")
    ran(call.cluster, alone, 3 * MINUTE_MS)
    await call("PUT", "/v1/queues/mail", {"max_running": 2})
    found = await told(call)
    queues = {one["queue"]: one for one in found["queues"]}
    assert queues["default"]["busy"][10] == 0.5, "half a minute in the mean, each minute"
    assert [queues["mail"]["busy"][at] for at in (1, 2, 3, 9)] == [1, 2, 3, 3]
    assert queues["alone"]["busy"][9] == 1, "no two runs of a job whose runs may not overlap"
    assert found["busy"][9] == 4.5
    assert (queues["mail"]["slots"], queues["mail"]["max_running"], found["unmeasured"]) == (4, 2, 0)
    await call("POST", "/v1/nodes/n1/drain")
    assert (await told(call))["slots"] == 0


async def test_paused_jobs_count_from_when_they_go_on(call: Client) -> None:
    await create(call, {"every": "1h"}, name="out", suspended=True)
    await create(call, {"every": "1h"}, name="back")
    await call("POST", "/v1/namespaces/default/jobs/back/pause", {"for": "20h30m"})
    found = await told(call)
    assert (found["total"], found["left_out"], found["jobs"]) == (3, 1, 1)
    assert (await told(call, "?for=20h"))["left_out"] == 2


async def test_no_more_runs_than_a_job_has_left(call: Client) -> None:
    await create(call, {"every": "1h", "max_runs": 5})
    assert (await told(call))["total"] == 5
    ahead = call.cluster.clock.wall + 3 * HOUR_MS + MINUTE_MS
    later = await told(call, f"?from={format_time(ahead)}")
    assert later["total"] == 2, "those before count, too"


async def test_what_follows_is_counted_one_for_one_as_an_estimate(call: Client) -> None:
    first = await create(call, {"every": "1h"}, name="first")
    ran(call.cluster, first, 2 * MINUTE_MS)
    await create(call, {"every": "30m"}, name="other")
    await create(call, {"after": {"job": "first"}}, name="second", queue="mail")
    await create(call, {"after": {"all_of": ["second", "other"]}}, name="third", queue="all")
    await create(call, {"after": {"any_of": ["first", "second"]}}, name="near", queue="near")
    await create(call, {"after": {"any_of": ["first", "other"]}}, name="either", queue="either")
    await create(call, {"after": {"job": "first", "on": "failed"}}, name="alarm", queue="never")
    await create(call, {"after": {"job": "absent"}}, name="lost", queue="never")
    found = await told(call)
    totals = {one["queue"]: one["total"] for one in found["queues"]}
    assert totals == {"default": 23 + 47, "mail": 23, "all": 23, "near": 23, "either": 70}
    assert found["estimated"] == 23 + 23 + 23 + 70
    starts = [step for step, count in enumerate(found["queues"][0]["due"]) if count]
    mail = next(one for one in found["queues"] if one["queue"] == "mail")
    first_mail = next(step for step, count in enumerate(mail["due"]) if count)
    assert (starts[:2], first_mail) == ([30, 60], 62), "it comes when the one before has ended"


async def test_a_fixed_delay_is_an_estimate_by_what_runs_take(call: Client) -> None:
    job = await create(call, {"every": "10m", "mode": "fixed_delay"})
    assert (await told(call))["total"] == 143
    ran(call.cluster, job, 10 * MINUTE_MS)
    found = await told(call)
    assert (found["estimated"], found["total"]) == (72, 72)


async def test_a_caller_is_told_of_their_namespaces(call: Client) -> None:
    for namespace in ("mine", "theirs"):
        await create(call, {"every": "1h"}, namespace=namespace, name="tick")
    who = await guarded(call)
    mine = As(call, await make(who["admin"], "mine", "viewer", namespaces=["mine"]))
    assert (await told(who["viewer"]))["total"] == 46
    found = await told(mine, "?namespace=mine")
    assert (found["total"], found["jobs"]) == (23, 1)
    assert {job["namespace"] for peak in found["peaks"] for job in peak["jobs"]} == {"mine"}
    assert (await mine("GET", "/v1/forecast"))[0] == 403
    assert (await mine("GET", "/v1/forecast?namespace=theirs"))[0] == 403
    assert (await who["nobody"]("GET", "/v1/forecast"))[0] == 401


async def test_what_is_wrong_is_told(call: Client) -> None:
    for query, name in (
        ("from=soon", "from"),
        ("from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z", "from"),
        ("to=2030-01-02T00:00:00Z&for=1h", "for"),
        ("for=long", "for"),
        ("for=2d&step=1m", "for"),
        ("for=70d", "for"),
        ("step=2m", "step"),
        ("namespace=A%20B", "namespace"),
    ):
        status, problem = await call("GET", f"/v1/forecast?{query}")
        assert (status, problem["errors"][0]["parameter"]) == (400, name), query


async def test_the_step_is_the_shortest_that_suffices(call: Client) -> None:
    for length, step in (("24h", "1m"), ("2d", "5m"), ("7d", "15m"), ("30d", "1h")):
        assert (await told(call, f"?for={length}"))["step"] == step
    empty = await told(call, "?for=0s")
    assert (empty["total"], empty["peaks"]) == (0, [])


async def test_times_of_a_zone_that_is_not_known_here_are_left_out(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(call, {"every": "1h"})
    await create(call, {"cron": "0 * * * *", "timezone": "Europe/Madrid"})
    await create(call, {"cron": "0 * * * *", "timezone": "Europe/Madrid", "max_runs": 100})
    known = zones.zone

    def zone(name: str) -> Any:
        if name != "UTC":
            raise TriggerError("/timezone", "a zone that is not known")
        return known(name)

    monkeypatch.setattr(triggers, "zone", zone)
    found = await told(call)
    assert (found["total"], found["left_out"], found["complete"]) == (23, 2, True)
    tomorrow = format_time(call.cluster.clock.wall + 24 * HOUR_MS)
    found = await told(call, f"?from={tomorrow}&for=24h&step=1h")
    assert (found["total"], found["left_out"], found["complete"]) == (24, 2, True)


async def test_one_answer_looks_at_so_many_jobs_and_says_where_it_stopped(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "thread_s", count(step=SLICE_S / 2).__next__)  # two looks at it are a slice
    monkeypatch.setattr(slices, "passed_s", count(step=SLICE_S).__next__)
    monkeypatch.setattr(forecast, "WORK_MAX", 100)
    ids = [await create(call, {"in": "1h"}) for _ in range(30)]
    found = await told(call)
    assert not found["complete"]
    stopped = parse_job(found["stopped_at"])
    assert stopped in ids
    assert found["total"] == ids.index(stopped) + 1 < 30
    monkeypatch.setattr(forecast, "WORK_MAX", 10_000)
    found = await told(call)
    assert (found["complete"], found["stopped_at"], found["total"]) == (True, None, 30)


async def test_others_have_their_turn_between_slices(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    for minute in range(20):
        await create(call, {"cron": f"{minute} * * * *"})
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert (await told(call))["total"] == 480
    task.cancel()
    assert turns > 50


async def test_jobs_with_the_same_times_and_other_durations_let_others_have_their_turn(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = 30
    seen: list[int] = []
    add = Load.add

    def counted(load: Load, group: Group) -> Iterator[int]:
        for sums in add(load, group):
            seen.append(turns)
            yield sums

    monkeypatch.setattr(Load, "add", counted)
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    for number in range(jobs):
        ran(call.cluster, await create(call, {"cron": "* * * * *"}), MINUTE_MS + 1 + number)
    task = asyncio.create_task(others())
    found = await told(call)
    task.cancel()
    assert (found["jobs"], found["unmeasured"]) == (jobs, 0)
    assert len(set(seen)) >= jobs, "each has a turn of its own"

"""The jobs that beats make of entries, in a cluster where others have jobs, too."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule

from raftsched import AsyncClient
from raftsched.celery.beat_worker import BeatWorker, Connection
from raftsched.celery.entries import Application, Jobs, Wanted, jobs_of
from raftsched.client.errors import ConflictError, InvalidError
from raftsched.client.trust import Trust
from raftsched.system.clock import SystemClock
from raftsched.testing import cluster
from tests.support.patience import patient

APP = Celery("shop", set_as_current=False)
NOW = SystemClock().wall_ms()


class _Clocked(schedule):  # type: ignore[misc]
    """As django-celery-beat's class, whose name tells it."""

    def __init__(self, time: datetime) -> None:
        super().__init__(60)
        self.clocked_time = time


_Clocked.__name__ = "clocked"


def row(name: str = "one", due: Any = 3600.0, enabled: bool | None = None, **more: Any) -> Wanted:
    trigger, fields = more.pop("trigger", {}), more.pop("fields", {})
    problem = more.pop("problem", "")
    entry = ScheduleEntry(name, "shop.task", schedule=due, app=APP, **more)
    return Wanted(entry, trigger, fields, enabled, problem)


def read(*rows: Wanted, app: str = "shop", skips: bool = False) -> Jobs:
    found = jobs_of(rows, Application(app, "default", "UTC", {}), NOW)
    found.skips = skips
    return found


async def make(client: AsyncClient, *rows: Wanted, app: str = "shop", skips: bool = False) -> None:
    def send(*_: Any) -> dict[str, Any]:
        raise AssertionError("it makes jobs only")

    application = Application(app, "default", "UTC", {})
    beat = BeatWorker(application, Connection("", None, None, Trust()), send, slots=1, data=None)
    try:
        await beat._make(client, read(*rows, app=app, skips=skips))
    finally:
        await asyncio.to_thread(beat.stop)


async def states(client: AsyncClient) -> dict[str | None, str]:
    return {job.name: str(job.state) async for job in client.jobs.list()}


async def test_a_beat_takes_no_job_that_others_made(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(1) as (node,):
        client = node.client
        await client.jobs.create(name="shop.mine", trigger={"manual": True}, handler={"call": "mine"})
        with pytest.raises(ConflictError, match="no beat of shop made it; rename the entry"):
            await make(client, row("mine"), row("other"))
        await make(client, row("eu.n"))
        with pytest.raises(ConflictError, match=r"no beat of shop\.eu made it"):
            await make(client, row("n"), app="shop.eu")
        with caplog.at_level(logging.ERROR):
            await make(client, row("mine"), row("eu.n"), skips=True)
        assert "shop.mine: it is there already" in caplog.text
        found = {job.name: job async for job in client.jobs.list()}
        assert set(found) == {"shop.mine", "shop.eu.n"}
        assert found["shop.mine"].handler == {"call": "mine"}
        await client.jobs.patch("default/shop.eu.n", {"labels": {}})
        await make(client, row("eu.n"))  # its handler says whose it is
        assert (await client.jobs.get("default/shop.eu.n")).labels == {"celery-beat": "shop"}


async def test_a_row_that_the_cluster_refuses_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    bad = row("bad", trigger={"starts_at": "2199-01-01T00:00:00Z", "ends_at": "2198-01-01T00:00:00Z"})
    async with cluster(1) as (node,):
        with caplog.at_level(logging.ERROR):
            await make(node.client, bad, row("good"), skips=True)
        assert "refuses the job shop.bad" in caplog.text
        assert await states(node.client) == {"shop.good": "SCHEDULED"}
        with pytest.raises(InvalidError):
            await make(node.client, bad, row("good"))


async def test_a_row_that_was_ended_or_broken_is_not_due_again() -> None:
    past, later = (datetime.now(UTC) + timedelta(days=days) for days in (-1, 1))
    async with cluster(1) as (node,):
        client = node.client
        await make(client, row("expires", enabled=True), row("breaks", enabled=True), row("set", _Clocked(later)))
        assert set((await states(client)).values()) == {"SCHEDULED"}
        ended = row("expires", enabled=True, options={"expires": past})
        await make(client, ended, row("breaks", problem="it is broken"), row("set", _Clocked(past)), skips=True)
        assert await states(client) == {"shop.breaks": "SUSPENDED"}
        await make(client, row("breaks", enabled=True))
        assert await states(client) == {"shop.breaks": "SCHEDULED"}


async def test_a_row_for_one_time_that_is_enabled_again_is_due_again() -> None:
    async with cluster(1) as (node,):
        client = node.client
        does: Any = {"handler": {"exec": ["true"]}, "params": {}}

        async def ran(name: str) -> str:
            job = await client.jobs.get(f"default/shop.{name}")
            assert (await client.jobs.wait(job)).state == "SUCCEEDED"
            return job.id

        def once(enabled: bool) -> Wanted:
            return row("once", 1.0, enabled, trigger={"max_runs": 1}, fields=does)

        def clocked() -> Wanted:
            return row("clock", _Clocked(datetime.now(UTC) + timedelta(seconds=2)), True, fields=does)

        async with asyncio.timeout(patient(60)):
            clock = clocked()
            await make(client, once(True), clock)
            first = await ran("once"), await ran("clock")
            await make(client, once(True), clock)
            assert (await ran("once"), await ran("clock")) == first, "nobody has changed the rows"
            await make(client, once(False), clock)
            assert (await ran("once"), await ran("clock")) == first
            await make(client, once(True), clocked())
            again = await ran("once"), await ran("clock")
        assert not {*first} & {*again}

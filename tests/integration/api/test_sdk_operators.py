"""raftsched.Client for what operators and many jobs need, on the real API, with a store and without Raft."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import raftsched
from raftsched.client.generated.bulk import Operation
from tests.support.local_api import LocalCluster, serving
from tests.support.patience import patient

JOB: raftsched.JobSpec = {"trigger": {"every": "1h"}, "handler": {"shell": "true"}}


def run(directory: Path, test: Callable[[raftsched.AsyncClient, LocalCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = LocalCluster(directory, ["n1", "n2"])
        try:
            async with serving(cluster, "n1") as one, raftsched.AsyncClient(one.url) as client:
                await test(client, cluster)
        finally:
            cluster.close()

    asyncio.run(main())


def test_the_same_for_many_jobs(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        made = await client.jobs.create_many([{**JOB, "name": f"j{n}", "owner": "ana"} for n in range(5)])
        ids = [m.id for m in made if isinstance(m, raftsched.Created)]
        would = await client.jobs.dry_run("pause", owner="ana", state=["SCHEDULED"])
        assert (would.matched, would.complete, would.action) == (5, True, "pause")
        assert {s.name for s in would.sample} == {f"j{n}" for n in range(5)}
        assert await client.jobs.state(ids[0]) == "SCHEDULED"

        done = await (await client.jobs.act("pause", owner="ana"))
        assert (done.state, done.changed, done.final) == ("DONE", 5, True)
        assert await client.jobs.state("default/j0") == "SUSPENDED"
        some = await client.jobs.act("resume", ids=ids[:2])
        assert (await some.wait(timeout=patient(10))).changed == 2
        assert some.operation.final
        assert [o.id async for o in client.operations.list()] == [some.id, done.id]
        assert (await client.operations.get(done.id)) == done
        with pytest.raises(raftsched.InvalidError):
            await client.jobs.act("delete")
        everything = await (await client.jobs.act("delete", all=True))
        assert everything.changed == 5
        assert [j async for j in client.jobs.list()] == []

    run(tmp_path, test)


def test_an_operation_is_watched_and_cancelled(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        await client.jobs.create_many([JOB] * 3)
        cluster.carries_out = False
        underway = await client.jobs.act("expire", all=True, kill=True)
        assert (underway.operation.state, underway.operation.kill) == ("RUNNING", True)
        with pytest.raises(TimeoutError):
            await underway.wait(timeout=0.05)
        seen: list[Operation] = []
        async for operation in underway:
            seen.append(operation)
            await underway.cancel()
        assert [o.state for o in seen] == ["RUNNING", "CANCELLED"]
        assert [o.id async for o in client.operations.list(state="CANCELLED", most=1)] == [underway.id]

    run(tmp_path, test)


def test_a_job_in_all_its_ways(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        job = await client.jobs.create(JOB, name="a")
        await client.jobs.patch(job, {"priority": 9})
        new, old = await client.jobs.revisions(job)
        assert (new.revision, new.content["priority"], new.until) == (2, 9, None)
        assert (old.revision, old.until) == (1, new.since)
        assert (await client.jobs.set_state(job, "SUSPENDED")).state == "SUSPENDED"
        assert (await client.jobs.set_state("default/a", "SCHEDULED")).state == "SCHEDULED"
        asked = await client.jobs.run(job)
        waiting = asyncio.create_task(client.jobs.wait(job))
        await client.instances.kill(asked)
        assert (await waiting).id == asked.id
        found = await client.jobs.stats(job)
        assert (found.instances["KILLED"], found.complete, found.jobs) == (1, True, None)
        everything = await client.stats(start=datetime(2029, 1, 1, tzinfo=UTC))
        assert everything.jobs is not None
        assert everything.jobs["SCHEDULED"] == 1
        assert (await client.stats(owner="nobody")).jobs is not None
        explained = await client.instances.explain(asked)
        assert (explained.why_then.made_by, explained.steps[0].index > 0) == ("manual", True)
        assert (await client.jobs.set_state(job, "EXPIRED")).state == "EXPIRED"
        bare = await client.jobs.create(JOB)
        await client.jobs.expire(bare)
        with pytest.raises(raftsched.ConflictError, match="expired"):
            await client.jobs.wait(bare)

    run(tmp_path, test)


def test_namespaces(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        made = await client.namespaces.put("billing", only_new=True, owner="ana", defaults={"priority": 7})
        assert (made.declared, made.owner, made.defaults, made.jobs) == (True, "ana", {"priority": 7}, 0)
        with pytest.raises(raftsched.ConflictError) as exists:
            await client.namespaces.put("billing", only_new=True)
        assert exists.value.code == "exists"
        changed = await client.namespaces.patch("billing", if_match=made.revision, limits={"max_jobs": 1})
        assert (changed.limits.max_jobs, changed.owner) == (1, "ana")
        with pytest.raises(raftsched.ConflictError, match="revision"):
            await client.namespaces.patch("billing", if_match=made.revision, owner=None)
        job = await client.jobs.create(JOB, namespace="billing")
        assert (await client.jobs.get(job)).priority == 7
        with pytest.raises(raftsched.ClientError):
            await client.jobs.create(JOB, namespace="billing")
        assert (await client.namespaces.get("billing")).jobs == 1
        await client.jobs.delete(job)
        await client.namespaces.delete("billing")
        assert "billing" not in [n.name async for n in client.namespaces.list()]

    run(tmp_path, test)


def test_calendars(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        days = {"from": "2030-08-01", "to": "2030-08-31"}
        made = await client.calendars.put(
            "holidays", only_new=True, dates=["2030-01-02"], ranges=[days], weekdays=["sat"]
        )
        assert (made.dates, made.ranges[0].from_, made.weekdays) == (["2030-01-02"], "2030-08-01", ["sat"])
        begin = datetime(2030, 1, 1, tzinfo=UTC)
        made = await client.calendars.patch(
            "holidays",
            hours=[{"from": "22:00", "to": "06:00", "weekdays": ["fri"]}],
            excludes=[{"from": begin, "to": begin + timedelta(hours=1)}],
        )
        assert (made.hours[0].from_, made.hours[0].weekdays, made.only) == ("22:00", ["fri"], [])
        assert (made.excludes[0].from_, made.excludes[0].to) == (begin, begin + timedelta(hours=1))
        with pytest.raises(raftsched.ConflictError) as exists:
            await client.calendars.put("holidays", only_new=True)
        assert exists.value.code == "exists"
        changed = await client.calendars.patch("holidays", if_match=made.revision, weekdays=None, yearly=["12-25"])
        assert (changed.weekdays, changed.yearly, changed.dates) == ([], ["12-25"], ["2030-01-02"])
        with pytest.raises(raftsched.ConflictError, match="revision"):
            await client.calendars.delete("holidays", if_match=made.revision)
        job = {**JOB, "trigger": {"cron": "0 9 * * *", "calendar": "holidays"}}
        used = await client.jobs.create(job)
        assert [found.id async for found in client.jobs.list(calendar="holidays")] == [used.id]
        with pytest.raises(raftsched.ConflictError) as used_by:
            await client.calendars.delete("holidays")
        assert used_by.value.code == "in-use"
        await client.jobs.delete(used)
        await client.calendars.delete("holidays")
        assert [c async for c in client.calendars.list()] == []

    run(tmp_path, test)


def test_queues(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        made = await client.queues.put("mail", max_running=2, rate={"count": 5, "per": "1m"})
        assert (made.max_running, made.rate and made.rate.count, made.paused) == (2, 5, False)
        with pytest.raises(raftsched.ConflictError) as exists:
            await client.queues.put("mail", only_new=True)
        assert exists.value.code == "exists"
        assert (await client.queues.patch("mail", rate=None, paused=True)).shut == "paused"
        assert (await client.queues.get("mail")).rate is None
        for stale in (client.queues.put("mail", if_match=made.revision), client.queues.delete("mail", if_match=77)):
            with pytest.raises(raftsched.ConflictError, match="revision"):
                await stale
        now = (await client.queues.get("mail")).revision
        assert (await client.queues.patch("mail", max_running=9, if_match=now)).max_running == 9
        assert [q.name async for q in client.queues.list()] == ["mail"]
        await client.queues.delete("mail")
        with pytest.raises(raftsched.NotFoundError):
            await client.queues.get("mail")

    run(tmp_path, test)


def test_nodes_and_the_cluster(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        assert [n.id for n in await client.nodes.list()] == ["n1", "n2"]
        assert (await client.nodes.drain("n2")).drained
        assert not (await client.nodes.undrain("n2")).drained
        assert (await client.nodes.set_labels("n2", {"disk": "ssd"})).labels == {"disk": "ssd"}
        said = await client.nodes.set_slots("n2", 3)
        assert said.slots == 3
        assert (await client.nodes.set_slots("n2", 3, if_match=said.revision)).revision == said.revision
        with pytest.raises(raftsched.ConflictError, match="revision"):
            await client.nodes.set_labels("n2", None, if_match=said.revision - 1)
        assert (await client.nodes.get("n2")).labels == {"disk": "ssd"}
        with pytest.raises(raftsched.NotFoundError):
            await client.nodes.get("n9")

        await client.cluster.pause()
        assert (await client.cluster.status()).paused
        await client.cluster.resume()
        assert not (await client.cluster.status()).paused
        changed = await client.cluster.set_settings(backfill_max=7)
        assert (changed["backfill_max"], (await client.cluster.settings())["backfill_max"]) == (7, 7)
        with pytest.raises(raftsched.InvalidError):
            await client.cluster.set_settings(backfill_max=0)
        me = await client.cluster.whoami()
        assert (me.kind, me.role, me.namespaces, me.grants) == ("anonymous", "admin", None, [])
        rules = [{"claim": "groups", "value": "ops", "role": "operator", "namespaces": ["web"]}]
        said = await client.cluster.set_oidc("https://login.example.com", "raftsched", rules, username_claim="email")
        assert (said["revision"], said["rules"], said["username_claim"]) == (1, rules, "email")
        assert await client.cluster.oidc() == said
        await client.cluster.forget_oidc()
        with pytest.raises(raftsched.NotFoundError):
            await client.cluster.oidc()
        members = await client.cluster.members()
        assert ([m.id for m in members.items], members.waiting) == (["n1", "n2"], [])
        await client.cluster.remove_member("n2")
        assert [m.id for m in (await client.cluster.members()).items] == ["n1"]

    run(tmp_path, test)


def test_without_an_event_loop(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        url = str(client.transport.nodes.given[0])

        def blocking() -> None:
            with raftsched.Client(url) as sync:
                sync.jobs.create_many([{**JOB, "owner": "ana"} for _ in range(3)])
                assert sync.jobs.dry_run("expire", owner="ana").matched == 3
                underway = sync.jobs.act("pause", owner="ana")
                assert [o.state for o in underway][-1] == "DONE"
                assert underway.wait().changed == 3
                assert sync.queues.put("mail", paused=True).paused
                assert [q.name for q in sync.queues.list()] == ["mail"]
                assert sync.within(5).cluster.status().leader == "n1"

        await asyncio.to_thread(blocking)

    run(tmp_path, test)


def test_webhooks(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        made = await client.webhooks.create("ops", url="https://ops.example/", events=["failed"], timeout="5s")
        assert made.secret is not None
        assert made.secret not in repr(made)
        found = await client.webhooks.get("ops")
        assert (found.secret, found.events, found.timeout, found.active) == (None, ["failed"], "5s", True)
        changed = await client.webhooks.patch("ops", filter={"owner": "ana"}, active=False, if_match=found.revision)
        assert (changed.filter["owner"], changed.active) == ("ana", False)
        with pytest.raises(raftsched.ConflictError):
            await client.webhooks.put("ops", url="http://h/", if_match=found.revision)
        whole = await client.webhooks.put("ops", url="http://h/")
        assert (whole.url, whole.events, whole.active, whole.secret) == ("http://h/", [], True, None)
        with pytest.raises(raftsched.ConflictError):
            await client.webhooks.put("ops", only_new=True, url="http://h/")
        rotated = await client.webhooks.rotate("ops", overlap=timedelta(hours=1))
        assert rotated.secret not in (None, made.secret)
        assert rotated.previous_secret_until == datetime(2030, 1, 1, 1, tzinfo=UTC)
        delivery = await client.webhooks.test("ops")
        assert delivery.event is not None
        assert delivery.event["type"] == "io.raftsched.webhook.test"
        assert [one.id async for one in client.webhooks.deliveries("ops")] == [delivery.id]
        job = await client.jobs.create(**JOB, notify={"on": ["lost"], "webhook": "ops"})
        assert (await client.jobs.get(job.id)).notify == {"on": ["lost"], "webhook": "ops"}
        with pytest.raises(raftsched.ConflictError):
            await client.webhooks.delete("ops")
        await client.jobs.delete(job.id)
        await client.webhooks.delete("ops")
        assert [one async for one in client.webhooks.list()] == []

    run(tmp_path, test)

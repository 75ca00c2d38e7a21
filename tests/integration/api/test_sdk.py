"""raftsched.Client and raftsched.AsyncClient on the real API, with a store and without Raft."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import raftsched
from raftsched.core.commands import Assign, Ended
from raftsched.core.ids import parse_instance
from raftsched.core.model import Outcome
from raftsched.errors import NoLeader
from raftsched.output.format.spool import STDERR, STDOUT, pack
from raftsched.output.keeping.store import Record
from tests.support.local_api import LocalCluster, serving

JOB: raftsched.JobSpec = {"trigger": {"in": timedelta(minutes=30)}, "handler": {"shell": "true"}}


def run(
    directory: Path, test: Callable[[raftsched.AsyncClient, LocalCluster], Awaitable[None]], nodes: int = 1
) -> None:
    async def main() -> None:
        cluster = LocalCluster(directory, [f"n{i + 1}" for i in range(nodes)])
        try:
            async with serving(cluster, "n1") as one, raftsched.AsyncClient(one.url) as client:
                await test(client, cluster)
        finally:
            cluster.close()

    asyncio.run(main())


def test_what_is_due_next(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        await client.jobs.create(name="tick", queue="mail", trigger={"every": "1h"}, handler={"shell": "true"})
        found = await client.jobs.forecast(length=timedelta(hours=6), step="1h", queue="mail")
        assert (found.total, found.due, found.queues[0].queue) == (5, [0, 1, 1, 1, 1, 1], "mail")
        assert (found.peaks[0].jobs[0].name, found.from_) == ("tick", datetime(2030, 1, 1, tzinfo=UTC))
        start = found.from_ + timedelta(hours=2)
        assert (await client.jobs.forecast(start=start, end=start + timedelta(hours=1))).total == 1

    run(tmp_path, test)


def test_a_job_from_its_creation_to_its_end(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        at = datetime(2030, 6, 1, 12, tzinfo=UTC)
        made = await client.jobs.create(JOB, name="a", namespace="billing", trigger={"at": at}, params={"n": 1})
        assert (made.name, made.namespace, made.state, made.created) == ("a", "billing", "SCHEDULED", True)
        assert made.next_fire_at == at
        again = await client.jobs.create(JOB, name="a", namespace="billing", trigger={"at": at}, params={"n": 1})
        assert (again.id, again.created) == (made.id, False)
        with pytest.raises(raftsched.ConflictError) as taken:
            await client.jobs.create(JOB, name="a", namespace="billing")
        assert taken.value.code == "name-taken"
        with pytest.raises(raftsched.InvalidError) as invalid:
            await client.jobs.create(trigger={"in": "soon"}, handler={"shell": "true"})
        assert [e.pointer for e in invalid.value.errors] == ["/trigger/in"]

        job = await client.jobs.get("billing/a")
        assert (job.id, job.params, job.timeout) == (made.id, {"n": 1}, "5m")
        changed = await client.jobs.patch(job, {"priority": 9}, if_match=job)
        assert changed.priority == 9
        with pytest.raises(raftsched.ConflictError):
            await client.jobs.patch(job, {"priority": 8}, if_match=job)
        assert (await client.jobs.patch("billing/a", {"priority": 9}, if_match=changed)).revision == changed.revision
        assert (await client.jobs.patch(job, {"priority": 9}, if_match=changed.revision)).revision == changed.revision
        with pytest.raises(raftsched.InvalidError, match="another job of this name"):
            await client.jobs.patch("billing/a", {"priority": 8}, if_match=changed.revision)
        put = await client.jobs.put("billing/b", JOB)
        assert put.name == "b"
        assert [j.name async for j in client.jobs.list(namespace="billing")] == ["a", "b"]

        assert (await client.jobs.pause(job)).state == "SUSPENDED"
        until = at - timedelta(seconds=1)
        assert (await client.jobs.pause(job, until=until)).resumes_at == until
        assert (await client.jobs.pause(job, length=timedelta(hours=2))).resumes_at not in (None, until)
        assert (await client.jobs.resume(job)).state == "SCHEDULED"
        preview = await client.jobs.next(job)
        assert [o.at for o in preview.next] == [at]
        told = await client.jobs.explain(job)
        assert (told.next_fire_at, [one.reason for one in told.obstacles]) == (at, ["no_eligible_node"])
        checked = await client.jobs.check_patch(job, {"priority": 3}, if_match=await client.jobs.get(job))
        assert (checked.result, checked.job["priority"], checked.next[0].at) == ("changed", 3, at)
        assert (await client.jobs.check(JOB, namespace="billing", name="c")).result == "created"
        with pytest.raises(raftsched.ConflictError):
            await client.jobs.check(JOB, namespace="billing", name="b", priority=1)
        asked = await client.jobs.run(job, params={"n": 2})
        (instance,) = [i async for i in client.jobs.instances(job)]
        assert (instance.id, instance.params, instance.final) == (asked.id, {"n": 2}, False)
        assert (await client.instances.kill(instance)).state == "KILLED"
        ended = await client.instances.wait(asked)
        assert ended.final
        assert await client.instances.output(asked) == b""
        assert [p async for p in client.instances.follow(asked)] == []
        assert (await client.instances.explain(asked)).id == asked.id
        assert [i.id async for i in client.instances.list(job=made.id)] == [asked.id]

        assert (await client.jobs.expire(job)).state == "EXPIRED"
        await client.jobs.delete(job)
        with pytest.raises(raftsched.NotFoundError):
            await client.jobs.get(job)

    run(tmp_path, test)


def test_pieces_of_output_say_their_stream(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        cluster.open_session("n1", "127.0.0.1:1")
        job = await client.jobs.create(trigger={"manual": True}, handler={"shell": "true"})
        asked = await client.jobs.run(job)
        key = parse_instance(asked.id)
        assert key is not None
        (answer,) = cluster.apply(Assign(key, cluster.sessions["n1"]))
        token = getattr(answer, "number", 0)
        now = cluster.clock.wall
        frames = pack(STDOUT, b"one\n") + pack(STDERR, b"oops\n")
        (ref,) = cluster.outputs["n1"].append([Record(token, now, frames)])
        cluster.apply(Ended(cluster.sessions["n1"], token, Outcome.SUCCEEDED, now, now, 0, output=ref))
        for follow in (True, False):
            pieces = [piece async for piece in client.instances.pieces(asked, follow=follow)]
            assert [(p.offset, p.stream, p.text) for p in pieces] == [(0, "stdout", "one\n"), (4, "stderr", "oops\n")]
        assert [p.text async for p in client.instances.pieces(asked, stream="stderr")] == ["oops\n"]
        cluster.outputs["n1"].drop_before(2**62)
        with pytest.raises(raftsched.ClientError) as gone:
            await anext(client.instances.pieces(asked))
        assert gone.value.code == "output-gone"

    run(tmp_path, test)


def test_a_thousand_creates_are_a_few_proposals(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        made = await asyncio.gather(*(client.jobs.create(JOB, params={"n": n}) for n in range(1000)))
        assert len({m.id for m in made}) == 1000
        assert cluster.proposals < 50
        jobs = {j.id: j.params async for j in client.jobs.list()}
        assert [jobs[m.id] for m in made] == [{"n": n} for n in range(1000)], "each got the answer to its own"

    run(tmp_path, test)


def test_what_is_refused_for_the_moment_is_made_later(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        refused = asyncio.Event()
        cluster.refused = refused.set
        cluster.failure = NoLeader()
        tasks = [asyncio.create_task(client.jobs.create(JOB, params={"n": n})) for n in range(20)]
        await refused.wait()
        cluster.failure = None
        assert len({(await task).id for task in tasks}) == 20

    run(tmp_path, test)


def test_closing_waits_for_what_is_under_way(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        tasks = [asyncio.create_task(client.jobs.create(JOB)) for _ in range(700)]
        await asyncio.sleep(0)
        await client.close()
        assert len({(await task).id for task in tasks}) == 700
        with pytest.raises(RuntimeError, match="closed"):
            await client.jobs.get("default/a")

    run(tmp_path, test)


def test_events_up_to_now(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        made = await client.jobs.create(JOB, name="a")
        await client.jobs.pause(made)
        seen = [e async for e in client.events(after="oldest", follow=False, type="job")]
        assert [(e.type, e.job_id, e.job) for e in seen] == [
            ("job.created", made.id, "a"),
            ("job.suspended", made.id, "a"),
        ]
        rest = [e.id async for e in client.events(after=seen[0].id, follow=False, job=made.id)]
        assert rest == [seen[1].id]

    run(tmp_path, test)


def test_changes_go_on_after_the_digest_that_was_read(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        cluster.quiet = True
        first = await client.jobs.create(JOB)
        (seen,) = [c async for c in client.changes(after="oldest", follow=False)]
        assert seen.jobs == [first.id]
        second = await client.jobs.create(JOB)
        async for found in client.changes(after=seen.id):
            assert (found.jobs, found.more, found.leader) == ([second.id], False, "n1")
            assert "jobs" in found.kinds
            break

    run(tmp_path, test)


def test_lists_with_some_fields_and_recent_runs(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        made = await client.jobs.create(JOB, name="a")
        ran = await client.jobs.run(made)
        assert [j async for j in client.jobs.list_fields("name", "state", name="a")] == [
            {"name": "a", "state": "SCHEDULED"}
        ]
        assert [i async for i in client.instances.list_fields("id", job=made.id)] == [{"id": ran.id}]
        assert [r.id for r in (await client.instances.recent([made.id]))[made.id]] == [ran.id]
        with pytest.raises(raftsched.InvalidError, match="next_fire_at"):
            _ = [j async for j in client.jobs.list_fields("nmae")]
        with pytest.raises(ValueError, match="name the fields"):
            _ = [j async for j in client.jobs.list_fields()]

    run(tmp_path, test)


def test_previews_and_the_cluster(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        found = await client.preview({"cron": "0 2 * * *"}, start=datetime(2030, 1, 1, tzinfo=UTC), count=2)
        assert [o.at.isoformat() for o in found.next] == ["2030-01-01T02:00:00+00:00", "2030-01-02T02:00:00+00:00"]
        tab = await client.jobs.from_crontab("A=1\n0 2 * * * run\n@reboot run\n", timezone="Europe/Madrid")
        assert [(line.line, line.result) for line in tab.lines] == [(1, "setting"), (2, "job"), (3, "refused")]
        view = await client.cluster.status()
        assert (view.node, view.leader, [n.id for n in view.nodes]) == ("n1", "n1", ["n1"])
        made = await client.jobs.create(trigger={"every": "1h"}, handler={"shell": "true"})
        first, second = (await client.jobs.next(made, 2)).next
        await client.jobs.skip_next(made)
        assert (await client.jobs.next(made, 1)).next == [second]
        assert first.at < second.at

    run(tmp_path, test)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_threads_share_a_client_and_their_creates_travel_together(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path)
        try:
            async with serving(cluster, "n1") as one:
                await asyncio.to_thread(threads, one.url)
        finally:
            cluster.close()

    def threads(url: str) -> None:
        with raftsched.Client(url) as client:
            gate = threading.Barrier(16)

            def create(n: int) -> raftsched.Created:
                gate.wait()
                return client.jobs.create(JOB, name=f"j{n}")

            with ThreadPoolExecutor(16) as pool:
                made = list(pool.map(create, range(16)))
            assert len({m.id for m in made}) == 16
            assert sorted(j.name or "" for j in client.jobs.list()) == sorted(f"j{n}" for n in range(16))
            assert next(client.jobs.list(most=1)).name is not None
            with pytest.raises(raftsched.NotFoundError):
                client.jobs.get("default/none")
            results = client.jobs.create_many([JOB, {"trigger": {}}])
            assert isinstance(results[0], raftsched.Created)
            assert isinstance(results[1], raftsched.InvalidError)
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    code = 0 if client.jobs.get("default/j3").name == "j3" else 2
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "a forked process has a client of its own"
            assert client.jobs.get("default/j4").name == "j4", "and its parent keeps its own"
        with pytest.raises(RuntimeError, match="closed"):
            client.jobs.get("default/j3")

    asyncio.run(main())


def test_search_in_outputs(tmp_path: Path) -> None:
    async def test(client: raftsched.AsyncClient, cluster: LocalCluster) -> None:
        parts = [part async for part in client.instances.search("needle", ignore_case=True, namespace="default")]
        assert [(part.items, part.outputs, part.silent, part.next) for part in parts] == [([], 0, [], None)]

    run(tmp_path, test)

"""The stream of events: everything once, in order, from where the reader was, at any node; and what it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from raftsched.api.http import slices
from raftsched.api.http.streams import HEARTBEAT_S
from raftsched.cluster_settings import Settings
from raftsched.config.bounds import Bounds
from raftsched.core.commands import CreateJob, OpenLeadership, PutSettings
from raftsched.core.model import Policy, Trigger, TriggerKind
from raftsched.surface.events import TYPES
from tests.support import sse
from tests.support.local_api import Client, LocalCluster, one_node, serving
from tests.support.patience import within

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}}
MANUAL = Policy(trigger=Trigger(kind=TriggerKind.MANUAL))


async def kept(call: Client, query: str = "", headers: Mapping[str, str] | None = None) -> list[sse.Said]:
    """What is kept, with follow=false."""
    url = f"{call.url}/v1/events?follow=false{query}"
    async with call.session.get(url, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream"
        return [said async for said in sse.read(answer) if said.data is not None]


async def test_what_is_kept(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "name": "j", "namespace": "billing"})
    _, made = await call("POST", f"/v1/jobs/{job['id']}/run", {})
    found = await kept(call)
    assert [said.data["type"] for said in found] == ["leader.changed", "job.created", "instance.waiting"]
    assert [said.id for said in found] == [said.data["id"] for said in found]
    at = "2030-01-01T00:00:00.000Z"
    assert found[0].data == {"id": found[0].id, "at": at, "type": "leader.changed", "subject": "n1"}
    assert found[1].data == {
        "id": found[1].id, "at": at, "type": "job.created", "namespace": "billing", "job_id": job["id"],
        "job": "j", "state": "SCHEDULED", "revision": 1,
    }  # fmt: skip
    assert found[2].data == {
        "id": found[2].id, "at": at, "type": "instance.waiting", "namespace": "billing", "job_id": job["id"],
        "job": "j", "instance_id": made["id"], "state": "WAITING", "attempt": 0, "node": None, "reason": None,
        "dead_letter": False, "worker": None,
    }  # fmt: skip
    assert {said.data["type"] for said in found} <= set(TYPES)


async def test_each_filter(call: Client) -> None:
    _, first = await call("POST", "/v1/jobs", {**JOB, "name": "a", "namespace": "x"})
    _, second = await call("POST", "/v1/jobs", {**JOB, "name": "a", "namespace": "y"})
    await call("POST", f"/v1/jobs/{first['id']}/pause")
    _, made = await call("POST", f"/v1/jobs/{second['id']}/run", {})
    await call("POST", f"/v1/instances/{made['id']}/kill")

    async def types(query: str) -> list[str]:
        return [said.data["type"] for said in await kept(call, query)]

    assert await types("&type=job") == ["job.created", "job.created", "job.suspended"]
    assert await types("&type=job.suspended,leader") == ["leader.changed", "job.suspended"]
    assert await types("&namespace=x") == ["job.created", "job.suspended"]
    assert await types("&namespace=nobody") == []
    last = ["job.created", "instance.waiting", "instance.killed"]
    assert await types(f"&job={second['id']}") == last
    assert await types("&job=a&namespace=y") == last
    assert await types(f"&job={second['id']}&state=KILLED,SUSPENDED") == ["instance.killed"]
    assert await types("&state=KILLED,SUSPENDED") == ["job.suspended", "instance.killed"]


@pytest.mark.parametrize(
    ("query", "headers", "status", "words"),
    [
        ("type=job.exploded", {}, 400, "job.created"),
        ("type=", {}, 400, "job.created"),
        ("state=running", {}, 400, "RUNNING"),
        ("namespace=A", {}, 400, "namespace"),
        ("job=nothing", {}, 404, "its id"),
        ("after=yesterday", {}, 400, "4711.2"),
        ("after=1.2.3", {}, 400, "4711.2"),
        ("", {"Last-Event-ID": "abc"}, 400, "Last-Event-ID"),
        ("", {"Last-Event-ID": "oldest"}, 400, "Last-Event-ID"),
        ("after=999999", {}, 503, "has not applied"),
        ("follow=perhaps", {}, 400, "true"),
        ("since=3", {}, 400, "since"),
    ],
)
async def test_what_is_refused(call: Client, query: str, headers: dict[str, str], status: int, words: str) -> None:
    found, problem = await call("GET", f"/v1/events?{query}", headers=headers)
    assert (found, problem["status"]) == (status, status)
    assert words in problem["detail"]


def test_a_reader_goes_on_at_another_node_where_it_was(tmp_path: Path) -> None:
    """Entries with several events each: it may have stopped in the middle of one."""

    async def main() -> None:
        cluster = LocalCluster(tmp_path, ["n1", "n2"])
        cluster.quiet = True
        try:
            async with serving(cluster, "n1") as one, serving(cluster, "n2") as two:
                for _ in range(3):
                    cluster.apply(*[CreateJob("default", None, MANUAL, b"{}") for _ in range(90)])
                everything = [said.id for said in await kept(one)]
                assert len(everything) == len(set(everything)) == 271
                for stop in (0, 1, 40, 41, 90, 91, 200, 270):
                    read = [said.id for said in await kept(two, headers={"Last-Event-ID": everything[stop]})]
                    assert read == everything[stop + 1 :]
                index = everything[1].partition(".")[0]
                assert [said.id for said in await kept(two, f"&after={index}")] == everything[91:]
                both = await kept(two, "&after=oldest", {"Last-Event-ID": everything[-2]})
                assert [said.id for said in both] == everything[-1:]
                none = await kept(two, f"&after={index}", {"Last-Event-ID": ""})  # as the standard has it: none
                assert [said.id for said in none] == everything[91:]
        finally:
            cluster.close()

    asyncio.run(main())


async def test_what_comes_is_told_when_it_comes(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    call.cluster.quiet = True
    await call("POST", "/v1/jobs", {**JOB, "name": "before"})
    async with call.session.get(f"{call.url}/v1/events?type=job.created") as answer:
        lines = sse.read(answer)
        hello = await anext(lines)
        assert hello == ("", str(call.cluster.store.applied_index), None), "a reader that is cut off now knows where"
        for name in ("a", "b"):
            await call("POST", "/v1/jobs", {**JOB, "name": name})
            said = await anext(lines)
            assert said.data["job"] == name
    monkeypatch.setattr(slices, "SLICE_S", 0.0)  # one row in each
    async with call.session.get(f"{call.url}/v1/events?after={hello.id}&namespace=many") as answer:
        for _ in range(6):
            call.cluster.apply(*[CreateJob("many", None, MANUAL, b"{}") for _ in range(200)])
        found = await sse.events(answer, 1_200)
        assert len({said.data["job_id"] for said in found}) == 1_200


async def test_the_first_id_is_before_what_was_not_sent_yet(call: Client) -> None:
    """A reader that is cut off after it, before the first event, misses nothing when it goes on there."""
    call.cluster.quiet = True
    before = str(call.cluster.store.applied_index)
    for name in ("a", "b"):
        await call("POST", "/v1/jobs", {**JOB, "name": name})
    async with call.session.get(f"{call.url}/v1/events?after={before}") as answer:
        hello = await anext(sse.read(answer))
    assert hello == ("", before, None)
    assert [said.data["job"] for said in await kept(call, headers={"Last-Event-ID": hello.id})] == ["a", "b"]
    async with call.session.get(f"{call.url}/v1/events?after={before}&type=queue") as answer:
        hello = await anext(sse.read(answer))
    assert hello.id == str(call.cluster.store.applied_index), "there was nothing for it"


async def test_silence_moves_the_reader_on(call: Client) -> None:
    """One that waits for something rare must not fall out of what is kept meanwhile."""
    async with call.session.get(f"{call.url}/v1/events?type=queue") as answer:
        lines = sse.read(answer)
        await anext(lines)
        await call("POST", "/v1/jobs", {**JOB, "name": "other"})
        index = str(call.cluster.store.applied_index)
        async for said in lines:
            assert said.data is None
            if said.id == index:
                return


async def test_other_events_are_no_reason_to_be_silent(call: Client) -> None:
    """The reader of a filtered stream is told where it is while others come all the time: else a proxy cuts it off, and
    it comes back with an id that is long gone."""
    call.cluster.quiet = True
    async with call.session.get(f"{call.url}/v1/events?type=queue") as answer:
        lines = sse.read(answer)
        await within(anext(lines))
        for _ in range(2):
            call.cluster.clock.forward(HEARTBEAT_S * 1_000)
            await call("POST", "/v1/jobs", JOB)
            assert await within(anext(lines)) == ("", str(call.cluster.store.applied_index), None)
        await call("POST", "/v1/jobs", JOB)
        await call("PUT", "/v1/queues/q", {"max_running": 1})
        said = await within(anext(lines))
        assert said.data["type"] == "queue.changed", "nothing is said before its time"


async def test_too_old_is_gone_and_says_what_to_do(call: Client) -> None:
    call.cluster.quiet = True
    call.cluster.apply(PutSettings(Settings(events_max=3)))
    first = str(call.cluster.store.applied_index)
    for n in range(6):
        await call("POST", "/v1/jobs", {**JOB, "name": f"j{n}"})
    status, problem = await call("GET", f"/v1/events?after={first}")
    assert (status, problem["code"]) == (410, "events-gone")
    assert "GET /v1/jobs" in problem["detail"]
    assert [said.data["job"] for said in await kept(call, "&after=oldest")] == ["j3", "j4", "j5"]
    # and while it reads: the stream ends with the same words
    async with call.session.get(f"{call.url}/v1/events") as answer:
        lines = sse.read(answer)
        await anext(lines)
        for n in range(6):
            call.cluster.apply(CreateJob("default", f"k{n}", MANUAL, b"{}"))
        said = await anext(lines)
        assert (said.event, said.data["code"]) == ("problem", "events-gone")
        assert await anext(lines, None) is None


async def test_turned_off(call: Client) -> None:
    call.cluster.apply(PutSettings(Settings(events_max=0)))
    status, problem = await call("GET", "/v1/events")
    assert (status, problem["code"]) == (409, "not-possible")
    assert "events_max" in problem["detail"]


async def test_there_are_only_so_many_streams(tmp_path: Path) -> None:
    async with one_node(tmp_path, Bounds(streams=1)) as call:
        call.cluster.quiet = True
        async with call.session.get(f"{call.url}/v1/events") as answer:
            assert answer.status == 200
            status, problem = await call("GET", "/v1/events?follow=false")
            assert (status, problem["code"]) == (503, "overloaded")
            call.cluster.apply(OpenLeadership(2, "n1"))
            assert (await sse.events(answer, 1))[0].data["type"] == "leader.changed"

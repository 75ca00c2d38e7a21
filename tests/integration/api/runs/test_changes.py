"""Digests of what changed: complete in kinds, bounded in cost, made once for all, and only of what a reader may see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.context import ApiContext
from raftsched.api.runs import changes, digests
from raftsched.api.runs.digests import EVENTS_MAX, IDS_MAX, KINDS, ROWS_MAX, Digest, read_digest
from raftsched.cluster_settings import Settings
from raftsched.config.bounds import Bounds
from raftsched.core.commands import CreateJob, PutSettings
from raftsched.core.model import Policy, Trigger, TriggerKind
from raftsched.core.subjects.changes import PER_ROW
from tests.support import sse
from tests.support.local_api import Client, LocalCluster, one_node, serving
from tests.support.places import Place, placed
from tests.support.tokens import guarded, limited

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}
MANUAL = Policy(trigger=Trigger(kind=TriggerKind.MANUAL))


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "EVERY_S", 0.0)


async def since(call: Client, after: int | str, headers: Mapping[str, str] | None = None) -> list[sse.Said]:
    """What changed after an index, with follow=false."""
    url = f"{call.url}/v1/changes?follow=false&after={after}"
    async with call.session.get(url, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return [said async for said in sse.read(answer) if said.data is not None]


async def told(lines: AsyncIterator[sse.Said]) -> Any:
    """The next digest that says something."""
    async for said in lines:
        if said.data is not None:
            return said.data
    raise AssertionError("the stream ended")


def index(call: Client) -> int:
    return call.cluster.store.applied_index


async def test_each_change_is_told_by_its_kind(call: Client) -> None:
    async def kinds_of(method: str, path: str, body: Any = None) -> set[str]:
        before = index(call)
        status, answer = await call(method, path, body)
        assert status < 300, answer
        (said,) = await since(call, before)
        assert said.id == str(index(call))
        return set(said.data["kinds"]) - {"audit"} if "audit" in said.data["kinds"] else {"not in the audit"}

    _, job = await call("POST", "/v1/jobs", {**JOB, "name": "j", "namespace": "billing"})
    assert await kinds_of("POST", f"/v1/jobs/{job['id']}/pause") == {"jobs"}
    assert await kinds_of("PATCH", "/v1/cluster/settings", {"events_max": 5_000}) == {"settings"}
    assert await kinds_of("PUT", "/v1/queues/q", {"max_running": 3}) == {"queues"}
    assert await kinds_of("POST", "/v1/cluster/pause") == {"cluster"}
    assert await kinds_of("POST", "/v1/nodes/n1/drain") == {"cluster"}
    assert await kinds_of("PUT", "/v1/calendars/c", {"dates": ["2030-01-01"]}) == {"calendars"}
    assert await kinds_of("DELETE", "/v1/calendars/c") == {"calendars"}
    assert await kinds_of("PUT", "/v1/namespaces/billing", {"owner": "ana"}) == {"namespaces"}
    assert await kinds_of("PUT", "/v1/namespaces/billing/secrets/s", {"value": "x"}) == {"secrets"}
    assert await kinds_of("POST", "/v1/tokens", {"name": "t", "role": "viewer"}) == {"tokens"}
    hook = {"name": "w", "url": "http://127.0.0.1:1/hook", "events": ["dead_letter"]}
    assert "webhooks" in await kinds_of("POST", "/v1/webhooks", hook)
    asked = {"action": "resume", "filter": {"namespace": "billing"}}
    assert await kinds_of("POST", "/v1/jobs:actions", asked) == {"operations", "jobs"}


async def test_ids_are_told_while_they_are_few(call: Client) -> None:
    before = index(call)
    _, job = await call("POST", "/v1/jobs", JOB)
    _, made = await call("POST", f"/v1/jobs/{job['id']}/run", {})
    (said,) = await since(call, before)
    assert said.data == {
        "id": str(index(call)), "at": "2030-01-01T00:00:00.000Z",
        "more": False, "jobs": [job["id"]], "runs": [made["id"]],
        "kinds": ["jobs", "runs"], "leader": "n1",
    }  # fmt: skip
    assert await since(call, index(call)) == []
    call.cluster.apply(*[CreateJob("default", None, MANUAL, b"{}") for _ in range(IDS_MAX + 1)])
    (said,) = await since(call, before)
    assert (said.data["more"], said.data["jobs"], said.data["runs"]) == (True, [], [])
    assert said.data["kinds"] == ["jobs", "runs"]


async def test_kinds_are_known_beyond_the_ids_and_what_it_costs_is_bounded(call: Client) -> None:
    def create(count: int) -> None:
        call.cluster.apply(*[CreateJob("default", None, MANUAL, b"{}") for _ in range(count)])

    before = index(call)
    create(EVENTS_MAX)
    call.cluster.apply(PutSettings(Settings(steps_kept=41)))
    digest = read_digest(call.context, before)
    assert digest.more
    assert {kind for kind, _ in digest.kinds} == {"jobs", "settings"}, "not of everything"
    for _ in range(ROWS_MAX + 2):
        create(PER_ROW)
    looked = 0
    decode = digests.decode_row

    def counted(raw: bytes) -> Any:
        nonlocal looked
        when, changes = decode(raw)
        looked += len(changes)
        return when, changes

    digests.decode_row, heads = counted, digests._heads
    rows = 0

    def counted_heads(raw: Any) -> Any:
        nonlocal rows
        rows += 1
        return heads(raw)

    digests._heads = counted_heads
    try:
        digest = read_digest(call.context, before)
    finally:
        digests.decode_row, digests._heads = decode, heads
    assert looked <= EVENTS_MAX
    assert rows == ROWS_MAX
    assert {kind for kind, _ in digest.kinds} == set(digests._BY_EVENTS), "what was not looked at may be anything"
    assert digest.upto == index(call), "and the rest is left out"


async def test_what_is_gone_is_no_error(call: Client) -> None:
    call.cluster.apply(PutSettings(Settings(events_max=3)))
    before = index(call)
    for n in range(6):
        await call("POST", "/v1/jobs", {**JOB, "name": f"j{n}"})
    (said,) = await since(call, before)
    assert said.data["more"]
    assert {"jobs", "runs", "queues"} <= set(said.data["kinds"]) <= set(KINDS)
    (said,) = await since(call, index(call) - 1)
    assert (said.data["more"], len(said.data["jobs"])) == (False, 1)


async def test_events_that_are_turned_off_leave_the_kinds_of_anything(call: Client) -> None:
    call.cluster.quiet = True
    call.cluster.apply(PutSettings(Settings(events_max=0)))
    async with call.session.get(f"{call.url}/v1/changes") as answer:
        lines = sse.read(answer)
        await anext(lines)
        await call("POST", "/v1/jobs", JOB)
        said = await told(lines)
        assert said["more"]
        assert "jobs" in said["kinds"]
        assert "calendars" not in said["kinds"], "the audit knows of these"
        await call("PUT", "/v1/calendars/c", {"dates": ["2030-01-01"]})
        assert (await told(lines))["kinds"] == ["audit", "calendars"]


async def test_a_node_makes_each_digest_once_for_all_and_none_for_nobody(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Digest] = []
    encoded: list[Any] = []

    def read(*given: Any) -> Digest:
        made.append(read_digest(*given))
        return made[-1]

    def shown(self: Digest, who: Any) -> bytes:
        encoded.append(self.number)
        return whole(self, who)

    whole = Digest._of
    monkeypatch.setattr(changes, "read_digest", read)
    monkeypatch.setattr(Digest, "_of", shown)
    call.cluster.quiet = True
    await call("POST", "/v1/jobs", JOB)
    assert not made
    answers = [await call.session.get(f"{call.url}/v1/changes") for _ in range(10)]
    streams = [sse.read(answer) for answer in answers]
    for lines in streams:
        assert (await anext(lines)).data is None
    _, job = await call("POST", "/v1/jobs", JOB)
    for lines in streams:
        assert (await told(lines))["jobs"] == [job["id"]]
    assert len(made) == 1
    assert encoded == [1]
    for answer in answers:
        answer.close()
    await call("POST", "/v1/jobs", JOB)  # else it is a heartbeat that finds out that nobody reads
    await asyncio.wait([task for task in asyncio.all_tasks() if task.get_name() == "changes"])
    before = len(made)
    await call("POST", "/v1/jobs", JOB)
    assert len(made) == before


def test_a_reader_goes_on_at_another_node_and_misses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path, ["n1", "n2"])
        cluster.quiet = True
        try:
            async with serving(cluster, "n1") as one, serving(cluster, "n2") as two:
                async with one.session.get(f"{one.url}/v1/changes") as answer:
                    lines = sse.read(answer)
                    first = (await anext(lines)).id
                    _, job = await one("POST", "/v1/jobs", JOB)
                    assert (await told(lines))["jobs"] == [job["id"]]
                _, second = await one("POST", "/v1/jobs", JOB)
                async with two.session.get(f"{two.url}/v1/changes", headers={"Last-Event-ID": first}) as answer:
                    lines = sse.read(answer)
                    assert (await told(lines))["jobs"] == [job["id"], second["id"]]
                    _, third = await one("POST", "/v1/jobs", JOB)
                    assert third["id"] in (await told(lines))["jobs"]
        finally:
            cluster.close()

    asyncio.run(main())


async def test_the_id_of_an_event_leaves_out_nothing_of_its_entry(call: Client) -> None:
    call.cluster.apply(*[CreateJob("default", None, MANUAL, b"{}") for _ in range(3)])
    (said,) = await since(call, f"{index(call)}.1")
    assert len(said.data["jobs"]) == 3


@pytest.mark.parametrize(
    ("query", "headers", "status", "words"),
    [
        ("after=yesterday", {}, 400, "4711"),
        ("after=1.2.3", {}, 400, "4711"),
        ("", {"Last-Event-ID": "abc"}, 400, "Last-Event-ID"),
        ("", {"Last-Event-ID": "oldest"}, 400, "Last-Event-ID"),
        ("after=999999", {}, 503, "has not applied"),
        ("follow=perhaps", {}, 400, "true"),
        ("namespace=x", {}, 400, "namespace"),
    ],
)
async def test_what_is_refused(call: Client, query: str, headers: dict[str, str], status: int, words: str) -> None:
    found, problem = await call("GET", f"/v1/changes?{query}", headers=headers)
    assert (found, problem["status"]) == (status, status)
    assert words in problem["detail"]


async def test_a_lost_leader_is_told_though_nothing_is_applied(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with call.session.get(f"{call.url}/v1/changes") as answer:
        lines = sse.read(answer)
        await anext(lines)
        call.cluster.leader = None
        said = await told(lines)
        assert (said["kinds"], said["leader"]) == (["cluster"], None)
        call.cluster.leader = "n1"
        assert (await told(lines))["leader"] == "n1"


def test_one_is_told_of_ones_own_namespaces_only(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        call, admin = place.call, place.admin

        async def told_of(method: str, path: str, body: Any = None) -> tuple[list[Any], list[Any]]:
            """(to one of "mine" and "also-mine", to an admin)"""
            before = index(call)
            status, answer = await admin(method, path, body)
            assert status < 300, answer
            found = [await since(call, before, who.headers) for who in (place.mine, admin)]
            return [said.data for said in found[0]], [said.data for said in found[1]]

        for path in (f"/v1/jobs/{place.jobs['theirs']}/run", f"/v1/jobs/{place.jobs['theirs']}/pause"):
            mine, every = await told_of("POST", path, {} if path.endswith("run") else None)
            assert mine == []
            assert len(every) == 1
        mine, every = await told_of("POST", f"/v1/jobs/{place.jobs['mine']}/pause")
        assert (mine[0]["jobs"], mine[0]["kinds"]) == ([place.jobs["mine"]], ["jobs"])
        assert every[0]["kinds"] == ["audit", "jobs"], "who may not read the audit is not told of it"
        for name, wanted in (("theirs", []), ("mine", ["secrets"])):
            mine, every = await told_of("PUT", f"/v1/namespaces/{name}/secrets/s", {"value": "x"})
            assert [kind for said in mine for kind in said["kinds"]] == wanted
            assert every[0]["kinds"] == ["audit", "secrets"]
        for namespace, wanted in (("theirs", []), ("mine", ["operations"])):
            asked = {"action": "resume", "filter": {"namespace": namespace, "name": "nothing"}}
            mine, every = await told_of("POST", "/v1/jobs:actions", asked)
            assert [kind for said in mine for kind in said["kinds"]] == wanted
            assert "operations" in every[0]["kinds"]
        mine, _ = await told_of("POST", "/v1/tokens", {"name": "t", "role": "viewer"})
        assert mine == []
        mine, _ = await told_of("PUT", "/v1/queues/q", {"max_running": 1})
        assert mine[0]["kinds"] == ["queues"], "which belong to no namespace, and may be read by all"
        before = index(call)
        for namespace in ("theirs", "mine"):
            call.cluster.apply(*[CreateJob(namespace, None, MANUAL, b"{}") for _ in range(EVENTS_MAX + 1)])
            found = [said.data["kinds"] for said in await since(call, before, place.mine.headers)]
            assert found == ([] if namespace == "theirs" else [["jobs"]]), "nor when there are too many to look at"

    placed(tmp_path, test)


async def test_an_operator_of_a_namespace_is_told_of_its_records(call: Client) -> None:
    people = await guarded(call)
    who = await limited(people["admin"], "op", "operator", "mine")
    for namespace, wanted in (("theirs", []), ("mine", [["audit", "jobs"]])):
        before = index(call)
        await people["admin"]("PUT", f"/v1/namespaces/{namespace}/jobs/j", JOB)
        assert [said.data["kinds"] for said in await since(call, before, who.headers)] == wanted


async def test_streams_of_digests_take_nothing_from_the_others(tmp_path: Path) -> None:
    """Ten pages, each with one of both kinds, are as many as one token may have."""
    async with one_node(tmp_path, Bounds(streams=20, token_streams=2)) as call:
        call.cluster.quiet = True
        people = await guarded(call)
        who = people["viewer"].headers
        opened = []
        for path in ("/v1/changes", "/v1/changes", "/v1/events", "/v1/events"):
            opened.append(await call.session.get(f"{call.url}{path}", headers=who))
            assert opened[-1].status == 200
        for path in ("/v1/changes", "/v1/events"):
            status, problem = await people["viewer"]("GET", path)
            assert (status, problem["code"]) == (429, "too-many")
        for answer in opened:
            answer.close()


async def test_a_feed_that_fails_ends_the_streams_and_begins_anew(
    call: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, faults: Mapping[str, int]
) -> None:
    call.cluster.quiet = True

    def broken(*_: Any) -> Digest:
        raise RuntimeError("no such thing")

    with monkeypatch.context() as patch:
        patch.setattr(changes, "read_digest", broken)
        async with call.session.get(f"{call.url}/v1/changes") as answer:
            await call("POST", "/v1/jobs", JOB)
            assert b"data" not in await answer.read()
    assert "the task changes met a fault" in caplog.text
    assert faults["changes"] == 1
    async with call.session.get(f"{call.url}/v1/changes") as answer:
        lines = sse.read(answer)
        await anext(lines)
        _, job = await call("POST", "/v1/jobs", JOB)
        assert (await told(lines))["jobs"] == [job["id"]]


async def test_others_have_their_turn_between_many_who_missed_something(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    now = 0

    def read(ctx: ApiContext, index: int) -> Digest:
        passes.append(now)
        return read_digest(ctx, index)

    monkeypatch.setattr(changes, "read_digest", read)

    async def count() -> None:
        nonlocal now
        while True:
            now += 1
            await asyncio.sleep(0)

    assert (await call("POST", "/v1/jobs", JOB))[0] == 201
    counting = asyncio.create_task(count())
    found = await asyncio.gather(*(since(call, 0) for _ in range(20)))
    counting.cancel()
    assert all(len(said) == 1 for said in found)
    assert len(passes) == len(set(passes)) == 20

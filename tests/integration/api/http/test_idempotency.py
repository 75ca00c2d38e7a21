"""An Idempotency-Key holds for every POST of the route table that changes something, also for those yet to come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.routes import ROUTES
from raftsched.core.model import JobState
from raftsched.core.tables import Table
from raftsched.errors import NoLeader
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.posts import HOURLY, MANUAL, PREPARED, Post, dead, make, waiting

POSTS = [route for route in ROUTES if route.method == "POST"]
REPEATABLE = {
    f"/v1/worker-sessions{rest}" for rest in ("", *(f"/{{session}}/{one}" for one in ("poll", "close", "token")))
}
CHANGING = [route.path for route in POSTS if not route.operation.changes_nothing and route.path not in REPEATABLE]
SENDERS = 5
KEY = {"Idempotency-Key": "k"}
OWN = (Table.META, Table.KEYS, Table.KEY_TIMES, Table.ORIGINS)  # change with each entry, or with each key
NO_BODY = "/v1/cluster/pause", "/v1/cluster/resume", "/v1/secrets:reseal"  # there is one such request only


def three(directory: Path, test: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = LocalCluster(directory, ("n1", "n2", "n3"))
        try:
            async with serving(cluster, "n1") as call:
                await test(call)
        finally:
            cluster.close()

    asyncio.run(main())


def state(call: Client) -> dict[str, Any]:
    """All that the cluster holds, but for what is counted of requests."""
    cluster = call.cluster
    with cluster.store.read() as view:
        rows: dict[str, Any] = {t.name: dict(view.scan(t)) for t in Table if t not in OWN}
    return {**rows, "leader": cluster.leader, "members": cluster.members, "paused": call.context.meta().paused}


def counted(call: Client) -> dict[str, int]:
    return {name: len(rows) for name, rows in state(call).items() if isinstance(rows, dict)}


async def send(call: Client, post: Post, headers: dict[str, str] | None = None) -> tuple[int, Any, dict[str, str]]:
    status, answer = await call("POST", post.path, post.body, headers)
    return status, answer, {name: call.headers[name] for name in ("ETag", "Location") if name in call.headers}


@pytest.mark.parametrize("route", POSTS, ids=lambda route: route.path)
def test_every_post_takes_a_key_or_changes_nothing(route: Any) -> None:
    said = route.operation
    assert said.repeatable == (route.path in REPEATABLE)
    if said.changes_nothing or said.repeatable:
        assert "Idempotency-Key" not in said.headers, "it is not looked at"
        return
    assert "Idempotency-Key" in said.headers, f"{route.path} takes no Idempotency-Key; see api/http/idempotency.py"
    assert "idempotency-mismatch" in said.codes, route.path
    assert route.path in PREPARED, f"say in tests/support/posts.py how POST {route.path} is sent"


def test_what_is_prepared_is_there() -> None:
    assert set(PREPARED) == set(CHANGING)


@pytest.mark.parametrize("path", CHANGING)
def test_the_same_key_gives_the_same_answer_and_no_second_effect(tmp_path: Path, path: str) -> None:
    async def test(call: Client) -> None:
        post = await PREPARED[path](call)
        first = await send(call, post, KEY)
        assert first[0] in (200, 201, 202), first
        after = state(call)
        for _ in range(2):
            assert await send(call, post, KEY) == first
            assert state(call) == after
            call.cluster.clock.forward(60_000)
        other, body = post.other
        if path not in NO_BODY:
            status, problem = await call("POST", other, body, KEY)
            assert (status, problem["code"]) == (422, "idempotency-mismatch"), problem
        assert state(call) == after
        call.cluster.clock.forward(3_600_000)
        assert (await send(call, post, KEY))[0] != 422  # forgotten: it is a request like any other

    three(tmp_path, test)


@pytest.mark.parametrize("path", CHANGING)
def test_what_was_refused_may_be_sent_again_under_its_key(tmp_path: Path, path: str) -> None:
    async def test(call: Client) -> None:
        post = await PREPARED[path](call)
        before = state(call)
        call.cluster.failure = NoLeader()
        assert (await send(call, post, KEY))[0] == 503
        assert state(call) == before
        call.cluster.failure = None
        first = await send(call, post, KEY)
        assert first[0] in (200, 201, 202), first
        assert await send(call, post, KEY) == first

    three(tmp_path, test)


@pytest.mark.parametrize("path", CHANGING)
def test_sent_at_once_to_several_nodes_it_is_done_once(tmp_path: Path, path: str) -> None:
    """Here apply decides: no node knows yet that another has it."""

    async def main(directory: Path, senders: int) -> tuple[dict[str, int], list[Any]]:
        cluster = LocalCluster(directory, ("n1", "n2", "n3"))
        try:
            async with serving(cluster, "n1") as one, serving(cluster, "n2") as two, serving(cluster, "n3") as three:
                cluster.rng.seed(1)
                post = await PREPARED[path](one)
                nodes = [one, two, three]
                sent = [nodes[i % 3]("POST", post.path, post.body, KEY) for i in range(senders)]
                answers = await asyncio.gather(*sent)
                return counted(one), answers
        finally:
            cluster.close()

    wanted, (single,) = asyncio.run(main(tmp_path / "one", 1))
    found, answers = asyncio.run(main(tmp_path / "many", SENDERS))
    assert found == wanted
    assert single[0] in (200, 201, 202)
    assert {status for status, _ in answers} == {single[0]}
    if path.startswith("/v1/nodes"):  # the rest is how the asked node sees it
        answers = [(status, {key: body[key] for key in ("id", "drained", "revision")}) for status, body in answers]
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("path", CHANGING)
@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
def test_a_key_that_is_none_is_refused(tmp_path: Path, path: str, key: str) -> None:
    async def test(call: Client) -> None:
        post = await PREPARED[path](call)
        before = state(call)
        status, problem, _ = await send(call, post, {"Idempotency-Key": key})
        assert (status, problem["code"]) == (400, "invalid-parameter")
        assert "Idempotency-Key" in problem["detail"]
        assert state(call) == before

    three(tmp_path, test)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/v1/jobs?all=true&dry_run=true", None),
        ("DELETE", "/v1/dead-letters?all=true&dry_run=true", None),
        ("POST", "/v1/dead-letters/requeue", {"all": True, "dry_run": True}),
        ("POST", "/v1/jobs:actions", {"action": "pause", "all": True, "dry_run": True}),
    ],
)
def test_a_dry_run_looks_at_the_key_and_does_not_use_it_up(tmp_path: Path, method: str, path: str, body: Any) -> None:
    async def test(call: Client) -> None:
        status, problem = await call(method, path, body, {"Idempotency-Key": "a b"})
        assert (status, problem["code"]) == (400, "invalid-parameter")
        before = state(call)
        assert (await call(method, path, body, KEY))[0] == 200
        assert state(call) == before
        done = {**(body or {}), "dry_run": False} if body else None
        assert (await call(method, path.replace("&dry_run=true", ""), done, KEY))[0] in (200, 202)

    three(tmp_path, test)


# ---------------------------------------------------------------- in particular


def test_what_happened_since_is_not_undone_by_a_repeat(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        job = await make(call)
        path = f"/v1/jobs/{job}"
        assert (await call("POST", f"{path}/pause", None, KEY))[1]["state"] == "SUSPENDED"
        await call("POST", f"{path}/resume", None)
        status, shown = await call("POST", f"{path}/pause", None, KEY)
        assert (status, shown["state"]) == (200, JobState.SCHEDULED.name)  # as it is by now
        await call("POST", "/v1/cluster/pause", None, KEY)
        await call("POST", "/v1/cluster/resume", None, KEY)  # another kind of request has keys of its own
        await call("POST", "/v1/cluster/pause", None, KEY)
        assert not call.context.meta().paused
        one = await waiting(call)
        assert (await call("POST", f"/v1/instances/{one}/kill", None, KEY))[1]["state"] == "KILLED"
        await call("POST", f"/v1/instances/{one}/rerun", None)
        assert (await call("POST", f"/v1/instances/{one}/kill", None, KEY))[1]["state"] == "WAITING"
        await call("DELETE", path)
        assert (await call("POST", f"{path}/pause", None, KEY))[0] == 404

    three(tmp_path, test)


def test_the_same_is_the_same_bytes(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        assert (await call("POST", "/v1/jobs", HOURLY, KEY))[0] == 201
        turned = dict(reversed(HOURLY.items()))
        status, problem = await call("POST", "/v1/jobs", turned, KEY)
        assert (status, problem["code"]) == (422, "idempotency-mismatch")

    three(tmp_path, test)


def test_conditions_are_a_part_of_the_request(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        path = f"/v1/jobs/{await make(call)}/pause"
        first = await call("POST", path, None, {**KEY, "If-Match": '"1"'})
        assert first[0] == 200
        assert await call("POST", path, None, {**KEY, "If-Match": '"1"'}) == first
        for given in ({}, {"If-Match": '"2"'}):
            assert (await call("POST", path, None, {**KEY, **given}))[1]["code"] == "idempotency-mismatch"

    three(tmp_path, test)


def test_a_batch_is_answered_alike_item_by_item(tmp_path: Path) -> None:
    """What was made, what was there, and what was wrong."""

    async def test(call: Client) -> None:
        await make(call, MANUAL, name="there")
        await make(call, HOURLY, name="taken")
        batch = [
            {**MANUAL, "name": "new"},
            {**MANUAL, "name": "new"},
            {**MANUAL, "name": "there"},
            {**MANUAL, "name": "taken"},
            {**MANUAL, "priority": 77},
            MANUAL,
            "nothing",
        ]
        first = await call("POST", "/v1/jobs:batch", batch, KEY)
        assert [item["status"] for item in first[1]["items"]] == [201, 200, 200, 409, 422, 201, 422]
        after = state(call)
        for _ in range(2):
            assert await call("POST", "/v1/jobs:batch", batch, KEY) == first
        assert state(call) == after

    three(tmp_path, test)


@pytest.mark.parametrize("body", [{"all": True}, {"filter": {"namespace": "default"}}])
def test_what_fails_again_after_a_requeue_is_not_requeued_by_its_repeat(tmp_path: Path, body: Any) -> None:
    async def test(call: Client) -> None:
        await dead(call)
        call.cluster.clock.forward(1_000)
        first = await call("POST", "/v1/dead-letters/requeue", body, KEY)
        assert (first[0], first[1]["requeued"]) == (200, 1)
        await dead(call)
        assert await call("POST", "/v1/dead-letters/requeue", body, KEY) == first
        assert len((await call("GET", "/v1/dead-letters"))[1]["items"]) == 1

    three(tmp_path, test)


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_a_requeue_that_broke_off_is_finished_by_its_repeat(
    tmp_path: Path, broken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `broken` proposals: each dead letter is requeued once, and both answers together count them all."""

    async def test(call: Client) -> None:
        cluster = call.cluster
        monkeypatch.setattr("raftsched.api.runs.dead_letters.CHUNK", 1)
        ids = [await dead(call) for _ in range(2)]
        left = broken

        def step() -> None:
            nonlocal left
            left -= 1
            cluster.failure = NoLeader() if left == 0 else None
            cluster.before = step

        cluster.before = step
        status, problem = await call("POST", "/v1/dead-letters/requeue", {"ids": ids}, KEY)
        cluster.before = cluster.failure = None
        if broken == 3:  # all was done, and could not be noted
            assert status == 200
        else:
            assert status in (503, 504), problem
        again = await call("POST", "/v1/dead-letters/requeue", {"ids": ids}, KEY)
        assert (again[0], again[1]["requeued"], again[1]["refused"]) == (200, 2, [])
        assert await call("POST", "/v1/dead-letters/requeue", {"ids": ids}, KEY) == again

    three(tmp_path, test)


def test_deletes_by_filter_take_a_key_too(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        await make(call, name="a-1")
        path = "/v1/jobs?name_prefix=a-"
        first = await call("DELETE", path, None, KEY)
        assert (first[0], first[1]["deleted"]) == (200, 1)
        await make(call, name="a-2")
        assert await call("DELETE", path, None, KEY) == first
        assert (await call("GET", "/v1/namespaces/default/jobs/a-2"))[0] == 200
        assert (await call("DELETE", "/v1/jobs?name_prefix=b-", None, KEY))[1]["code"] == "idempotency-mismatch"
        one = await dead(call)
        call.cluster.clock.forward(1_000)
        first = await call("DELETE", "/v1/dead-letters?all=true", None, KEY)
        assert (first[0], first[1]["discarded"]) == (200, 1)
        two = await dead(call)
        assert await call("DELETE", "/v1/dead-letters?all=true", None, KEY) == first
        assert [item["id"] for item in (await call("GET", "/v1/dead-letters"))[1]["items"]] == [two] != [one]

    three(tmp_path, test)


def test_how_long_and_how_many_are_settings(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        _, shown = await call("GET", "/v1/cluster/settings")
        assert (shown["idempotency_keep"], shown["idempotency_max"]) == ("1h", 2_000_000)
        await call("PATCH", "/v1/cluster/settings", {"idempotency_keep": "1m", "idempotency_max": 2})
        _, first = await call("POST", "/v1/jobs", HOURLY, KEY)
        call.cluster.clock.forward(60_000)
        _, second = await call("POST", "/v1/jobs", HOURLY, KEY)
        assert second["id"] != first["id"]
        for name in ("l", "m"):
            call.cluster.clock.forward(1)
            await call("POST", "/v1/jobs", HOURLY, {"Idempotency-Key": name})
        _, third = await call("POST", "/v1/jobs", HOURLY, KEY)
        assert third["id"] != second["id"]

    three(tmp_path, test)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/schedules/preview", {"trigger": {"every": "1h"}}),
        ("/v1/namespaces/default/jobs/a/compare", HOURLY),
        ("/v1/jobs:check", HOURLY),
    ],
)
def test_what_changes_nothing_takes_a_key_and_does_not_look_at_it(tmp_path: Path, path: str, body: Any) -> None:
    async def test(call: Client) -> None:
        first = await call("POST", path, body, KEY)
        assert first[0] == 200
        assert await call("POST", path, body, KEY) == first

    three(tmp_path, test)

"""Queues with limits: set, shown with what runs and waits in them, changed, taken away."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.commands import Assign, PutQueue
from raftsched.core.ids import parse_instance
from raftsched.errors import NoLeader
from tests.support.local_api import Client, LocalCluster

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow", "queue": "q"}
MERGE = {"Content-Type": "application/merge-patch+json"}


async def waiting(call: Client, count: int) -> list[bytes]:
    """Keys of instances that wait in the queue "q"."""
    _, job = await call("POST", "/v1/jobs", {**JOB, "name": "j"})
    keys = []
    for _ in range(count):
        _, made = await call("POST", f"/v1/jobs/{job['id']}/run", {})
        key = parse_instance(made["id"])
        assert key is not None
        keys.append(key)
    return keys


async def test_a_queue_is_made_shown_changed_and_deleted(call: Client) -> None:
    status, problem = await call("GET", "/v1/queues/q")
    assert (status, problem["code"]) == (404, "not-found")
    assert "PUT" in problem["detail"]
    assert (await call("GET", "/v1/queues"))[1] == {"items": [], "next": None}
    status, queue = await call("PUT", "/v1/queues/q", {"max_running": 3, "rate": {"count": 10, "per": "60s"}})
    made = "2030-01-01T00:00:00.000Z"
    assert (status, queue) == (
        201,
        {"name": "q", "max_running": 3, "rate": {"count": 10, "per": "1m"}, "paused": False, "running": 0,
         "waiting": 0, "waiting_exact": True, "shut": None, "revision": 1, "created_at": made, "modified_at": made},
    )  # fmt: skip
    assert await call("PUT", "/v1/queues/q", queue) == (200, queue)  # what was answered is no change
    call.cluster.clock.forward(1_000)
    status, queue = await call("PUT", "/v1/queues/q", {"paused": True})
    assert (status, queue["max_running"], queue["rate"], queue["shut"]) == (200, None, None, "paused")
    assert (queue["created_at"], queue["modified_at"]) == (made, "2030-01-01T00:00:01.000Z")
    assert (await call("GET", "/v1/queues"))[1]["items"] == [queue]
    assert await call("DELETE", "/v1/queues/q") == (204, "")
    for method in ("DELETE", "GET"):
        assert (await call(method, "/v1/queues/q"))[0] == 404


async def test_a_patch_merges(call: Client) -> None:
    path = "/v1/queues/q"
    await call("PUT", path, {"max_running": 3, "rate": {"count": 10, "per": "1m"}})
    for change, wanted in (
        ({"paused": True}, (3, {"count": 10, "per": "1m"}, True)),
        ({"rate": {"count": 5}}, (3, {"count": 5, "per": "1m"}, True)),
        ({"rate": {"per": "1h"}, "paused": None}, (3, {"count": 5, "per": "1h"}, False)),
        ({"max_running": None}, (None, {"count": 5, "per": "1h"}, False)),
        ({"rate": None}, (None, None, False)),
        ({}, (None, None, False)),
    ):
        status, queue = await call("PATCH", path, change, MERGE)
        assert (status, (queue["max_running"], queue["rate"], queue["paused"])) == (200, wanted)
    assert (await call("PATCH", "/v1/queues/other", {"paused": True}))[0] == 404


async def test_only_when_there_is_none(call: Client) -> None:
    only_new = {"If-None-Match": "*"}
    assert (await call("PUT", "/v1/queues/q", {"max_running": 3}, only_new))[0] == 201
    for limits in ({"max_running": 3}, {"max_running": 4}):
        status, problem = await call("PUT", "/v1/queues/q", limits, only_new)
        assert (status, problem["code"]) == (412, "exists")
    assert (await call("GET", "/v1/queues/q"))[1]["max_running"] == 3


async def test_a_patch_keeps_what_was_changed_meanwhile(call: Client) -> None:
    await call("PUT", "/v1/queues/q", {"max_running": 3})
    call.cluster.before = lambda: call.cluster.apply(PutQueue("q", 3, 7, 60_000)) and None
    status, queue = await call("PATCH", "/v1/queues/q", {"paused": True})
    assert (status, queue["rate"], queue["paused"]) == (200, {"count": 7, "per": "1m"}, True)


async def test_what_runs_and_what_waits(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    session = call.cluster.open_session("n1", "127.0.0.1:1")
    await call("PUT", "/v1/queues/q", {"max_running": 2})
    await call("PUT", "/v1/queues/r", {"max_running": 2})
    keys = await waiting(call, 7)
    _, queue = await call("GET", "/v1/queues/q")
    assert (queue["running"], queue["waiting"], queue["shut"]) == (0, 7, None)
    call.cluster.apply(Assign(keys[0], session), Assign(keys[1], session))
    _, queue = await call("GET", "/v1/queues/q")
    assert (queue["running"], queue["waiting"], queue["shut"]) == (2, 5, "full")
    _, text = await call("GET", "/metrics")
    for line in ('running{queue="q"} 2.0', 'running{queue="r"} 0.0', 'max_running{queue="q"} 2.0'):
        assert f"raftsched_queue_{line}" in text
    assert 'raftsched_queue_paused{queue="q"} 0.0' in text
    monkeypatch.setattr("raftsched.api.resources.queues.COUNT_MAX", 4)
    monkeypatch.setattr("raftsched.api.resources.queues.COUNT_LEAST", 3)
    _, queue = await call("GET", "/v1/queues/q")
    assert (queue["waiting"], queue["waiting_exact"]) == (4, False)
    _, page = await call("GET", "/v1/queues")
    assert [(q["name"], q["waiting"], q["waiting_exact"]) for q in page["items"]] == [
        ("q", 3, False),
        ("r", 0, True),
    ]


async def test_the_list_goes_by_name_and_page(call: Client) -> None:
    for name in ("b", "a", "d", "c"):
        await call("PUT", f"/v1/queues/{name}", {"max_running": 1})
    names: list[str] = []
    cursor = ""
    for _ in range(3):
        _, page = await call("GET", f"/v1/queues?limit=2{cursor}")
        names += [q["name"] for q in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert names == ["a", "b", "c", "d"]
    assert (await call("GET", "/v1/queues?cursor=zzz"))[0] == 400


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({"max_running": 0}, "/max_running", "from 1"),
        ({"max_running": "3"}, "/max_running", "integer"),
        ({"max_runing": 3}, "/max_runing", 'did you mean "max_running"'),
        ({"rate": {"count": 0, "per": "1m"}}, "/rate/count", "from 1"),
        ({"rate": {"count": 1_000_001, "per": "1m"}}, "/rate/count", "1,000,000"),
        ({"rate": {"count": 5, "per": "1"}}, "/rate/per", "30s"),
        ({"rate": {"count": 5, "per": "999ms"}}, "/rate/per", "from 1s to 1d"),
        ({"rate": {"count": 5, "per": "2d"}}, "/rate/per", "from 1s to 1d"),
        ({"rate": {"count": 5}}, "/rate/per", "missing"),
        ({"rate": {"per": "5m"}}, "/rate/count", "missing"),
        ({"rate": 5}, "/rate", "an object"),
        ({"paused": "yes"}, "/paused", "true or false"),
        ([], "", "an object"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_changed(call: Client, body: Any, pointer: str, says: str) -> None:
    _, queue = await call("PUT", "/v1/queues/q", {})
    before = call.cluster.proposals
    for method in ("PUT", "PATCH"):
        status, problem = await call(method, "/v1/queues/q", body)
        assert (status, problem["code"]) == (422, "invalid-body")
        assert [e for e in problem["errors"] if e["pointer"] == pointer and says in e["detail"]], problem
    assert call.cluster.proposals == before
    assert (await call("GET", "/v1/queues/q"))[1] == queue


async def test_the_edges(call: Client) -> None:
    for name in ("Q", "a" * 129, "%2E%2E", "a%00b", "a%20b", "%C3%A4"):
        assert (await call("PUT", f"/v1/queues/{name}", {}))[0] in (400, 404), name
        for method in ("GET", "DELETE"):
            assert (await call(method, f"/v1/queues/{name}"))[0] == 404, name
        assert (await call("PATCH", f"/v1/queues/{name}", {}))[0] == 404, name
    assert (await call("PUT", "/v1/queues/q", b"{"))[0] == 400
    assert (await call("PUT", "/v1/queues/q", b'{"paused": true, "paused": false}'))[0] == 400
    assert (await call("PUT", "/v1/queues/q?force=true", {}))[0] == 400
    assert (await call("PUT", "/v1/queues/q", b"{}", {"Content-Type": "text/plain"}))[0] == 415
    assert (await call("PUT", "/v1/queues/q", {"x": "y" * 5_000}))[0] == 413
    assert (await call("PUT", "/v1/queues/q", {}, {"If-None-Match": '"1"'}))[0] == 400
    assert (await call("PUT", "/v1/queues/q", {}, {"If-Match": "1"}))[0] == 400
    assert (await call("PATCH", "/v1/queues/q", {}, {"If-None-Match": "*"}))[0] == 400
    assert (await call("POST", "/v1/queues/q", {}))[0] == 405
    assert (await call("GET", "/v1/queues/q"))[0] == 404
    assert call.cluster.proposals == 0


async def test_as_many_as_there_may_be(call: Client) -> None:
    assert (await call("PATCH", "/v1/cluster/settings", {"queues_max": 1}))[0] == 200
    assert (await call("PUT", "/v1/queues/a", {}))[0] == 201
    status, problem = await call("PUT", "/v1/queues/b", {})
    assert (status, problem["code"]) == (409, "not-possible")
    assert (await call("PUT", "/v1/queues/a", {"paused": True}))[0] == 200


async def test_without_a_leader(call: Client) -> None:
    await call("PUT", "/v1/queues/q", {})
    cluster: LocalCluster = call.cluster
    cluster.failure = NoLeader()
    for method in ("PUT", "PATCH"):
        assert (await call(method, "/v1/queues/q", {"paused": True}))[0] == 503
    assert (await call("DELETE", "/v1/queues/q"))[0] == 503
    assert (await call("GET", "/v1/queues/q"))[0] == 200

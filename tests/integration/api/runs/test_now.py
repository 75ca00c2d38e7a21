"""GET /v1/stats/now: what runs, waits and why, comes next and has failed, in whole and of a namespace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftsched.api.context import ApiContext
from raftsched.api.runs import now
from raftsched.bounds import DAY_MS
from raftsched.core import commands as c
from raftsched.core.model import Outcome
from raftsched.core.tables import due_day
from tests.support.local_api import Client, LocalCluster
from tests.support.memory_view import after, policy
from tests.support.patience import until
from tests.support.tokens import guarded, limited


def made(cluster: LocalCluster, namespace: str, name: str, *, run: bool = True, **fields: Any) -> bytes:
    """A job, and the key of its run that waits now."""
    (answer,) = cluster.apply(c.CreateJob(namespace, name, policy(after(1_000), **fields), b"{}"))
    assert isinstance(answer, c.Accepted)
    assert answer.job is not None
    if not run:
        return b""
    cluster.clock.forward(1_000)
    (fired,) = cluster.apply(c.Fire(answer.job.id, 1, answer.job.nominal_at_ms or 0))
    assert isinstance(fired, c.Accepted)
    assert fired.job is not None
    assert fired.job.last_instance is not None
    return fired.job.last_instance


def assigned(cluster: LocalCluster, key: bytes) -> int:
    if "n1" not in cluster.sessions:
        cluster.open_session("n1", "127.0.0.1:1")
    (answer,) = cluster.apply(c.Assign(key, cluster.sessions["n1"]))
    assert isinstance(answer, c.Accepted)
    assert answer.number is not None
    return answer.number


async def glance(call: Any, query: str = "") -> dict[str, Any]:
    status, found = await call("GET", f"/v1/stats/now?consistency=local{query}")
    assert status == 200, found
    return dict(found)


async def test_a_glance(call: Client) -> None:
    cluster = call.cluster
    assert await glance(call) == {
        "running": 0,
        "running_exact": True,
        "runs": [],
        "waiting": [],
        "due": [],
        "dead_letters": 0,
        "dead_letters_exact": True,
        "dead": [],
    }
    first, second = made(cluster, "fin", "first"), made(cluster, "ops", "second")
    assigned(cluster, first)
    bad = assigned(cluster, made(cluster, "ops", "bad"))
    now = cluster.clock.wall
    cluster.apply(c.Ended(cluster.sessions["n1"], bad, Outcome.FAILED, now, now, 3, "it broke"))
    cluster.apply(c.PutQueue("slow", 1, None, 0, True))
    made(cluster, "ops", "queued", queue="slow")
    made(cluster, "fin", "later", run=False)
    found = await glance(call)
    assert (found["running"], [(r["job"], r["namespace"], r["node"]) for r in found["runs"]]) == (
        1,
        [("first", "fin", "n1")],
    )
    assert [(w["queue"], w["count"], w["exact"], w["reason"]) for w in found["waiting"]] == [
        (None, 1, True, "turn"),
        ("slow", 1, True, "queue_paused"),
    ]
    assert found["waiting"][1]["text"] == 'Its queue "slow" is paused.'
    assert [(d["job"], d["namespace"]) for d in found["due"]] == [("later", "fin")]
    assert (found["dead_letters"], [(d["job"], d["error"]) for d in found["dead"]]) == (1, [("bad", "it broke")])
    assert second[8:16] != first[8:16]


async def test_what_comes_next_is_shown_however_far_it_is(call: Client) -> None:
    cluster = call.cluster
    cluster.apply(c.PromoteDue(due_day(cluster.clock.wall) + 1, 1))
    for days in (3, 9, 2, 5):
        cluster.apply(c.CreateJob("fin", f"in-{days}", policy(after(days * DAY_MS)), b"{}"))
    assert [due["job"] for due in (await glance(call))["due"]] == ["in-2", "in-3", "in-5", "in-9"]
    made(cluster, "fin", "soon", run=False)
    cluster.apply(c.PromoteDue(due_day(cluster.clock.wall) + 5, 10))
    cluster.clock.forward(1_000)
    assert [due["job"] for due in (await glance(call))["due"]] == ["soon", "in-2", "in-3", "in-5", "in-9"]


async def test_a_token_for_one_namespace_sees_that_alone(call: Client) -> None:
    who = await guarded(call)
    cluster = call.cluster
    for namespace in ("mine", "theirs", "theirs"):
        assigned(cluster, made(cluster, namespace, f"runs-{cluster.clock.wall}"))
        made(cluster, namespace, f"waits-{cluster.clock.wall}")
        made(cluster, namespace, f"due-{cluster.clock.wall}", run=False)
    me = await limited(who["admin"], "me", "viewer", "mine")
    assert (await glance(who["viewer"]))["running"] == 3
    found = await glance(me, "&namespace=mine")
    assert found["running"] == len(found["runs"]) == len(found["due"]) == 1
    assert [w["count"] for w in found["waiting"]] == [1]
    assert "theirs" not in str(found)
    for query in ("", "?namespace=theirs"):
        assert (await me("GET", f"/v1/stats/now{query}"))[0] == 403


async def test_one_answer_does_for_all_who_ask_at_once(call: Client) -> None:
    _, before = await call("GET", "/v1/stats/now")
    made(call.cluster, "fin", "later", run=False)
    assert (await call("GET", "/v1/stats/now"))[1] == before
    assert len((await glance(call))["due"]) == 1, "who asks for the newest gets it"
    call.cluster.clock.forward(500)
    assert len((await call("GET", "/v1/stats/now"))[1]["due"]) == 1


async def test_a_node_looks_once_at_a_time(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    look, looks, go = now._look, [], asyncio.Event()

    async def counted(ctx: ApiContext, namespace: str | None) -> now.NowOut:
        looks.append(namespace)
        await go.wait()
        return await look(ctx, namespace)

    asked: list[str | None] = []
    monkeypatch.setattr(now, "_look", counted)
    monkeypatch.setattr(now, "check_namespace", asked.append)  # the last that is done before one waits
    waiting = [asyncio.create_task(glance(call)) for _ in range(10)]
    await until(lambda: len(asked) == 10)
    assert looks == [None]
    go.set()
    await asyncio.gather(*waiting)
    assert looks == [None, None], "those who came while it looked share the next look"


async def test_the_limits_of_a_namespace_are_no_queue(call: Client) -> None:
    assert (await call("PUT", "/v1/namespaces/full", {"limits": {"max_running": 1}}))[0] == 201
    assigned(call.cluster, made(call.cluster, "full", "first"))
    made(call.cluster, "full", "second")
    (waits,) = (await glance(call, "&namespace=full"))["waiting"]
    assert (waits["queue"], waits["count"], waits["reason"]) == (None, 1, "namespace_full")

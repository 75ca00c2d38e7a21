"""GET /v1/stats/minutes: what was counted, in steps, for who may see it; and GET /v1/cluster/terms."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.bounds import DAY_MS, MINUTE_MS
from raftsched.core import commands as c
from raftsched.core.model import Outcome
from tests.support.local_api import Client, LocalCluster
from tests.support.memory_view import at, policy
from tests.support.tokens import guarded, limited

COUNTS = ("started", "restarted", "succeeded", "failed", "killed", "skipped", "late", "late_max_ms")


def go(cluster: LocalCluster, namespace: str, outcome: Outcome = Outcome.SUCCEEDED, late_ms: int = 0) -> None:
    """A run that is due now, starts so late and ends at once."""
    if "n1" not in cluster.sessions:
        cluster.open_session("n1", "127.0.0.1:1")
    now = cluster.clock.wall
    (made,) = cluster.apply(c.CreateJob(namespace, None, policy(at(now)), b"{}"))
    assert isinstance(made, c.Accepted)
    assert made.job is not None
    (fired,) = cluster.apply(c.Fire(made.job.id, made.job.revision, now))
    assert isinstance(fired, c.Accepted)
    assert fired.job is not None
    assert fired.job.last_instance is not None
    (given,) = cluster.apply(c.Assign(fired.job.last_instance, cluster.sessions["n1"]))
    assert isinstance(given, c.Accepted)
    assert given.number is not None
    began = now + late_ms
    cluster.apply(c.Ended(cluster.sessions["n1"], given.number, outcome, began, began))


async def counted(call: Any, query: str = "") -> dict[str, Any]:
    """The counts that are not 0 all over."""
    status, found = await call("GET", f"/v1/stats/minutes{query}")
    assert status == 200, found
    return {name: found[name] for name in COUNTS if any(found[name])}


async def test_counts_lie_at_their_minutes(call: Client) -> None:
    go(call.cluster, "a")
    go(call.cluster, "b", Outcome.FAILED, late_ms=1_500)
    call.cluster.clock.forward(2 * MINUTE_MS)
    go(call.cluster, "a", Outcome.TIMED_OUT)
    _, found = await call("GET", "/v1/stats/minutes?from=2000-01-01T00:00:00Z&to=2000-01-09T00:00:00Z")
    assert (found["from"], len(found["started"])) == ("2000-01-08T00:00:00.000Z", 24 * 60)  # no more than a day
    _, found = await call("GET", "/v1/stats/minutes?from=2000-01-01T00:00:00Z&to=2000-01-01T00:00:00Z")
    assert [found[name] for name in COUNTS] == [[]] * 8
    status, found = await call("GET", "/v1/stats/minutes")
    assert status == 200
    assert found["step"] == "1m"
    assert {len(found[name]) for name in COUNTS} == {24 * 60 + 1}, "whole minutes, of which the last goes on"
    assert {name: found[name][-3:] for name in COUNTS} == {
        "started": [2, 0, 1],
        "restarted": [0, 0, 0],
        "succeeded": [1, 0, 0],
        "failed": [1, 0, 1],
        "killed": [0, 0, 0],
        "skipped": [0, 0, 0],
        "late": [1, 0, 0],
        "late_max_ms": [1_500, 0, 0],
    }


async def test_longer_steps_add_up(call: Client) -> None:
    for _ in range(4):
        go(call.cluster, "a", late_ms=2_000)
        call.cluster.clock.forward(20 * MINUTE_MS)
    for step, count in (("1m", 24 * 60), ("5m", 24 * 12), ("15m", 24 * 4), ("1h", 24)):
        _, found = await call("GET", f"/v1/stats/minutes?step={step}")
        assert count <= len(found["started"]) <= count + 1
        assert sum(found["started"]) == sum(found["late"]) == 4
        assert max(found["late_max_ms"]) == 2_000
    assert await counted(call, "?step=1h&from=2000-01-01T00:00:00Z&to=2000-01-01T05:00:00Z") == {}


async def test_a_namespace_and_a_token_for_some(call: Client) -> None:
    who = await guarded(call)
    for namespace in ("mine", "mine", "ours", "theirs"):
        go(call.cluster, namespace)
        call.cluster.clock.forward(MINUTE_MS)
    me = await limited(who["admin"], "me", "viewer", "mine", "ours")

    async def started(as_whom: Any, query: str = "") -> int:
        return sum((await counted(as_whom, query)).get("started", []))

    assert await started(who["viewer"]) == 4
    assert await started(who["viewer"], "?namespace=theirs") == 1
    assert await started(me, "?namespace=mine") == 2
    for query in ("", "?namespace=theirs"):
        status, problem = await me("GET", f"/v1/stats/minutes{query}")
        assert (status, problem["code"]) == (403, "forbidden"), query
    go(call.cluster, "theirs")
    assert await started(me, "?namespace=mine") == 2, "nor of the minute that goes on"
    assert await started(who["viewer"]) == 5


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("step=2m", "step"),
        ("from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z", "from"),
        ("namespace=x%20y", "namespace"),
    ],
)
async def test_what_cannot_be_asked(call: Client, query: str, parameter: str) -> None:
    status, problem = await call("GET", f"/v1/stats/minutes?{query}")
    assert (status, problem["code"]) == (400, "invalid-parameter")
    assert [error["parameter"] for error in problem["errors"]] == [parameter]


async def test_a_day_and_no_more_is_kept(call: Client) -> None:
    go(call.cluster, "a")
    call.cluster.clock.forward(DAY_MS - MINUTE_MS)
    assert sum((await counted(call))["started"]) == 1
    call.cluster.clock.forward(2 * MINUTE_MS)
    assert await counted(call) == {}


async def test_leaderships_newest_first(call: Client) -> None:
    call.cluster.clock.forward(5_000)
    call.cluster.apply(c.OpenLeadership(4, "n2"))
    status, found = await call("GET", "/v1/cluster/terms")
    assert status == 200
    assert [(row["term"], row["leader"]) for row in found["items"]] == [(4, "n2"), (1, "n1")]
    assert found["items"][0]["at"] > found["items"][1]["at"]
    assert found["items"][0]["index"] == call.cluster.store.applied_index

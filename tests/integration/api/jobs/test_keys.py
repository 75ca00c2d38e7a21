"""Limits by key: what is refused, what is shown of runs that wait for a permit, and the list of keys in use."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.commands import Assign
from raftsched.core.ids import parse_instance
from tests.support.local_api import Client

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow", "params": {"tenant": "acme"}}
BY_TENANT = {"key": "{params.tenant}", "max": 2}


async def made(call: Client, times: int, concurrency: dict[str, Any] = BY_TENANT, **fields: Any) -> list[str]:
    """Runs of a job with these limits."""
    status, job = await call("POST", "/v1/jobs", {**JOB, "concurrency": concurrency, **fields})
    assert status == 201, job
    ids = []
    for _ in range(times):
        call.cluster.clock.forward(1)
        status, found = await call("POST", f"/v1/jobs/{job['id']}/run", {})
        assert status == 202
        ids.append(found["id"])
    return ids


async def test_limits_are_stored_and_shown_as_given(call: Client) -> None:
    limits = {"key": "t:{params.tenant}/{job}", "max": 2, "rate": {"count": 10, "per": "1m"}}
    status, job = await call("POST", "/v1/jobs", {**JOB, "concurrency": limits, "name": "sync"})
    assert (status, job["concurrency"]) == (201, limits)
    assert (await call("POST", "/v1/jobs", {**JOB, "concurrency": limits, "name": "sync"}))[0] == 200
    _, plain = await call("POST", "/v1/jobs", {**JOB, "concurrency": None})
    assert plain["concurrency"] is None
    status, made = await call("POST", f"/v1/jobs/{job['id']}/run", {"params": {"tenant": 7}})
    assert (await call("GET", f"/v1/instances/{made['id']}"))[1]["key"] == "t:7/sync"


@pytest.mark.parametrize(
    ("given", "at", "says"),
    [
        ({"max": 1}, "/concurrency/key", "is missing"),
        ({"key": "{params.tenant}"}, "/concurrency", "limits nothing"),
        ({"key": "{tenant}", "max": 1}, "/concurrency/key", "use {params.NAME} or {job}"),
        ({"key": "", "max": 1}, "/concurrency/key", "1 to 128"),
        ({"key": "{params.none}", "max": 1}, "/params/none", "is missing"),
        ({"key": "{params.tenant.id}", "max": 1}, "/params/tenant/id", "is missing"),
        ({"key": "x", "max": 0}, "/concurrency/max", "from 1 to 10,000"),
        ({"key": "x", "rate": {"count": 1}}, "/concurrency/rate/per", "is missing"),
        ({"key": "x", "rate": {"count": 1, "per": "1ms"}}, "/concurrency/rate/per", "from 1s to 1d"),
        ({"key": "x", "max": 1, "per": "1m"}, "/concurrency/per", "not a known field"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, given: dict[str, Any], at: str, says: str) -> None:
    status, problem = await call("POST", "/v1/jobs", {**JOB, "concurrency": given})
    assert status == 422
    assert at in [error["pointer"] for error in problem["errors"]]
    assert says in str(problem["errors"])


async def test_params_of_a_run_have_what_its_key_asks_for(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "concurrency": BY_TENANT})
    for params, at in (
        ({}, "/params/tenant"),
        ({"tenant": {}}, "/params/tenant"),
        ({"tenant": "x" * 201}, "/params"),
    ):
        status, problem = await call("POST", f"/v1/jobs/{job['id']}/run", {"params": params})
        assert (status, problem["code"], problem["errors"][0]["pointer"]) == (422, "invalid-body", at)


async def test_a_run_says_what_it_waits_for(call: Client) -> None:
    first, second, third, fourth = await made(call, 4)
    shown = (await call("GET", f"/v1/instances/{third}"))[1]
    assert (shown["state"], shown["reason"], shown["key"]) == ("WAITING", "key", "acme")
    status, told = await call("GET", f"/v1/instances/{third}/explain")
    held = f'It waits for one of the 2 permits of its key "acme", held by {first}, {second}.'
    assert (status, told["waiting_for"]) == (200, {"reason": "key_full", "text": held})
    assert told["steps"][-1]["text"] == "it waits for a permit of its key: acme"
    told = (await call("GET", f"/v1/instances/{fourth}/explain"))[1]
    assert told["waiting_for"]["text"] == f"{held} 1 in its line go first."
    assert (await call("POST", f"/v1/instances/{second}/kill"))[0] == 202
    told = (await call("GET", f"/v1/instances/{third}/explain"))[1]
    assert told["waiting_for"]["reason"] != "key_full"
    assert told["waits"][0]["reason"] == "key"
    _, page = await call("GET", "/v1/instances?fields=key,reason")
    assert {(one["key"], one["reason"]) for one in page["items"]} >= {("acme", "key"), ("acme", None)}


async def test_a_run_that_waits_for_its_rate_says_when(call: Client) -> None:
    first, second = await made(call, 2, {"key": "x", "rate": {"count": 1, "per": "1m"}})
    told = (await call("GET", f"/v1/instances/{second}/explain"))[1]["waiting_for"]
    assert told["reason"] == "key_rate"
    assert "one that may has to start first" in told["text"]
    key = parse_instance(first)
    assert key is not None
    call.cluster.apply(Assign(key, call.cluster.open_session("n1", "127.0.0.1:1")))
    told = (await call("GET", f"/v1/instances/{second}/explain"))[1]["waiting_for"]["text"]
    assert 'With its key "x" at most 1 may start in 1m; the next may start at 2030-01-01T00:01:00' in told
    (key_shown,) = (await call("GET", "/v1/namespaces/default/keys"))[1]["items"]
    assert key_shown["next_at"].startswith("2030-01-01T00:01:00")


async def test_the_keys_in_use_are_listed(call: Client) -> None:
    assert (await call("GET", "/v1/namespaces/default/keys"))[1] == {"items": [], "next": None}
    ids = await made(call, 3)
    await made(call, 1, params={"tenant": "bolt"})
    await made(call, 1, namespace="other", params={"tenant": "cary"})
    status, page = await call("GET", "/v1/namespaces/default/keys?limit=1")
    assert (status, page["items"]) == (
        200,
        [{"key": "acme", "running": 2, "waiting": 1, "runs": ids[:2], "next_at": None}],
    )
    _, page = await call("GET", f"/v1/namespaces/default/keys?limit=1&cursor={page['next']}")
    assert [one["key"] for one in page["items"]] == ["bolt"]
    _, page = await call("GET", "/v1/namespaces/other/keys")
    assert [one["key"] for one in page["items"]] == ["cary"]
    status, refused = await call("GET", "/v1/namespaces/NOT%20ONE/keys")
    assert (status, refused["errors"][0]["parameter"]) == (400, "ns")


async def test_a_namespace_may_have_them_as_its_default(call: Client) -> None:
    status, shown = await call("PUT", "/v1/namespaces/team", {"defaults": {"concurrency": BY_TENANT}})
    assert (status, shown["defaults"]) == (201, {"concurrency": BY_TENANT})
    _, job = await call("POST", "/v1/jobs", {**JOB, "namespace": "team"})
    assert job["concurrency"] == BY_TENANT
    status, problem = await call("POST", "/v1/jobs", {**JOB, "namespace": "team", "params": {}})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/params/tenant")
    wrong = {"defaults": {"concurrency": {"key": "}", "max": 1}}}
    status, problem = await call("PUT", "/v1/namespaces/team", wrong)
    assert (status, problem["errors"][0]["pointer"]) == (422, "/defaults/concurrency/key")

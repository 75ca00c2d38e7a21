"""A token for some namespaces: which webhooks its jobs may name, and what refusals tell it of the jobs of others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.local_api import Client
from tests.support.tokens import As, guarded, limited

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}}
MINE = "/v1/namespaces/mine"
COUNTED = "jobs of other namespaces"


def telling(*webhooks: str) -> dict[str, Any]:
    named = [{"on": ["failed"], "webhook": name} for name in webhooks]
    return {"notify": named[0] if len(named) == 1 else named}


async def prepared(call: Client) -> tuple[dict[str, As], As]:
    """Webhooks about mine, about theirs and about all namespaces; and a caller who is for mine."""
    who = await guarded(call)
    for name, namespace in (("mine", "mine"), ("theirs", "theirs"), ("all", None)):
        body = {"name": name, "url": "https://e.example/", "filter": {"namespace": namespace}}
        assert (await who["operator"]("POST", "/v1/webhooks", body))[0] == 201
    return who, await limited(who["admin"], "me", "operator", "mine")


async def refusals(me: As, webhook: str) -> list[tuple[int, Any]]:
    """What every way to write a job, or the defaults of jobs, answers to who names it."""
    there = {**JOB, "namespace": "mine", **telling(webhook)}
    named = f"{MINE}/jobs/there"
    _, job = await me("GET", named)
    found = [
        await me("POST", "/v1/jobs", there),
        await me("POST", "/v1/jobs", there, {"Idempotency-Key": "k"}),
        await me("POST", "/v1/jobs", {**there, **telling("mine", webhook)}),
        await me("POST", "/v1/jobs", {**there, "trigger": {"every": "1h", "calendar": "none"}}),
        await me("POST", "/v1/jobs", {**there, "name": "there"}),
        await me("PUT", f"{MINE}/jobs/new", there),
        await me("PUT", named, there),
        await me("PUT", named, there, {"If-Match": "*"}),
        await me("PUT", named, there, {"If-Match": f'"{job["id"]}.99"'}),
        await me("PUT", f"/v1/jobs/{job['id']}", there),
        await me("PATCH", f"/v1/jobs/{job['id']}", telling(webhook)),
        await me("PATCH", named, telling(webhook)),
        await me("POST", f"{named}/compare", there),
        await me("POST", f"{MINE}/jobs/new/compare", there),
    ]
    status, batch = await me("POST", "/v1/jobs:batch", [there, {**there, "priority": 4}, {**JOB, "namespace": "mine"}])
    assert status == 200
    *bad, good = batch["items"]
    assert good["status"] == 201
    found += [(one["status"], one) for one in bad]
    for method in ("PUT", "PATCH"):
        found.append(await me(method, MINE, {"defaults": telling(webhook)}))
        found.append(await me(method, MINE, {"defaults": telling("mine", webhook)}))
    return found


async def test_a_webhook_of_others_is_refused_as_one_that_is_not_there(call: Client) -> None:
    _, me = await prepared(call)
    assert (await me("PUT", f"{MINE}/jobs/there", JOB))[0] == 201
    assert (await me("PUT", MINE, {"owner": "me"}))[0] == 201
    assert (await me("GET", "/v1/webhooks/theirs"))[0] == 404
    of_others = await refusals(me, "theirs")
    for status, problem in of_others:
        assert status == 422, problem
        assert problem["errors"][0]["pointer"].endswith("/webhook")
        assert problem["code"] in ("invalid-job", "invalid-body")
    unknown = [(s, {**p, "detail": p["detail"].replace("absent", "theirs")}) for s, p in await refusals(me, "absent")]
    for (_, one), (_, other) in zip(of_others, unknown, strict=True):
        one["errors"], other["errors"] = one["errors"][0]["pointer"], other["errors"][0]["pointer"]
    assert of_others == unknown
    assert (await me("GET", f"{MINE}/jobs/there"))[1]["revision"] == 1


@pytest.mark.parametrize("webhook", ["mine", "all"])
async def test_one_that_is_seen_may_be_named(call: Client, webhook: str) -> None:
    _, me = await prepared(call)
    body = {**JOB, "namespace": "mine", **telling(webhook)}
    assert (await me("POST", "/v1/jobs", body))[0] == 201
    assert (await me("PUT", f"{MINE}/jobs/a", body))[0] == 201
    assert (await me("POST", f"{MINE}/jobs/a/compare", body))[1]["result"] == "unchanged"
    assert (await me("POST", "/v1/jobs:batch", [body]))[1]["items"][0]["status"] == 201
    assert (await me("PUT", MINE, {"defaults": telling(webhook)}))[0] == 201
    _, made = await me("PUT", f"{MINE}/jobs/b", JOB)
    assert made["notify"]["webhook"] == webhook


async def test_what_others_said_stays(call: Client) -> None:
    """Of a job that tells a webhook of others, and of a namespace whose jobs do, all else can be changed."""
    who, me = await prepared(call)
    named = f"{MINE}/jobs/there"
    assert (await who["operator"]("PUT", named, {**JOB, **telling("theirs")}))[0] == 201
    status, job = await me("PATCH", named, {"priority": 3})
    assert (status, job["notify"]["webhook"]) == (200, "theirs")
    assert (await me("PUT", named, job))[0] == 200
    assert (await me("PUT", named, job, {"If-Match": "*"}))[0] == 200
    assert (await me("PUT", f"/v1/jobs/{job['id']}", job))[0] == 200
    assert (await me("POST", f"{named}/compare", job))[1]["result"] == "unchanged"
    assert (await me("PATCH", named, {"notify": None}))[0] == 200
    assert (await me("PATCH", named, telling("theirs")))[0] == 422
    assert (await who["operator"]("PUT", MINE, {"defaults": telling("theirs")}))[0] in (200, 201)
    assert (await me("PATCH", MINE, {"owner": "me"}))[0] == 200
    for status in (
        (await me("POST", "/v1/jobs", {**JOB, "namespace": "mine"}))[0],
        (await me("PUT", f"{MINE}/jobs/new", JOB))[0],
        (await me("POST", "/v1/jobs:batch", [{**JOB, "namespace": "mine"}]))[1]["items"][0]["status"],
    ):
        assert status == 201
    assert (await me("GET", f"{MINE}/jobs/new"))[1]["notify"]["webhook"] == "theirs"


@pytest.mark.parametrize("what", ["secret", "calendar", "webhook"])
async def test_who_uses_it_is_named_to_who_may_see_it(call: Client, what: str) -> None:
    who, me = await prepared(call)
    operator = who["operator"]
    path = {"secret": f"{MINE}/secrets/pw", "calendar": "/v1/calendars/off", "webhook": "/v1/webhooks/all"}[what]
    use: dict[str, Any] = {
        "secret": {"handler": {"exec": ["true"], "env": {"PW": {"$secret": "mine/pw"}}}},
        "calendar": {"trigger": {"every": "1h", "calendar": "off"}},
        "webhook": telling("all"),
    }[what]
    await operator("PUT", f"{MINE}/secrets/pw", {"value": "x", "shared": True})
    await operator("PUT", "/v1/calendars/off", {"dates": ["2030-05-01"]})
    for name in ("theirs/payroll", "theirs/bonus"):
        space, _, job = name.partition("/")
        status, made = await operator("PUT", f"/v1/namespaces/{space}/jobs/{job}", {**JOB, **use})
        assert status == 201, made

    async def refusal(caller: As) -> str:
        status, problem = await caller("DELETE", path)
        assert status == 409, problem
        return str(problem["detail"])

    both = await refusal(operator)
    assert "theirs/payroll" in both
    assert "theirs/bonus" in both
    assert COUNTED not in both
    if what == "webhook":  # only who is for all namespaces deletes any
        assert (await me("DELETE", path))[0] == 403
        return
    only_theirs = await refusal(me)
    assert "payroll" not in only_theirs
    assert "bonus" not in only_theirs
    assert f"2 {COUNTED}" in only_theirs
    assert (await me("PUT", f"{MINE}/jobs/ours", {**JOB, **use}))[0] == 201
    assert f"mine/ours and 2 {COUNTED}" in await refusal(me)
    for i in range(8):
        assert (await me("PUT", f"{MINE}/jobs/ours{i}", {**JOB, **use}))[0] == 201
    assert f"mine/ours3, and 4 more, and 2 {COUNTED}" in await refusal(me)

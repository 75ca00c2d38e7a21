"""What a PUT by name would do, without doing it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from raftsched.api.context import meta
from raftsched.api.jobs import checking
from raftsched.api.rows import get_named
from raftsched.core.commands import CreateJob
from tests.support.local_api import Client

PATH = "/v1/namespaces/billing/jobs/report"
JOB = {"trigger": {"every": "5m"}, "handler": {"shell": "true"}, "timeout": "5m", "priority": 5}


async def test_comparing_says_what_put_does_and_does_nothing(call: Client) -> None:
    status, found = await call("POST", f"{PATH}/compare", JOB)
    bare = {"namespace": "billing", "name": "report", "trigger": {"every": "5m"}, "handler": {"shell": "true"}}
    assert (status, found) == (200, {"result": "created", "before": None, "after": bare})
    assert (await call("GET", PATH))[0] == 404
    assert (await call("PUT", PATH, JOB))[0] == 201
    status, job = await call("GET", PATH)
    for same in (JOB, bare, job):
        status, found = await call("POST", f"{PATH}/compare", same)
        assert (status, found) == (200, {"result": "unchanged", "before": bare, "after": bare})
    status, found = await call("POST", f"{PATH}/compare", {**JOB, "priority": 7, "suspended": True})
    assert (found["result"], found["before"]) == ("changed", bare)
    assert found["after"] == {**bare, "priority": 7, "suspended": True}
    assert (await call("GET", PATH))[1] == job


async def test_a_paused_job_stays_paused_as_put_leaves_it(call: Client) -> None:
    await call("PUT", PATH, {**JOB, "suspended": True})
    _, found = await call("POST", f"{PATH}/compare", JOB)
    assert (found["result"], found["after"]["suspended"]) == ("unchanged", True)
    assert (await call("PUT", PATH, JOB))[1]["state"] == "NEW"
    assert (await call("POST", f"{PATH}/resume", {}))[0] == 200
    _, found = await call("POST", f"{PATH}/compare", {**JOB, "suspended": True})
    assert (found["result"], found["before"].get("suspended")) == ("changed", None)


async def test_the_body_is_checked_as_that_of_put_is(call: Client) -> None:
    for path, body in (
        (PATH, {**JOB, "timeout": "soon"}),
        (PATH, {**JOB, "name": "other"}),
        (PATH, {"handler": {"shell": "true"}}),
        ("/v1/namespaces/billing/jobs/UPPER", JOB),
        (PATH, []),
    ):
        put = await call("PUT", path, body)
        compared = await call("POST", f"{path}/compare", body)
        assert compared == put
        assert put[0] == 422
    assert (await call("POST", f"{PATH}/compare?x=1", JOB))[0] == 400


async def test_many_are_compared_in_one_request(call: Client) -> None:
    where = {"namespace": "billing", "name": "report"}
    wrong = [
        {**JOB, **where, "timeout": "soon"},
        {**JOB, "namespace": "billing"},
        {**JOB, "namespace": "billing", "name": "UPPER"},
        {**JOB, **where, "notify": [{"webhook": "none", "on": ["failed"]}]},
        {"name": 5},
        7,
    ]
    proposals = call.cluster.proposals
    for is_there in (False, True):
        asked = [{**JOB, **where}, {**JOB, **where, "priority": 7}, *wrong]
        status, found = await call("POST", "/v1/jobs:compare", asked)
        first = ["unchanged", "changed"] if is_there else ["created", "created"]
        assert (status, [one["result"] for one in found["items"]]) == (200, [*first, *["refused"] * len(wrong)])
        etag = (await call("HEAD", PATH), call.headers.get("ETag"))[1]
        assert [one.get("etag") for one in found["items"]] == [etag, etag, *[None] * len(wrong)]
        assert (etag is not None) == is_there
        assert "/timeout" in found["items"][2]["detail"]
        assert call.cluster.proposals == proposals + is_there, "nothing is done"
        await call("PUT", PATH, JOB)
    _, job = await call("GET", PATH)
    same = {"result": "unchanged", "etag": call.headers["ETag"]}
    assert (await call("POST", "/v1/jobs:compare", [job]))[1] == {"items": [same]}
    assert (await call("POST", "/v1/jobs:compare", JOB))[0] == 422
    assert (await call("POST", "/v1/jobs:compare", [JOB] * 10_001))[0] == 413
    await call("POST", "/v1/jobs:compare?consistency=leader", [])
    assert call.cluster.proposals == proposals + 3, "a barrier"


async def test_variables_that_the_level_does_not_know_yet_are_no_change(
    call: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {**JOB, "handler": {"exec": ["true"], "env": {"APP_A": "1"}}}
    assert (await call("PUT", PATH.replace("report", "new"), job))[0] == 201
    with call.context.read() as view:
        new, known = get_named(view, "billing", "new"), meta(view)
    assert new is not None
    assert new.policy.env == ("APP_A",)
    call.cluster.apply(CreateJob("billing", "report", replace(new.policy, env=()), new.body))  # as at level 5

    async def results() -> set[str]:
        _, many = await call("POST", "/v1/jobs:compare", [{**job, "namespace": "billing", "name": "report"}])
        one = await call("POST", f"{PATH}/compare", job)
        checked = await call("POST", f"{PATH}/check", {"priority": 5})
        return {found["result"] for found in (one[1], many["items"][0], checked[1])}

    assert await results() == {"changed"}, "put again, the cluster knows its variables"
    monkeypatch.setattr(checking, "meta", lambda view: replace(known, level=5))
    assert await results() == {"unchanged"}

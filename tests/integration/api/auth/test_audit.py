"""GET /v1/audit: who asked for what, and it was done; revisions say whose they are."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from raftsched.api.routes import ROUTES
from raftsched.cluster_settings import Settings
from raftsched.core.commands import PutSettings
from raftsched.core.subjects.access import split_record
from raftsched.core.tables import Table
from tests.support.local_api import Client
from tests.support.tokens import As, guarded, limited

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}


async def listed(who: Any, query: str = "") -> list[Any]:
    found: list[Any] = []
    cursor = ""
    while True:
        status, page = await who("GET", f"/v1/audit?limit=3{query}{cursor}")
        assert status == 200, page
        found += page["items"]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


async def test_changes_are_noted_whoever_asked(call: Client) -> None:
    await call("PUT", "/v1/queues/mails", {"max_running": 3})
    await call("PUT", "/v1/queues/mails", {"max_running": 0})  # refused
    await call("POST", "/v1/cluster/pause")
    people = await guarded(call)
    await people["operator"]("POST", "/v1/cluster/resume")
    await people["viewer"]("POST", "/v1/cluster/pause")  # refused
    found = await listed(people["operator"])
    assert [(one["actor"], one["operation"]) for one in found] == [
        ("operator", "settings_resume"),
        ("admin", "tokens_put_access"),
        *[("anonymous", "tokens_create")] * 4,
        ("anonymous", "settings_pause"),
        ("anonymous", "queues_put"),
    ]
    assert found[-1] == {
        "index": found[-1]["index"], "at": "2030-01-01T00:00:00.000Z", "kind": "change", "actor": "anonymous",
        "token": None, "operation": "queues_put", "resource": "/v1/queues/mails", "namespace": None,
        "subject": None, "job": None, "count": 1, "remote": "127.0.0.1", "change": {"max_running": 3},
        "position": 0, "hash": found[-1]["hash"],
    }  # fmt: skip
    assert found[0]["token"] is not None
    _, tokens = await people["admin"]("GET", "/v1/tokens")
    assert [one["subject"] for one in reversed(found[2:6])] == [one["id"] for one in tokens["items"]]


async def test_work_is_noted_with_a_token_and_costs_nothing_without(call: Client) -> None:
    call.context.security.local_digest = sha256(b"rl_x").digest()
    for who in (call, As(call, "rl_x")):  # also a program with its own node
        assert (await who("POST", "/v1/jobs", JOB))[0] == 201
    assert await listed(call) == []
    with call.cluster.store.read() as view:
        assert list(view.scan(Table.AUDIT)) == []
    editor = (await guarded(call))["editor"]
    status, made = await editor("POST", "/v1/jobs", {**JOB, "name": "a", "namespace": "n"})
    assert status == 201
    for more in ({}, {"X-Ordinary": "1"}):
        await editor("POST", "/v1/jobs", {**JOB, "name": "a", "namespace": "n"}, more)  # it is there
    await editor("POST", "/v1/jobs:batch", [{**JOB, "namespace": "n"}] * 5)
    _, begun = await editor("POST", f"/v1/jobs/{made['id']}/run", {})
    operator = As(call, (await guarded_again(call))["operator"])
    found = await listed(operator, "&kind=work")
    assert [(one["operation"], one["count"], one["job"]) for one in found] == [
        ("actions_run", 1, "a"), ("batch_create_batch", 5, None), ("jobs_create", 1, "a"),
    ]  # fmt: skip
    assert {one["actor"] for one in found} == {"editor"}
    assert {one["namespace"] for one in found} == {"n"}
    assert found[2]["subject"] == found[0]["subject"] == made["id"]
    assert begun["job_id"] == made["id"]


async def guarded_again(call: Client) -> dict[str, str]:
    """One more operator, made with the secret of the node."""
    call.context.security.local_digest = sha256(b"rl_x").digest()
    status, made = await As(call, "rl_x")("POST", "/v1/tokens", {"name": "op-2", "role": "operator"})
    assert status == 201
    return {"operator": made["secret"]}


async def test_each_filter_and_pages(call: Client) -> None:
    people = await guarded(call)
    operator, editor = people["operator"], people["editor"]
    _, job = await editor("POST", "/v1/jobs", {**JOB, "name": "a", "namespace": "n"})
    call.cluster.clock.forward(1_000)
    await editor("PATCH", f"/v1/jobs/{job['id']}", {"priority": 7})
    call.cluster.clock.forward(1_000)
    await operator("PUT", "/v1/queues/mails", {"max_running": 3})
    await operator("DELETE", "/v1/queues/mails")

    async def operations(query: str) -> list[str]:
        return [one["operation"] for one in await listed(operator, query)]

    everything = await operations("")
    assert everything[:4] == ["queues_delete", "queues_put", "jobs_patch", "jobs_create"]
    assert everything[4:] == ["tokens_put_access", *["tokens_create"] * 4]
    assert await operations("&actor=editor") == ["jobs_patch", "jobs_create"]
    token = (await listed(operator, "&actor=editor"))[0]["token"]
    assert await operations(f"&actor={token}") == ["jobs_patch", "jobs_create"]
    assert await operations("&actor=anonymous") == ["tokens_create"] * 4
    assert await operations("&resource=queues") == ["queues_delete", "queues_put"]
    assert await operations("&resource=/v1/queues/mails") == ["queues_delete", "queues_put"]
    assert await operations(f"&resource={job['id']}") == ["jobs_patch", "jobs_create"]
    assert await operations("&resource=que") == []
    assert await operations("&operation=queues_put") == ["queues_put"]
    assert await operations("&namespace=n") == ["jobs_patch", "jobs_create"]
    assert await operations("&kind=work") == ["jobs_create"]
    assert await operations("&kind=job") == ["jobs_patch"]
    assert await operations("&kind=change&namespace=n") == []
    assert await operations("&from=2030-01-01T00:00:02Z") == ["queues_delete", "queues_put"]
    assert await operations("&from=2030-01-01T00:00:01Z&to=2030-01-01T00:00:02Z") == ["jobs_patch"]
    for wrong in ("kind=x", "from=x", "from=2031-01-01T00:00:00Z&to=2030-01-01T00:00:00Z", "cursor=AAAA"):
        assert (await operator("GET", f"/v1/audit?{wrong}"))[0] == 400, wrong


async def test_a_revision_says_whose_it_is(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", JOB)
    people = await guarded(call)
    path = f"/v1/jobs/{job['id']}"
    await people["editor"]("PATCH", path, {"priority": 7})
    await people["operator"]("PATCH", path, {"priority": 8})
    _, found = await people["viewer"]("GET", f"{path}/revisions")
    assert [(one["revision"], one["by"]) for one in found["items"]] == [(3, "operator"), (2, "editor"), (1, None)]


async def test_one_request_about_many_things_is_few_rows(call: Client) -> None:
    people = await guarded(call)
    ids = [f"0000000000001@{number}" for number in range(300)]
    await people["editor"]("POST", "/v1/dead-letters/requeue", {"ids": ids})  # none of them is there
    found = await listed(people["operator"], "&actor=editor")
    assert found == [], "nothing was done"


async def test_members_and_leadership_are_noted(call: Client) -> None:
    people = await guarded(call)
    await people["operator"]("POST", "/v1/cluster/leader", {"to": "n1"})
    found = await listed(people["operator"], "&resource=cluster")
    assert [(one["actor"], one["operation"]) for one in found] == [
        ("operator", "members_transfer"),
        ("admin", "tokens_put_access"),
    ]


async def test_an_operator_of_some_namespaces_sees_those(call: Client) -> None:
    people = await guarded(call)
    mine = await limited(people["admin"], "mine", "operator", "n")
    for namespace in ("n", "m"):
        await people["editor"]("POST", "/v1/jobs", {**JOB, "namespace": namespace})
    assert (await mine("GET", "/v1/audit"))[0] == 403
    assert (await mine("GET", "/v1/audit?namespace=m"))[0] == 403
    assert [one["namespace"] for one in await listed(mine, "&namespace=n")] == ["n"]


def test_what_hands_in_work_is_named_here() -> None:
    """It is noted apart, and not at all while nobody knows who asked: that is right only of what comes in masses."""
    found = {(r.method, r.path.replace("/namespaces/{ns}/jobs/{name}", "/jobs/{id}")) for r in ROUTES if work(r)}
    assert found == {
        ("POST", "/v1/jobs"), ("POST", "/v1/jobs:batch"), ("POST", "/v1/jobs/{id}/run"),
        ("POST", "/v1/instances/{id}/rerun"), ("POST", "/v1/worker-sessions"), ("GET", "/v1/cluster/log"),
            ("POST", "/v1/worker-sessions/{session}/token"),
    }  # fmt: skip


def work(route: Any) -> bool:
    return route.operation.work


async def test_it_says_when_notes_go_before_their_time(call: Client) -> None:
    day = 86_400

    async def short() -> tuple[str, int]:
        told = (await call("GET", "/metrics"))[1]
        (seconds,) = re.findall(r'raftsched_audit_short_seconds{kind="change"} (.*)', told)
        assert 'raftsched_audit_short_seconds{kind="job"} 0.0' in told
        found = (await call("GET", "/v1/cluster/doctor"))[1]["items"]
        return next(one["state"] for one in found if one["check"] == "audit"), round(float(seconds) / day)

    kept = msgspec.structs.replace(Settings(), audit_max=2, audit_keep_ms=3 * day * 1000)
    call.cluster.apply(PutSettings(kept))
    for number in range(3):
        assert await short() == ("ok", 0), "as many as may be, and none had to go"
        await call("PUT", f"/v1/queues/q{number}", {"max_running": 3})
        call.cluster.clock.forward(day * 1000)
    assert await short() == ("warn", 1), "the second one is two days old"
    call.cluster.apply(PutSettings(msgspec.structs.replace(kept, audit_max=3)))
    assert await short() == ("ok", 0), "no other has to go"
    call.cluster.apply(PutSettings(msgspec.structs.replace(kept, audit_keep_ms=2 * day * 1000)))
    assert await short() == ("ok", 0), "they go by their age"


@pytest.mark.parametrize("keep", [1, 2])
async def test_as_many_are_kept_as_is_said(call: Client, keep: int) -> None:
    call.cluster.apply(PutSettings(msgspec.structs.replace(Settings(), audit_max=keep)))
    for number in range(5):
        await call("PUT", f"/v1/queues/q{number}", {"max_running": 3})
    assert len(await listed(call)) == keep
    with call.cluster.store.read() as view:
        assert [split_record(key)[0] for key, _ in view.scan(Table.AUDIT)] == [0] * keep

"""Idempotency-Key, If-Match and If-None-Match: what is promised is kept, and what is not supported is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from raftsched.api import routes
from raftsched.api.resources.named import REGISTRY
from raftsched.bounds import HOUR_MS
from raftsched.core.subjects.secret import DeleteSecret
from raftsched.core.tables import Table
from tests.support.local_api import Client, LocalCluster, serving

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}
MANUAL = {**JOB, "trigger": {"manual": True}, "overlap": "allow"}

PUTS: dict[str, Any] = {  # of each kind of named thing, what is put first
    "queues": {"max_running": 3},
    "calendars": {"weekdays": ["sat"]},
    "namespaces": {"owner": "ana"},
    "secrets": {"value": "v"},
    "webhooks": {"url": "http://127.0.0.1/"},
}
KINDS = sorted({one.kind.plural for one in REGISTRY})


def rows(call: Client, table: Table) -> int:
    with call.cluster.store.read() as view:
        return sum(1 for _ in view.scan(table))


async def test_a_repeated_key_makes_one_job_and_answers_the_same(call: Client) -> None:
    key = {"Idempotency-Key": "order-17"}
    status, job = await call("POST", "/v1/jobs", JOB, key)
    assert status == 201
    location, tag = call.headers["Location"], f'"{job["id"]}.1"'
    for _ in range(2):
        call.cluster.clock.forward(5_000)
        status, again = await call("POST", "/v1/jobs", JOB, key)
        assert (status, again, call.headers["Location"], call.headers["ETag"]) == (201, job, location, tag)
    status, problem = await call("POST", "/v1/jobs", {**JOB, "priority": 1}, key)
    assert (status, problem["code"]) == (422, "idempotency-mismatch")
    status, other = await call("POST", "/v1/jobs", JOB, {"Idempotency-Key": "order-18"})
    assert (status, other["id"] == job["id"]) == (201, False)
    assert rows(call, Table.JOBS) == 2
    await call("POST", "/v1/jobs", {**JOB, "name": "a"})
    for _ in range(2):
        status, _ = await call("POST", "/v1/jobs", {**JOB, "name": "a"}, {"Idempotency-Key": "n"})
        assert (status, "Location" in call.headers) == (200, False)
    call.cluster.clock.forward(HOUR_MS)
    assert (await call("POST", "/v1/jobs", JOB, key))[1]["id"] != job["id"]


async def test_a_repeat_is_answered_though_the_request_would_be_refused_by_now(call: Client) -> None:
    trigger = {"cron": "0 * * * *", "ends_at": "2030-01-01T00:10:00Z", "starts_at": "2030-01-01T00:00:00Z"}
    given = {**JOB, "trigger": {**trigger, "cron": "*/5 * * * *"}}
    key = {"Idempotency-Key": "k"}
    status, job = await call("POST", "/v1/jobs", given, key)
    assert status == 201
    call.cluster.clock.forward(20 * 60_000)
    status, again = await call("POST", "/v1/jobs", given, key)
    assert (status, again["id"]) == (201, job["id"])
    assert (await call("POST", "/v1/jobs", given))[0] == 422
    status, problem = await call("POST", "/v1/jobs", {**given, "trigger": trigger}, key)
    assert (status, problem["code"]) == (422, "idempotency-mismatch")
    await call("DELETE", f"/v1/jobs/{job['id']}")
    assert (await call("POST", "/v1/jobs", given, key))[0] == 404


@pytest.mark.parametrize("path", ["/v1/jobs/{id}/run", "/v1/namespaces/default/jobs/m/run"])
async def test_a_repeated_key_makes_one_run_at_any_time(call: Client, path: str) -> None:
    _, job = await call("POST", "/v1/jobs", {**MANUAL, "name": "m"})
    address = path.format(id=job["id"])
    key = {"Idempotency-Key": "k"}
    status, made = await call("POST", address, {"params": {"a": 1}}, key)
    assert status == 202
    location = call.headers["Location"]
    for _ in range(3):
        call.cluster.clock.forward(60_000)
        answer = await call("POST", address, {"params": {"a": 1}}, key)
        assert (answer, call.headers["Location"]) == ((202, made), location)
    for other in ({"params": {"a": 2}}, None):
        status, problem = await call("POST", address, other, key)
        assert (status, problem["code"]) == (422, "idempotency-mismatch")
    assert (await call("POST", address, {"params": {"a": 1}}))[1] != made
    assert rows(call, Table.INSTANCES) == 2
    _, second = await call("POST", "/v1/jobs", MANUAL)
    assert (await call("POST", f"/v1/jobs/{second['id']}/run", {"params": {"a": 1}}, key))[0] == 422
    await call("POST", f"/v1/jobs/{job['id']}/expire")
    assert await call("POST", address, {"params": {"a": 1}}, key) == (202, made)
    assert (await call("POST", "/v1/jobs", MANUAL, key))[0] == 201  # other kinds of requests have keys of their own


def test_the_key_holds_on_every_node(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2"))
        try:
            async with serving(cluster, "n1") as one, serving(cluster, "n2") as two:
                key = {"Idempotency-Key": "k"}
                answers = await asyncio.gather(*(node("POST", "/v1/jobs", JOB, key) for node in (one, two) * 5))
                assert {status for status, _ in answers} == {201}
                assert len({job["id"] for _, job in answers}) == 1
        finally:
            cluster.close()

    asyncio.run(main())


@pytest.mark.parametrize("key", ["", "a b", "\xe9", "x" * 256, "a\tb"])
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/{id}/run"])
async def test_a_key_is_visible_ascii(call: Client, key: str, path: str) -> None:
    _, job = await call("POST", "/v1/jobs", MANUAL)
    body: Any = JOB if path == "/v1/jobs" else {}
    status, problem = await call("POST", path.format(id=job["id"]), body, {"Idempotency-Key": key})
    assert (status, problem["code"]) == (400, "invalid-parameter")
    assert "Idempotency-Key" in problem["detail"]
    assert "255" in problem["detail"]
    assert (await call("POST", path.format(id=job["id"]), body, {"Idempotency-Key": "~" * 255}))[0] in (201, 202)


async def test_an_existing_job_is_not_edited_by_who_wants_to_create(call: Client) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "name": "a"})
    only, tag = {"If-None-Match": "*"}, call.headers["ETag"]
    for path in (f"/v1/jobs/{job['id']}", "/v1/namespaces/default/jobs/a"):
        for headers in (only, {**only, "If-Match": tag}, {**only, "If-Match": "*"}):
            for method, body in (("PUT", {**JOB, "priority": 9}), ("PATCH", {"priority": 9}), ("DELETE", None)):
                status, problem = await call(method, path, body, headers)
                assert (status, problem["code"]) == (412, "exists"), (method, path, headers)
    assert (await call("GET", f"/v1/jobs/{job['id']}"))[1]["revision"] == 1
    status, _ = await call("PUT", "/v1/namespaces/default/jobs/b", JOB, {**only, "If-Match": "*"})
    assert status == 412
    assert (await call("PUT", f"/v1/jobs/{job['id']}", JOB, {"If-None-Match": '"1"'}))[0] == 400


@pytest.mark.parametrize(
    ("path", "header", "says"),
    [
        ("/v1/jobs", "If-Match", "If-None-Match"),
        ("/v1/jobs:batch", "If-Match", "Idempotency-Key"),
        ("/v1/jobs:batch", "If-None-Match", "Idempotency-Key"),
        ("/v1/cluster/pause", "If-Match", "no meaning here"),
    ],
)
async def test_conditions_that_would_be_ignored_are_refused(call: Client, path: str, header: str, says: str) -> None:
    body: Any = JOB if path == "/v1/jobs" else [JOB]
    for value in ("*", '"1"'):
        status, problem = await call("POST", path, body, {header: value})
        assert (status, problem["code"]) == (400, "invalid-parameter")
        assert header in problem["detail"]
        assert says in problem["detail"]
    assert rows(call, Table.JOBS) == 0


async def test_a_job_asked_for_suspended_is_not_said_to_be_there_while_it_is_scheduled(call: Client) -> None:
    given = {**JOB, "name": "a"}
    await call("POST", "/v1/jobs", given)
    status, problem = await call("POST", "/v1/jobs", {**given, "suspended": True})
    assert (status, problem["code"]) == (409, "name-taken")
    assert "SCHEDULED" in problem["detail"]
    await call("POST", "/v1/namespaces/default/jobs/a/pause")
    for suspended in (True, False):  # what a person has paused stays so
        status, job = await call("POST", "/v1/jobs", {**given, "suspended": suspended})
        assert (status, job["state"]) == (200, "SUSPENDED")
    await call("POST", "/v1/jobs", {**given, "name": "b", "suspended": True})
    status, job = await call("POST", "/v1/jobs", {**given, "name": "b"})
    assert (status, job["state"]) == (200, "NEW")


# ---------------------------------------------------------------- named things: alike for each kind


def methods(kind: str) -> dict[str, str]:
    """Method -> address of those that a kind has for one of them."""
    (path,) = (one.kind.path for one in REGISTRY if one.kind.plural == kind)
    address = path.replace("{ns}", "a").replace("{name}", "a")
    return {route.method: address for route in routes.ROUTES if route.path == path}


def test_each_kind_of_named_thing_is_tried() -> None:
    assert set(KINDS) == set(PUTS)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_not_there_meets_no_if_match(call: Client, kind: str) -> None:
    for given in ("*", '"1"'):
        for method, path in methods(kind).items():
            if method == "GET":
                continue
            body = PUTS[kind] if method == "PUT" else {} if method == "PATCH" else None
            status, problem = await call(method, path, body, {"If-Match": given})
            wanted = (412, "stale-revision") if method == "PUT" else (404, "not-found")
            assert (status, problem["code"]) == wanted, (method, given)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_there_is_written_under_its_tag_only(call: Client, kind: str) -> None:
    there, body = methods(kind), PUTS[kind]
    path = there["PUT"]
    only_new = {"If-None-Match": "*"}
    status, made = await call("PUT", path, body, only_new)
    assert (status, call.headers["Location"]) == (201, path)
    tag = call.headers["ETag"]
    assert tag == f'"{made["revision"]}"'
    status, problem = await call("PUT", path, body, only_new)
    assert (status, problem["code"]) == (412, "exists")
    for method in there.keys() - {"GET"}:
        given = body if method == "PUT" else {} if method == "PATCH" else None
        status, problem = await call(method, path, given, {"If-Match": '"999999"'})
        assert (status, problem["code"]) == (412, "stale-revision"), method
        for bad in ("1", 'W/"1"', '"1", "2"'):
            assert (await call(method, path, given, {"If-Match": bad}))[0] == 400, (method, bad)
    for held in (tag, "*"):
        for method in there.keys() & {"PUT", "PATCH"}:
            status, _ = await call(method, path, body if method == "PUT" else {}, {"If-Match": held})
            assert (status, call.headers["ETag"], "Location" in call.headers) == (200, tag, False), (method, held)
    assert await call("DELETE", path, None, {"If-Match": "*"}) == (204, "")
    assert (await call("GET", path))[0] in (200, 404)  # 200: a namespace that holds something


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_deleted_before_a_write_is_applied_meets_no_if_match(call: Client, kind: str) -> None:
    (declared,) = (one for one in REGISTRY if one.kind.plural == kind)
    names = ["a"] * len(declared.name_rules)
    gone = DeleteSecret(*names) if declared.delete_command is None else declared.delete_command(*names, None)
    there, body = methods(kind), PUTS[kind]
    path = there["PUT"]
    for method in there.keys() - {"GET"}:
        assert (await call("PUT", path, body))[0] == 201
        tag = call.headers["ETag"]
        call.cluster.before = lambda: call.cluster.apply(gone) and None
        given = body if method == "PUT" else {} if method == "PATCH" else None
        status, problem = await call(method, path, given, {"If-Match": tag})
        wanted = (412, "stale-revision") if method == "PUT" else (404, "not-found")
        assert (status, problem["code"]) == wanted, method


TAGGED = ["/v1/cluster/settings", "/v1/cluster/access", "/v1/nodes/n1"]


@pytest.mark.parametrize("path", [*(methods(kind)["GET"] for kind in KINDS), *TAGGED])
async def test_what_the_reader_has_is_not_sent_again(call: Client, path: str) -> None:
    kind = next((kind for kind in KINDS if methods(kind)["GET"] == path), None)
    if kind is not None:
        assert (await call("PUT", path, PUTS[kind]))[0] == 201
    assert (await call("GET", path))[0] == 200
    tag = call.headers["ETag"]
    for given in (tag, f"W/{tag}", f'"999999", {tag}', "*"):
        for method in ("GET", "HEAD"):
            assert await call(method, path, None, {"If-None-Match": given}) == (304, ""), (method, given)
            assert call.headers["ETag"] == tag
    assert (await call("GET", path, None, {"If-None-Match": '"999999"'}))[0] == 200

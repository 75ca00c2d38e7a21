"""The ETag of a job is that of one version of one job: no other job under the same name ever has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raftsched.api.routes import ROUTES
from raftsched.core.commands import CreateJob, DeleteJob, EditJob
from raftsched.core.ids import parse_job
from raftsched.core.model import Policy, Trigger, TriggerKind
from tests.support.local_api import Client

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}}
NAMED = "/v1/namespaces/default/jobs/a"
MANUAL = Policy(trigger=Trigger(kind=TriggerKind.MANUAL))
BODY = b'{"trigger":{"manual":true},"handler":{"exec":["true"]}}'

# All that changes a job under a condition: method, what follows its address, body.
WRITES: list[tuple[str, str, Any]] = [
    ("PUT", "", JOB),
    ("PATCH", "", {"priority": 1}),
    ("DELETE", "", None),
    ("POST", "/check", {"priority": 1}),
    ("POST", "/pause", {}),
    ("POST", "/resume", {}),
    ("POST", "/expire", {}),
    ("POST", "/skip-next", {}),
    ("PUT", "/state", {"state": "SUSPENDED"}),
    ("DELETE", "/state", None),
]


async def made_twice(call: Client) -> tuple[str, dict[str, Any]]:
    """Returns the ETag of a job, and the job that has its name since it was deleted."""
    assert (await call("PUT", NAMED, {**JOB, "owner": "alice"}))[0] == 201
    tag = str(call.headers["ETag"])
    assert (await call("DELETE", NAMED))[0] == 200
    status, job = await call("PUT", NAMED, {**JOB, "owner": "carol"})
    assert (status, job["revision"]) == (201, 1)
    return tag, job


async def test_it_is_the_id_and_the_revision_wherever_it_is_said(call: Client) -> None:
    status, job = await call("POST", "/v1/jobs", {**JOB, "name": "a"})
    by_id = f"/v1/jobs/{job['id']}"
    assert (status, call.headers["ETag"]) == (201, f'"{job["id"]}.1"')
    for path in (NAMED, by_id, f"{NAMED}/state", f"{by_id}/state"):
        assert (await call("GET", path))[0] == 200
        assert call.headers["ETag"] == f'"{job["id"]}.1"', path
    for method, path, body in (("PATCH", NAMED, {"priority": 1}), ("POST", f"{NAMED}/pause", {})):
        assert (await call(method, path, body))[0] == 200
        assert call.headers["ETag"] == f'"{job["id"]}.2"', path


@pytest.mark.parametrize(("method", "rest", "body"), WRITES)
async def test_a_later_job_of_the_same_name_is_not_changed(call: Client, method: str, rest: str, body: Any) -> None:
    tag, job = await made_twice(call)
    for path in (f"{NAMED}{rest}", f"/v1/jobs/{job['id']}{rest}"):
        status, problem = await call(method, path, body, {"If-Match": tag})
        assert (status, problem["code"]) == (412, "stale-revision"), path
        assert job["id"] in problem["detail"], problem
    assert await call("GET", NAMED) == (200, job)


async def test_a_later_job_of_the_same_name_is_read_anew(call: Client) -> None:
    tag, job = await made_twice(call)
    for given in (tag, '"1"', f'W/"1", {tag}'):
        assert await call("GET", NAMED, None, {"If-None-Match": given}) == (200, job), given
    for given in (f'"{job["id"]}.1"', f'W/"{job["id"]}.1"', "*"):
        assert (await call("GET", NAMED, None, {"If-None-Match": given}))[0] == 304, given


@pytest.mark.parametrize(("method", "rest", "body"), WRITES)
async def test_a_revision_alone_says_which_job_only_by_its_id(call: Client, method: str, rest: str, body: Any) -> None:
    _, job = await call("PUT", NAMED, {"trigger": {"every": "1h"}, "handler": {"exec": ["true"]}})
    status, problem = await call(method, f"{NAMED}{rest}", body, {"If-Match": '"1"'})
    assert (status, problem["code"]) == (400, "invalid-parameter"), problem
    assert 'such as "0d3k5xw2a9f5m.3"' in problem["detail"], problem
    by_id = f"/v1/jobs/{job['id']}{rest}"
    assert (await call(method, by_id, body, {"If-Match": '"7"'}))[1]["code"] == "stale-revision"
    given = '"1"' if rest != "/resume" else f'"{job["id"]}.1"'
    assert (await call(method, by_id, body, {"If-Match": given}))[0] == 200


@pytest.mark.parametrize("bad", ["1", '"x.1"', '"0d3k5xw2a9f5m.x"', '"0d3k5xw2a9f5m"', '"0d3k5xw2a9f5m.1", "1"'])
async def test_what_is_no_tag_is_refused(call: Client, bad: str) -> None:
    await call("PUT", NAMED, JOB)
    status, problem = await call("PATCH", NAMED, {"priority": 1}, {"If-Match": bad})
    assert (status, problem["code"]) == (400, "invalid-parameter")


def test_each_operation_says_whose_tag_it_takes() -> None:
    taking = [route for route in ROUTES if "If-Match" in route.operation.headers]
    assert {route.path for route in taking if route.operation.of_job} == {
        path for route in taking if (path := route.path).startswith(("/v1/jobs/", "/v1/namespaces/{ns}/jobs/"))
    }


async def test_nothing_else_takes_the_tag_of_a_job(call: Client) -> None:
    await call("PUT", NAMED, JOB)
    tag = str(call.headers["ETag"])
    for path in ("/v1/queues/q", "/v1/calendars/c", "/v1/cluster/settings"):
        method = "PATCH" if path.endswith("settings") else "PUT"
        status, problem = await call(method, path, {}, {"If-Match": tag})
        assert (status, problem["code"]) == (400, "invalid-parameter"), path


# ---------------------------------------------------------------- what comes in between


def before_it_is_applied(call: Client, act: Callable[[], object]) -> None:
    """Acts after the next request has looked its job up by name: a barrier comes before that."""
    cluster = call.cluster

    def at_the_barrier() -> None:
        cluster.before = lambda: act() and None

    cluster.before = at_the_barrier


def deleted(call: Client, job: dict[str, Any]) -> None:
    call.cluster.apply(DeleteJob(parse_job(job["id"]) or 0))


def made_anew(call: Client, job: dict[str, Any]) -> None:
    deleted(call, job)
    call.cluster.apply(CreateJob("default", "a", MANUAL, BODY))


@pytest.mark.parametrize("meanwhile", [deleted, made_anew])
async def test_a_put_whose_job_is_deleted_before_it_is_applied(call: Client, meanwhile: Any) -> None:
    _, job = await call("PUT", NAMED, JOB)
    before_it_is_applied(call, lambda: meanwhile(call, job))
    status, problem = await call("PUT", NAMED, {**JOB, "owner": "me"}, {"If-Match": call.headers["ETag"]})
    assert (status, problem["code"]) == (412, "stale-revision"), problem


async def test_a_put_of_whatever_is_there_finds_what_was_made_meanwhile(call: Client) -> None:
    _, job = await call("PUT", NAMED, JOB)
    before_it_is_applied(call, lambda: made_anew(call, job))
    status, other = await call("PUT", NAMED, {**JOB, "owner": "me"}, {"If-Match": "*"})
    assert (status, other.get("owner"), other["id"] == job["id"]) == (200, "me", False), other
    before_it_is_applied(call, lambda: deleted(call, other))
    status, problem = await call("PUT", NAMED, {**JOB, "owner": "you"}, {"If-Match": "*"})
    assert (status, problem["code"]) == (412, "stale-revision"), problem


async def test_a_put_of_what_must_not_be_there_is_refused_by_the_log_alone(call: Client) -> None:
    """A node that is behind shows a job that is deleted."""
    _, job = await call("PUT", NAMED, JOB)
    create_only = {"If-None-Match": "*"}
    status, problem = await call("PUT", NAMED, {**JOB, "owner": "me"}, create_only)
    assert (status, problem["code"]) == (412, "exists"), problem
    call.cluster.before = lambda: deleted(call, job)
    status, other = await call("PUT", NAMED, {**JOB, "owner": "me"}, create_only)
    assert status == 201, other
    assert other["id"] != job["id"]


async def test_a_put_by_name_takes_no_name_back(call: Client) -> None:
    """The job was given another name after it was looked up by this one."""
    _, job = await call("PUT", NAMED, JOB)
    before_it_is_applied(call, lambda: call.cluster.apply(EditJob(parse_job(job["id"]) or 0, MANUAL, BODY, None, "b")))
    status, problem = await call("PUT", NAMED, {**JOB, "owner": "me"}, {"If-Match": "*"})
    assert (status, problem["code"]) == (412, "stale-revision"), problem
    assert (await call("GET", "/v1/namespaces/default/jobs/b"))[1]["id"] == job["id"]


KEY = {"Idempotency-Key": "k"}
BY_NAME = [
    *[("DELETE", "", {}), ("POST", "/pause", {}), ("POST", "/expire", {}), ("DELETE", "/state", {})],
    *[("POST", "/pause", KEY), ("POST", "/expire", KEY)],
]


@pytest.mark.parametrize(("method", "rest", "headers"), BY_NAME)
async def test_a_job_that_lost_the_name_is_not_changed_by_it(
    call: Client, method: str, rest: str, headers: Any
) -> None:
    _, job = await call("PUT", NAMED, JOB)
    number = parse_job(job["id"]) or 0
    before_it_is_applied(call, lambda: call.cluster.apply(EditJob(number, MANUAL, BODY, None, "b")))
    body = {} if method == "POST" else None
    status, problem = await call(method, NAMED + rest, body, headers)
    assert (status, problem["code"]) == (404, "not-found"), problem
    assert (await call("GET", "/v1/namespaces/default/jobs/b"))[1]["state"] == "SCHEDULED"


@pytest.mark.parametrize(("method", "rest", "headers"), BY_NAME)
async def test_what_was_made_under_the_name_meanwhile_is_changed(
    call: Client, method: str, rest: str, headers: Any
) -> None:
    _, job = await call("PUT", NAMED, JOB)
    before_it_is_applied(call, lambda: made_anew(call, job))
    body = {} if method == "POST" else None
    status, answer = await call(method, NAMED + rest, body, headers)
    assert status == 200, answer
    status, other = await call("GET", NAMED)
    assert status == 404 or other["state"] in ("SUSPENDED", "EXPIRED")
    if headers:
        assert (await call(method, NAMED + rest, body, headers))[1]["id"] == answer["id"] != job["id"]


@pytest.mark.parametrize("conditional", [False, True])
async def test_a_put_that_says_suspended_pauses_with_and_without_a_condition(call: Client, conditional: bool) -> None:
    async def put(**fields: Any) -> dict[str, Any]:
        given = {"If-Match": call.headers["ETag"]} if conditional else {}
        status, job = await call("PUT", NAMED, {**JOB, **fields}, given)
        assert status == 200, job
        return dict(job)

    assert (await call("PUT", NAMED, JOB))[0] == 201
    assert (await put(owner="me"))["state"] == "SCHEDULED"
    paused = await put(owner="you", suspended=True)
    assert (paused["state"], paused["owner"], paused["next_fire_at"]) == ("SUSPENDED", "you", None)
    assert (await put(owner="them"))["state"] == "SUSPENDED", "it stays paused"
    await call("POST", f"{NAMED}/resume", {})
    await call("GET", NAMED)
    again = await put(owner="them", suspended=True)
    assert (again["state"], again["revision"]) == ("SUSPENDED", 4), "its content stays as it is"

"""Namespaces: declared, listed, and what their jobs take over from them."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.commands import Assign
from raftsched.core.ids import parse_instance
from raftsched.core.subjects.namespace import PutNamespace
from tests.support.local_api import Client, LocalCluster

MERGE = {"Content-Type": "application/merge-patch+json"}
CRON: dict[str, Any] = {"trigger": {"cron": "0 2 * * *"}, "handler": {"exec": ["true"]}}
DEFAULTS: dict[str, Any] = {
    "timezone": "Europe/Madrid",
    "queue": "billing",
    "priority": 7,
    "timeout": "10m",
    "delivery": "at_most_once",
    "max_lost": 1,
    "retry": {"delays": ["5s"]},
    "overlap": "allow",
    "misfire": {"policy": "skip"},
    "labels": {"team": "fin"},
    "placement": {"labels": {"disk": "ssd"}},
    "retention": {"succeeded": 5},
}
PATH = "/v1/namespaces/billing"
JOB = f"{PATH}/jobs/a"


async def declare(call: Client, **fields: Any) -> Any:
    status, found = await call("PUT", PATH, fields)
    assert status in (200, 201), found
    return found


async def test_one_is_declared_shown_changed_and_taken_back(call: Client) -> None:
    status, problem = await call("GET", PATH)
    assert (status, problem["code"]) == (404, "not-found")
    status, found = await call(
        "PUT", PATH, {"description": "Bills", "owner": "ana", "defaults": {"queue": "b"}, "limits": {"max_jobs": 9}}
    )
    made = "2030-01-01T00:00:00.000Z"
    assert (status, found) == (
        201,
        {"name": "billing", "declared": True, "description": "Bills", "owner": "ana", "defaults": {"queue": "b"},
         "limits": {"max_jobs": 9, "max_running": None, "max_starts_per_minute": None, "output_bytes": None,
                    "output_max_bytes": None, "output_keep": None, "output_copies": None},
         "jobs": 0, "secrets": 0, "revision": 1, "created_at": made,
         "modified_at": made},
    )  # fmt: skip
    assert call.headers["Location"] == PATH
    assert call.headers["ETag"] == '"1"'
    assert await call("PUT", PATH, found) == (200, found)  # what was answered is no change
    status, found = await call("PATCH", PATH, {"owner": None, "defaults": {"priority": 8}}, MERGE)
    assert (status, found["owner"], found["defaults"]) == (200, None, {"priority": 8, "queue": "b"})
    assert (await call("GET", "/v1/namespaces"))[1]["items"] == [found]
    assert await call("DELETE", PATH) == (204, "")
    assert (await call("GET", PATH))[0] == 404
    assert (await call("DELETE", PATH))[0] == 404
    assert (await call("PATCH", PATH, {}, MERGE))[0] == 404


async def test_preconditions(call: Client) -> None:
    assert (await call("PUT", PATH, {}, {"If-Match": "*"}))[0] == 412
    assert (await call("PUT", PATH, {}, {"If-None-Match": "*"}))[0] == 201
    assert (await call("PUT", PATH, {}, {"If-None-Match": "*"}))[0] == 412
    tag = call.headers.get("ETag") or '"1"'
    assert (await call("PUT", PATH, {"owner": "bo"}, {"If-Match": tag}))[0] == 200
    for method, body in (("PUT", {}), ("PATCH", {}), ("DELETE", None)):
        status, problem = await call(method, PATH, body, {"If-Match": tag})
        assert (status, problem["code"]) == (412, "stale-revision")


async def test_a_change_of_one_that_merely_has_jobs_does_not_say_that_nothing_is_in_it(call: Client) -> None:
    assert (await call("POST", "/v1/jobs", {"namespace": "billing", **CRON}))[0] == 201
    status, problem = await call("PATCH", PATH, {"owner": "ana"}, MERGE)
    assert (status, problem["detail"]) == (404, 'The namespace "billing" is not declared; PUT declares it.')
    status, problem = await call("PATCH", "/v1/namespaces/other", {"owner": "ana"}, MERGE)
    assert (status, "nothing is in it" in problem["detail"]) == (404, True)


async def test_that_of_the_cluster_is_not_listed_and_can_be_read(call: Client) -> None:
    await call("POST", "/v1/webhooks", {"name": "ops", "url": "https://hooks.example/x"})
    status, found = await call("GET", "/v1/namespaces/_system")
    assert (status, found["declared"], found["jobs"]) == (200, False, 1)
    _, found = await call("GET", "/v1/namespaces")
    assert "_system" not in [item["name"] for item in found["items"]]


async def test_what_is_wrong_deep_in_a_change_is_named_in_its_order(call: Client) -> None:
    fields = ("retention", "misfire", "placement", "retry")
    await declare(call)
    status, problem = await call("PATCH", PATH, {"defaults": {field: {"x": None} for field in fields}}, MERGE)
    assert status == 422
    assert [error["pointer"] for error in problem["errors"]] == [f"/defaults/{field}/x" for field in fields]


async def test_those_that_merely_have_jobs_are_listed_too(call: Client) -> None:
    await call("PUT", JOB, CRON)
    await call("POST", "/v1/jobs", CRON)
    await call("PUT", "/v1/namespaces/declared", {})
    _, page = await call("GET", "/v1/namespaces?limit=2")
    assert [(n["name"], n["declared"], n["jobs"]) for n in page["items"]] == [
        ("billing", False, 1),
        ("declared", True, 0),
    ]
    _, page = await call("GET", f"/v1/namespaces?limit=2&cursor={page['next']}")
    assert [(n["name"], n["jobs"]) for n in page["items"]] == [("default", 1)]
    status, found = await call("GET", PATH)
    assert (status, found["revision"], found["created_at"]) == (200, 0, None)
    status, problem = await call("DELETE", PATH)
    assert (status, problem["code"]) == (404, "not-found")
    await declare(call)
    status, problem = await call("DELETE", PATH)
    assert (status, problem["code"]) == (409, "in-use")
    await call("DELETE", JOB)
    assert (await call("DELETE", PATH))[0] == 204


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"defaults": {"timezone": "Mars/Base"}}, "/defaults/timezone"),
        ({"defaults": {"timeout": "400000h"}}, "/defaults/timeout"),
        ({"defaults": {"queue": "A B"}}, "/defaults/queue"),
        ({"defaults": {"retry": {"delays": ["soon"]}}}, "/defaults/retry/delays/0"),
        ({"defaults": {"priority": 10}}, "/defaults/priority"),
        ({"defaults": {"labels": {"": "x"}}}, "/defaults/labels/"),
        ({"defaults": {"owner": "ana"}}, "/defaults/owner"),
        ({"defaults": 7}, "/defaults"),
        ({"limits": {"max_jobs": -1}}, "/limits/max_jobs"),
        ({"description": "x" * 2_000}, "/description"),
        ({"owner": ""}, "/owner"),
        ([], ""),
    ],
)
async def test_what_is_wrong_is_named(call: Client, body: Any, pointer: str) -> None:
    status, problem = await call("PUT", PATH, body)
    assert (status, problem["code"]) == (422, "invalid-body")
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert (await call("GET", PATH))[0] == 404


async def test_a_job_takes_over_what_its_body_does_not_say(call: Client) -> None:
    await declare(call, defaults=DEFAULTS)
    for method, path, body in (
        ("POST", "/v1/jobs", {**CRON, "namespace": "billing", "name": "a"}),
        ("PUT", f"{PATH}/jobs/b", CRON),
    ):
        status, job = await call(method, path, body)
        assert status == 201
        assert job["trigger"] == {"cron": "0 2 * * *", "timezone": "Europe/Madrid"}
        shown = {field: job[field] for field in DEFAULTS if field != "timezone"}
        assert shown == {
            **{k: v for k, v in DEFAULTS.items() if k != "timezone"},
            "retry": {"delays": ["5s"], "exponential": None, "jitter_percent": 0, "on": ["failed", "timed_out"]},
            "misfire": {"policy": "skip", "grace": "15m"},
            "retention": {"succeeded": 5, "failed": 100, "max_age": "7d"},
        }
        assert job["max_concurrency"] is None
    _, batch = await call("POST", "/v1/jobs:batch", [{**CRON, "namespace": "billing", "name": "c"}, CRON])
    assert [one["status"] for one in batch["items"]] == [201, 201]
    _, job = await call("GET", f"{PATH}/jobs/c")
    assert (job["priority"], job["labels"]) == (7, {"team": "fin"})
    _, job = await call("GET", f"/v1/jobs/{batch['items'][1]['id']}")
    assert (job["priority"], job["labels"], job["trigger"]) == (5, {}, CRON["trigger"])


async def test_what_is_given_is_taken_as_it_is(call: Client) -> None:
    said = {
        "trigger": {"cron": "CRON_TZ=Asia/Tokyo 0 2 * * *"},
        "handler": {"exec": ["true"]},
        "priority": 5,
        "queue": "default",
        "timeout": "5m",
        "delivery": "at_least_once",
        "max_lost": 3,
        "retry": {},
        "overlap": "forbid",
        "misfire": {},
        "labels": {},
        "placement": {},
        "retention": {},
    }
    await declare(call, defaults=DEFAULTS)
    _, job = await call("PUT", JOB, said)
    _, other = await call("PUT", "/v1/namespaces/other/jobs/a", said)
    for field in said:
        assert job[field] == other[field], field
    assert job["next_fire_at"] == other["next_fire_at"]
    _, job = await call("PUT", f"{PATH}/jobs/c", {**CRON, "trigger": {"rrule": "FREQ=DAILY"}})
    assert job["trigger"]["timezone"] == "Europe/Madrid"
    _, job = await call("PUT", f"{PATH}/jobs/b", {**CRON, "trigger": {"every": "1m"}, "priority": None})
    assert (job["trigger"], job["priority"]) == ({"every": "1m"}, 7)  # null is the same as left out


async def test_webhooks_are_taken_over_too(call: Client) -> None:
    await declare(call, defaults={"notify": [{"webhook": "ops", "on": ["succeeded", "failed"]}]})
    status, problem = await call("PUT", JOB, CRON)
    assert (status, problem["errors"][0]["pointer"]) == (422, "/notify/webhook")
    assert (await call("PUT", "/v1/webhooks/ops", {"url": "http://127.0.0.1:9/"}))[0] == 201
    for name in ("a", "b"):
        _, job = await call("PUT", f"{PATH}/jobs/{name}", CRON)
        assert job["notify"]["webhook"] == "ops"
    _, job = await call("PUT", JOB, {**CRON, "notify": []})
    assert job["notify"] is None


async def test_a_change_of_the_defaults_changes_no_job_until_it_is_written_again(call: Client) -> None:
    await declare(call, defaults={"priority": 7})
    _, job = await call("PUT", JOB, CRON)
    assert await call("PUT", JOB, CRON) == (200, job)  # the same again is no change
    assert (await call("POST", f"{JOB}/compare", CRON))[1]["result"] == "unchanged"
    await declare(call, defaults={"priority": 8})
    assert await call("GET", JOB) == (200, job)
    _, found = await call("POST", f"{JOB}/compare", CRON)
    assert (found["result"], found["before"]["priority"], found["after"]["priority"]) == ("changed", 7, 8)
    assert await call("PUT", JOB, job) == (200, job)  # an answer says it all
    status, problem = await call("POST", "/v1/jobs", {**CRON, "namespace": "billing", "name": "a"})
    assert (status, problem["code"]) == (409, "name-taken")
    _, changed = await call("PUT", JOB, CRON)
    assert (changed["priority"], changed["revision"]) == (8, 2)


async def test_a_patch_takes_over_only_what_it_takes_out(call: Client) -> None:
    await call("PUT", JOB, {**CRON, "priority": 2})
    await declare(call, defaults=DEFAULTS)
    status, job = await call("PATCH", JOB, {"timeout": "1m"}, MERGE)
    assert status == 200
    assert (job["timeout"], job["priority"], job["queue"], job["labels"]) == ("1m", 2, "default", {})
    assert job["trigger"] == CRON["trigger"]
    _, job = await call("PATCH", JOB, {"priority": None, "trigger": {"cron": "0 3 * * *"}}, MERGE)
    assert (job["priority"], job["timeout"], job["queue"]) == (7, "1m", "default")
    assert job["trigger"] == {"cron": "0 3 * * *", "timezone": "Europe/Madrid"}
    status, job = await call("PUT", f"/v1/jobs/{job['id']}", {**CRON, "name": "a"})
    assert (status, job["priority"], job["queue"]) == (200, 7, "billing")


async def test_what_is_given_twice_is_refused_also_where_fields_are_filled_in(call: Client) -> None:
    await declare(call, defaults=DEFAULTS)
    body = b'{"namespace":"billing","trigger":{"in":"1h"},"priority":1,"handler":{"exec":["true"]},"priority":2}'
    status, problem = await call("POST", "/v1/jobs", body)
    assert (status, problem["code"]) == (400, "invalid-json")


@pytest.mark.parametrize("way", ["post", "put", "put by id", "patch", "batch", "batch of sound jobs"])
async def test_defaults_that_change_at_the_last_moment_are_the_ones_that_hold(call: Client, way: str) -> None:
    cluster: LocalCluster = call.cluster
    await declare(call, defaults={"priority": 7})
    _, job = await call("PUT", JOB, {**CRON, "priority": 1})
    named = {**CRON, "namespace": "billing", "name": "b"}
    content = b'{"defaults":{"priority":8}}'
    cluster.before = lambda: cluster.apply(PutNamespace("billing", content)) and None
    if way == "post":
        _, found = await call("POST", "/v1/jobs", named)
    elif way == "put":
        _, found = await call("PUT", f"{PATH}/jobs/b", CRON)
    elif way == "put by id":
        _, found = await call("PUT", f"/v1/jobs/{job['id']}", CRON)
    elif way == "patch":
        _, found = await call("PATCH", JOB, {"priority": None}, MERGE)
    elif way == "batch":
        _, made = await call("POST", "/v1/jobs:batch", [named, {**CRON, "priority": 11}])
        assert [one["status"] for one in made["items"]] == [201, 422]
        _, found = await call("GET", f"{PATH}/jobs/b")
    else:
        _, made = await call("POST", "/v1/jobs:batch", [named, CRON])
        assert [one["status"] for one in made["items"]] == [201, 201]
        _, found = await call("GET", f"{PATH}/jobs/b")
    assert cluster.before is None
    assert found["priority"] == 8


async def test_what_was_declared_elsewhere_a_moment_ago_holds(call: Client) -> None:
    await call("POST", "/v1/jobs", {**CRON, "namespace": "billing"})  # this node remembers: not declared
    call.cluster.apply(PutNamespace("billing", b'{"defaults":{"priority":8}}'))
    _, job = await call("POST", "/v1/jobs", {**CRON, "namespace": "billing"})
    assert job["priority"] == 8


async def test_limits(call: Client) -> None:
    await declare(call, limits={"max_jobs": 1})
    await call("PUT", JOB, CRON)
    for method, path, body in (
        ("PUT", f"{PATH}/jobs/b", CRON),
        ("POST", "/v1/jobs", {**CRON, "namespace": "billing"}),
    ):
        status, problem = await call(method, path, body)
        assert (status, problem["code"]) == (409, "not-possible")
    _, made = await call("POST", "/v1/jobs:batch", [{**CRON, "namespace": "billing"}])
    assert made["items"][0]["code"] == "not-possible"
    assert (await call("PUT", JOB, {**CRON, "priority": 1}))[0] == 200
    await call("DELETE", JOB)
    assert (await call("PUT", f"{PATH}/jobs/b", CRON))[0] == 201


async def test_where_they_have_to_be_declared(call: Client) -> None:
    await call("PATCH", "/v1/cluster/settings", {"namespaces_strict": 1}, MERGE)
    for method, path, body in (("PUT", JOB, CRON), ("POST", "/v1/jobs", {**CRON, "namespace": "billing"})):
        status, problem = await call(method, path, body)
        assert (status, problem["code"]) == (422, "invalid-job")
        assert [error["pointer"] for error in problem["errors"]] == ["/namespace"]
    assert (await call("POST", "/v1/jobs", CRON))[0] == 201
    await declare(call)
    assert (await call("PUT", JOB, CRON))[0] == 201


@pytest.mark.parametrize("name", ["UP", "a b", "x" * 65, "%2e%2e"])
async def test_names_that_are_none(call: Client, name: str) -> None:
    for method, body in (("GET", None), ("PUT", {}), ("PATCH", {}), ("DELETE", None)):
        status, _ = await call(method, f"/v1/namespaces/{name}", body)
        assert 400 <= status < 500


async def test_limits_of_what_runs(call: Client) -> None:
    limits = {"max_jobs": 9, "max_running": 1, "max_starts_per_minute": 60, "output_bytes": 10 << 30}
    limits |= {"output_max_bytes": 8 << 20, "output_keep": "30d", "output_copies": 2}
    status, made = await call("PUT", "/v1/namespaces/billing", {"limits": limits})
    assert (status, made["limits"]) == (201, limits)
    status, kept = await call("PATCH", "/v1/namespaces/billing", {"limits": {"max_jobs": None}}, MERGE)
    assert (status, kept["limits"]) == (200, {**limits, "max_jobs": None})
    for wrong in ("max_running", "max_starts_per_minute", "output_bytes", "output_max_bytes", "output_copies"):
        for value in (0, -1, 10**7 if not wrong.startswith("output") else 1 << 60, "1"):
            status, problem = await call("PATCH", "/v1/namespaces/billing", {"limits": {wrong: value}}, MERGE)
            assert (status, problem["errors"][0]["pointer"]) == (422, f"/limits/{wrong}"), value
    for text, says in (("59m", "from 1h to 3650d"), ("soon", "is not a duration"), (5, "a duration")):
        status, problem = await call("PATCH", "/v1/namespaces/billing", {"limits": {"output_keep": text}}, MERGE)
        assert (status, problem["errors"][0]["pointer"]) == (422, "/limits/output_keep")
        assert says in problem["errors"][0]["detail"]
    assert (await call("GET", "/v1/queues"))[1]["items"] == []
    assert (await call("GET", "/v1/queues/_namespaces.billing"))[0] == 404
    assert (await call("PUT", "/v1/queues/_namespaces.billing", {"max_running": 5}))[0] == 409
    job = {"namespace": "billing", "trigger": {"manual": True}, "handler": {"exec": ["true"]}}
    assert (await call("POST", "/v1/jobs", {**job, "queue": "_namespaces.billing"}))[0] == 422
    _, made = await call("POST", "/v1/jobs", {**job, "overlap": "allow"})
    runs = [(await call("POST", f"/v1/jobs/{made['id']}/run", {}))[1]["id"] for _ in range(2)]
    session = call.cluster.open_session("n1", "127.0.0.1:1")
    key = parse_instance(runs[0])
    assert key is not None
    call.cluster.apply(Assign(key, session))
    _, told = await call("GET", f"/v1/instances/{runs[1]}/explain")
    assert 'Its namespace "billing" runs 1 of 1.' in str(told)
    assert 'raftsched_namespace_running{namespace="billing"} 1.0' in (await call("GET", "/metrics"))[1]
    assert 'raftsched_namespace_max_running{namespace="billing"} 1.0' in (await call("GET", "/metrics"))[1]

"""Secrets over the API: put, listed, deleted, referred to; no answer ever shows a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raftsched.api.routes import ROUTES
from raftsched.core.rules.references import find_secret
from raftsched.core.subjects.secret import DeleteSecret
from raftsched.security.keyring import Keyring
from raftsched.security.sealing import Sealer
from tests.support.local_api import Client

VALUE = "hunter2-and-more"
PATH = "/v1/namespaces/billing/secrets/smtp"
JOBS = "/v1/namespaces/billing/jobs"
MANUAL: dict[str, Any] = {"trigger": {"manual": True}}


def job(**handler: Any) -> dict[str, Any]:
    return {**MANUAL, "handler": {"exec": ["true"], **handler}}


def http(**fields: Any) -> dict[str, Any]:
    return {**MANUAL, "handler": {"http": {"url": "http://h/", **fields}}}


async def put(call: Client, path: str = PATH, value: str = VALUE, **fields: Any) -> Any:
    status, found = await call("PUT", path, {"value": value, **fields})
    assert status in (200, 201), found
    return found


async def test_one_is_put_listed_and_deleted(call: Client) -> None:
    assert (await call("GET", PATH))[0] == 404
    status, found = await call("PUT", PATH, {"value": VALUE})
    made = "2030-01-01T00:00:00.000Z"
    wanted = {
        "name": "smtp", "namespace": "billing", "shared": False, "sealed": True, "revision": 1,
        "created_at": made, "modified_at": made,
    }  # fmt: skip
    assert (status, found) == (201, wanted)
    assert (call.headers["Location"], call.headers["ETag"]) == (PATH, '"1"')
    assert await call("PUT", PATH, {"value": VALUE}) == (200, wanted)  # the same again is no change
    status, found = await call("PUT", PATH, {**wanted, "value": "another", "shared": True})
    assert (status, found["shared"], found["revision"]) == (200, True, 2)
    await put(call, "/v1/namespaces/a/secrets/x")
    _, page = await call("GET", "/v1/secrets?limit=1")
    assert [(s["namespace"], s["name"]) for s in page["items"]] == [("a", "x")]
    _, page = await call("GET", f"/v1/secrets?limit=1&cursor={page['next']}")
    assert page["items"] == [found]
    assert (await call("GET", "/v1/secrets?namespace=billing"))[1]["items"] == [found]
    assert (await call("GET", "/v1/secrets?namespace=bill"))[1]["items"] == []
    assert (await call("GET", "/v1/namespaces/billing"))[1]["secrets"] == 1
    assert (await call("DELETE", PATH, None, {"If-Match": '"1"'}))[0] == 412
    assert (await call("DELETE", PATH, None, {"If-Match": '"2"'}))[0] == 204
    assert (await call("DELETE", PATH))[0] == 404
    assert (await call("GET", "/v1/namespaces/billing"))[0] == 404


async def test_preconditions(call: Client) -> None:
    for tag in ("*", '"1"'):
        assert (await call("PUT", PATH, {"value": VALUE}, {"If-Match": tag}))[0] == 412
    assert (await call("PUT", PATH, {"value": VALUE}, {"If-None-Match": "*"}))[0] == 201
    assert (await call("PUT", PATH, {"value": VALUE}, {"If-None-Match": "*"}))[0] == 412
    assert (await call("PUT", PATH, {"value": "other"}, {"If-Match": '"1"'}))[0] == 200
    assert (await call("PUT", PATH, {"value": VALUE}, {"If-Match": '"1"'}))[0] == 412


@pytest.mark.parametrize(
    "body",
    [
        b'"hunter2-and-more"',
        b"hunter2-and-more",
        b'["hunter2-and-more"]',
        b'{"value":"hunter2-and-more"',
        b'{"vlaue":"hunter2-and-more"}',
        b'{"hunter2-and-more":"value"}',
        b'{"value":["hunter2-and-more"]}',
        b'{"value":{"$secret":"hunter2-and-more"}}',
        b'{"value":"hunter2-and-more\\u0000"}',
        b'{"value":"hunter2-and-more","shared":"hunter2-and-more"}',
        b'{"value":"hunter2-and-more","value":"hunter2-and-more"}',
        b'{"value":"hunter2-and-more","more":1}',
        b'{"value":""}',
        b'{"value":"\\ud800hunter2-and-more"}',
        b'{"value":"' + b"hunter2-and-more" * 600 + b'"}',
        b"{}",
        b"null",
    ],
)
async def test_no_refusal_repeats_what_was_sent(call: Client, body: bytes) -> None:
    status, problem = await call("PUT", PATH, body)
    assert 400 <= status < 500
    assert "hunter2" not in str(problem)
    assert (await call("GET", PATH))[0] == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (job(env={"PW": {"$secret": "no"}}), "/handler/env/PW"),
        (job(env={"PW": {"$secret": "other/smtp"}}), "/handler/env/PW"),
        (job(env={"PW": {"$secret": ""}}), "/handler/env/PW"),
        (job(env={"PW": {"$secret": "a/b/c"}}), "/handler/env/PW"),
        (job(env={"PW": {"$secret": 7}}), "/handler/env/PW/$secret"),
        (job(env={"PW": {}}), "/handler/env/PW"),
        (job(env={"PW": {"$secret": "smtp", "more": 1}}), "/handler/env/PW/more"),
        ({**job(), "params": {"a": [{"$secret": "no"}]}}, "/params/a/0"),
        ({**job(), "params": {"a": {"$secret": "smtp", "b": 1}}}, "/params/a"),
        ({**job(), "params": {"a": {"$secret": ["smtp"]}}}, "/params/a"),
        ({**job(), "params": {"$secret": "smtp"}}, "/params"),
        (
            {**MANUAL, "handler": {"http": {"url": "http://h/", "headers": {"A": {"$secret": "no"}}}}},
            "/handler/http/headers/A",
        ),
        ({**MANUAL, "handler": {"http": {"url": "http://h/", "body": {"$secret": "no"}}}}, "/handler/http/body"),
        ({**MANUAL, "handler": {"http": {"url": {"$secret": "smtp"}}}}, "/handler/http/url"),
        (job(exec=["a", {"$secret": "smtp"}]), "/handler/exec/1"),
        ({**job(), "labels": {"a": {"$secret": "smtp"}}}, "/labels/a"),
    ],
)
async def test_a_reference_that_leads_nowhere_is_named(call: Client, body: Any, pointer: str) -> None:
    await put(call)
    await put(call, "/v1/namespaces/other/secrets/smtp")  # which is not shared
    for method, path in (("PUT", f"{JOBS}/a"), ("POST", f"{JOBS}/a/compare"), ("POST", "/v1/jobs")):
        status, problem = await call(method, path, {**body, "namespace": "billing"})
        assert (status, problem["code"]) == (422, "invalid-job"), problem
        assert problem["errors"][0]["pointer"] == pointer
    _, made = await call("POST", "/v1/jobs:batch", [{**body, "namespace": "billing"}])
    assert made["items"][0]["status"] == 422


async def test_references_are_kept_as_they_are_given(call: Client) -> None:
    whole = {
        **MANUAL,
        "handler": {
            "http": {
                "url": "http://h/",
                "headers": {"Authorization": {"$secret": "smtp"}, "X": "plain"},
                "body": {"$secret": "other/token"},
            }
        },
        "params": {"a": [{"b": {"$secret": "billing/smtp"}}]},
    }
    await put(call)
    await put(call, "/v1/namespaces/other/secrets/token", shared=True)
    status, made = await call("PUT", f"{JOBS}/a", whole)
    assert status == 201
    assert (made["handler"], made["params"]) == (whole["handler"], whole["params"])
    assert await call("PUT", f"{JOBS}/a", made) == (200, made)
    status, changed = await call("PATCH", f"{JOBS}/a", {"params": {"c": {"$secret": "smtp"}}})
    assert (status, changed["params"]["c"]) == (200, {"$secret": "smtp"})
    assert (await call("PATCH", f"{JOBS}/a", {"params": {"c": {"$secret": "no"}}}))[0] == 422
    assert (await call("POST", f"{JOBS}/a/compare", whole))[1]["result"] == "changed"


async def test_one_that_jobs_refer_to_stays_unless_it_is_forced(call: Client) -> None:
    await put(call)
    await call("PUT", f"{JOBS}/mailer", job(env={"PW": {"$secret": "smtp"}}))
    status, problem = await call("DELETE", PATH)
    assert (status, problem["code"]) == (409, "in-use")
    assert "billing/mailer" in problem["detail"]
    assert (await call("DELETE", f"{PATH}?force=true"))[0] == 204
    assert (await call("GET", f"{JOBS}/mailer"))[0] == 200
    assert (await call("DELETE", f"{PATH}?force=maybe"))[0] == 400


async def test_one_that_goes_at_the_last_moment_is_missed(call: Client) -> None:
    await put(call)
    call.cluster.before = lambda: call.cluster.apply(DeleteSecret("billing", "smtp")) and None
    status, problem = await call("PUT", f"{JOBS}/a", job(env={"PW": {"$secret": "smtp"}}))
    assert (status, problem["errors"][0]["pointer"]) == (422, "/handler/env/PW")


async def test_a_run_may_refer_to_them_too(call: Client) -> None:
    await put(call)
    await call("PUT", f"{JOBS}/a", job())
    status, _ = await call("POST", f"{JOBS}/a/run", {"params": {"pw": {"$secret": "smtp"}}})
    assert status == 202
    for params, pointer in (
        ({"pw": {"$secret": "no"}}, "/params/pw"),
        ({"pw": {"$secret": "smtp", "x": 1}}, "/params/pw"),
    ):
        status, problem = await call("POST", f"{JOBS}/a/run", {"params": params})
        assert (status, problem["code"], problem["errors"][0]["pointer"]) == (422, "invalid-body", pointer)


async def test_with_a_key_it_is_sealed_before_it_is_proposed(call: Client, tmp_path: Path) -> None:
    sealer = call.context.security.sealer = Sealer(Keyring(b"k" * 32))
    found = await put(call)
    assert found["sealed"]
    assert await put(call) == found  # known again, though it is sealed otherwise each time
    assert (await put(call, value="another"))["revision"] == 2
    await put(call)
    with call.cluster.store.read() as view:
        row = find_secret(view, "billing", "smtp")
    assert row is not None
    assert sealer.open("billing", "smtp", row.nonce, row.value) == VALUE.encode()
    for path in filter(Path.is_file, (tmp_path / "store").rglob("*")):
        assert VALUE.encode() not in path.read_bytes()


async def test_no_answer_shows_a_value(call: Client) -> None:
    await put(call, shared=True)
    _, made = await call(
        "PUT", f"{JOBS}/a", {**job(env={"PW": {"$secret": "smtp"}}), "params": {"x": {"$secret": "smtp"}}}
    )
    _, ran = await call("POST", f"{JOBS}/a/run", {"params": {"pw": {"$secret": "smtp"}}})
    await call("PATCH", f"{JOBS}/a", {"priority": 7})
    names = {
        "{ns}": "billing",
        "{name}": "a",
        "/jobs/{id}": f"/jobs/{made['id']}",
        "/instances/{id}": f"/instances/{ran['id']}",
    }
    seen = 0
    for route in ROUTES:
        if route.method != "GET" or route.operation.streams or "snapshot" in route.path:
            continue  # a copy of the tables is all that is in them
        path = route.path.replace("/secrets/{name}", "/secrets/smtp")
        for name, value in names.items():
            path = path.replace(name, value)
        status, answer = await call("GET", path.replace("{id}", "n1"))
        assert VALUE not in str(answer) + str(call.headers), path
        seen += status == 200
    assert seen > 20


async def test_the_clusters_own_namespace_holds_none(call: Client) -> None:
    own = "/v1/namespaces/_system/secrets/x"
    status, problem = await call("PUT", own, {"value": "v"})
    assert (status, problem["code"]) == (400, "invalid-parameter")
    assert "the cluster's own" in problem["detail"]
    assert (await call("GET", own))[0] == 404
    assert (await call("GET", "/v1/secrets?namespace=_system"))[1]["items"] == []

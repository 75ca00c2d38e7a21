"""Webhooks by the API: made, shown without their secret, changed, rotated, tested, deleted; jobs that name them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftsched import webhooks
from raftsched.core.commands import Assign, Ended
from raftsched.core.ids import parse_instance
from raftsched.core.model import Outcome
from raftsched.core.rows import decode_secrets
from raftsched.core.subjects.webhook import Secrets
from raftsched.core.tables import Table
from raftsched.security.sealing import WEBHOOKS, open_value
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.tokens import guarded, limited

PATH = "/v1/webhooks/ops"
HOOK = {"name": "ops", "url": "https://ops.example/hook", "events": ["dead_letter", "killed"]}
GIVEN = webhooks.encode_secret(b"g" * 32)
MERGE = {"Content-Type": "application/merge-patch+json"}
JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}
SMTP = {"host": "mail.example", "from": "r@b.example", "to": ["a@b.example"]}
MAIL = {"kind": "email", "url": None}
MADE = "2030-01-01T00:00:00.000Z"


def secrets(call: Client) -> Secrets:
    with call.cluster.store.read() as view:
        raw = view.get(Table.WEBHOOK_SECRETS, b"ops")
    assert raw is not None
    held = decode_secrets(raw)

    def opened(nonce: bytes, value: bytes) -> bytes:
        return open_value(call.context.security.sealer, WEBHOOKS, "ops", nonce, value) if value else b""

    assert held.nonce, "it is sealed"
    return Secrets(opened(held.nonce, held.current), opened(held.previous_nonce, held.previous))


async def ended(call: Client, outcome: Outcome = Outcome.FAILED, **fields: Any) -> str:
    """The id of an instance that came to its end."""
    cluster = call.cluster
    session = cluster.sessions.get("n1") or cluster.open_session("n1", "h:1")
    _, job = await call("POST", "/v1/jobs", {**JOB, **fields})
    _, made = await call("POST", f"/v1/jobs/{job['id']}/run", {})
    key = parse_instance(made["id"])
    assert key is not None
    (answer,) = cluster.apply(Assign(key, session))
    now = cluster.clock.wall
    cluster.apply(Ended(session, getattr(answer, "number", 0), outcome, now, now, 3, "no paper"))
    return str(made["id"])


async def test_one_is_made_shown_and_deleted(call: Client) -> None:
    status, problem = await call("GET", PATH)
    assert (status, problem["code"]) == (404, "not-found")
    assert (await call("GET", "/v1/webhooks"))[1] == {"items": [], "next": None}
    status, made = await call("POST", "/v1/webhooks", HOOK)
    assert (status, call.headers["Location"]) == (201, PATH)
    secret = made.pop("secret")
    assert webhooks.decode_secret(secret) == secrets(call).current
    assert made == {
        "name": "ops", "kind": "webhook", "url": "https://ops.example/hook", "events": ["killed", "dead_letter"],
        "cluster_events": [], "page": None, "smtp": None, "at_most": None, "left_out": 0,
        "filter": {"namespace": None, "owner": None, "labels": {}, "queue": None}, "headers": {}, "active": True,
        "gone": False, "timeout": "15s", "retry_delays": ["5s", "5m", "30m", "2h", "5h", "10h", "10h"],
        "max_running": 4, "revision": made["revision"], "job_id": made["job_id"], "waiting": 0,
        "failures_in_a_row": 0, "last_success_at": None, "dropped": 0, "dropped_at": None,
        "previous_secret_until": None, "created_at": MADE, "modified_at": MADE,
    }  # fmt: skip
    assert await call("GET", PATH) == (200, made)
    assert (await call("GET", PATH, headers={"If-None-Match": call.headers["ETag"]}))[0] == 304
    assert (await call("GET", "/v1/webhooks"))[1] == {"items": [made], "next": None}
    assert await call("PUT", PATH, made) == (200, {**made, "secret": None})  # what was answered is no change
    assert await call("DELETE", PATH) == (204, "")
    for method in ("DELETE", "GET"):
        assert (await call(method, PATH))[0] == 404


async def test_a_secret_is_shown_once_and_only_when_it_was_made(call: Client) -> None:
    key = {"Idempotency-Key": "k"}
    _, made = await call("POST", "/v1/webhooks", HOOK, key)
    secret = made["secret"]
    status, again = await call("POST", "/v1/webhooks", HOOK, key)
    assert (status, again["secret"]) == (201, secret)  # the same request, whose answer may have been lost
    assert (await call("POST", "/v1/webhooks", {**HOOK, "active": False}, key))[0] == 422
    call.cluster.clock.forward(3_600_001)
    status, again = await call("POST", "/v1/webhooks", HOOK, key)
    assert (status, again["secret"]) == (200, None)  # the key is forgotten, and the secret was shown
    status, again = await call("POST", "/v1/webhooks", HOOK)
    assert (status, again["secret"]) == (200, None)
    assert (await call("PUT", PATH, HOOK))[1]["secret"] is None
    assert (await call("PUT", PATH, {**HOOK, "secret": secret}))[0] == 200
    status, problem = await call("PUT", PATH, {**HOOK, "secret": GIVEN})
    assert (status, "rotate" in problem["detail"]) == (409, True)
    status, made = await call("POST", "/v1/webhooks", {**HOOK, "name": "two", "secret": GIVEN})
    assert (status, made["secret"]) == (201, None)
    texts = [msgspec.json.encode((await call("GET", path))[1]).decode() for path in (
        "/v1/webhooks", PATH, "/v1/jobs?namespace=_system", "/v1/instances?namespace=_system",
        "/v1/namespaces/_system/jobs/ops", "/v1/queues", "/v1/audit",
    )]  # fmt: skip
    assert not any("whsec_" in text or secret[8:] in text or GIVEN[8:] in text for text in texts)


SLACK = "https://hooks.slack.com/services/T0/B0/hidden"


async def test_the_address_of_slack_is_a_secret(call: Client) -> None:
    given = {"name": "ops", "kind": "slack", "url": SLACK, "cluster_events": ["node_lost", "leader_changed"]}
    status, made = await call("POST", "/v1/webhooks", given)
    assert (status, made["secret"], made["url"]) == (201, None, "https://hooks.slack.com/***")
    assert (made["events"], made["cluster_events"]) == ([], ["leader_changed", "node_lost"])
    assert secrets(call).current == SLACK.encode()
    assert (await call("POST", "/v1/webhooks", given))[0] == 200  # the same
    assert (await call("POST", "/v1/webhooks", {**given, "url": f"{SLACK}2"}))[0] == 409
    made.pop("secret")
    assert (await call("PUT", PATH, made))[1]["revision"] == made["revision"]  # as it is shown it is no change
    status, changed = await call("PATCH", PATH, {"url": f"{SLACK}3"}, MERGE)
    assert (status, changed["url"]) == (200, "https://hooks.slack.com/***")
    assert changed["revision"] > made["revision"]
    assert secrets(call).current == f"{SLACK}3".encode()
    assert (await call("PATCH", PATH, {"page": "https://p/"}, MERGE))[1]["page"] == "https://p/"
    assert secrets(call).current == f"{SLACK}3".encode()
    status, problem = await call("PATCH", PATH, {"kind": "webhook"}, MERGE)
    assert (status, problem["code"]) == (409, "not-possible")
    assert (await call("POST", f"{PATH}/rotate", {}))[0] == 409
    assert (await call("POST", f"{PATH}/test"))[0] == 202
    texts = [msgspec.json.encode((await call("GET", path))[1]).decode() for path in (
        "/v1/webhooks", PATH, "/v1/jobs?namespace=_system", "/v1/instances?namespace=_system",
        "/v1/namespaces/_system/jobs/ops", "/v1/queues", "/v1/audit",
    )]  # fmt: skip
    assert [text for text in texts if "services" in text or "T0/B0" in text] == []


async def test_mails_keep_their_password_to_themselves(call: Client) -> None:
    given = {"name": "ops", "kind": "email", "smtp": {**SMTP, "user": "me", "password": "s3cr3t"}}
    status, made = await call("POST", "/v1/webhooks", {**given, "at_most": {"count": 10, "per": "1h"}})
    assert (status, made["secret"], made["url"]) == (201, None, None)
    shown = {**SMTP, "port": 587, "tls": "starttls", "user": "***", "password": "***"}
    assert (made["smtp"], made["at_most"]) == (shown, {"count": 10, "per": "1h"})
    assert msgspec.json.decode(secrets(call).current) == {"user": "me", "password": "s3cr3t"}
    made.pop("secret")
    assert (await call("PUT", PATH, made))[1]["revision"] == made["revision"]  # as it is shown it is no change
    change = {"smtp": {"to": ["c@b.example"], "tls": "tls", "port": None}}
    status, changed = await call("PATCH", PATH, change, MERGE)
    assert (status, changed["smtp"]["to"], changed["smtp"]["port"]) == (200, ["c@b.example"], 465)
    assert msgspec.json.decode(secrets(call).current)["password"] == "s3cr3t"
    login = {"user": "you", "password": "0ther"}
    assert (await call("PATCH", PATH, {"smtp": login}, MERGE))[0] == 200
    assert msgspec.json.decode(secrets(call).current) == login
    status, changed = await call("PATCH", PATH, {"smtp": {"user": None, "password": None}}, MERGE)
    assert (status, changed["smtp"]["user"]) == (200, None)
    assert (await call("PATCH", PATH, {"smtp": {"user": "***", "password": "***"}}, MERGE))[0] in (400, 422)
    assert (await call("POST", f"{PATH}/test"))[0] == 202
    texts = [msgspec.json.encode((await call("GET", path))[1]).decode() for path in (
        "/v1/webhooks", PATH, "/v1/jobs?namespace=_system", "/v1/instances?namespace=_system",
        "/v1/namespaces/_system/jobs/ops", "/v1/queues", "/v1/audit",
    )]  # fmt: skip
    assert not any("s3cr3t" in text or "0ther" in text for text in texts)


async def test_a_rotation_shows_the_new_secret_and_keeps_the_old_for_a_while(call: Client) -> None:
    _, made = await call("POST", "/v1/webhooks", HOOK)
    key = {"Idempotency-Key": "k"}
    status, rotated = await call("POST", f"{PATH}/rotate", {"overlap": "1h"}, key)
    assert (status, rotated["previous_secret_until"]) == (200, "2030-01-01T01:00:00.000Z")
    assert webhooks.decode_secret(rotated["secret"]) == secrets(call).current
    assert secrets(call).previous == webhooks.decode_secret(made["secret"])
    assert (await call("POST", f"{PATH}/rotate", {"overlap": "1h"}, key))[1] == rotated
    assert secrets(call).previous == webhooks.decode_secret(made["secret"])  # not rotated again
    status, rotated = await call("POST", f"{PATH}/rotate", {"secret": GIVEN, "overlap": "0s"})
    assert (status, rotated["secret"], rotated["previous_secret_until"]) == (200, None, None)
    assert secrets(call) == Secrets(b"g" * 32)
    assert (await call("POST", f"{PATH}/rotate"))[0] == 200
    for body, at in (
        ({"overlap": "8d"}, "/overlap"),
        ({"overlap": "soon"}, "/overlap"),
        ({"secret": "whsec_short"}, "/secret"),
        ({"secret": "x" * 40}, "/secret"),
        ({"old": 1}, "/old"),
    ):
        status, problem = await call("POST", f"{PATH}/rotate", body)
        assert (status, problem["errors"][0]["pointer"]) == (422, at)
        assert "short" not in str(problem)
    assert (await call("POST", "/v1/webhooks/none/rotate", {}))[0] == 404
    stale = {"If-Match": '"999"'}
    assert (await call("POST", f"{PATH}/rotate", {}, stale))[0] == 412


@pytest.mark.parametrize(
    "change, at, words",
    [
        ({"name": None}, "/name", "missing"),
        ({"name": "Ops!"}, "/name", "rule"),
        ({"url": None}, "/url", "missing"),
        ({"url": "ftp://h/"}, "/url", "http://"),
        ({"url": "http://user:word@h/"}, "/url", "password"),
        ({"url": "http://h\\other/"}, "/url", "backslash"),
        ({"url": "http:///x"}, "/url", "http://"),
        ({"secret": "hello"}, "/secret", "whsec_"),
        ({"secret": 5}, "/secret", "whsec_"),
        ({"events": ["broken"]}, "/events/0", "dead_letter"),
        ({"filter": {"namespace": "No"}}, "/filter/namespace", "1 to 64"),
        ({"filter": {"queue": "No"}}, "/filter/queue", "1 to 128"),
        ({"filter": {"owner": "x" * 200}}, "/filter/owner", "128"),
        ({"filter": {"labels": {"": "x"}}}, "/filter/labels/", "key"),
        ({"filter": {"team": "x"}}, "/filter/team", "not a known field"),
        ({"headers": {"A b": "x"}}, "/headers/A b", "not a header name"),
        ({"headers": {"X": "a\nb"}}, "/headers/X", "one line"),
        ({"headers": {"Host": "x"}}, "/headers/Host", "leave it out"),
        ({"headers": {"Webhook-Signature": "x"}}, "/headers/Webhook-Signature", "leave it out"),
        ({"headers": {"content-type": "x"}}, "/headers/content-type", "leave it out"),
        ({"headers": {"X": "x" * 1_025}}, "/headers/X", "too long"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "/headers", "twice"),
        ({"headers": {f"X{i}": "" for i in range(21)}}, "/headers", "at most 20"),
        ({"timeout": "0s"}, "/timeout", "from 1s to 5m"),
        ({"timeout": "6m"}, "/timeout", "from 1s to 5m"),
        ({"retry_delays": ["soon"]}, "/retry_delays/0", "duration"),
        ({"retry_delays": ["1s"] * 21}, "/retry_delays", "at most 20"),
        ({"max_running": 0}, "/max_running", "1 to 100"),
        ({"active": "yes"}, "/active", "true or false"),
        ({"color": "red"}, "/color", "not a known field"),
        ({"events": ["late"]}, "/events/0", "dead_letter"),
        ({"cluster_events": ["failed"]}, "/cluster_events/0", "leader_changed"),
        ({"kind": "pager"}, "/kind", "slack"),
        ({"kind": "slack", "secret": GIVEN}, "/secret", "whose events are signed"),
        ({"kind": "slack", "url": "https://hooks.slack.com/***"}, "/url", "is hidden"),
        ({"page": "here"}, "/page", "http://"),
        ({"at_most": {"count": 0, "per": "1h"}}, "/at_most/count", "1 to 10,000"),
        ({"at_most": {"count": 1, "per": "2d"}}, "/at_most/per", "from 1s to 1d"),
        ({"at_most": {"count": 1}}, "/at_most/per", "is missing"),
        ({"smtp": {"host": "h", "from": "a@b", "to": ["c@d"]}}, "/smtp", "goes with the kind"),
        ({"kind": "email", "smtp": SMTP}, "/url", "goes with other kinds"),
        ({"kind": "email", "url": None}, "/smtp", "is missing"),
        ({**MAIL, "smtp": {**SMTP, "host": "a b"}}, "/smtp/host", "mail server"),
        ({**MAIL, "smtp": {**SMTP, "from": "a@x\r\nBcc: b@x"}}, "/smtp/from", "mail address"),
        ({**MAIL, "smtp": {**SMTP, "to": ["a@x", "Ana <b@x>"]}}, "/smtp/to/1", "mail address"),
        ({**MAIL, "smtp": {**SMTP, "to": ["a@x"] * 2}}, "/smtp/to", "twice"),
        ({**MAIL, "smtp": {**SMTP, "to": [f"a{n}@x" for n in range(21)]}}, "/smtp/to", "at most 20"),
        ({**MAIL, "smtp": {**SMTP, "to": []}}, "/smtp/to", "is missing"),
        ({**MAIL, "smtp": {**SMTP, "port": 70_000}}, "/smtp/port", "65,535"),
        ({**MAIL, "smtp": {**SMTP, "user": "me"}}, "/smtp/password", "go together"),
        ({**MAIL, "smtp": {**SMTP, "user": "***", "password": "x"}}, "/smtp/user", "leave both hidden"),
        ({**MAIL, "smtp": {**SMTP, "tls": "none", "user": "m", "password": "x"}}, "/smtp/tls", "starttls"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, change: dict[str, Any], at: str, words: str) -> None:
    body = {k: v for k, v in {**HOOK, **change}.items() if v is not None}
    status, problem = await call("POST", "/v1/webhooks", body)
    assert status == 422, problem
    assert [error["pointer"] for error in problem["errors"]] == [at]
    assert words in problem["errors"][0]["detail"]
    assert "hello" not in str(problem)
    assert (await call("GET", "/v1/webhooks"))[1]["items"] == []


async def test_a_hidden_login_needs_one_that_is_kept(call: Client) -> None:
    hidden = {**SMTP, "user": "***", "password": "***"}
    status, problem = await call("POST", "/v1/webhooks", {**HOOK, **MAIL, "smtp": hidden, "url": None})
    assert (status, [error["pointer"] for error in problem["errors"]]) == (400, ["/smtp/user"]), problem
    assert "none is kept" in problem["detail"]


async def test_a_patch_merges_and_conditions_are_kept(call: Client) -> None:
    _, made = await call("POST", "/v1/webhooks", {**HOOK, "headers": {"X-A": "1", "X-B": "2"}})
    tag = call.headers["ETag"]
    change = {"filter": {"owner": "ana"}, "headers": {"X-A": None}, "retry_delays": ["1s"], "timeout": None}
    status, changed = await call("PATCH", PATH, change, {**MERGE, "If-Match": tag})
    assert (status, changed["filter"]["owner"], changed["headers"]) == (200, "ana", {"X-B": "2"})
    assert (changed["events"], changed["retry_delays"]) == (made["events"], ["1s"])
    assert changed["revision"] > made["revision"]
    assert (await call("PATCH", PATH, {"active": False}, {**MERGE, "If-Match": tag}))[0] == 412
    assert (await call("PUT", PATH, HOOK, {"If-Match": tag}))[0] == 412
    assert (await call("PUT", PATH, HOOK, {"If-None-Match": "*"}))[0] == 412
    assert (await call("DELETE", PATH, headers={"If-Match": tag}))[0] == 412
    status, changed = await call("PATCH", PATH, {"active": False, "filter": {"owner": None}}, MERGE)
    assert (status, changed["active"], changed["filter"]["owner"]) == (200, False, None)
    assert (await call("PATCH", "/v1/webhooks/none", {}, MERGE))[0] == 404
    assert (await call("PUT", "/v1/webhooks/none", HOOK, {"If-Match": "*"}))[0] in (412, 422)
    for body, at in (
        ({"revision": 3}, "/revision"),
        ({"color": None}, "/color"),
        ({"filter": {"x": None}}, "/filter/x"),
        ({"url": None}, "/url"),
        ({"name": "two"}, "/name"),
    ):
        status, problem = await call("PATCH", PATH, body, MERGE)
        assert (status, problem["errors"][0]["pointer"]) == (422, at)
    assert (await call("PATCH", PATH, [], MERGE))[0] == 422
    assert (await call("PATCH", PATH, {"secret": GIVEN}, MERGE))[0] == 409


async def test_a_put_by_name_makes_one_or_sets_it_anew(call: Client) -> None:
    body = {k: v for k, v in HOOK.items() if k != "name"}
    status, made = await call("PUT", PATH, body)
    assert (status, made["secret"] is None, call.headers["Location"]) == (201, False, PATH)
    status, changed = await call("PUT", PATH, {"url": "https://two.example/"})
    assert (status, changed["url"], changed["events"], changed["secret"]) == (200, "https://two.example/", [], None)
    status, problem = await call("PUT", PATH, {**HOOK, "name": "other"})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/name")
    assert (await call("PUT", "/v1/webhooks/No", HOOK))[0] == 404
    status, problem = await call("POST", "/v1/webhooks", HOOK)
    assert (status, problem["code"]) == (409, "not-possible")


async def test_lists_are_paged(call: Client) -> None:
    for i in range(5):
        await call("POST", "/v1/webhooks", {"name": f"w{i}", "url": "http://h/"})
    _, first = await call("GET", "/v1/webhooks?limit=3")
    _, second = await call("GET", f"/v1/webhooks?limit=3&cursor={first['next']}")
    assert [w["name"] for w in first["items"] + second["items"]] == [f"w{i}" for i in range(5)]
    assert second["next"] is None


async def test_a_test_makes_a_delivery_to_look_at(call: Client) -> None:
    await call("POST", "/v1/webhooks", HOOK)
    key = {"Idempotency-Key": "k"}
    status, made = await call("POST", f"{PATH}/test", {}, key)
    assert (status, call.headers["Location"]) == (202, f"/v1/instances/{made['id']}")
    assert (made["state"], made["manual"], made["event"]["type"]) == ("WAITING", False, "io.raftsched.webhook.test")
    assert (await call("POST", f"{PATH}/test", {}, key))[1]["id"] == made["id"]
    assert (await call("GET", PATH))[1]["waiting"] == 1
    _, explained = await call("GET", f"/v1/instances/{made['id']}/explain")
    assert "delivers an event" in explained["text"]
    await call("PATCH", PATH, {"active": False}, MERGE)
    assert (await call("POST", f"{PATH}/test"))[0] == 409
    assert (await call("POST", "/v1/webhooks/none/test"))[0] == 404


# ---------------------------------------------------------------- hidden, but by their namespace


async def test_deliveries_are_hidden_but_by_their_namespace(call: Client) -> None:
    await call("POST", "/v1/webhooks", {**HOOK, "events": ["failed"]})
    instance = await ended(call)
    delivery = (await call("GET", "/v1/instances?namespace=_system"))[1]["items"][0]
    assert delivery["event"] == {
        "id": delivery["event"]["id"], "type": "io.raftsched.instance.failed", "subject": instance,
    }  # fmt: skip
    cluster = call.cluster
    number = cluster.sessions["n1"]
    key = parse_instance(delivery["id"])
    assert key is not None
    await call("PATCH", PATH, {"retry_delays": []}, MERGE)
    (answer,) = cluster.apply(Assign(key, number))
    now = cluster.clock.wall
    cluster.apply(Ended(number, getattr(answer, "number", 0), Outcome.FAILED, now, now))
    for path in ("/v1/instances", "/v1/dead-letters"):
        _, shown = await call("GET", path)
        assert [one["id"] for one in shown["items"]] == [instance], path
        _, hidden = await call("GET", f"{path}?namespace=_system")
        assert [one["id"] for one in hidden["items"]] == [delivery["id"]], path
    _, jobs = await call("GET", "/v1/jobs")
    assert [job["namespace"] for job in jobs["items"]] == ["default"]
    _, jobs = await call("GET", "/v1/jobs?namespace=_system")
    assert [job["name"] for job in jobs["items"]] == ["ops"]
    assert (await call("GET", "/v1/namespaces/_system/jobs/ops/instances"))[1]["items"][0]["id"] == delivery["id"]
    _, stats = await call("GET", "/v1/stats")
    assert (stats["instances"]["FAILED"], stats["dead_letters"], stats["jobs"]["SCHEDULED"]) == (1, 1, 1)
    assert (await call("GET", "/v1/stats?namespace=_system"))[1]["instances"]["FAILED"] == 1
    _, text = await call("GET", "/metrics")
    assert 'raftsched_jobs{state="SCHEDULED"} 1.0' in text
    for line in ("active", "failures_in_a_row"):
        assert f'raftsched_webhook_{line}{{webhook="ops"}} 1.0' in text
    for line in ("waiting", "dropped_total"):
        assert f'raftsched_webhook_{line}{{webhook="ops"}} 0.0' in text
    _, events = await call("GET", "/v1/events?follow=false")
    assert '"namespace":"_system"' not in events
    assert "webhook.changed" in events
    assert '"namespace":"_system"' in (await call("GET", "/v1/events?follow=false&namespace=_system"))[1]
    status, done = await call("POST", "/v1/dead-letters/requeue", {"all": True})
    assert (status, done["requeued"]) == (200, 1)
    status, done = await call("POST", "/v1/dead-letters/requeue", {"filter": {"namespace": "_system"}})
    assert (status, done["requeued"]) == (200, 1)


async def test_their_jobs_are_nobody_elses(call: Client) -> None:
    _, made = await call("POST", "/v1/webhooks", HOOK)
    path = f"/v1/jobs/{made['job_id']}"
    for method, at, body in (
        ("DELETE", "", None),
        ("PATCH", "", {"timeout": "1m"}),
        ("PUT", "", JOB),
        ("POST", "/pause", {}),
        ("POST", "/run", {}),
        ("POST", "/expire", {}),
        ("DELETE", "/state", None),
    ):
        status, problem = await call(method, path + at, body)
        assert (status, problem["code"]) == (409, "illegal-transition"), (method, at)
        assert "/v1/webhooks/ops" in problem["detail"]
    status, problem = await call("POST", "/v1/jobs", {**JOB, "namespace": "_system"})
    assert (status, problem["errors"][0]["pointer"]) == (422, "/namespace")
    assert (await call("PUT", "/v1/namespaces/_system/jobs/x", JOB))[0] == 422
    status, answer = await call("DELETE", "/v1/jobs?all=true")
    assert (status, answer["deleted"]) == (200, 0)
    assert (await call("GET", PATH))[0] == 200
    assert (await call("PUT", "/v1/queues/_webhooks.ops", {"max_running": 9}))[0] == 409
    assert (await call("PATCH", "/v1/queues/_webhooks.ops", {"max_running": 9}, MERGE))[0] == 409
    assert (await call("DELETE", "/v1/queues/_webhooks.ops"))[0] == 409


# ---------------------------------------------------------------- jobs that name one


async def test_a_job_names_webhooks(call: Client) -> None:
    notify = {"on": ["dead_letter"], "webhook": "ops"}
    path = "/v1/namespaces/default/jobs/j"
    for method, at, body in (
        ("POST", "/v1/jobs", {**JOB, "notify": notify}),
        ("PUT", path, {**JOB, "notify": notify}),
        ("POST", f"{path}/compare", {**JOB, "notify": notify}),
    ):
        status, problem = await call(method, at, body)
        assert (status, problem["code"]) == (422, "invalid-job"), (method, at)
        detail = 'names the webhook "ops", which is not there; create it first'
        wrong = {"pointer": "/notify/webhook", "detail": detail, "code": "unknown-reference"}
        assert problem["errors"] == [wrong]
    _, batch = await call("POST", "/v1/jobs:batch", [{**JOB, "notify": notify}, JOB])
    assert [one["status"] for one in batch["items"]] == [422, 201]
    assert batch["items"][0]["errors"][0]["pointer"] == "/notify/webhook"
    for name in ("ops", "two"):
        await call("POST", "/v1/webhooks", {"name": name, "url": "http://h/"})
    status, job = await call("PUT", path, {**JOB, "notify": [notify]})
    assert (status, job["notify"]) == (201, notify)  # one stands for itself
    assert (await call("GET", path))[1] == job
    same = {**JOB, "notify": {"on": ["dead_letter", "dead_letter"], "webhook": "ops"}}
    assert (await call("POST", f"{path}/compare", same))[1]["result"] == "unchanged"
    assert (await call("PUT", path, job))[1]["revision"] == 1
    _, job = await call("PATCH", path, {"notify": {"on": ["failed", "killed"]}}, MERGE)
    assert job["notify"] == {"on": ["failed", "killed"], "webhook": "ops"}
    both = [notify, {"on": ["skipped"], "webhook": "two"}]
    _, job = await call("PATCH", path, {"notify": both}, MERGE)
    assert job["notify"] == both
    status, problem = await call("PATCH", path, {"notify": [*both, {"on": ["lost"], "webhook": "no"}]}, MERGE)
    assert (status, problem["errors"][0]["pointer"]) == (422, "/notify/2/webhook")
    status, problem = await call("DELETE", PATH)
    assert (status, problem["code"]) == (409, "illegal-transition")
    assert "default/j" in problem["detail"]
    _, job = await call("PATCH", path, {"notify": None}, MERGE)
    assert job["notify"] is None
    assert (await call("DELETE", PATH))[0] == 204


async def test_who_is_named_is_told(call: Client) -> None:
    await call("POST", "/v1/webhooks", {"name": "ops", "url": "http://h/"})
    instance = await ended(call, notify={"on": ["failed"], "webhook": "ops"}, owner="ana", labels={"a": "b"})
    await ended(call, Outcome.SUCCEEDED, notify={"on": ["failed"], "webhook": "ops"})
    await ended(call)
    items = (await call("GET", "/v1/instances?namespace=_system"))[1]["items"]
    assert [one["event"]["subject"] for one in items] == [instance]


def test_a_node_that_is_behind_does_not_say_that_there_is_none(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2"))
        try:
            async with serving(cluster, "n1") as one, serving(cluster, "n2") as two:
                await one("POST", "/v1/webhooks", HOOK)
                assert (await two("PATCH", PATH, {"active": False}, MERGE))[0] == 200
        finally:
            cluster.close()

    asyncio.run(main())


async def test_the_values_of_headers_are_for_those_who_may_put_them(call: Client) -> None:
    who = await guarded(call)
    given = {"Authorization": "Bearer of-the-receiver", "X-Team": "fin"}
    hidden = dict.fromkeys(given, "***")
    made = (await who["operator"]("POST", "/v1/webhooks", {**HOOK, "headers": given}))[1]
    assert made["headers"] == given
    own = await limited(who["admin"], "own", "operator", "billing")
    for caller, expected in (
        (who["viewer"], hidden),
        (who["editor"], hidden),
        (own, hidden),
        (who["operator"], given),
        (who["admin"], given),
    ):
        assert (await caller("GET", PATH))[1]["headers"] == expected
        (listed,) = (await caller("GET", "/v1/webhooks"))[1]["items"]
        assert listed["headers"] == expected

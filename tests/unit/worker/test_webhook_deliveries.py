"""From a delivery to a signed request."""

from __future__ import annotations

import msgspec
import pytest

from raftsched import webhooks
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Outcome
from raftsched.core.rows import decode_webhook
from raftsched.core.subjects.notices import Event
from raftsched.core.subjects.webhook import DeleteWebhook, PutWebhook, Receiver, RotateSecret, WebhookSpec
from raftsched.core.tables import Table
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.processes.wire import Http
from raftsched.worker.tasks.tasks import BadJob
from raftsched.worker.tasks.webhook_deliveries import KEPT_BYTES, delivery_of
from tests.support.memory_view import T0, World

OLD, NEW = b"o" * 32, b"n" * 32
URL = "https://ops.example/hook?x=1"


def delivering() -> tuple[World, bytes]:
    """A world with one delivery, assigned; its key."""
    world = World()
    session = world.session()
    spec = WebhookSpec(url=URL, on=(Event.FAILED,), headers=(("X-Team", "fin"),), timeout_ms=7_000)
    world.ok(PutWebhook("ops", spec, OLD))
    world.run_once(world.run_now(world.create(name="report")), session, Outcome.FAILED)
    raw = world.view.get(Table.WEBHOOKS, b"ops")
    assert raw is not None
    (delivery,) = world.instances(decode_webhook(raw).job_id)
    world.assign(delivery.key, session)
    return world, delivery.key


def request(world: World, key: bytes, now_ms: int = T0) -> tuple[RunSpec, Http]:
    instance = world.instance(key)
    assert instance.live is not None
    spec = delivery_of(world.view, world.job(instance.job_id), instance, instance.live, now_ms)
    assert isinstance(spec.task, Http)
    return spec, spec.task


def test_the_request_is_signed_as_it_is_sent() -> None:
    world, key = delivering()
    spec, task = request(world, key, T0 + 999)
    live = world.instance(key).live
    assert live is not None
    assert (spec.token, spec.session, spec.timeout_ms) == (live.token, live.session, 7_000)
    assert (task.method, task.url, task.expect, task.keep) == ("POST", URL, (), KEPT_BYTES)
    assert (task.headers["Content-Type"], task.headers["X-Team"]) == ("application/cloudevents+json", "fin")
    event = webhooks.verify(webhooks.encode_secret(OLD), task.headers, task.body, now_s=T0 // 1000)
    assert event["id"] == task.headers["webhook-id"] == f"evt_{job_text(world.instance(key).request)}"
    assert (event["type"], event["data"]["job_name"]) == ("io.raftsched.instance.failed", "report")
    assert OLD not in task.body
    assert not any("oooo" in value or webhooks.encode_secret(OLD) in value for value in task.headers.values())


def test_to_slack_sentences_are_sent_and_the_address_stays_hidden() -> None:
    world = World()
    session = world.session()
    path = "/services/T0/B0/secret"
    spec = WebhookSpec(url="https://hooks.slack.com", on=(Event.FAILED,), receiver=Receiver.SLACK, page="https://p/")
    world.ok(PutWebhook("ops", spec, b"https://hooks.slack.com" + path.encode()))
    job = world.create(name="report")
    key = world.run_now(job)
    world.assign(key, session)
    world.end(key, Outcome.FAILED, exit_code=3, error="<!channel> no paper")
    raw = world.view.get(Table.WEBHOOKS, b"ops")
    assert raw is not None
    (delivery,) = world.instances(decode_webhook(raw).job_id)
    assert world.job(delivery.job_id).policy.target == "hooks.slack.com:443"
    assert b"secret" not in world.job(delivery.job_id).body
    world.assign(delivery.key, session)
    _, task = request(world, delivery.key)
    assert (task.method, task.url, task.expect) == ("POST", f"https://hooks.slack.com{path}", ())
    assert task.headers["Content-Type"] == "application/json"
    assert not any(name.startswith("webhook-") for name in task.headers)
    assert task.hidden == (task.url, path)
    text = msgspec.json.decode(task.body)["text"]
    first, fence, error, end, link = text.split("\n")
    assert first.startswith("The run of default/report for 2025-11-20 01:00:00 UTC failed with exit code 3. It is ")
    assert first.endswith(", attempt 1 ran on n2.")
    assert (fence, error, end) == ("```", "&lt;!channel&gt; no paper", "```")
    assert link == f"<https://p/ui/runs/{instance_text(key)}>"


def test_a_retry_sends_the_same_under_a_new_signature() -> None:
    world, key = delivering()
    _, first = request(world, key, T0)
    _, second = request(world, key, T0 + 60_000)
    assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


def test_both_secrets_sign_until_the_overlap_is_over() -> None:
    world, key = delivering()
    world.ok(RotateSecret("ops", NEW, 60_000))
    _, task = request(world, key, world.now + 59_000)
    for secret in (OLD, NEW):
        webhooks.verify(webhooks.encode_secret(secret), task.headers, task.body, now_s=(world.now + 59_000) / 1000)
    _, task = request(world, key, world.now + 60_000)
    webhooks.verify(webhooks.encode_secret(NEW), task.headers, task.body, now_s=world.now / 1000)
    with pytest.raises(webhooks.VerificationError):
        webhooks.verify(webhooks.encode_secret(OLD), task.headers, task.body, now_s=world.now / 1000)


def test_what_was_changed_holds_for_what_waits() -> None:
    world, key = delivering()
    world.ok(PutWebhook("ops", WebhookSpec(url="http://other.example/", timeout_ms=2_000)))
    spec, task = request(world, key)
    assert (task.url, spec.timeout_ms) == ("http://other.example/", 2_000)
    assert "X-Team" not in task.headers


def test_of_a_deleted_one_nothing_is_sent() -> None:
    world, key = delivering()
    world.ok(DeleteWebhook("ops"))
    with pytest.raises(BadJob, match="deleted"):
        request(world, key)
    world.ok(PutWebhook("ops", WebhookSpec(url=URL), NEW))  # another one of the same name
    with pytest.raises(BadJob, match="deleted"):
        request(world, key)

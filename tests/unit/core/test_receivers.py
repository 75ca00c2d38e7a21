"""What receives events: addresses that are secret, people by mail; and never more of them than the webhook wants."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from raftsched.bounds import HOUR_MS
from raftsched.core import commands as c
from raftsched.core.commands import Assign, NoteUnplaceable, OpenWorker, RaiseLevel, Rejected
from raftsched.core.levels import NODES_DELIVER
from raftsched.core.model import Job, Overlap
from raftsched.core.rows import SESSIONS, WEBHOOK_SECRETS
from raftsched.core.rules.allowed import Allowed
from raftsched.core.rules.eligibility import lacking, offer
from raftsched.core.subjects.cluster import NodeRule, Session
from raftsched.core.subjects.webhook import PutWebhook, Receiver, RotateSecret, Smtp, TestWebhook, Tls, WebhookSpec
from tests.support.memory_view import T0, World
from tests.unit.core.hooks import ALL, SECRET, URL, deliveries, hook, row, told

ORIGIN = "https://hooks.slack.com"
SLACK = WebhookSpec(url=ORIGIN, receiver=Receiver.SLACK)
SERVER = Smtp(host="mail.test", port=587, tls=Tls.STARTTLS, sender="r@a.test", to=("a@b.test",))
MAIL = WebhookSpec(url="", receiver=Receiver.EMAIL, smtp=SERVER)
LOGIN = replace(MAIL, smtp=replace(SERVER, login=True))


def secret(world: World, name: str = "ops") -> bytes:
    held = WEBHOOK_SECRETS.get(world.view, name)
    assert held is not None
    return held.current


# ---------------------------------------------------------------- Slack


def test_a_slack_address_is_replaced_with_its_secret() -> None:
    world = World()
    world.ok(PutWebhook("ops", SLACK, f"{ORIGIN}/a".encode()))
    before = row(world).revision
    world.ok(PutWebhook("ops", SLACK))
    assert row(world).revision == before
    world.ok(PutWebhook("ops", SLACK, f"{ORIGIN}/b".encode()))
    assert (secret(world), row(world).revision > before) == (f"{ORIGIN}/b".encode(), True)
    assert world.refused(PutWebhook("ops", SLACK, f"{ORIGIN}/c".encode(), create=True)) == "not-possible"
    assert secret(world) == f"{ORIGIN}/b".encode()
    assert world.refused(RotateSecret("ops", SECRET, 0)) == "not-possible"
    assert world.refused(PutWebhook("two", SLACK)) == "invalid-parameter"
    assert world.refused(PutWebhook("two", replace(SLACK, url=f"{ORIGIN}/a"), b"x")) == "invalid-parameter"


def test_the_kind_stays() -> None:
    world = World()
    hook(world)
    assert world.refused(PutWebhook("ops", SLACK, b"https://h/x")) == "not-possible"
    assert world.refused(PutWebhook("ops", MAIL)) == "not-possible"
    assert world.refused(PutWebhook("ops", WebhookSpec(url=URL), b"t" * 32)) == "not-possible"  # rotate


def test_what_is_secret_goes_to_nodes_alone() -> None:
    world = World()
    world.ok(PutWebhook("ops", MAIL))
    policy = world.job(row(world).job_id).policy
    assert policy.target == "mail.test:587"
    node = Session(id=1, node="n2", boot_id="b", nonce=b"", ttl_ms=1, opened_at_ms=1, slots=1, handlers=("http",))
    worker = Session(
        id=2, node="worker/w", boot_id="b", nonce=b"", ttl_ms=1, opened_at_ms=1, slots=1, handlers=("http",)
    )
    assert offer(node, NodeRule()).can(policy, "_system")
    assert not offer(worker, NodeRule()).can(policy, "_system")
    closed = replace(node, allowed=Allowed(http_deny=("mail.test",)))
    assert not offer(closed, NodeRule()).can(policy, "_system")
    assert "http_deny names mail.test" in lacking([offer(closed, NodeRule())], policy, "_system")


def test_no_delivery_is_given_to_a_remote_worker() -> None:
    """The address and the headers of a plain webhook are secrets, too; and who delivers says what came of it."""
    world = World()
    policy_ = world.job(hook(world).job_id).policy
    world.ok(OpenWorker("worker/w", 0, b"n", 1, handlers=("http",)))
    session = SESSIONS.get(world.view, 1)
    assert session is not None
    worker = offer(session, NodeRule())
    assert worker.can(policy_, "default")
    assert not worker.can(policy_, "_system")
    assert not worker.can(replace(policy_, required_capability=""), "_system"), "whatever it takes"
    said = 'Events are delivered by nodes, not by remote workers, and no node has the handler "http".'
    assert lacking([worker], policy_, "_system") == said
    key = world.ok(TestWebhook("ops")).instance
    assert key is not None
    assert world.refused(Assign(key, 1)) == "not-possible"
    world.ok(Assign(key, world.session("n2")))


@pytest.mark.parametrize("level", [NODES_DELIVER - 1, NODES_DELIVER])
def test_all_nodes_begin_to_refuse_it_with_the_same_entry(level: int) -> None:
    world = World(level=level)
    hook(world)
    world.ok(OpenWorker("worker/w", 0, b"n", 1, handlers=("http",)))
    key = world.ok(TestWebhook("ops")).instance
    assert key is not None
    answer = world.do(NoteUnplaceable(key, "no node"))
    assert isinstance(answer, Rejected) == (level < NODES_DELIVER), "a worker can take it, as earlier versions have it"
    if level < NODES_DELIVER:
        world.run(RaiseLevel(NODES_DELIVER), NoteUnplaceable(key, "no node"))
        assert world.instance(key).error == "no node"


# ---------------------------------------------------------------- mail


def test_user_and_password_are_kept_until_others_are_given_or_none_are_needed() -> None:
    world = World()
    assert world.refused(PutWebhook("ops", LOGIN)) == "invalid-parameter"
    world.ok(PutWebhook("ops", LOGIN, b"one"))
    world.ok(PutWebhook("ops", replace(LOGIN, max_running=2)))
    assert secret(world) == b"one"
    world.ok(PutWebhook("ops", LOGIN, b"two"))
    assert secret(world) == b"two"
    world.ok(PutWebhook("ops", MAIL))
    assert secret(world) == b""
    assert world.refused(PutWebhook("ops", LOGIN)) == "invalid-parameter"
    assert world.refused(PutWebhook("ops", LOGIN, b"x" * 3_000)) == "invalid-parameter"


def test_a_mail_server_goes_with_mails() -> None:
    world = World()
    for spec in (
        replace(MAIL, smtp=None),
        replace(MAIL, url=URL),
        WebhookSpec(url=URL, smtp=SERVER),
        replace(MAIL, smtp=replace(SERVER, to=())),
    ):
        assert world.refused(PutWebhook("ops", spec, SECRET)) == "invalid-parameter"


# ---------------------------------------------------------------- not too many


def failing(world: World) -> tuple[Job, int]:
    return world.create(overlap=Overlap.ALLOW), world.session()


def end_many(world: World, job: Job, session: int, count: int) -> None:
    for _ in range(count):
        world.forward(1_000)
        world.run_once(world.run_now(job, world.index + 1), session)


def test_what_comes_beyond_so_many_in_a_time_is_counted_and_said_in_the_next() -> None:
    world = World()
    hook(world, on=ALL, most=3, most_per_ms=HOUR_MS)
    job, session = failing(world)
    end_many(world, job, session, 50)
    assert len(told(world)) == 3
    assert (row(world).left_out, row(world).dropped) == (47, 0)
    assert [notice.left_out for notice in told(world)] == [0, 0, 0]
    world.ok(TestWebhook("ops"))  # is not one of them
    assert len(deliveries(world)) == 4
    world.now = told(world)[0].at_ms + HOUR_MS - 1_000
    end_many(world, job, session, 1)
    newest = [notice for notice in told(world) if notice.event is not None]
    assert [notice.left_out for notice in newest] == [0, 0, 0, 47]
    assert row(world).left_out == 0
    end_many(world, job, session, 5)
    assert (len(told(world)), row(world).left_out) == (7, 3)


def test_a_clock_that_goes_back_begins_a_new_time() -> None:
    world = World()
    hook(world, on=ALL, most=1, most_per_ms=HOUR_MS)
    job, session = failing(world)
    end_many(world, job, session, 2)
    world.now = T0 - 10 * HOUR_MS
    end_many(world, job, session, 1)
    assert len(told(world)) == 2


def test_webhooks_without_a_limit_are_as_before() -> None:
    world = World()
    hook(world, on=ALL)
    job, session = failing(world)
    end_many(world, job, session, 3)
    assert (len(told(world)), row(world).counted, row(world).counted_from_ms) == (3, 0, 0)
    assert world.refused(PutWebhook("ops", WebhookSpec(url=URL, most=1))) == "invalid-parameter"
    assert world.refused(PutWebhook("ops", WebhookSpec(url=URL, most=1, most_per_ms=1))) == "invalid-parameter"
    assert world.in_one_batch() == world.view.dump()
    assert isinstance(world.ok(c.Barrier()), c.Accepted)

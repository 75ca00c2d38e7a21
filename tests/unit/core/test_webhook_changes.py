"""Webhooks are created, changed, tested, and get other secrets; what is theirs is the cluster's own."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest

from raftsched.core import commands as c
from raftsched.core.apply import apply_entry
from raftsched.core.model import (
    JobState,
    Outcome,
    Overlap,
)
from raftsched.core.rows import decode_secrets
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import match, walk
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE, Event
from raftsched.core.subjects.webhook import (
    WEBHOOKS_MAX,
    DeleteWebhook,
    PutWebhook,
    ResealWebhook,
    RotateSecret,
    TestWebhook,
    WebhookSpec,
)
from raftsched.core.tables import Table, u64
from tests.support.memory_view import T0, MemoryView, World, policy
from tests.unit.core.hooks import ALL, SECRET, URL, deliveries, hook, row, told


def test_nobody_else_does_anything_to_its_job_or_queue() -> None:
    world = World()
    job_id = hook(world).job_id
    for command in (
        c.EditJob(job_id, policy(), b"{}", name="ops"),
        c.SetJobState(job_id, JobState.SUSPENDED),
        c.DeleteJob(job_id),
        c.RunNow(job_id, 1),
        c.Backfill(job_id, 1, (T0 - 1,)),
    ):
        assert world.refused(command) == "illegal-transition"
    assert world.refused(c.PutQueue("_webhooks.ops", 9)) == "not-possible"
    assert world.refused(c.DeleteQueue("_webhooks.ops")) == "not-possible"
    assert world.refused(c.CreateJob(SYSTEM_NAMESPACE, "x", policy(), b"{}")) == "invalid-job"
    assert world.refused(c.CreateJob("default", "x", policy(queue="_webhooks.ops"), b"{}")) == "invalid-job"


def test_no_filter_but_their_namespace_finds_them() -> None:
    world = World()
    job_id = hook(world).job_id
    raw = world.view.get(Table.JOBS, u64(job_id)) or b""
    assert match(JobFilter(), raw) is None
    assert match(JobFilter(name="ops"), raw) is None
    wanted = JobFilter(namespace=SYSTEM_NAMESPACE)
    assert match(wanted, raw) is not None
    assert len(list(walk(wanted).rows(world.view))) == 1


def test_they_are_bounded_and_take_no_room_of_queues() -> None:
    world = World()
    world.settings(queues_max=1)
    for i in range(WEBHOOKS_MAX):
        hook(world, f"w{i}")
    assert world.refused(PutWebhook("more", WebhookSpec(url=URL), SECRET)) == "not-possible"
    world.ok(c.PutQueue("q", 1))
    assert world.refused(c.PutQueue("r", 1)) == "not-possible"


# ---------------------------------------------------------------- create, change, secrets


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "ftp://h/"},
        {"url": "http://"},
        {"url": "http://user:password@h/"},
        {"url": "http://h/a b"},
        {"url": "http://" + "h" * 2_048},
        {"timeout_ms": 999},
        {"max_running": 0},
        {"max_running": 101},
        {"delays_ms": (-1,)},
        {"delays_ms": (1,) * 21},
        {"headers": (("X", "a\r\nb"),)},
        {"headers": (("X:", "a"),)},
        {"headers": tuple((f"X{i}", "a") for i in range(21))},
        {"labels": (("", "x"),)},
        {"owner": "x" * 513},
    ],
)
def test_nothing_out_of_bounds_gets_in(fields: dict[str, Any]) -> None:
    world = World()
    spec = msgspec.structs.replace(WebhookSpec(url=URL), **fields)
    assert world.refused(PutWebhook("ops", spec, SECRET)) == "invalid-parameter"
    for name in ("", ".", "Ops", "a" * 65, "a/b"):
        assert world.refused(PutWebhook(name, WebhookSpec(url=URL), SECRET)) == "invalid-parameter"
    for secret in (b"", b"s" * 23, b"s" * 65):
        assert world.refused(PutWebhook("ops", WebhookSpec(url=URL), secret)) == "invalid-parameter"


def test_creating_again_is_harmless_and_conditions_are_kept() -> None:
    world = World()
    spec = WebhookSpec(url=URL)
    assert world.refused(PutWebhook("ops", spec, SECRET, if_revision=1)) == "not-found"
    assert world.ok(PutWebhook("ops", spec, SECRET, create=True)).created
    again = world.ok(PutWebhook("ops", spec, b"t" * 32, made=True, create=True))
    assert not again.created
    assert world.refused(PutWebhook("ops", spec, b"t" * 32, create=True)) == "not-possible"
    assert world.refused(PutWebhook("ops", WebhookSpec(url=URL + "2"), SECRET, create=True)) == "not-possible"
    assert world.refused(PutWebhook("ops", spec, if_none=True)) == "exists"
    revision = row(world).revision
    assert world.refused(PutWebhook("ops", spec, if_revision=revision + 1)) == "stale-revision"
    world.ok(PutWebhook("ops", spec, if_revision=revision))
    assert row(world).revision == revision  # nothing was changed
    world.ok(PutWebhook("ops", WebhookSpec(url=URL + "2"), if_revision=revision))
    assert row(world).revision > revision
    assert world.refused(DeleteWebhook("ops", revision)) == "stale-revision"


def test_after_a_rotation_both_secrets_hold_for_a_while() -> None:
    world = World()
    hook(world)

    def secrets() -> Any:
        return decode_secrets(world.view.get(Table.WEBHOOK_SECRETS, b"ops") or b"")

    world.ok(RotateSecret("ops", b"t" * 32, 60_000))
    assert (secrets().current, secrets().previous, secrets().previous_until_ms) == (
        b"t" * 32,
        SECRET,
        world.now + 60_000,
    )
    world.ok(RotateSecret("ops", b"t" * 32, 60_000))  # the same: no change
    assert secrets().previous == SECRET
    world.ok(RotateSecret("ops", b"u" * 32, 0))
    assert (secrets().current, secrets().previous) == (b"u" * 32, b"")
    assert world.refused(RotateSecret("ops", b"short", 0)) == "invalid-parameter"
    assert world.refused(RotateSecret("ops", b"v" * 32, -1)) == "invalid-parameter"
    assert world.refused(RotateSecret("none", b"v" * 32, 0)) == "not-found"
    assert world.refused(RotateSecret("ops", b"v" * 32, 0, 1)) == "stale-revision"


def test_a_secret_stands_in_its_table_and_nowhere_else() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL)
    world.ok(RotateSecret("ops", b"t" * 32, 60_000))
    world.run_once(world.run_now(world.create()), session)
    for table, rows in world.view.dump().items():
        if table != Table.WEBHOOK_SECRETS.name:
            assert not any(SECRET in value or b"t" * 32 in value for _, value in rows), table
    shown = f"{PutWebhook('ops', WebhookSpec(url=URL), SECRET)} {RotateSecret('ops', SECRET, 0)}"
    assert "ssss" not in shown


def test_a_test_is_an_event_about_nothing() -> None:
    world = World()
    hook(world)
    answer = world.ok(TestWebhook("ops"))
    (delivery,) = deliveries(world)
    assert answer.instance == delivery.key
    assert [(n.event, n.instance) for n in told(world)] == [(None, b"")]
    assert world.refused(TestWebhook("none")) == "not-found"


def test_one_log_makes_the_same_deliveries() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL)
    hook(world, "two", on=(Event.DEAD_LETTER,))
    hook(world, "first", on=ALL)  # by name, not by time
    job = world.create(overlap=Overlap.ALLOW)
    for request in range(1, 6):
        world.run_once(world.run_now(job, request), session, Outcome.FAILED if request % 2 else Outcome.SUCCEEDED)
    again = MemoryView()
    for index, data in enumerate(world.log, 1):
        apply_entry(again, index, 1, data)
    assert again.dump() == world.in_one_batch() == world.view.dump()


def test_secrets_are_sealed_anew_as_they_are_or_not_at_all() -> None:
    world = World()
    hook(world)
    raw = world.view.get(Table.WEBHOOK_SECRETS, b"ops") or b""
    anew = ResealWebhook("ops", sha256(raw).digest(), b"c" * 48, b"n" * 20, b"digest")
    assert world.refused(msgspec.structs.replace(anew, was=b"other")) == "stale-revision"
    world.ok(anew)
    secrets = decode_secrets(world.view.get(Table.WEBHOOK_SECRETS, b"ops") or b"")
    assert (secrets.current, secrets.nonce, secrets.digest) == (b"c" * 48, b"n" * 20, b"digest")
    assert world.refused(anew) == "stale-revision"

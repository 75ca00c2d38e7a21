"""What an explanation says of the messages that a run has caused."""

from __future__ import annotations

import pytest

from raftsched.api.runs import notified
from raftsched.api.runs.notified import notifications_of
from raftsched.core import commands as c
from raftsched.core.commands import Watch
from raftsched.core.model import InstanceState, Outcome
from raftsched.core.subjects.notices import Event, Notify
from raftsched.core.tables import Table, from_u64
from tests.support.memory_view import World
from tests.unit.core.hooks import hook


def said(world: World, key: bytes) -> list[tuple[str, str, str]]:
    found = notifications_of(world.view, world.instance(key))
    return [(one.webhook, one.event, one.state) for one in found]


def test_each_webhook_and_its_messages_in_their_order() -> None:
    world = World()
    hook(world, "all", on=(Event.FAILED,))
    hook(world, "ops")
    hook(world, "other", on=(Event.SUCCEEDED,))
    session = world.session()
    notify = (Notify("ops", (Event.STARTED, Event.FAILED)),)
    job = world.create(name="report", notify=notify)
    key = world.run_now(job)
    assert said(world, key) == []
    token = world.assign(key, session)
    world.forward(5)
    world.ok(c.Started(session, token, world.now))
    world.forward(5)
    world.end(key, Outcome.FAILED)
    assert said(world, key) == [
        ("all", "failed", "WAITING"),
        ("ops", "started", "WAITING"),
        ("ops", "failed", "WAITING"),
    ]

    again = world.run_now(job)  # in the same moment, of the same job: its messages are its own
    assert said(world, again) == []
    assert len(said(world, key)) == 3


def test_what_becomes_of_a_message() -> None:
    world = World()
    hook(world, "ops", on=(Event.KILLED,))
    key = world.run_now(world.create(name="report"))
    world.ok(c.Kill(key))
    (told,) = notifications_of(world.view, world.instance(key))
    assert told.text == 'The webhook "ops" was told (killed): the message waits to be delivered (WAITING).'
    (delivery,) = [k for k, _ in world.view.scan(Table.INSTANCES) if world.instance(k).notice is not None]
    world.run_once(delivery, world.session())
    (told,) = notifications_of(world.view, world.instance(key))
    assert told.state == InstanceState.SUCCEEDED.name
    assert told.text == 'The webhook "ops" was told (killed): it has the message.'


def test_what_is_told_at_a_limit_is_found_among_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    hook(world, "ops")
    session = world.session()
    notify = (Notify("ops", (Event.RUNNING_LONG,), longer_ms=60_000),)
    key = world.run_now(world.create(name="report", notify=notify))
    world.ok(c.Started(session, world.assign(key, session), world.now))
    ((row, _),) = world.view.scan(Table.WATCHES)
    world.now = from_u64(row[:8])
    world.ok(Watch(row[8:], world.now))
    world.forward(1_000)
    assert said(world, key) == [("ops", "running_long", "WAITING")]
    world.end(key)
    world.forward(1_000)
    monkeypatch.setattr(notified, "LOOK_MAX", 1)
    other = world.run_now(world.create(name="other", notify=(Notify("ops", (Event.SUCCEEDED,)),)))
    world.run_once(other, session)
    assert said(world, key) == [("ops", "running_long", "WAITING")], "later ones are not in the way"

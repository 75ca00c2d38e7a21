"""Webhooks: each end is told once to each that asked for it, in the entry that brought it about."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.core import commands as c
from raftsched.core.actions import QueueChanged
from raftsched.core.apply import apply_entry
from raftsched.core.apply.runs.retention import ROWS_MAX
from raftsched.core.entry import encode_entry
from raftsched.core.levels import FAILING_IS_NOTED
from raftsched.core.model import Delivery, Job, Misfire, MisfirePolicy, Outcome, Overlap, Retry
from raftsched.core.model import InstanceState as I
from raftsched.core.subjects.notices import Event, Notify
from raftsched.core.subjects.webhook import (
    DeleteWebhook,
    PutWebhook,
    TestWebhook,
    WebhookSpec,
)
from raftsched.core.tables import LANE_FREE, Table
from tests.support.memory_view import MemoryView, World, every, policy
from tests.unit.core.hooks import ALL, URL, deliveries, hook, row, told


def endings(world: World, name: str = "ops") -> list[Event | None]:
    return [notice.event for notice in told(world, name)]


def end_as(world: World, job: Job, ending: Event, session: int) -> bytes:
    """Brings about an instance that ends so, and returns its key."""
    if ending is Event.SKIPPED:
        world.forward(HOUR_MS + 500)
        world.fire(job)
        return world.instances(job.id)[-1].key
    key = world.run_now(job, int(ending))
    if ending is Event.KILLED:
        world.ok(c.Kill(key))
        return key
    world.assign(key, session)
    if ending is Event.LOST:
        world.ok(c.EndSession(session, 1))
    else:
        outcome = {Event.SUCCEEDED: Outcome.SUCCEEDED, Event.TIMED_OUT: Outcome.TIMED_OUT}
        world.end(key, outcome.get(ending, Outcome.FAILED), exit_code=3, error="no paper")
    return key


OF_STATE = {
    Event.SUCCEEDED: I.SUCCEEDED,
    Event.FAILED: I.FAILED,
    Event.TIMED_OUT: I.TIMED_OUT,
    Event.KILLED: I.KILLED,
    Event.SKIPPED: I.SKIPPED,
    Event.DEAD_LETTER: I.FAILED,
    Event.LOST: I.FAILED,
}


@pytest.mark.parametrize("ending", ALL)
@pytest.mark.parametrize("by_itself", [True, False], ids=["webhook", "job"])
def test_each_end_is_told_once_to_who_asked_for_it(ending: Event, by_itself: bool) -> None:
    world = World()
    session = world.session()
    hook(world, "asks", on=(ending,) if by_itself else ())
    hook(world, "all", on=ALL)
    hook(world, "none")
    trigger = every(1_000) if ending is Event.SKIPPED else None
    notify = () if by_itself else (Notify("asks", (ending,)),)
    job = world.create(trigger, name="report", delivery=Delivery.AT_MOST_ONCE, overlap=Overlap.ALLOW, notify=notify)
    if ending is Event.SKIPPED:
        world.edit(job, misfire=Misfire(MisfirePolicy.SKIP, 0))
    key = end_as(world, job, ending, session)
    assert world.instance(key).state is OF_STATE[ending]
    assert endings(world, "asks") == [ending]
    (notice,) = told(world, "asks")
    assert (notice.instance, notice.namespace, notice.job_name, notice.state) == (
        key, "default", "report", OF_STATE[ending],
    )  # fmt: skip
    assert told(world, "none") == []
    of_all = [n for n in told(world, "all") if n.instance == key]
    assert len(of_all) == 1
    assert of_all[0].id == notice.id  # one event, whoever is told


def test_it_is_told_in_the_entry_that_brought_it_about() -> None:
    world = World()
    session = world.session()
    hook(world, on=(Event.FAILED,))
    job = world.create()
    key = world.run_now(job)
    token = world.assign(key, session)
    assert deliveries(world) == []
    world.run(c.Ended(session, token, Outcome.FAILED, world.now, world.now, 3, "no paper"))
    (delivery,) = deliveries(world)
    assert (delivery.state, delivery.created_at_ms, delivery.steps[0].index) == (I.WAITING, world.now, world.index)
    (notice,) = told(world)
    assert (notice.exit_code, notice.error, notice.attempt, notice.node) == (3, "no paper", 1, "n2")
    assert (notice.at_ms, notice.started_at_ms, notice.dead_letter) == (world.now, world.now, True)


def test_what_says_most_is_told_of_what_was_asked_for() -> None:
    world = World()
    session = world.session()
    hook(world, "both", on=(Event.FAILED, Event.DEAD_LETTER))
    hook(world, "lost", on=(Event.FAILED, Event.LOST))
    job = world.create(overlap=Overlap.ALLOW, max_lost=0, notify=(Notify("both", (Event.FAILED,)),))
    key = world.run_now(job, 1)
    world.run_once(key, session, Outcome.FAILED)
    assert endings(world, "both") == [Event.DEAD_LETTER]
    assert endings(world, "lost") == [Event.FAILED]
    end_as(world, job, Event.LOST, session)
    assert endings(world, "both") == [Event.DEAD_LETTER] * 2
    assert endings(world, "lost") == [Event.FAILED, Event.LOST]


def test_retries_are_no_ends_and_each_end_after_a_rerun_is_one_more() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL)
    job = world.create(retry=Retry((1_000,)))
    key = world.run_now(job)
    world.run_once(key, session, Outcome.FAILED)
    assert told(world) == []
    wake = world.instance(key).wake_at_ms
    assert wake is not None
    world.now = wake
    world.ok(c.Wake(key, wake))
    world.run_once(key, session)
    world.ok(c.Rerun(key))
    world.run_once(key, session)
    ids = [notice.id for notice in told(world)]
    assert len(set(ids)) == 2
    assert endings(world) == [Event.SUCCEEDED] * 2


@pytest.mark.parametrize(
    "fields, fits",
    [
        ({}, True),
        ({"namespace": "default"}, True),
        ({"namespace": "other"}, False),
        ({"owner": "ana"}, True),
        ({"owner": "bo"}, False),
        ({"labels": (("team", "fin"),)}, True),
        ({"labels": (("team", "fin"), ("x", "y"))}, False),
        ({"queue": "q"}, True),
        ({"queue": "r"}, False),
        ({"active": False}, False),
    ],
)
def test_the_filter_chooses_jobs(fields: dict[str, Any], fits: bool) -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL, **fields)
    body = b'{"owner":"ana","labels":{"team":"fin"}}'
    job = world.ok(c.CreateJob("default", None, policy(queue="q"), body)).job
    assert job is not None
    world.run_once(world.run_now(job), session)
    assert len(told(world)) == fits
    if fits:
        assert (told(world)[0].owner, told(world)[0].labels) == ("ana", (("team", "fin"),))


def test_a_gap_is_told_when_it_begins() -> None:
    world = World()
    hook(world, on=(Event.SKIPPED,))
    session = world.session()
    job = world.create(every(1_000))
    world.fire(job)  # runs
    key = world.instances(job.id)[0].key
    world.assign(key, session)
    for _ in range(3):
        world.fire(job)
    assert world.instances(job.id)[-1].gap_count == 3
    assert [(n.event, n.skipped, n.reason) for n in told(world)] == [(Event.SKIPPED, 1, "overlap")]


def test_deliveries_are_retried_then_dead_and_never_told_about() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL, delays_ms=(1_000, 60_000))
    job = world.create()
    world.run_once(world.run_now(job), session)
    (delivery,) = deliveries(world)
    for level in range(3):
        world.run_once(delivery.key, session, Outcome.FAILED)
        delivery = world.instance(delivery.key)
        if level < 2:
            assert delivery.state is I.RETRYING
            assert delivery.wake_at_ms is not None
            world.now = delivery.wake_at_ms
            world.ok(c.Wake(delivery.key, delivery.wake_at_ms))
    assert (delivery.state, delivery.dead_letter) == (I.FAILED, True)
    assert len(deliveries(world)) == 1  # no loops
    world.ok(c.Requeue(delivery.key))
    world.run_once(delivery.key, session)
    assert world.instance(delivery.key).state is I.SUCCEEDED
    assert told(world)[0].id == delivery.request


def test_fewer_retries_hold_for_what_waits_already() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL, delays_ms=(1_000, 1_000, 1_000))
    world.run_once(world.run_now(world.create()), session)
    (delivery,) = deliveries(world)
    world.run_once(delivery.key, session, Outcome.FAILED)
    world.ok(PutWebhook("ops", WebhookSpec(url=URL, on=ALL, delays_ms=())))
    wake = world.instance(delivery.key).wake_at_ms
    assert wake is not None
    world.now = wake
    world.ok(c.Wake(delivery.key, wake))
    world.run_once(delivery.key, session, Outcome.FAILED)
    assert world.instance(delivery.key).state is I.FAILED


def test_no_more_go_on_at_one_time_than_the_webhook_says() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL, max_running=1)
    job = world.create(overlap=Overlap.ALLOW)
    for request in (1, 2):
        world.run_once(world.run_now(job, request), session)
    first, second = deliveries(world)
    world.assign(first.key, session)
    assert world.refused(c.Assign(second.key, session)) == "queue-full"
    world.end(first.key)
    world.assign(second.key, session)


def test_one_that_is_not_active_keeps_what_waits() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL)
    job = world.create(overlap=Overlap.ALLOW)
    world.run_once(world.run_now(job, 1), session)
    world.ok(PutWebhook("ops", WebhookSpec(url=URL, on=ALL, active=False)))
    assert QueueChanged("_webhooks.ops") in world.actions
    (delivery,) = deliveries(world)
    assert world.refused(c.Assign(delivery.key, session)) == "queue-paused"
    world.run_once(world.run_now(job, 2), session)
    assert len(deliveries(world)) == 1
    assert world.refused(TestWebhook("ops")) == "illegal-transition"
    world.ok(PutWebhook("ops", WebhookSpec(url=URL, on=ALL)))
    world.run_once(delivery.key, session)
    assert world.instance(delivery.key).state is I.SUCCEEDED


@pytest.mark.parametrize("level", [FAILING_IS_NOTED - 1, FAILING_IS_NOTED])
def test_it_is_noted_since_when_a_receiver_takes_nothing(level: int) -> None:
    """Long before a delivery fails for good."""
    world = World(level=level)
    session = world.session()
    hook(world, on=ALL, delays_ms=(1_000, 60_000, DAY_MS))
    job = world.create()
    world.run_once(world.run_now(job), session)
    (delivery,) = deliveries(world)
    assert row(world).failing_since_ms is None
    began_ms = None
    for _ in range(3):
        world.run_once(delivery.key, session, Outcome.FAILED)
        began_ms = began_ms or world.now
        delivery = world.instance(delivery.key)
        assert delivery.wake_at_ms is not None
        world.now = delivery.wake_at_ms
        world.ok(c.Wake(delivery.key, delivery.wake_at_ms))
        assert row(world).failing_since_ms == (began_ms if level >= FAILING_IS_NOTED else None)
    world.run_once(delivery.key, session)
    assert row(world).failing_since_ms is None


def test_a_receiver_that_is_gone_is_left_alone() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL)
    job = world.create(overlap=Overlap.ALLOW)
    for request in (1, 2):
        world.run_once(world.run_now(job, request), session)
    first, second = deliveries(world)
    world.assign(first.key, session)
    gone = world.end(first.key, Outcome.FAILED, result=b'{"status":410}')
    assert (gone.state, gone.reason, gone.dead_letter) == (I.FAILED, "receiver_gone", True)
    assert (row(world).spec.active, row(world).gone) == (False, True)
    assert world.refused(c.Assign(second.key, session)) == "queue-paused"
    world.ok(PutWebhook("ops", WebhookSpec(url=URL, on=ALL)))
    assert not row(world).gone
    world.run_once(second.key, session)


def test_the_410_of_an_ordinary_job_means_nothing() -> None:
    world = World()
    session = world.session()
    job = world.create(retry=Retry((1_000,)))
    key = world.run_now(job)
    world.assign(key, session)
    assert world.end(key, Outcome.FAILED, result=b'{"status":410}').state is I.RETRYING


def test_beyond_what_a_job_may_have_active_events_are_dropped_and_counted() -> None:
    world = World()
    world.settings(active_max=2)
    session = world.session()
    hook(world, on=ALL)
    job = world.create()
    for request in range(1, 5):
        world.run_once(world.run_now(job, request), session)
        world.forward(10)
    assert len(deliveries(world)) == 2
    assert (row(world).dropped, row(world).dropped_at_ms) == (2, world.now - 10)
    assert world.refused(TestWebhook("ops")) == "too-many"


def test_without_webhooks_an_end_reads_and_writes_nothing_for_them() -> None:
    class Counting(MemoryView):
        def __init__(self) -> None:
            super().__init__()
            self.touched: list[Table] = []

        def get(self, table: Table, key: bytes) -> bytes | None:
            self.touched.append(table)
            return super().get(table, key)

        def scan(self, table: Table, *args: Any, **fields: Any) -> Any:
            self.touched.append(table)
            return super().scan(table, *args, **fields)

    view = Counting()
    world = World(view)
    session = world.session()
    key = world.run_now(world.create())
    token = world.assign(key, session)
    view.touched.clear()
    world.seq += 1
    data = c.encode(c.Ended(session, token, Outcome.FAILED, world.now, world.now))
    apply_entry(view, world.index + 1, 1, encode_entry(world.now, [(7, world.seq, [data])]))
    assert not {Table.WEBHOOKS, Table.WEBHOOK_SECRETS, Table.QUEUES} & set(view.touched)


def test_the_queues_of_webhooks_are_looked_at_for_deliveries_alone() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL)
    job = world.create(overlap=Overlap.ALLOW)
    world.run_once(world.run_now(job, 1), session)
    (delivery,) = deliveries(world)
    waiting = world.run_now(job, 2)
    assert (world.instance(waiting).lane, delivery.lane) == (LANE_FREE, 1)
    world.assign(delivery.key, session)
    world.assign(waiting, session)
    attempts = [world.instance(key).attempts[-1].queue for key in (delivery.key, waiting)]
    assert attempts == ["_webhooks.ops", ""]
    world.ok(c.PutQueue("default", 1))  # what runs counts
    assert world.refused(c.Assign(world.run_now(job, 3), session)) == "queue-full"


# ---------------------------------------------------------------- jobs that name one


def test_a_job_names_webhooks_that_are_there() -> None:
    world = World()
    notify = (Notify("ops", (Event.FAILED,)),)
    create = c.CreateJob("default", "a", policy(notify=notify), b"{}")
    assert world.refused(create) == "invalid-job"
    hook(world)
    job = world.ok(create).job
    assert job is not None
    twice = policy(notify=(*notify, Notify("ops", ())))
    assert world.refused(c.EditJob(job.id, twice, b"{}")) == "invalid-job"
    assert world.refused(c.EditJob(job.id, policy(notify=(Notify("no", ()),)), b"{}")) == "invalid-job"


def test_one_that_jobs_name_stays() -> None:
    world = World()
    hook(world)
    named = policy(notify=(Notify("ops", (Event.FAILED,)),))
    jobs = [world.ok(c.CreateJob("default", f"j{i}", named, b"{}")).job for i in range(12)]
    answer = world.do(DeleteWebhook("ops"))
    assert isinstance(answer, c.Rejected)
    assert answer.code == "illegal-transition"
    assert answer.jobs == tuple(("default", f"j{i}") for i in range(12))
    assert "j0" not in answer.detail, "the answer says them to who may see them"
    for job in jobs:
        assert job is not None
        if job.name == "j11":
            world.ok(c.EditJob(job.id, policy(), b"{}", name="j11"))
        else:
            world.ok(c.DeleteJob(job.id))
    world.ok(DeleteWebhook("ops"))
    assert world.count(Table.WEBHOOKS) == world.count(Table.WEBHOOK_SECRETS) == world.count(Table.QUEUES) == 0


def test_deleted_it_ends_what_waits_and_its_name_is_free() -> None:
    world = World()
    session = world.session()
    old = hook(world, on=ALL)
    job = world.create(overlap=Overlap.ALLOW)
    for request in (1, 2):
        world.run_once(world.run_now(job, request), session)
    running, waiting = deliveries(world)
    world.assign(running.key, session)
    world.ok(DeleteWebhook("ops"))
    assert (world.instance(waiting.key).state, world.instance(waiting.key).reason) == (I.KILLED, "deleted")
    assert world.instance(running.key).kill_asked
    new = hook(world, on=ALL)
    assert new.job_id != old.job_id
    assert new.revision > old.revision
    world.end(running.key)
    world.forward(DAY_MS)
    world.ok(c.Prune(world.now, ROWS_MAX))
    assert world.find(old.job_id) is None
    assert world.instances(old.job_id) == []


def test_what_was_delivered_goes_with_time() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL)
    world.run_once(world.run_now(world.create()), session)
    (delivery,) = deliveries(world)
    world.run_once(delivery.key, session)
    world.forward(DAY_MS)
    world.ok(c.Prune(world.now, ROWS_MAX))
    assert deliveries(world) == []


# ---------------------------------------------------------------- what is the cluster's own

"""What /metrics says of lateness: taken from what was committed, first attempts only, jitter left out."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from raftsched.bounds import DAY_MS
from raftsched.core import commands as c
from raftsched.core.entry import EntryResult
from raftsched.core.model import Outcome, Overlap, Retry
from raftsched.metrics import RunMetrics
from raftsched.names import NAMESPACE
from tests.support.memory_view import T0, World, at, every


class Shown:
    """A world whose entries are counted as a node counts them."""

    def __init__(self) -> None:
        self.world = World()
        self.metrics = RunMetrics(lambda: (0, 0), lambda: 0)

    def count(self) -> None:
        """The newest entry."""
        self.metrics.on_applied([EntryResult(self.world.index, 1, [], self.world.actions)])

    def value(self, name: str) -> float:
        registry = CollectorRegistry()
        registry.register(self.metrics)
        found = [line for line in generate_latest(registry).decode().splitlines() if line.startswith(name + " ")]
        assert len(found) == 1, name
        return float(found[0].split()[-1])

    def ended(self, handler: str, outcome: Outcome, namespace: str = "default") -> float:
        labels = f'handler="{handler}",namespace="{namespace}",outcome="{outcome.name.lower()}"'
        return self.value(f"raftsched_attempts_ended_total{{{labels}}}")

    def bucket(self, kind: str, bound: str) -> float:
        return self.value(f'raftsched_{kind}_late_seconds_bucket{{le="{bound}"}}')


def test_made_and_started() -> None:
    shown = Shown()
    world = shown.world
    job = world.create(at(T0 + 1_000), retry=Retry((0,)))
    session = world.session()
    world.forward(1_004)
    key = world.fire(job).last_instance
    shown.count()
    assert key is not None
    assert (shown.bucket("fire", "0.0025"), shown.bucket("fire", "0.005")) == (0, 1)
    assert shown.value("raftsched_fire_late_seconds_sum") == 0.004
    token = world.assign(key, session)
    world.forward(10)
    world.ok(c.Started(session, token, world.now))
    shown.count()
    assert (shown.bucket("start", "0.01"), shown.bucket("start", "0.015")) == (0, 1)
    world.end(key, Outcome.FAILED)  # says again when it started
    shown.count()
    row = world.instance(key)
    assert row.wake_at_ms is not None
    world.ok(c.Wake(key, row.wake_at_ms))
    world.assign(key, session)
    world.end(key)  # of a later attempt
    shown.count()
    assert shown.value("raftsched_start_late_seconds_count") == 1


def test_what_ended_before_its_start_was_reported_counts_once() -> None:
    shown = Shown()
    world = shown.world
    key = world.fire(world.create(at(T0))).last_instance
    assert key is not None
    world.assign(key, world.session())
    world.end(key)
    shown.count()
    assert shown.value("raftsched_start_late_seconds_count") == 1


@pytest.mark.parametrize("jitter_ms", [0, 60_000])
def test_a_time_that_was_past_when_it_was_given_is_late_from_then_on(jitter_ms: int) -> None:
    shown = Shown()
    world = shown.world
    job = world.create(at(T0 - DAY_MS, jitter_ms=jitter_ms))
    session = world.session()
    world.forward(7)
    key = world.fire(job).last_instance
    shown.count()
    assert key is not None
    assert shown.value("raftsched_fire_late_seconds_sum") == 0.007
    token = world.assign(key, session)
    world.forward(10)
    world.ok(c.Started(session, token, world.now))
    shown.count()
    assert shown.value("raftsched_start_late_seconds_sum") == 0.017
    world.end(key)
    world.forward(1_000)
    world.edit(job, trigger=at(T0 - DAY_MS + 1))  # and again by an edit
    world.forward(3)
    world.fire(job)
    shown.count()
    assert shown.value("raftsched_fire_late_seconds_sum") == 0.01


def test_jitter_is_no_lateness_and_a_manual_run_has_none() -> None:
    shown = Shown()
    world = shown.world
    job = world.create(every(DAY_MS, jitter_ms=60_000), overlap=Overlap.ALLOW)
    session = world.session()
    key = world.fire(job).last_instance
    shown.count()
    assert key is not None
    world.run_once(key, session)
    shown.count()
    assert shown.bucket("fire", "0.001") == shown.bucket("start", "0.001") == 1
    manual = world.run_now(job)
    shown.count()
    world.run_once(manual, session)
    shown.count()
    assert shown.value("raftsched_fire_late_seconds_count") == shown.value("raftsched_start_late_seconds_count") == 1


def test_due_times_that_did_not_run_are_counted_by_reason() -> None:
    shown = Shown()
    world = shown.world
    job = world.create(every(1_000), overlap=Overlap.FORBID)
    key = world.fire(job).last_instance
    assert key is not None
    shown.count()
    for _ in range(3):
        world.fire(job)
        shown.count()
    assert shown.value('raftsched_due_times_skipped_total{reason="overlap"}') == 3
    at_ms = world.instance(key).wake_at_ms or 0
    world.now = at_ms
    world.ok(c.Wake(key, at_ms))
    shown.count()
    assert shown.value('raftsched_due_times_skipped_total{reason="start_deadline"}') == 1


def test_ends_are_counted_by_outcome_and_handler() -> None:
    shown = Shown()
    world = shown.world
    handlers = ("exec", "call:invoice")
    session = world.ok(c.OpenSession("n2", 0, "boot", b"nonce", 100, handlers=handlers)).number
    assert session is not None
    for need, outcome in (("exec", Outcome.SUCCEEDED), ("exec", Outcome.FAILED), ("call:invoice", Outcome.TIMED_OUT)):
        for _ in range(2):
            key = world.fire(world.create(at(T0), required_capability=need)).last_instance
            assert key is not None
            token = world.assign(key, session)
            world.forward(300)
            world.ok(c.Ended(session, token, outcome, world.now - 300, world.now))
            shown.count()
    for handler, outcome in (("exec", Outcome.SUCCEEDED), ("exec", Outcome.FAILED), ("call", Outcome.TIMED_OUT)):
        assert shown.ended(handler, outcome) == 2
    assert shown.value('raftsched_attempt_seconds_bucket{handler="exec",le="0.25"}') == 0
    assert shown.value('raftsched_attempt_seconds_bucket{handler="exec",le="0.5"}') == 4
    assert shown.value('raftsched_attempt_seconds_sum{handler="call"}') == 0.6


def test_what_was_not_said_to_have_started_has_no_duration() -> None:
    shown = Shown()
    world = shown.world
    key = world.fire(world.create(at(T0), required_capability="exec")).last_instance
    assert key is not None
    session = world.session()
    world.assign(key, session)
    world.ok(c.CloseSession(session, ()))
    shown.count()
    assert shown.ended("exec", Outcome.KILLED) == 1
    with pytest.raises(AssertionError):
        shown.value('raftsched_attempt_seconds_count{handler="exec"}')


def test_so_many_namespaces_have_series_and_the_others_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.metrics.NAMESPACES_MAX", 2)
    shown = Shown()
    world = shown.world
    session = world.session()
    for namespace in ("default", "billing", "one-more", "another", "billing"):
        key = world.fire(world.create(at(T0), required_capability="exec", namespace=namespace)).last_instance
        assert key is not None
        world.assign(key, session)
        world.end(key)
        shown.count()
    ended = Outcome.SUCCEEDED
    assert [shown.ended("exec", ended, name) for name in ("default", "billing", "(other)")] == [1, 2, 2]
    assert not NAMESPACE.allows("(other)"), "nobody's name"


def test_what_is_looked_at_lately() -> None:
    """Of attempts those that came to an end of their own, as the recording rules count them."""
    shown = Shown()
    world = shown.world
    session = world.session()
    for outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT):
        job = world.create(at(world.now), retry=Retry(()))
        world.forward(2_000)
        key = world.fire(job).last_instance
        shown.count()
        assert key is not None
        token = world.assign(key, session)
        world.forward(61_000)
        world.ok(c.Started(session, token, world.now))
        shown.count()
        world.end(key, outcome)
        shown.count()
    counts = shown.metrics.counts()
    assert (counts["ended", "default"], counts["failed", "default"]) == (3, 2)
    assert (counts["fires", ""], counts["late_fires", ""]) == (3, 3)
    assert (counts["starts", ""], counts["late_starts", ""]) == (3, 3)


def test_dead_letters_are_counted_though_they_are_dealt_with() -> None:
    """Else as many that go, by age or by hand, would hide as many that come."""
    shown = Shown()
    world = shown.world
    session = world.session()
    name = "raftsched_instances_dead_lettered_total"
    for count in (1, 2):
        key = world.run_now(world.create())
        world.assign(key, session)
        world.end(key, Outcome.FAILED)
        shown.count()
        world.ok(c.Discard(key))
        shown.count()
        assert (world.meta.dead_letters, shown.value(name)) == (0, count)
    assert shown.metrics.counts()["dead_letters", ""] == 2

"""Counts by minute: what is counted, where, for how long; and the leaderships that are kept."""

from __future__ import annotations

import pytest

from raftsched.bounds import MINUTE_MS
from raftsched.core import commands as c
from raftsched.core.apply.cluster import membership
from raftsched.core.apply.runs import minute_counts
from raftsched.core.model import Job, Misfire, MisfirePolicy, Outcome, Overlap, Retry
from raftsched.core.rows import MINUTES, OPEN_MINUTE, TERMS
from raftsched.core.subjects.minutes import ALL as ALL_NAMESPACES
from raftsched.core.subjects.minutes import KEEP_MS, LATE_MS, OPEN_KEY, Minute, add_up
from raftsched.core.tables import Table, from_u64
from tests.support.memory_view import T0, World, after, every, policy
from tests.unit.core.hooks import ALL, deliveries, hook

START = T0 - T0 % MINUTE_MS


def counted(world: World, namespace: str = ALL_NAMESPACES, at_ms: int = START) -> Minute | None:
    """What was counted in a minute; None: nothing."""
    found = Minute()
    add_up(found, MINUTES.get(world.view, at_ms, namespace) or Minute())
    going = OPEN_MINUTE.get(world.view, OPEN_KEY)
    if going is not None and going.at_ms == at_ms:
        for name, row in going.rows.items():
            if name == namespace or (namespace == ALL_NAMESPACES and name != "_system"):
                add_up(found, row)
    return None if found == Minute() else found


def minutes_of(world: World, namespace: str = ALL_NAMESPACES) -> list[int]:
    """The minutes that are over and have a row, counted from the first."""
    keys = [key for key, _ in world.view.scan(Table.MINUTES) if key[8:].decode() == namespace]
    return [(from_u64(key[:8]) - START) // MINUTE_MS for key in keys]


def run_in(world: World, namespace: str, session: int) -> None:
    job = create_in(world, namespace)
    world.fire(job)
    world.run_once(only(world, job), session)


def create_in(world: World, namespace: str, **fields: object) -> Job:
    job = world.ok(c.CreateJob(namespace, None, policy(after(1_000), **fields), b"{}")).job
    assert job is not None
    return job


def only(world: World, job: Job) -> bytes:
    (instance,) = world.instances(job.id)
    return instance.key


def test_a_run_is_counted_when_it_starts_and_when_it_ends() -> None:
    world = World()
    session = world.session()
    job = create_in(world, "fin")
    world.fire(job)
    token = world.assign(only(world, job), session)
    assert counted(world) is None, "jobs that are made, due and given to a node are not counted"
    world.ok(c.Started(session, token, world.now))
    world.ok(c.Started(session, token, world.now))  # said twice
    assert counted(world) == counted(world, "fin") == Minute(started=1)
    world.forward(2 * MINUTE_MS)
    world.ok(c.Ended(session, token, Outcome.SUCCEEDED, world.now - 5, world.now))
    assert counted(world) == Minute(started=1), "it has ended in another minute"
    assert counted(world, "fin", START + 2 * MINUTE_MS) == Minute(succeeded=1)


def test_an_attempt_of_which_only_the_end_is_heard_has_started_too() -> None:
    world = World()
    session = world.session()
    job = create_in(world, "fin")
    world.fire(job)
    world.run_once(only(world, job), session)
    assert counted(world) == Minute(started=1, succeeded=1)


def test_an_attempt_that_never_began_has_not_started() -> None:
    world = World()
    session = world.session()
    job = create_in(world, "fin")
    world.fire(job)
    token = world.assign(only(world, job), session)
    world.ok(c.Ended(session, token, Outcome.KILLED, None, world.now, begun=False))
    assert counted(world) is None


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT])
def test_a_retry_is_another_start_and_only_the_last_failure_counts(outcome: Outcome) -> None:
    world = World()
    session = world.session()
    job = create_in(world, "fin", retry=Retry((100,)))
    world.fire(job)
    key = only(world, job)
    world.run_once(key, session, outcome)
    assert counted(world) == Minute(started=1)
    world.now = world.instance(key).wake_at_ms or 0
    world.ok(c.Wake(key, world.now))
    world.run_once(key, session, outcome)
    assert counted(world) == Minute(started=1, restarted=1, failed=1)


def test_lateness_is_that_of_first_starts_that_were_due() -> None:
    world = World()
    session = world.session()
    for late_ms in (0, LATE_MS, LATE_MS + 1, 7_000, 3_000):
        job = create_in(world, "fin")
        world.fire(job)
        key = only(world, job)
        token = world.assign(key, session)
        world.ok(c.Started(session, token, world.instance(key).due_at_ms + late_ms))
    assert counted(world) == Minute(started=5, late=3, late_max_ms=7_000)
    asked = world.create()
    key = world.run_now(asked)
    token = world.assign(key, session)
    world.ok(c.Started(session, token, world.now + 60_000))
    assert counted(world, "default") == Minute(started=1), "what was asked for was not due"


def test_killed_runs_and_times_left_out() -> None:
    world = World()
    world.session()
    job = world.create(every(1_000, starts_at_ms=T0), overlap=Overlap.FORBID)
    world.fire(job)
    world.fire(job)
    world.fire(job)
    assert counted(world) == Minute(skipped=2)
    world.ok(c.Kill(world.waiting(job.id)[0].key))
    assert counted(world) == Minute(skipped=2, killed=1)
    rare = world.create(every(1_000), misfire=Misfire(MisfirePolicy.SKIP, 0))
    world.now += 500_000
    world.fire(rare)
    at_ms = world.now - world.now % MINUTE_MS
    found = counted(world, at_ms=at_ms)
    assert found is not None
    assert found.skipped > 450, "each time that one record stands for"


def test_namespaces_are_apart_and_added_up_when_the_minute_is_over() -> None:
    world = World()
    session = world.session()
    for namespace in ("b", "a", "b"):
        run_in(world, namespace, session)
    assert counted(world, "a") == Minute(started=1, succeeded=1)
    assert counted(world, "b") == Minute(started=2, succeeded=2)
    assert counted(world) == Minute(started=3, succeeded=3)
    assert world.count(Table.MINUTES) == 0, "the minute goes on"
    world.forward(MINUTE_MS)
    run_in(world, "a", session)
    assert [key[8:] for key, _ in world.view.scan(Table.MINUTES)] == [b"", b"a", b"b"]
    assert counted(world, "b") == Minute(started=2, succeeded=2)
    assert counted(world) == Minute(started=3, succeeded=3)
    assert world.in_one_batch() == world.view.dump()


def test_a_minute_of_many_namespaces_is_written_before_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minute_counts, "OPEN_MAX", 2)
    monkeypatch.setattr("tests.support.invariants_cluster.OPEN_MAX", 2)
    world = World()
    session = world.session()
    for namespace in ("d", "c", "b", "a", "d", "d", "c", "b"):
        run_in(world, namespace, session)
    assert world.count(Table.MINUTES) == 5
    assert counted(world) == Minute(started=8, succeeded=8)
    assert counted(world, "d") == Minute(started=3, succeeded=3)
    assert world.in_one_batch() == world.view.dump()


def test_deliveries_to_webhooks_are_not_in_the_sum() -> None:
    world = World()
    session = world.session()
    hook(world, on=ALL)
    run_in(world, "fin", session)
    (delivery,) = deliveries(world)
    world.run_once(delivery.key, session)
    world.forward(MINUTE_MS)
    run_in(world, "fin", session)
    assert counted(world) == counted(world, "fin") == Minute(started=1, succeeded=1)
    assert counted(world, "_system") == Minute(started=1, succeeded=1)


def test_rows_are_dropped_when_they_are_old_and_when_they_are_ahead() -> None:
    world = World()
    session = world.session()

    def run_at(minute: int) -> None:
        world.now = START + minute * MINUTE_MS
        run_in(world, "fin", session)

    wrong = 10 * KEEP_MS // MINUTE_MS
    for minute in (wrong, 0, 1, 2):
        run_at(minute)
    assert minutes_of(world) == [0, 1], "a clock was wrong: the day that has not come is gone"
    last = KEEP_MS // MINUTE_MS
    run_at(last)
    run_at(last + 1)
    assert minutes_of(world) == [0, 1, 2, last], "a whole day and an hour are kept"
    run_at(last + 2)
    assert minutes_of(world) == minutes_of(world, "fin") == [1, 2, last, last + 1]
    run_at(last - 30)
    run_at(last - 29)
    assert minutes_of(world)[-1] == last + 2, "less than an hour ahead: it comes soon"
    assert world.in_one_batch() == world.view.dump()


def test_a_bounded_number_of_rows_is_dropped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minute_counts, "DROP_MAX", 3)
    world = World()
    session = world.session()
    for _ in range(10):
        run_in(world, "fin", session)
        world.forward(MINUTE_MS)
    assert world.count(Table.MINUTES) == 18
    for left in (20, 17, 14):  # the tenth is added, later two are for five that go
        world.forward(2 * KEEP_MS if left == 20 else MINUTE_MS)
        run_in(world, "fin", session)
        assert world.count(Table.MINUTES) == left
    assert world.in_one_batch() == world.view.dump()


def test_nothing_is_written_where_nothing_runs() -> None:
    world = World()
    session = world.session()
    job = create_in(world, "fin")
    world.create(every(1_000))
    world.fire(job)
    world.assign(only(world, job), session)
    assert OPEN_MINUTE.get(world.view, OPEN_KEY) is None
    assert world.count(Table.MINUTES) == 0


def test_leaderships_are_kept_in_their_order_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "TERMS_MAX", 3)
    monkeypatch.setattr("tests.support.invariants_cluster.TERMS_MAX", 3)
    world = World()
    for term, leader in ((2, "n2"), (5, "n1"), (6, "n1"), (9, "n3")):
        world.forward(1_000)
        world.ok(c.OpenLeadership(term, leader))
    assert world.refused(c.OpenLeadership(9, "n2")) == "stale"
    kept = [(from_u64(key), TERMS.decode(raw)) for key, raw in world.view.scan(Table.TERMS)]
    assert [(term, row.leader, row.at_ms - T0) for term, row in kept] == [
        (5, "n1", 2_000),
        (6, "n1", 3_000),
        (9, "n3", 4_000),
    ]
    assert [row.index for _, row in kept] == [4, 5, 6]


def test_leaderships_are_kept_while_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "TERMS_MAX", 6)
    monkeypatch.setattr("tests.support.invariants_cluster.TERMS_MAX", 6)
    world = World()
    counts = []
    for term in range(2, 11):
        world.ok(c.OpenLeadership(term, "n1"))
        counts.append(world.count(Table.TERMS))
    assert counts == [2, 3, 4, 5, 6, 6, 6, 6, 6]

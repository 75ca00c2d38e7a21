"""Limits by key: permits, lines, rates, and what gives them back."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core import commands as c
from raftsched.core.ids import instance_key, job_text
from raftsched.core.model import Condition, ConditionKind, Job, Outcome, Overlap, Retry, StepKind
from raftsched.core.model import InstanceState as I
from raftsched.core.rows import RUN_KEYS
from raftsched.core.rules.run_keys import Concurrency, PermitState, RunKey, WakeKey, from_run_key, run_key
from raftsched.core.tables import LANE_NOBODY, Table, from_u64
from tests.support.memory_view import World, at, every, policy

SECOND, MINUTE = 1_000, 60_000
ACME = run_key("default", "acme")


def by_key(most: int = 0, count: int | None = None, period_ms: int = 0, value: str = "acme") -> Concurrency:
    return Concurrency("{params.tenant}", value, most, count, period_ms)


def make(world: World, limits: Concurrency | None, **fields: Any) -> Job:
    return world.create(overlap=fields.pop("overlap", Overlap.ALLOW), concurrency=limits, **fields)


def row(world: World, key: bytes = ACME) -> RunKey | None:
    return RUN_KEYS.get(world.view, key)


def counts(world: World, key: bytes = ACME) -> tuple[int, int]:
    found = row(world, key)
    return (0, 0) if found is None else (found.running, found.waiting)


def states(world: World) -> list[str]:
    """Of all instances, as they were asked for: + has a permit, ... waits for one."""
    signs = {None: "", PermitState.NONE: "", PermitState.IN_LINE: "...", PermitState.HELD: "+"}
    rows = sorted(world.instances(), key=lambda r: r.request)
    return [r.state.name + signs[None if r.permit is None else r.permit.state] for r in rows]


class Runs:
    """Manual runs of a job, numbered."""

    def __init__(self, world: World, job: Job) -> None:
        self.world, self.job = world, job
        self.made = 0

    def ask(self, times: int = 1, **fields: Any) -> list[bytes]:
        keys = []
        for _ in range(times):
            self.made += 1
            self.world.forward(1)
            keys.append(self.world.run_now(self.job, self.made, **fields))
        return keys


def house(limits: Concurrency | None, **fields: Any) -> tuple[World, int, Runs]:
    world = World()
    session = world.session()
    return world, session, Runs(world, make(world, limits, **fields))


def ready(world: World) -> set[bytes]:
    return {key[12:] for key, _ in world.view.scan(Table.READY)}


def wake(world: World) -> int:
    """Does what the leader does for keys that are due; the clock goes there. Returns when that was."""
    key, _ = next(iter(world.view.scan(Table.KEY_TIMERS)))
    at_ms = from_u64(key[:8])
    world.now = max(world.now, at_ms)
    world.ok(WakeKey(key[8:], at_ms))
    return at_ms


# ---------------------------------------------------------------- permits


def test_as_many_as_may_are_ready_and_the_others_wait_in_order() -> None:
    world, session, runs = house(by_key(2))
    a, b, third, fourth = runs.ask(4)
    assert states(world) == ["WAITING+", "WAITING+", "WAITING...", "WAITING..."]
    assert ready(world) == {a, b}
    assert counts(world) == (2, 2)
    found = world.instance(third)
    assert (found.reason, found.steps[-1].kind, found.steps[-1].detail) == ("key", StepKind.IN_LINE, "acme")
    world.run_once(b, session)
    assert states(world) == ["WAITING+", "SUCCEEDED", "WAITING+", "WAITING..."]
    found = world.instance(third)
    assert (found.reason, found.steps[-1].kind) == (None, StepKind.PERMIT)
    world.run_once(a, session)
    world.run_once(third, session)
    world.run_once(fourth, session)
    assert row(world) is None


def test_no_worker_is_given_one_without_a_permit() -> None:
    world, session, runs = house(by_key(1))
    _, second = runs.ask(2)
    assert world.refused(c.Assign(second, session)) == "stale"


def test_a_fire_and_an_assignment_in_one_entry() -> None:
    world = World()
    session = world.session()
    jobs = [make(world, by_key(1), trigger=at(world.now + 5)) for _ in range(2)]
    world.forward(5)
    keys = [instance_key(world.now, job.id) for job in jobs]
    fires = [(c.Fire(job.id, 1, world.now), c.Assign(key, session)) for job, key in zip(jobs, keys, strict=True)]
    answers = world.run(*(command for pair in fires for command in pair))
    assert [isinstance(answer, c.Accepted) for answer in answers] == [True, True, True, False]
    world.end(keys[0])
    world.run_once(keys[1], session)
    assert row(world) is None
    assert world.in_one_batch() == world.view.dump()


def test_keys_are_of_a_namespace_and_shared_by_its_jobs() -> None:
    world, _, runs = house(by_key(1))
    other = world.ok(c.CreateJob("other", None, policy(concurrency=by_key(1)), b"{}")).job
    assert other is not None
    runs.ask()
    world.run_now(make(world, by_key(1)), 50)
    world.run_now(make(world, by_key(1, value="bolt")), 51)
    world.run_now(other, 52)
    assert states(world) == ["WAITING+", "WAITING...", "WAITING+", "WAITING+"]
    assert [from_run_key(key) for key, _ in world.view.scan(Table.RUN_KEYS)] == [
        ("default", "acme"),
        ("default", "bolt"),
        ("other", "acme"),
    ]


def test_each_is_held_against_the_limit_of_its_own_job() -> None:
    world, session, runs = house(by_key(3))
    narrow = Runs(world, make(world, by_key(1)))
    narrow.made = 10
    a, b = runs.ask(2)
    (alone,) = narrow.ask()
    (last,) = runs.ask()
    assert ready(world) == {a, b}
    world.run_once(a, session)
    assert ready(world) == {b}  # nobody passes the first in line, though three may go by the job of the last
    world.run_once(b, session)
    assert ready(world) == {alone, last}
    world.run_once(alone, session)
    world.run_once(last, session)
    assert row(world) is None


def instance_of(world: World, request: int) -> bytes:
    return next(r.key for r in world.instances() if r.request == request)


def test_the_more_urgent_goes_first() -> None:
    world, session, runs = house(by_key(1))
    (first,) = runs.ask()
    (low,) = runs.ask(priority=2)
    (high,) = runs.ask(priority=8)
    world.run_once(first, session)
    assert ready(world) == {high}
    world.run_once(high, session)
    assert ready(world) == {low}


def test_params_of_a_run_make_its_key() -> None:
    world, _, runs = house(by_key(1))
    runs.ask()
    runs.ask(params=b'{"tenant":"bolt"}')
    runs.ask(params=b'{"tenant":"acme"}')
    assert states(world) == ["WAITING+", "WAITING+", "WAITING..."]


@pytest.mark.parametrize(
    ("params", "pointer"),
    [(b"{}", "/params/tenant"), (b'{"tenant":[]}', "/params/tenant"), (b"[]", "/params"), (b"{", "/params")],
)
def test_params_without_what_the_key_asks_for_are_refused(params: bytes, pointer: str) -> None:
    world, _, runs = house(by_key(1))
    answer = world.do(c.RunNow(runs.job.id, 1, params))
    assert isinstance(answer, c.Rejected)
    assert (answer.code, answer.pointer) == ("invalid-body", pointer)
    assert not world.instances()


def test_the_name_of_a_job_in_its_key_or_its_id() -> None:
    world = World()
    world.session()
    limits = Concurrency("{job}/x", "\0/x", 1)
    named, unnamed = make(world, limits, name="import"), make(world, limits)
    world.run_now(named)
    world.run_now(unnamed, 2)
    assert {from_run_key(key)[1] for key, _ in world.view.scan(Table.RUN_KEYS)} == {
        "import/x",
        f"{job_text(unnamed.id)}/x",
    }


# ---------------------------------------------------------------- what gives a permit back


def test_one_that_waits_for_its_retry_has_no_permit() -> None:
    world, session, runs = house(by_key(1), retry=Retry((5_000,)))
    a, b = runs.ask(2)
    world.run_once(a, session, Outcome.FAILED)
    assert states(world) == ["RETRYING", "WAITING+"]
    world.forward(5_000)
    wake_at_ms = world.instance(a).wake_at_ms
    assert wake_at_ms is not None
    world.now = max(world.now, wake_at_ms)
    world.ok(c.Wake(a, wake_at_ms))
    assert states(world) == ["WAITING...", "WAITING+"]
    world.run_once(b, session)
    world.run_once(a, session)
    assert row(world) is None


@pytest.mark.parametrize("started", [True, False])
def test_one_whose_worker_was_lost_waits_in_its_line_again(started: bool) -> None:
    """Behind the others where it had started, else at its place."""
    world, session, runs = house(by_key(1))
    a, _ = runs.ask(2)
    token = world.assign(a, session)
    if started:
        world.ok(c.Started(session, token, world.now))
    world.forward(1)
    world.ok(c.EndSession(session, 1))
    assert states(world) == (["WAITING...", "WAITING+"] if started else ["WAITING+", "WAITING..."])


def test_one_that_was_handed_back_keeps_its_place() -> None:
    world, session, runs = house(by_key(1))
    a, _ = runs.ask(2)
    token = world.assign(a, session)
    world.ok(c.Ended(session, token, Outcome.KILLED, None, world.now))
    assert states(world) == ["WAITING+", "WAITING..."]


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_kill_of_what_has_not_started(victim: int) -> None:
    world, _, runs = house(by_key(1))
    keys = runs.ask(3)
    world.ok(c.Kill(keys[victim]))
    assert counts(world) == (1, 1)
    assert len(ready(world)) == 1


def test_a_kill_of_what_runs_lets_no_other_go_before_its_end() -> None:
    world, session, runs = house(by_key(1))
    a, b = runs.ask(2)
    world.assign(a, session)
    world.ok(c.Kill(a))
    assert states(world) == ["LAUNCHED+", "WAITING..."]
    world.end(a, Outcome.KILLED)
    assert ready(world) == {b}


@pytest.mark.parametrize("end", ["delete", "expire"])
def test_a_job_that_goes_takes_its_line_along(end: str) -> None:
    world, session, runs = house(by_key(1))
    a, *_ = runs.ask(4)
    world.assign(a, session)
    other = make(world, by_key(1))
    kept = world.run_now(other, 99)
    command = c.DeleteJob(runs.job.id) if end == "delete" else c.SetJobState(runs.job.id, c.JobState.EXPIRED, kill=True)
    world.ok(command)
    assert counts(world) == (1, 1)
    world.end(a, Outcome.KILLED)
    world.run_once(kept, session)
    assert row(world) is None


def test_the_start_deadline_holds_for_the_line() -> None:
    world = World()
    world.session()
    world.settings(start_deadline_ms=10_000)
    job = make(world, by_key(1), trigger=every(SECOND))
    world.fire(job)
    world.fire(job)
    second = world.instances(job.id)[1]
    assert second.wake_at_ms is not None
    world.now = second.wake_at_ms
    world.ok(c.Wake(second.key, second.wake_at_ms))
    found = world.instance(second.key)
    assert (found.state, found.reason) == (I.SKIPPED, "start_deadline")
    assert found.error is not None
    assert "1 runs with its key acme were going" in found.error
    assert counts(world) == (1, 0)


def test_rerun_takes_the_key_of_the_present_content() -> None:
    world, session, runs = house(by_key(1))
    (a,) = runs.ask()
    world.run_once(a, session)
    world.edit(runs.job, concurrency=by_key(1, value="bolt"))
    world.ok(c.Rerun(a))
    assert counts(world, run_key("default", "bolt")) == (1, 0)
    (own,) = runs.ask(params=b'{"tenant":"acme"}')
    world.run_once(own, session)
    world.edit(runs.job, concurrency=Concurrency("{params.other}", "x", 1))
    assert world.refused(c.Rerun(own)) == "invalid-body"
    world.edit(runs.job, concurrency=None)
    world.ok(c.Rerun(own))
    assert world.instance(own).permit is None


def test_replaced_ones_leave_their_place_to_the_newer() -> None:
    world, session, other = house(by_key(1))
    (first,) = other.ask()
    job = make(world, by_key(1), overlap=Overlap.REPLACE)
    world.forward(1)
    world.run_now(job, 50)
    (behind,) = other.ask()
    world.forward(1)
    newest = world.run_now(job, 51)
    assert world.instance(instance_of(world, 50)).state is I.KILLED
    world.run_once(first, session)
    assert ready(world) == {newest}
    assert world.instance(behind).reason == "key"


# ---------------------------------------------------------------- beside other limits


def test_held_runs_are_not_in_line() -> None:
    world, session, runs = house(by_key(1), overlap=Overlap.QUEUE_ALL)
    a, b = runs.ask(2)
    assert states(world) == ["WAITING+", "WAITING"]
    world.run_once(a, session)
    assert ready(world) == {b}


def test_conditions_come_first_and_a_recheck_gives_the_permit_back() -> None:
    path = Condition(ConditionKind.PATH, "/data/x")
    world, session, runs = house(by_key(1), conditions=(path,), required_capability="exec")
    (a,) = runs.ask()
    assert states(world) == ["WAITING"]
    until_ms = world.instance(a).checks_end_at_ms
    assert until_ms is not None
    world.ok(c.ReportConditions(a, until_ms, "n2", True))
    assert states(world) == ["WAITING+"]
    world.ok(c.EndSession(session, 1))
    world.ok(c.Recheck(a))
    assert states(world) == ["WAITING"]
    assert row(world) is None


def test_what_no_node_can_take_keeps_no_permit() -> None:
    world, session, runs = house(by_key(1))
    nowhere = make(world, by_key(1), required_capability="call:none")
    aside = world.run_now(nowhere, 40)
    (able,) = runs.ask()
    world.ok(c.NoteUnplaceable(aside, "no node has it"))
    assert world.instance(aside).lane == LANE_NOBODY
    assert ready(world) == {aside, able}
    assert world.refused(c.Assign(aside, session)) == "stale"
    world.ok(c.SortReady((aside,)))  # a node came that could take it
    assert ready(world) == {able}
    assert world.instance(aside).reason == "key"
    world.run_once(able, session)
    world.run_once(aside, session)
    assert row(world) is None


def test_a_run_with_parts_has_one_permit_until_all_have_ended() -> None:
    world, session, runs = house(by_key(1, 5, MINUTE), shards=2)
    parent, behind = runs.ask(2)
    world.ok(c.Split(parent))
    assert counts(world) == (1, 1)
    assert world.refused(c.Split(behind)) == "stale"
    parts = [r for r in world.instances() if r.parent == parent]
    assert all(part.permit is None for part in parts)
    for part in parts:
        world.run_once(part.key, session)
    assert world.instance(behind).reason is None
    assert counts(world) == (1, 0)


# ---------------------------------------------------------------- rates


def test_a_rate_lets_a_burst_start_and_then_one_after_the_other() -> None:
    world, session, runs = house(by_key(0, 3, MINUTE))
    keys = runs.ask(5)
    began = world.now
    assert len(ready(world)) == 3
    for key in keys[:3]:
        world.run_once(key, session)
    assert counts(world) == (0, 2)
    first = wake(world)
    assert 0 <= first - began - 20_000 < 100
    assert ready(world) == {keys[3]}
    world.run_once(keys[3], session)
    assert 0 <= wake(world) - first - 20_000 < 100
    world.run_once(keys[4], session)
    found = row(world)
    assert found is not None  # its bucket is not full yet
    wake(world)
    assert row(world) is None


def test_what_waits_for_a_worker_starts_by_the_rate_too() -> None:
    """An hour without workers makes no burst of an hour."""
    world, session, runs = house(by_key(0, 2, MINUTE))
    keys = runs.ask(4)
    assert len(ready(world)) == 2
    assert not world.count(Table.KEY_TIMERS)  # time alone lets none go: two starts are kept already
    world.forward(3_600_000)
    for key in keys[:2]:
        world.run_once(key, session)
    assert not ready(world)
    began = world.now
    assert wake(world) - began == 30_000
    assert ready(world) == {keys[2]}


def test_max_and_rate_both_hold() -> None:
    world, session, runs = house(by_key(1, 10, MINUTE))
    a, b = runs.ask(2)
    assert not world.count(Table.KEY_TIMERS)
    world.run_once(a, session)
    assert ready(world) == {b}


def test_jobs_with_different_rates_share_the_line_and_count_for_themselves() -> None:
    world, session, slow = house(by_key(0, 1, 3_600_000))
    quick = Runs(world, make(world, by_key(0, 100, MINUTE)))
    quick.made = 50
    (a,) = slow.ask()
    (b,) = quick.ask()
    assert ready(world) == {a, b}
    world.run_once(a, session)
    world.run_once(b, session)
    found = row(world)
    assert found is not None
    assert [(one.rate_count, one.kept) for one in found.rates] == [(1, 0), (100, 0)]


def test_no_more_rates_are_counted_than_a_row_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.core.rules.run_keys.RATES_MAX", 2)
    world = World()
    session = world.session()
    keys = [world.run_now(make(world, by_key(0, count, MINUTE)), count) for count in (1, 2, 3)]
    assert ready(world) == set(keys[:2])
    for key in keys[:2]:
        world.run_once(key, session)
    wake(world)  # the bucket of two in a minute is full after half of it
    assert ready(world) == {keys[2]}


def test_a_killed_one_gives_back_the_start_that_was_kept() -> None:
    world, _, runs = house(by_key(0, 1, MINUTE))
    a, b = runs.ask(2)
    world.ok(c.Kill(a))
    assert ready(world) == {b}


def test_an_old_timer_does_nothing() -> None:
    world, _, _ = house(by_key(0, 1, MINUTE))
    assert world.refused(WakeKey(ACME, 5)) == "stale"
    assert world.refused(WakeKey(b"", 5)) == "stale"
    assert world.refused(WakeKey(b"x" * 600, 5)) == "stale"


# ---------------------------------------------------------------- edits, bounds


def test_a_greater_max_lets_more_go_at_once() -> None:
    world, _, runs = house(by_key(1))
    runs.ask(4)
    runs.ask(2, params=b'{"tenant":"bolt"}')
    world.edit(runs.job, concurrency=by_key(3))
    assert counts(world) == (3, 1)
    assert counts(world, run_key("default", "bolt")) == (2, 0)
    world.edit(runs.job, concurrency=None)
    assert counts(world) == (4, 0)


def test_a_smaller_max_ends_nothing() -> None:
    world, session, runs = house(by_key(3))
    keys = runs.ask(4)
    world.edit(runs.job, concurrency=by_key(1))
    world.run_once(keys[0], session)
    assert counts(world) == (2, 1)


def test_one_entry_lets_a_bounded_number_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.core.apply.runs.run_keys.LET_GO_MAX", 2)
    world, _, runs = house(by_key(1))
    runs.ask(6)
    world.edit(runs.job, concurrency=by_key(10))
    assert counts(world) == (3, 3)
    wake(world)
    assert counts(world) == (5, 1)
    wake(world)
    assert counts(world) == (6, 0)


def test_many_keys_leave_nothing_behind() -> None:
    world, session, runs = house(by_key(1, 1, SECOND))
    for number in range(50):
        (key,) = runs.ask(params=b'{"tenant":%d}' % number)
        world.run_once(key, session)
    while world.count(Table.KEY_TIMERS):
        wake(world)
    assert world.count(Table.RUN_KEYS) == world.count(Table.KEY_LINES) == 0


def test_the_row_names_some_of_those_that_have_a_permit() -> None:
    world, session, runs = house(by_key(20))
    keys = runs.ask(12)
    found = row(world)
    assert found is not None
    assert found.holders == keys[:10]
    world.run_once(keys[0], session)
    found = row(world)
    assert found is not None
    assert found.holders == keys[1:10]


@pytest.mark.parametrize(
    "limits",
    [
        Concurrency("{nothing}", "x", 1),
        Concurrency("x", "", 1),
        Concurrency("x", "x" * 201, 1),
        Concurrency("x", "\0\0", 1),
        Concurrency("x", "x", -1),
        Concurrency("x", "x", 0, 0, MINUTE),
        Concurrency("x", "x", 0, 1, 1),
    ],
)
def test_impossible_limits_are_refused(limits: Concurrency) -> None:
    world = World()
    assert world.refused(c.CreateJob("default", None, policy(concurrency=limits), b"{}")) == "invalid-job"


def test_the_longest_keys_fit_into_the_tables() -> None:
    world = World()
    session = world.session()
    limits = Concurrency("{job}", "\0" + "x" * 199, 1, 1, MINUTE)
    for name in ("n" * 440, "n" * 128):
        content = policy(concurrency=limits, overlap=Overlap.ALLOW)
        job = world.ok(c.CreateJob("s" * 64, name, content, b"{}")).job
        assert job is not None
        first = world.run_now(job, 1)
        world.run_now(job, 2)
        world.run_once(first, session)
    assert [len(key) for key, _ in world.view.scan(Table.RUN_KEYS)] == [277, 392]

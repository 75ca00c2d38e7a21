"""Runs of several parts: the parent ends exactly when all of its parts have."""

from __future__ import annotations

import random

import pytest

from raftsched.core import commands as c
from raftsched.core.apply.runs.parts import STEP
from raftsched.core.model import (
    FINAL,
    Condition,
    ConditionKind,
    Instance,
    Job,
    JobState,
    Outcome,
    Overlap,
    Retry,
    StepKind,
)
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import Table
from tests.support.amounts import examples
from tests.support.memory_view import World, every

SECOND = 1000


def ready(world: World, shards: int = 3, **fields: object) -> tuple[Job, bytes]:
    job = world.create(shards=shards, **fields)
    return job, world.run_now(job)


def through(world: World, key: bytes) -> Instance:
    """Lets the parent do all of its steps."""
    while (row := world.instance(key)).state is I.RUNNING and row.wake_at_ms is not None:
        world.ok(c.Wake(key, row.wake_at_ms))
    return row


def split(world: World, key: bytes, *targets: str) -> list[bytes]:
    world.ok(c.Split(key, targets))
    return parts_of(world, through(world, key))


def parts_of(world: World, parent: Instance) -> list[bytes]:
    assert parent.parts is not None
    return [parent.parts.key(parent, i) for i in range(parent.parts.made)]


def states(world: World, keys: list[bytes]) -> list[I]:
    return [world.instance(key).state for key in keys]


def test_a_run_is_split_when_its_turn_comes() -> None:
    world = World()
    session = world.session()
    job, key = ready(world)
    parts = split(world, key)
    parent = world.instance(key)
    assert parent.state is I.RUNNING
    assert not parent.attempts
    rows = [world.instance(part) for part in parts]
    assert [(r.parent, r.shard_index, r.shard_count) for r in rows] == [(key, i, 3) for i in range(3)]
    assert world.job(job.id).active == 1
    for part in parts[:2]:
        world.run_once(part, session)
        assert world.instance(key).state is I.RUNNING
    world.run_once(parts[2], session)
    assert world.instance(key).state is I.SUCCEEDED
    after = world.job(job.id)
    assert (after.active, after.succeeded) == (0, 1)


def test_a_parent_is_never_assigned_once_it_was_split() -> None:
    world = World()
    session = world.session()
    _, key = ready(world)
    split(world, key)
    assert world.refused(c.Assign(key, session)) == "stale"
    assert world.refused(c.Split(key)) == "stale"


def test_failed_parts_alone_run_again() -> None:
    world = World()
    session = world.session()
    job, key = ready(world, suspend_after=5)
    parts = split(world, key)
    for part, outcome in zip(parts, (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT), strict=True):
        world.run_once(part, session, outcome)
    parent = world.instance(key)
    assert (parent.state, parent.reason, parent.dead_letter) == (I.FAILED, "parts_failed", True)
    assert "2 of 3 parts failed" in (parent.error or "")
    assert world.meta.dead_letters == 1
    assert world.job(job.id).failures_in_a_row == 1
    world.ok(c.Rerun(key))
    assert world.instance(key).state is I.WAITING
    assert split(world, key) == parts
    assert states(world, parts) == [I.SUCCEEDED, I.WAITING, I.WAITING]
    for part in parts[1:]:
        world.run_once(part, session)
    assert world.instance(key).state is I.SUCCEEDED
    assert [len(world.instance(part).attempts) for part in parts] == [1, 2, 2]
    assert world.meta.dead_letters == 0


def test_a_dead_letter_that_is_requeued_runs_what_failed() -> None:
    world = World()
    session = world.session()
    _, key = ready(world, shards=2)
    parts = split(world, key)
    world.run_once(parts[0], session, Outcome.FAILED)
    world.run_once(parts[1], session)
    world.ok(c.Requeue(key))
    split(world, key)
    assert states(world, parts) == [I.WAITING, I.SUCCEEDED]


def test_all_of_a_run_that_succeeded_run_again() -> None:
    world = World()
    session = world.session()
    _, key = ready(world, shards=2)
    for part in split(world, key):
        world.run_once(part, session)
    world.ok(c.Rerun(key))
    assert states(world, split(world, key)) == [I.WAITING, I.WAITING]


def test_each_part_is_retried_by_itself() -> None:
    world = World()
    session = world.session()
    _, key = ready(world, shards=2, retry=Retry((SECOND,)))
    parts = split(world, key)
    world.run_once(parts[0], session)
    world.run_once(parts[1], session, Outcome.FAILED)
    assert states(world, parts) == [I.SUCCEEDED, I.RETRYING]
    row = world.instance(parts[1])
    world.forward(SECOND)
    assert row.wake_at_ms is not None
    world.ok(c.Wake(parts[1], row.wake_at_ms))
    world.run_once(parts[1], session)
    assert world.instance(key).state is I.SUCCEEDED


def test_a_killed_parent_kills_its_parts() -> None:
    world = World()
    session = world.session()
    job, key = ready(world)
    parts = split(world, key)
    world.assign(parts[0], session)
    world.ok(c.Kill(key))
    assert world.instance(key).kill_asked
    through(world, key)
    assert states(world, parts) == [I.LAUNCHED, I.KILLED, I.KILLED]
    assert world.instance(parts[0]).kill_asked
    world.end(parts[0], Outcome.KILLED)
    assert world.instance(key).state is I.KILLED
    assert world.job(job.id).others == 1


def test_a_part_that_is_killed_fails_its_parent() -> None:
    world = World()
    session = world.session()
    _, key = ready(world, shards=2)
    parts = split(world, key)
    world.ok(c.Kill(parts[0]))
    world.run_once(parts[1], session)
    parent = world.instance(key)
    assert (parent.state, parent.error) == (I.FAILED, "1 of 2 parts killed.")


def test_many_are_made_and_ended_in_steps() -> None:
    world = World()
    _, key = ready(world, shards=1_000)
    world.ok(c.Split(key))
    assert len(parts_of(world, world.instance(key))) == STEP
    parts = parts_of(world, through(world, key))
    assert len(parts) == 1_000
    world.ok(c.Kill(key))
    parent = world.instance(key)
    assert parent.wake_at_ms is not None
    world.ok(c.Wake(key, parent.wake_at_ms))
    assert states(world, parts).count(I.KILLED) == STEP
    assert through(world, key).state is I.KILLED


def test_a_kill_while_parts_are_made_makes_no_more() -> None:
    world = World()
    session = world.session()
    _, key = ready(world, shards=3 * STEP)
    world.ok(c.Split(key))
    world.ok(c.Kill(key))
    assert through(world, key).state is I.KILLED
    assert len(parts_of(world, world.instance(key))) == STEP
    world.ok(c.Rerun(key))
    parts = split(world, key)
    assert len(parts) == 3 * STEP
    for part in parts:
        world.run_once(part, session)
    assert world.instance(key).state is I.SUCCEEDED


def test_on_all_nodes_each_part_is_for_one() -> None:
    world = World()
    sessions = {node: world.session(node) for node in ("n2", "n3")}
    job = world.create(on_all=True)
    key = world.run_now(job)
    parts = split(world, key, "n2", "n3")
    assert [world.instance(part).only_on for part in parts] == ["n2", "n3"]
    assert world.refused(c.Assign(parts[0], sessions["n3"])) == "stale"
    assert world.refused(c.Recheck(parts[0])) == "stale"
    for part, node in zip(parts, sessions, strict=True):
        world.run_once(part, sessions[node])
    assert world.instance(key).state is I.SUCCEEDED


def test_a_part_for_somebody_who_is_gone_fails_at_its_start_deadline() -> None:
    world = World()
    session = world.session("n2")
    job = world.create(on_all=True)
    key = world.run_now(job)
    parts = split(world, key, "n2", "worker/w1")
    world.run_once(parts[0], session)
    row = world.instance(parts[1])
    assert row.wake_at_ms is not None
    world.forward(row.wake_at_ms - world.now)
    world.ok(c.Wake(parts[1], row.wake_at_ms))
    row = world.instance(parts[1])
    assert (row.state, row.reason, row.dead_letter) == (I.FAILED, "start_deadline", False)
    assert "worker/w1, which is gone" in (row.error or "")
    assert world.instance(key).state is I.FAILED


@pytest.mark.parametrize("targets", [(), ("n2", "n2"), ("",), ("x" * 200,)])
def test_wrong_targets_are_refused(targets: tuple[str, ...]) -> None:
    world = World()
    job = world.create(on_all=True)
    key = world.run_now(job)
    assert world.refused(c.Split(key, targets)) == "stale"
    assert world.instance(key).parts is None


def test_a_part_is_rerun_with_its_parent_only() -> None:
    world = World()
    session = world.session()
    _, key = ready(world, shards=1)
    parts = split(world, key)
    world.run_once(parts[0], session, Outcome.FAILED)
    for command in (c.Rerun(parts[0]), c.Requeue(parts[0]), c.Discard(parts[0])):
        assert world.refused(command) == "illegal-transition"


def test_a_run_without_parts_is_not_split() -> None:
    world = World()
    key = world.run_now(world.create())
    assert world.refused(c.Split(key)) == "stale"


def test_replaced_by_the_next_run() -> None:
    world = World()
    session = world.session()
    job = world.create(every(SECOND), overlap=Overlap.REPLACE, shards=2)
    world.fire(job)
    first = world.waiting(job.id)[0].key
    parts = split(world, first)
    world.assign(parts[0], session)
    world.fire(job)
    through(world, first)
    world.end(parts[0], Outcome.KILLED)
    assert (world.instance(first).state, world.instance(first).reason) == (I.KILLED, "replaced")


def test_a_deleted_job_takes_its_parts_along_in_steps() -> None:
    world = World()
    world.session()
    job, key = ready(world, shards=30)
    split(world, key)
    world.ok(c.DeleteJob(job.id))
    through(world, key)
    assert world.job(job.id).state is JobState.DELETED
    for _ in range(3):
        world.ok(c.Prune(world.now, 10))
        world.forward(1)
    world.ok(c.Prune(world.now, 100))
    assert world.find(job.id) is None
    assert world.count(Table.INSTANCES) == 0


def test_retention_takes_parts_along_in_steps() -> None:
    world = World()
    session = world.session()
    job, key = ready(world, shards=5)
    for part in split(world, key):
        world.run_once(part, session)
    world.forward(8 * 86_400_000)
    world.ok(c.Prune(world.now, 3))
    assert len(parts_of(world, world.instance(key))) == 2
    world.ok(c.Prune(world.now, 10))
    assert world.row(key) is None
    assert world.count(Table.INSTANCES) == 0
    assert world.job(job.id).succeeded == 0


def test_a_path_does_not_go_with_parts() -> None:
    world = World()
    path = (Condition(ConditionKind.PATH, "/data/x"),)
    wrong = c.CreateJob("default", None, world.create().policy, b"{}")
    for fields in ({"shards": 2, "conditions": path}, {"shards": 2, "on_all": True}, {"shards": 1_001}):
        import msgspec

        policy = msgspec.structs.replace(wrong.policy, **fields)
        assert world.refused(msgspec.structs.replace(wrong, policy=policy)) == "invalid-job"


def test_events_are_about_the_parent_alone() -> None:
    world = World()
    session = world.session()
    _, key = ready(world, shards=4)
    before = world.meta.changes
    for part in split(world, key):
        world.run_once(part, session)
    assert world.meta.changes - before == 2  # it runs, it succeeded


@pytest.mark.parametrize("number", range(examples(15)))
def test_whatever_happens_the_parent_ends_when_all_parts_have(number: int) -> None:
    """The invariants are checked after each entry: see tests/support/invariants_parts.py."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    world = World()
    sessions = {node: world.session(node) for node in ("n2", "n3")}
    on_all = rng.random() < 0.3
    retry = Retry((SECOND,)) if rng.random() < 0.5 else Retry()
    fields = {"on_all": True} if on_all else {"shards": rng.choice((1, 3, STEP + 5))}
    job = world.create(retry=retry, overlap=rng.choice(list(Overlap)), max_lost=1, **fields)
    keys = [world.run_now(job)]
    for step in range(examples(150)):
        world.forward(rng.choice((0, 1, SECOND)))
        rows = world.instances()
        row = rng.choice(rows)
        act = rng.randrange(10)
        if act == 0:
            world.do(c.Kill(row.key))
        elif act == 1:
            world.do(c.Rerun(row.key))
        elif act == 2:
            world.do(c.Requeue(row.key))
        elif act == 3 and len(keys) < 4:
            world.do(c.RunNow(job.id, step + 2))
        elif act == 4 and rng.random() < 0.3:
            node = rng.choice(list(sessions))
            world.do(c.EndSession(sessions[node], world.meta.epoch))
            sessions[node] = world.session(node)
        else:
            for one in rows:
                _go_on(world, one.key, rng, list(sessions.values()))
    for _ in range(400):
        rows = [row for row in world.instances() if row.state not in FINAL]
        if not rows:
            break
        world.forward(SECOND)
        for row in rows:
            _go_on(world, row.key, rng, list(sessions.values()))
    assert all(row.state in FINAL for row in world.instances())
    kinds = {step.kind for row in world.instances() for step in row.steps}
    assert StepKind.SPLIT in kinds or all(row.state is I.KILLED for row in world.instances()), "killed before"


def _go_on(world: World, key: bytes, rng: random.Random, sessions: list[int]) -> None:
    row = world.row(key)
    if row is None or row.state in FINAL:
        return
    if row.wake_at_ms is not None and row.wake_at_ms <= world.now:
        world.do(c.Wake(key, row.wake_at_ms))
    elif row.state is I.WAITING and row.parent is None and not row.held:
        world.do(c.Split(key, ("n2", "n3")))
    elif row.state is I.WAITING:
        world.do(c.Assign(key, rng.choice(sessions)))
    elif row.live is not None:
        outcome = rng.choice((Outcome.SUCCEEDED, Outcome.FAILED, Outcome.KILLED))
        world.do(c.Ended(row.live.session, row.live.token, outcome, world.now, world.now))

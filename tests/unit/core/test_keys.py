"""Idempotency keys: the same one is answered, not done again; forgotten by age and by number."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.bounds import HOUR_MS
from raftsched.core import commands as c
from raftsched.core.model import InstanceState, Job, JobState, Overlap
from raftsched.core.subjects.keyed import NOTE_MAX, KeyUse
from raftsched.core.tables import Table
from tests.support.memory_view import World, policy

D, E = b"d" * 32, b"e" * 32


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def create(world: World, number: int, name: str | None = None, digest: bytes = D) -> tuple[Job, bool]:
    answer = world.ok(c.CreateJob("default", name, policy(), b"{}", key=key(number), digest=digest))
    assert answer.job is not None
    return answer.job, answer.created


def test_one_job_however_often_it_is_sent() -> None:
    world = World()
    first, created = create(world, 1)
    assert created
    world.forward(HOUR_MS - 1)
    again, created = create(world, 1)
    assert (again.id, created) == (first.id, True)
    assert create(world, 2)[0].id != first.id
    assert world.count(Table.JOBS) == 2


def test_the_repeat_shows_the_job_as_it_is_now() -> None:
    world = World()
    first, _ = create(world, 1, "a")
    world.edit(first, priority=9)
    again, _ = create(world, 1, "a")
    assert (again.id, again.revision, again.policy.priority) == (first.id, 2, 9)
    other, created = create(world, 2, "b")
    assert (other.name, created) == ("b", True)
    assert create(world, 3, "b")[1] is False
    assert create(world, 3, "b")[1] is False


def test_another_request_under_the_same_key_is_refused() -> None:
    world = World()
    create(world, 1, "a")
    assert world.refused(c.CreateJob("d", "b", policy(), b"", key=key(1), digest=E)) == "idempotency-mismatch"


def test_what_was_refused_is_not_remembered() -> None:
    world = World()
    bad = c.CreateJob("default", "a", policy(priority=99), b"{}", key=key(1), digest=D)
    assert world.refused(bad) == "invalid-job"
    assert create(world, 1, "a", E)[1] is True


def test_a_job_deleted_since_is_not_made_again() -> None:
    world = World()
    job, _ = create(world, 1, "a")
    world.ok(c.DeleteJob(job.id))
    again = c.CreateJob("default", "a", policy(), b"{}", key=key(1), digest=D)
    assert world.refused(again) == "not-found"
    world.ok(c.Prune(world.now + HOUR_MS, 100))
    assert world.refused(again) == "not-found"


def test_one_run_however_often_and_however_late() -> None:
    world = World()
    job = world.create(overlap=Overlap.ALLOW)
    first = world.ok(c.RunNow(job.id, 7, key=key(1), digest=D))
    world.forward(60_000)
    again = world.ok(c.RunNow(job.id, 8, key=key(1), digest=D))
    assert (again.instance, again.created) == (first.instance, True)
    assert len(world.instances(job.id)) == 1
    assert world.refused(c.RunNow(job.id, 8, key=key(1), digest=E)) == "idempotency-mismatch"
    world.ok(c.DeleteJob(job.id))
    assert world.ok(c.RunNow(job.id, 9, key=key(1), digest=D)).instance == first.instance


@pytest.mark.parametrize("step", [False, True])
def test_forgotten_after_an_hour_whether_pruned_or_not(step: bool) -> None:
    world = World()
    first, _ = create(world, 1)
    world.forward(HOUR_MS)
    if step:
        world.ok(c.Prune(world.now, 100))
        assert world.count(Table.KEYS) == world.count(Table.KEY_TIMES) == 0
    assert create(world, 1, digest=E)[0].id != first.id
    assert world.count(Table.KEYS) == 1


def test_pruned_in_bounded_steps() -> None:
    world = World()
    for number in range(10):
        create(world, number)
    world.forward(HOUR_MS)
    assert world.ok(c.Prune(world.now, 4)).number == 4
    assert world.count(Table.KEYS) == 6
    world.ok(c.Prune(world.now, 100))
    assert world.count(Table.KEYS) == 0


def test_the_oldest_go_when_there_are_too_many() -> None:
    world = World()
    world.settings(idempotency_max=3)
    for number in range(5):
        create(world, number)
        world.forward(1)
    assert [k for k, _ in world.view.scan(Table.KEYS)] == [key(2), key(3), key(4)]
    world.settings(idempotency_max=1)
    world.ok(c.Prune(world.now, 100))
    assert [k for k, _ in world.view.scan(Table.KEYS)] == [key(4)]
    world.settings(idempotency_max=0)
    create(world, 9)
    assert world.count(Table.KEYS) == 1


@pytest.mark.parametrize("odd", [b"x", b"k" * 31, b"k" * 600])
def test_keys_and_digests_have_one_size(odd: bytes) -> None:
    world = World()
    job = world.create()
    for given in ((odd, D), (D, odd), (D, b"")):
        assert world.refused(c.RunNow(job.id, 1, key=given[0], digest=given[1])) == "invalid-parameter"


def keyed(number: int, command: c.Command, digest: bytes = D) -> c.Idempotent:
    return c.Idempotent(key(number), digest, c.encode(command))


def test_any_command_is_done_once_under_a_key() -> None:
    world = World()
    job = world.create()
    pause = keyed(1, c.SetJobState(job.id, JobState.SUSPENDED))
    assert getattr(world.ok(pause).job, "state", None) is JobState.SUSPENDED
    world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
    assert getattr(world.ok(pause).job, "state", None) is JobState.SCHEDULED  # answered as it is by now, not done again
    assert world.job(job.id).state is JobState.SCHEDULED
    assert world.refused(keyed(1, c.SetJobState(job.id, JobState.SUSPENDED), E)) == "idempotency-mismatch"
    world.ok(c.DeleteJob(job.id))
    assert world.refused(pause) == "not-found"


def test_a_command_without_a_job_is_remembered_too() -> None:
    world = World()
    world.ok(keyed(1, c.PauseCluster(True)))
    world.ok(c.PauseCluster(False))
    world.ok(keyed(1, c.PauseCluster(True)))
    assert not world.meta.paused
    world.ok(keyed(2, c.PutNodeRule("n2", drained=True)))
    world.ok(c.PutNodeRule("n2"))
    world.ok(keyed(2, c.PutNodeRule("n2", drained=True)))
    assert world.count(Table.NODE_RULES) == 0


def test_what_is_killed_under_a_key_is_not_killed_when_it_runs_again() -> None:
    world = World()
    job = world.create()
    made = world.ok(c.RunNow(job.id, 7)).instance
    assert made is not None
    kill = keyed(1, c.Kill(made))
    world.ok(kill)
    world.ok(c.Rerun(made))
    assert world.ok(kill).instance == made
    assert world.instance(made).state is InstanceState.WAITING


def test_a_key_in_a_key_is_refused() -> None:
    world = World()
    for inner in (keyed(2, c.Barrier()), c.StoredResponse(key(2), D, b"x")):
        assert world.refused(keyed(1, inner)) == "invalid-parameter"
    assert world.count(Table.KEYS) == 0


def test_of_two_notes_the_first_counts() -> None:
    world = World()
    assert world.ok(c.StoredResponse(key(1), D, b"one")).note == b"one"
    assert world.ok(c.StoredResponse(key(1), D, b"two")).note == b"one"
    assert world.refused(c.StoredResponse(key(1), E, b"one")) == "idempotency-mismatch"
    assert world.refused(c.StoredResponse(b"", D, b"one")) == "invalid-parameter"
    assert world.refused(c.StoredResponse(key(2), D, b"x" * (NOTE_MAX + 1))) == "invalid-parameter"


# ------------------------------------------------------------ batches


def of_batch(number: int, place: int, name: str | None = None, digest: bytes = D) -> c.CreateJob:
    return c.CreateJob("default", name, policy(), b"{}", key=key(number), digest=digest, place=place)


def uses(world: World) -> list[KeyUse]:
    return [msgspec.msgpack.decode(raw, type=KeyUse) for _, raw in world.view.scan(Table.KEYS)]


def test_the_jobs_of_a_batch_share_a_row() -> None:
    world = World()
    first = [world.ok(of_batch(1, place)).job for place in range(5)]
    assert [job.id - first[0].id for job in first if job and first[0]] == [0, 1, 2, 3, 4]
    world.forward(HOUR_MS - 1)
    again = [world.ok(of_batch(1, place)) for place in (4, 0, 2)]
    assert [a.job.id for a in again if a.job] == [first[p].id for p in (4, 0, 2)]  # type: ignore[union-attr]
    assert all(a.created for a in again)
    (use,) = uses(world)
    assert [(m.place, m.count) for m in use.made] == [(0, 5)]
    assert world.count(Table.JOBS) == 5


def test_places_of_a_batch_that_differ_are_told_apart() -> None:
    """One is refused, another was there, a third has another's job between it and the one before."""
    world = World()
    there = world.create(name="there")
    a = world.ok(of_batch(1, 0)).job
    assert world.refused(of_batch(1, 1, "x" * 600)) == "invalid-job"
    found = world.ok(of_batch(1, 2, "there"))
    world.create()
    b = world.ok(of_batch(1, 3)).job
    assert a is not None
    assert b is not None
    assert found.job is not None
    assert (found.job.id, found.created) == (there.id, False)
    for place, job, created in ((0, a, True), (2, found.job, False), (3, b, True)):
        answer = world.ok(of_batch(1, place, "there" if place == 2 else None))
        assert answer.job is not None
        assert (answer.job.id, answer.created) == (job.id, created)
    assert len(uses(world)[0].made) == 3
    assert world.ok(of_batch(1, 1)).created, "what was refused is tried again"
    world.ok(c.DeleteJob(a.id))
    assert world.refused(of_batch(1, 0)) == "not-found"


def test_a_batch_is_another_request_than_what_else_has_its_key() -> None:
    world = World()
    world.ok(of_batch(1, 0))
    assert world.refused(of_batch(1, 0, digest=E)) == "idempotency-mismatch"
    assert world.refused(c.CreateJob("default", None, policy(), b"{}", key=key(1), digest=D)) == "idempotency-mismatch"
    create(world, 2)
    assert world.refused(of_batch(2, 0)) == "idempotency-mismatch"
    for place in (-1, 512):
        assert world.refused(of_batch(3, place)) == "invalid-parameter"


def test_a_batch_is_forgotten_after_an_hour_and_never_in_one_turn_only() -> None:
    world = World()
    world.ok(of_batch(1, 0))
    world.forward(HOUR_MS)
    assert world.ok(of_batch(1, 0)).created
    assert world.count(Table.JOBS) == 2
    assert (len(uses(world)), world.count(Table.KEY_TIMES)) == (1, 1)
    world.settings(idempotency_max=1)
    commands = [of_batch(2, 0), of_batch(3, 0), of_batch(2, 1), of_batch(2, 0)]
    together, one_by_one = World(), World()
    for w in (together, one_by_one):
        w.settings(idempotency_max=1)
    made = together.run(*commands)
    assert made == [answer for command in commands for answer in one_by_one.run(command)]
    assert list(together.view.scan(Table.KEYS)) == list(one_by_one.view.scan(Table.KEYS))

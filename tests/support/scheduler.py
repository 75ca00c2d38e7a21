"""What the leader does about due times, in a World: the commands are made by the leader's own functions."""

from __future__ import annotations

from raftsched.core.commands import Accepted, Fire, ResumeJob
from raftsched.core.model import Job, JobState, Trigger, TriggerKind
from raftsched.core.tables import Table, from_u64
from raftsched.leader.due.firing import fire_command
from raftsched.leader.due.scheduling import schedule_command, unscheduled_job
from raftsched.leader.due.triggers import with_calendars
from tests.support.memory_view import World


def several(*triggers: Trigger, max_runs: int | None = None) -> dict[str, object]:
    """Returns the fields of a Policy with several triggers."""
    return {"trigger": Trigger(kind=TriggerKind.SEVERAL, max_runs=max_runs), "triggers": triggers}


def read(world: World) -> object:
    """Returns what gives the leader's functions their view."""

    class _Read:
        def __enter__(self) -> object:
            return world.view

        def __exit__(self, *_: object) -> None:
            return None

    return _Read()


def schedule(world: World) -> None:
    """Gives all jobs that wait for it their next times."""
    for key, _ in list(world.view.scan(Table.UNSCHEDULED)):
        found = unscheduled_job(lambda: read(world), from_u64(key))  # type: ignore[arg-type, return-value]
        assert found is not None
        world.ok(schedule_command(found[0], found[1], world.now))


def due_command(world: World, job: Job) -> Fire:
    """Returns the command that fires the job now."""
    command = fire_command(with_calendars(world.view, job), world.now, world.meta.settings.catch_up_max)
    assert isinstance(command, Fire)
    return command


def tick(world: World) -> None:
    """Does once what is due now: resumes, schedules, fires."""
    for key, _ in list(world.view.scan(Table.RESUMES)):
        if from_u64(key[:8]) <= world.now:
            world.ok(ResumeJob(from_u64(key[8:]), from_u64(key[:8])))
    schedule(world)
    for key, _ in list(world.view.scan(Table.DUE)):
        job = world.find(from_u64(key[8:]))
        if job is not None and job.state is JobState.SCHEDULED and from_u64(key[:8]) <= world.now:
            assert isinstance(world.do(due_command(world, job)), Accepted)
    schedule(world)


def next_ms(world: World) -> int | None:
    """Returns when something is due next; None: nothing ever is."""
    times = [from_u64(key[:8]) for table in (Table.DUE, Table.RESUMES) for key, _ in world.view.scan(table)]
    return min(times, default=None)


def go_on(world: World, until_ms: int) -> None:
    """Lets time go on up to then, firing each due time as it comes. Call `world.forward` for an outage."""
    schedule(world)
    while True:
        at_ms = next_ms(world)
        if at_ms is None or at_ms > until_ms:
            break
        world.now = max(world.now, at_ms)
        tick(world)
    world.now = max(world.now, until_ms)

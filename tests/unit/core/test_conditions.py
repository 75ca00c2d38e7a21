"""Conditions: an instance waits until they are met, or is given up. Jobs are looked at in the tables, the rest by
workers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.bounds import CONDITIONS_MAX, DAY_MS, HOUR_MS
from raftsched.core import commands as c
from raftsched.core.actions import ConditionsWanted, InstanceReady, InstanceStarted
from raftsched.core.apply.jobs import lifecycle as jobs_module
from raftsched.core.apply.runs import conditions as module
from raftsched.core.model import Condition, ConditionKind, Instance, Job, Outcome, Overlap, Retry, StepKind
from raftsched.core.model import InstanceState as I
from raftsched.core.rules import creation
from raftsched.core.tables import Table
from tests.support.memory_view import World, after, every, policy

LOOK_MS = 10_000
PATH = Condition(ConditionKind.PATH, "/data/*.csv")
HTTP = Condition(ConditionKind.HTTP, "http://127.0.0.1/ready")
IMPORT = Condition(ConditionKind.JOB, "default/import", within_ms=2 * HOUR_MS)


def waiting(world: World, *conditions: Condition, **fields: object) -> bytes:
    """A run that waits for them."""
    return world.run_now(world.create(conditions=conditions, **fields))


def report(world: World, key: bytes, met: bool, node: str = "n2", detail: str | None = None) -> Instance:
    until = world.instance(key).checks_end_at_ms
    assert until is not None
    world.ok(c.ReportConditions(key, until, node, met, detail))
    return world.instance(key)


def wake(world: World, key: bytes) -> Instance:
    """When its timer is due."""
    at = world.instance(key).wake_at_ms
    assert at is not None
    world.now = max(world.now, at)
    world.ok(c.Wake(key, at))
    return world.instance(key)


def succeed(world: World, job: Job, request: int = 1) -> None:
    world.run_once(world.run_now(job, request), world.session())


class TestWhatMachinesSee:
    def test_is_asked_for_and_looked_at_again(self) -> None:
        world = World()
        key = waiting(world, PATH, HTTP)
        assert ConditionsWanted(key) in world.actions
        row = world.instance(key)
        assert (row.state, row.checking, row.reason) == (I.WAITING, True, "conditions")
        assert row.wake_at_ms == world.now + LOOK_MS
        assert row.checks_end_at_ms == world.now + HOUR_MS
        assert world.refused(c.Assign(key, world.session())) == "stale"
        row = wake(world, key)
        assert ConditionsWanted(key) in world.actions
        assert row.wake_at_ms == world.now + LOOK_MS

    def test_the_interval_is_a_setting(self) -> None:
        world = World()
        world.settings(condition_check_ms=3_000)
        assert world.instance(waiting(world, HTTP)).wake_at_ms == world.now + 3_000

    def test_is_met_where_it_was_seen(self) -> None:
        world = World()
        world.session("n3")
        key = waiting(world, PATH)
        row = report(world, key, True, "n3")
        assert (row.checking, row.only_on, row.reason, row.error, row.checks_end_at_ms) == (
            False,
            "n3",
            None,
            None,
            None,
        )
        assert any(isinstance(a, InstanceReady) and a.instance == key for a in world.actions)
        assert [s.kind for s in row.steps] == [StepKind.CREATED, StepKind.CONDITIONS, StepKind.CONDITIONS_MET]
        assert row.steps[-1].detail == "n3"

    def test_a_server_may_answer_to_any_node(self) -> None:
        world = World()
        world.session()
        assert report(world, waiting(world, HTTP), True).only_on == ""

    def test_what_is_missing_is_said(self) -> None:
        world = World()
        key = waiting(world, PATH)
        row = report(world, key, False, detail="No file matches /data/*.csv.")
        assert (row.checking, row.error) == (True, "No file matches /data/*.csv.")
        world.session()
        assert report(world, key, True).error is None

    def test_a_node_without_a_session_has_seen_nothing(self) -> None:
        world = World()
        key = waiting(world, PATH)
        until = world.instance(key).checks_end_at_ms or 0
        for node in ("n2", "", "x" * 600):
            assert world.refused(c.ReportConditions(key, until, node, True)) == "stale"
        world.session()
        report(world, key, True)

    def test_nor_has_one_that_cannot_run_it(self) -> None:
        world = World()
        world.session()
        world.ok(c.PutNodeRule("n2", drained=True))
        key = waiting(world, PATH, required_capability="exec", node_labels=(("disk", "ssd"),))
        until = world.instance(key).checks_end_at_ms or 0
        assert world.refused(c.ReportConditions(key, until, "n2", True)) == "stale"
        world.ok(c.PutNodeRule("n2"))
        assert world.refused(c.ReportConditions(key, until, "n2", True)) == "stale"
        world.ok(c.PutNodeRule("n2", drained=True, labels=(("disk", "ssd"),)))
        assert world.refused(c.ReportConditions(key, until, "n2", True)) == "stale"
        world.ok(c.PutNodeRule("n2", labels=(("disk", "ssd"),)))
        report(world, key, True)

    def test_a_report_about_an_earlier_wait_is_dropped(self) -> None:
        world = World()
        session = world.session()
        key = waiting(world, PATH)
        until = world.instance(key).checks_end_at_ms or 0
        report(world, key, True)
        world.run_once(key, session)
        world.forward(5)
        world.ok(c.Rerun(key))
        assert world.instance(key).checking
        assert world.refused(c.ReportConditions(key, until, "n2", True)) == "stale"
        assert report(world, key, True).only_on == "n2"
        assert world.refused(c.ReportConditions(key, until, "n2", True)) == "stale"

    def test_a_report_of_an_instance_that_is_gone(self) -> None:
        assert World().refused(c.ReportConditions(b"\0" * 24, 1, "n2", True)) == "stale"


class TestGivingUp:
    def test_is_a_dead_letter_without_a_retry(self) -> None:
        world = World()
        key = waiting(world, PATH, conditions_timeout_ms=25_000, retry=Retry((1,)))
        report(world, key, False, detail="No file matches /data/*.csv.")
        wake(world, key)
        row = wake(world, key)
        assert row.wake_at_ms == row.checks_end_at_ms  # not later than that
        row = wake(world, key)
        assert (row.state, row.reason, row.dead_letter) == (I.TIMED_OUT, "conditions_timeout", True)
        assert row.error == "Its conditions were not met within 25s: No file matches /data/*.csv."
        assert world.count(Table.TIMERS) == 0
        assert world.job(row.job_id).failed == 1
        assert world.job(row.job_id).failures_in_a_row == 1

    def test_says_so_when_nobody_looked(self) -> None:
        world = World()
        key = waiting(world, HTTP, conditions_timeout_ms=5_000)
        assert wake(world, key).error == "Its conditions were not met within 5s; no node has looked at them."

    def test_lets_the_next_run_have_its_turn(self) -> None:
        world = World()
        job = world.create(every(60_000), conditions=(PATH,), conditions_timeout_ms=5_000, overlap=Overlap.QUEUE_ALL)
        world.fire(job)
        world.fire(job)
        first, second = (r.key for r in world.instances(job.id))
        assert world.instance(second).held
        wake(world, first)
        row = world.instance(second)
        assert (row.held, row.checking, row.checks_end_at_ms) == (False, True, world.now + 5_000)

    def test_suspends_as_other_failures_do(self) -> None:
        world = World()
        job = world.create(every(60_000), conditions=(PATH,), conditions_timeout_ms=5_000, suspend_after=1)
        world.fire(job)
        wake(world, world.instances(job.id)[0].key)
        assert "conditions were not met" in (world.job(job.id).error or "")


class TestJobs:
    def test_a_success_lately_is_enough(self) -> None:
        world = World()
        source = world.create(name="import")
        succeed(world, source)
        assert world.job(source.id).last_success_at_ms == world.now
        world.forward(IMPORT.within_ms)
        row = world.instance(waiting(world, IMPORT))
        assert (row.checking, row.steps[-1].kind) == (False, StepKind.CONDITIONS_MET)
        world.forward(1)
        row = world.instance(waiting(world, IMPORT))
        assert row.checking
        assert row.error == "The job default/import has not succeeded within 2h."

    def test_its_coming_is_seen_at_once(self) -> None:
        world = World()
        source = world.create(name="import")
        key = waiting(world, IMPORT)
        row = world.instance(key)
        assert row.wake_at_ms == row.checks_end_at_ms  # nothing is polled
        assert world.count(Table.AWAITED) == 1
        world.run_once(world.run_now(source), world.session(), Outcome.FAILED)
        assert world.instance(key).checking
        succeed(world, source, 2)
        row = world.instance(key)
        assert (row.checking, row.only_on, row.error) == (False, "", None)
        assert world.count(Table.AWAITED) == 0

    def test_a_job_that_is_created_later(self) -> None:
        world = World()
        key = waiting(world, IMPORT)
        succeed(world, world.create(name="import"))
        assert not world.instance(key).checking

    def test_a_job_that_gets_the_name(self) -> None:
        world = World()
        other = world.create(name="load")
        succeed(world, other)
        key = waiting(world, IMPORT)
        now = world.job(other.id)
        world.ok(c.EditJob(other.id, now.policy, now.body, name="import"))
        assert not world.instance(key).checking

    def test_a_job_whose_name_starts_the_same_is_another(self) -> None:
        world = World()
        key = waiting(world, IMPORT)
        succeed(world, world.create(name="import2"))
        succeed(world, world.create(name="impor"))
        assert world.instance(key).checking

    def test_one_that_waits_for_its_own_job(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # It may have been written by an earlier version.
        monkeypatch.setattr(jobs_module, "circle", lambda *_, **__: (None, 0))
        world = World()
        session = world.session()
        first = world.create(name="import", overlap=Overlap.ALLOW)
        running = world.run_now(first)
        world.assign(running, session)
        world.edit(first, conditions=(IMPORT,))
        key = world.run_now(world.job(first.id), 2)
        assert world.instance(key).checking
        world.end(running)
        assert not world.instance(key).checking
        assert world.job(first.id).active == 1

    def test_one_that_was_held_behind_the_run_it_waits_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # It may have been written by an earlier version.
        monkeypatch.setattr(jobs_module, "circle", lambda *_, **__: (None, 0))
        world = World()
        first = world.create(name="import", overlap=Overlap.QUEUE_ALL)
        running = world.run_now(first)
        world.assign(running, world.session())
        world.edit(first, conditions=(IMPORT,))
        key = world.run_now(world.job(first.id), 2)
        assert world.instance(key).held
        world.end(running)
        row = world.instance(key)
        assert (row.held, row.checking, row.steps[-1].kind) == (False, False, StepKind.CONDITIONS_MET)

    def test_all_have_to_be_met(self) -> None:
        world = World()
        a, b = world.create(name="a"), world.create(name="b")
        key = waiting(world, *(Condition(ConditionKind.JOB, f"default/{n}", within_ms=DAY_MS) for n in "ab"))
        succeed(world, b)
        assert world.instance(key).error == "The job default/a has not succeeded within 1d."
        succeed(world, a)
        assert not world.instance(key).checking

    def test_machines_are_asked_when_the_jobs_are_done(self) -> None:
        world = World()
        source = world.create(name="import")
        key = waiting(world, PATH, IMPORT)
        assert ConditionsWanted(key) not in world.actions
        succeed(world, source)
        assert ConditionsWanted(key) in world.actions
        assert world.instance(key).wake_at_ms == world.now + LOOK_MS

    def test_machines_are_not_asked_again_at_each_success(self) -> None:
        world = World()
        source = world.create(name="import")
        key = waiting(world, PATH, IMPORT)
        succeed(world, source)
        due = world.instance(key).wake_at_ms
        world.forward(1_000)
        succeed(world, source, 2)
        assert ConditionsWanted(key) not in world.actions
        assert world.instance(key).wake_at_ms == due

    def test_the_success_may_be_too_old_when_the_path_is_there(self) -> None:
        world = World()
        source = world.create(name="import")
        succeed(world, source)
        key = waiting(world, PATH, IMPORT, conditions_timeout_ms=DAY_MS)
        world.forward(IMPORT.within_ms + 1)
        row = report(world, key, True)
        assert (row.checking, row.wake_at_ms) == (True, row.checks_end_at_ms)
        succeed(world, source, 2)
        assert not report(world, key, True).checking

    def test_beyond_a_number_they_look_by_their_timer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "AWAITED_MAX", 2)
        world = World()
        source = world.create(name="import")
        keys = [waiting(world, IMPORT) for _ in range(3)]
        assert world.count(Table.AWAITED) == 2
        succeed(world, source)
        assert [world.instance(key).checking for key in keys] == [False, False, True]
        assert world.instance(keys[2]).wake_at_ms == world.now + LOOK_MS
        assert not wake(world, keys[2]).checking

    def test_what_has_come_by_the_end_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "AWAITED_MAX", 0)
        world = World()
        source = world.create(name="import")
        key = waiting(world, IMPORT, conditions_timeout_ms=5_000)
        succeed(world, source)
        assert wake(world, key).state is I.WAITING
        assert not world.instance(key).checking


class TestEveryKindOfRun:
    def test_what_is_due(self) -> None:
        world = World()
        world.session()
        job = world.create(every(60_000), conditions=(PATH,))
        world.fire(job)
        key = world.instances(job.id)[0].key
        assert world.instance(key).checking
        world.forward(HOUR_MS // 2)
        row = report(world, key, True)
        assert row.wake_at_ms == world.now + world.meta.settings.start_deadline_ms  # counts from when it was ready
        assert row.ready_at_ms == world.now

    def test_what_is_made_up_for(self) -> None:
        world = World()
        world.session()
        job = world.create(every(60_000), conditions=(PATH,))
        world.ok(c.Backfill(job.id, 1, (world.now - 120_000, world.now - 60_000)))
        first, second = world.instances(job.id)
        assert (first.checking, second.held) == (True, True)
        report(world, first.key, True)
        world.run_once(first.key, world.session())
        assert world.instance(second.key).checking

    def test_a_one_shot(self) -> None:
        world = World()
        world.session()
        job = world.create(after(1_000), conditions=(PATH,))
        world.fire(job)
        assert report(world, world.instances(job.id)[0].key, True).wake_at_ms is None

    def test_a_kill_ends_the_wait(self) -> None:
        world = World()
        key = waiting(world, PATH, IMPORT)
        world.ok(c.Kill(key))
        assert world.instance(key).state is I.KILLED
        assert world.count(Table.TIMERS) == world.count(Table.AWAITED) == 0

    def test_deleting_the_job_ends_the_wait(self) -> None:
        world = World()
        key = waiting(world, PATH, IMPORT)
        world.ok(c.DeleteJob(world.instance(key).job_id))
        assert world.count(Table.TIMERS) == world.count(Table.AWAITED) == 0

    def test_an_edit_leaves_what_waits_alone(self) -> None:
        world = World()
        job = world.create(conditions=(IMPORT,))
        key = world.run_now(job)
        world.edit(job, conditions=())
        assert world.instance(key).checking
        succeed(world, world.create(name="import"))
        assert not world.instance(key).checking

    def test_a_retry_does_not_look_again(self) -> None:
        world = World()
        session = world.session()
        key = waiting(world, PATH, retry=Retry((1_000,)))
        report(world, key, True)
        world.run_once(key, session, Outcome.FAILED)
        row = wake(world, key)
        assert (row.state, row.checking, row.only_on) == (I.WAITING, False, "n2")

    def test_a_rerun_and_a_requeue_do(self) -> None:
        world = World()
        key = waiting(world, PATH, conditions_timeout_ms=5_000)
        wake(world, key)
        world.ok(c.Requeue(key))
        row = world.instance(key)
        assert (row.checking, row.error, row.checks_end_at_ms) == (True, None, world.now + 5_000)
        wake(world, key)
        world.ok(c.Rerun(key))
        assert ConditionsWanted(key) in world.actions

    def test_what_waited_for_its_conditions_was_not_late(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(60_000), conditions=(PATH,))
        world.fire(job)
        key = world.instances(job.id)[0].key
        report(world, key, True)
        token = world.assign(key, session)
        world.ok(c.Started(session, token, world.now))
        assert not any(isinstance(a, InstanceStarted) for a in world.actions)


class TestRecheck:
    def test_when_the_node_is_gone(self) -> None:
        world = World()
        session = world.session()
        key = waiting(world, PATH)
        report(world, key, True)
        assert world.refused(c.Recheck(key)) == "stale"
        world.ok(c.EndSession(session, world.meta.epoch))
        world.ok(c.Recheck(key))
        row = world.instance(key)
        assert (row.checking, row.only_on) == (True, "")
        assert ConditionsWanted(key) in world.actions
        assert world.refused(c.Recheck(key)) == "stale"
        world.session("n3")
        assert report(world, key, True, "n3").only_on == "n3"

    def test_when_the_node_is_drained_or_lost_its_label(self) -> None:
        label = (("disk", "ssd"),)
        for rule in (c.PutNodeRule("n2", drained=True, labels=label), c.PutNodeRule("n2", labels=())):
            world = World()
            world.session()
            world.ok(c.PutNodeRule("n2", labels=label))
            key = waiting(world, PATH, node_labels=label)
            report(world, key, True)
            assert world.refused(c.Recheck(key)) == "stale"
            world.ok(rule)
            world.ok(c.Recheck(key))
            assert world.instance(key).checking

    def test_of_one_that_nobody_can_take(self) -> None:
        world = World()
        session = world.session()
        key = waiting(world, PATH)
        report(world, key, True)
        world.ok(c.EndSession(session, world.meta.epoch))
        world.ok(c.NoteUnplaceable(key, "No node has an open session."))
        world.ok(c.Recheck(key))
        row = world.instance(key)
        assert (row.reason, row.error, world.meta.unplaceable) == ("conditions", None, 0)

    def test_after_its_attempt_was_lost_there(self) -> None:
        world = World()
        session = world.session()
        key = waiting(world, PATH)
        report(world, key, True)
        world.assign(key, session)
        world.ok(c.EndSession(session, world.meta.epoch))
        assert world.instance(key).reason == "worker_lost"
        world.ok(c.Recheck(key))
        assert world.instance(key).reason == "conditions"

    def test_of_what_is_bound_to_no_node(self) -> None:
        world = World()
        assert world.refused(c.Recheck(world.run_now(world.create()))) == "stale"
        assert world.refused(c.Recheck(b"x")) == "stale"


@pytest.mark.parametrize(
    "bad",
    [
        {"conditions": (PATH,) * (CONDITIONS_MAX + 1)},
        {"conditions": (Condition(ConditionKind.PATH, ""),)},
        {"conditions": (Condition(ConditionKind.PATH, "x\0"),)},
        {"conditions": (Condition(ConditionKind.PATH, "x" * 3_000),)},
        {"conditions": (Condition(ConditionKind.HTTP, "http://h/", status=99),)},
        {"conditions": (Condition(ConditionKind.JOB, "import", within_ms=1),)},
        {"conditions": (Condition(ConditionKind.JOB, "a/", within_ms=1),)},
        {"conditions": (Condition(ConditionKind.JOB, "a/b"),)},
        {"conditions": (Condition(ConditionKind.JOB, "a/" + "b" * 500, within_ms=1),)},
        {"conditions_timeout_ms": 0},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(bad: dict[str, object]) -> None:
    world = World()
    assert world.refused(c.CreateJob("d", "x", policy(**bad), b"{}")) == "invalid-job"


class TestCircles:
    """None of its jobs would ever run: the one that would close it is refused."""

    def after(self, *names: str) -> dict[str, Any]:
        return {"conditions": tuple(Condition(ConditionKind.JOB, name, within_ms=HOUR_MS) for name in names)}

    def refused(self, world: World, command: c.Command) -> tuple[str, str | None]:
        (answer,) = world.run(command)
        assert isinstance(answer, c.Rejected), answer
        assert answer.code == "invalid-job"
        return answer.detail, answer.pointer

    def create(self, name: str | None, *names: str, namespace: str = "default") -> c.CreateJob:
        return c.CreateJob(namespace, name, policy(**self.after(*names)), b"{}")

    def test_of_two(self) -> None:
        world = World()
        world.create(name="a", **self.after("default/b"))
        detail, pointer = self.refused(world, self.create("b", "default/x", "default/a"))
        assert detail == (
            "it would never run: default/b waits for default/a, which waits for default/b; take out one of these"
            " conditions"  # the API ends what it says of a field with a full stop itself
        )
        assert pointer == "/conditions/1/job_succeeded"
        world.create(name="b", **self.after("default/x"))

    def test_of_itself(self) -> None:
        detail, _ = self.refused(World(), self.create("a", "default/a"))
        assert detail.startswith("it would never run: default/a waits for default/a;")

    def test_of_several_namespaces(self) -> None:
        world = World()
        for number in range(1, 6):
            world.ok(self.create(f"j{number}", f"n{number + 1}/j{number + 1}", namespace=f"n{number}"))
        detail, _ = self.refused(world, self.create("j6", "n1/j1", namespace="n6"))
        assert "n6/j6 waits for n1/j1, which waits for a job of another namespace, which waits for a job" in detail
        assert "which waits for n6/j6; take out" in detail
        assert "n2/" not in detail
        world.ok(self.create("j6", "n1/j1", namespace="n7"))

    def test_by_an_edit(self) -> None:
        world = World()
        job = world.create(name="a")
        world.create(name="b", **self.after("default/a"))
        changed = policy(**self.after("default/b"))
        assert "default/a waits for default/b" in self.refused(world, c.EditJob(job.id, changed, b"{}", name="a"))[0]
        assert world.job(job.id).revision == 1

    def test_by_a_name(self) -> None:
        world = World()
        world.create(name="b", **self.after("default/a"))
        job = world.create(name="x", **self.after("default/b"))
        self.refused(world, c.EditJob(job.id, job.policy, job.body, name="a"))
        world.ok(c.EditJob(job.id, job.policy, job.body, name="y"))
        world.ok(self.create(None, "default/b"))

    def test_by_what_replaces_a_job_of_the_name(self) -> None:
        world = World()
        world.create(name="a")
        world.create(name="b", **self.after("default/a"))
        command = c.CreateJob("default", "a", policy(**self.after("default/b")), b"{}", replace=True)
        self.refused(world, command)

    def test_what_meets_again_is_no_circle(self) -> None:
        world = World()
        world.create(name="root")
        for side in ("left", "right"):
            world.create(name=side, **self.after("default/root"))
        world.create(name="top", **self.after("default/left", "default/right"))

    def test_others_have_one_already(self) -> None:
        """As jobs may have that were written by an earlier version: the search ends, and they can be edited."""
        world = World()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(jobs_module, "circle", lambda *_, **__: (None, 0))
            first = world.create(name="a", **self.after("default/b"))
            world.create(name="b", **self.after("default/a"))
        world.create(name="c", **self.after("default/a"))
        world.ok(c.EditJob(first.id, msgspec.structs.replace(first.policy, priority=9), first.body, name="a"))

    def test_a_long_way_is_looked_along_so_far_and_no_further(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(creation, "CIRCLE_STEPS", 5 * 11)
        world = World()
        for number in range(6):
            world.create(name=f"j{number}", **self.after(f"default/j{number + 1}"))
        self.refused(world, self.create("j5x", "default/j5x"))
        world.ok(self.create("j6", "default/j0"))

    def test_jobs_without_conditions_are_not_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jobs_module, "circle", None)
        world = World()
        job = world.create(name="a")
        world.ok(c.EditJob(job.id, msgspec.structs.replace(job.policy, priority=9), job.body, name="b"))

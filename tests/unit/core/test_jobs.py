"""Create, edit, replace, rename, refuse."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from raftsched.core import commands as c
from raftsched.core.commands import Rejected
from raftsched.core.model import JobState
from raftsched.core.rules.creation import has_content
from raftsched.core.tables import Table
from tests.support.memory_view import T0, World, at, every, policy


def create(**fields: object) -> c.CreateJob:
    values: dict[str, object] = {"namespace": "a", "name": "x", "policy": policy(every(1000)), "body": b"{}"}
    return c.CreateJob(**{**values, **fields})  # type: ignore[arg-type]


class TestNames:
    def test_the_same_content_is_the_same_job(self) -> None:
        world = World()
        first = world.ok(create())
        again = world.ok(create())
        assert first.job is not None
        assert again.job is not None
        assert (again.job.id, again.created) == (first.job.id, False)

    @pytest.mark.parametrize("other", [{"body": b"[]"}, {"policy": policy(every(2000))}])
    def test_other_content_is_refused(self, other: dict[str, object]) -> None:
        world = World()
        world.ok(create())
        assert world.refused(create(**other)) == "name-taken"

    def test_variables_count_as_content_where_they_are_known(self) -> None:
        stored, given = (replace(policy(every(1000)), env=env) for env in ((), ("APP_A",)))
        job = World().ok(create(policy=stored)).job
        assert job is not None
        assert not has_content(job, given, job.body)
        assert has_content(job, given, job.body, variables=False)
        assert not has_content(job, given, b"[]", variables=False)
        assert not has_content(job, replace(given, trigger=every(2000)), job.body, variables=False)

    def test_create_only(self) -> None:
        world = World()
        world.ok(create(if_none=True))
        assert world.refused(create(if_none=True)) == "exists"

    def test_create_or_replace(self) -> None:
        world = World()
        first = world.ok(create(replace=True))
        assert first.created
        assert world.ok(create(replace=True)).job == first.job  # nothing to change
        second = world.ok(create(replace=True, body=b"[1]"))
        assert second.job is not None
        assert (second.job.revision, second.created, second.job.body) == (2, False, b"[1]")

    def test_replaced_by_a_suspended_one(self) -> None:
        world = World()
        world.ok(create())
        world.forward(10)
        job = world.ok(create(replace=True, suspended=True)).job
        assert job is not None
        assert (job.state, job.fire_at_ms, job.modified_at_ms) == (JobState.SUSPENDED, None, T0 + 10)
        assert world.count(Table.DUE) == 0

    def test_the_same_name_elsewhere(self) -> None:
        world = World()
        first, second = world.ok(create()), world.ok(create(namespace="b"))
        assert first.job is not None
        assert second.job is not None
        assert first.job.id != second.job.id

    def test_none_is_no_name(self) -> None:
        world = World()
        world.ok(create(name=None))
        world.ok(create(name=None))
        assert world.count(Table.NAMES) == 0

    @pytest.mark.parametrize("name", ["n" * 510, "\u20ac" * 170, ""])
    def test_what_no_key_can_hold(self, name: str) -> None:
        world = World()
        assert world.refused(create(name=name)) == "invalid-job"
        job = world.ok(create()).job
        assert job is not None
        assert world.refused(c.EditJob(job.id, job.policy, job.body, name=name)) == "invalid-job"

    def test_rename(self) -> None:
        world = World()
        job = world.create(every(1000), name="old")
        other = world.create(every(1000), name="other")
        assert world.refused(c.EditJob(job.id, job.policy, job.body, name="other")) == "name-taken"
        world.ok(c.EditJob(job.id, job.policy, job.body, name="new"))
        assert (world.job(job.id).name, world.job(job.id).revision) == ("new", 2)
        world.ok(c.EditJob(other.id, other.policy, other.body, name="old"))
        world.ok(c.EditJob(job.id, job.policy, job.body))
        assert world.job(job.id).name is None


class TestEdit:
    def test_only_the_revision_it_was_meant_for(self) -> None:
        world = World()
        job = world.create(every(1000))
        changed = policy(every(1000), priority=1)
        for command in (
            c.EditJob(job.id, changed, b"{}", if_revision=2),
            c.SetJobState(job.id, JobState.SUSPENDED, if_revision=2),
            c.DeleteJob(job.id, if_revision=2),
        ):
            assert world.refused(command) == "stale-revision"
        world.ok(c.EditJob(job.id, changed, b"{}", if_revision=1))
        world.ok(c.DeleteJob(job.id, if_revision=2))

    def test_of_what_is_not_there(self) -> None:
        world = World()
        job = world.create(every(1000))
        world.ok(c.DeleteJob(job.id))
        world.ok(c.Prune(world.now, 10))
        for command in (
            c.EditJob(job.id, job.policy, b"{}"),
            c.SetJobState(job.id, JobState.SUSPENDED),
            c.DeleteJob(job.id),
            c.RunNow(job.id, 1),
        ):
            assert world.refused(command) == "not-found"

    def test_of_a_new_one_shot_moves_its_time(self) -> None:
        world = World()
        job = world.create(at(T0 + 5), suspended=True)
        edited = world.edit(job, trigger=at(T0 + 9))
        assert (edited.state, edited.nominal_at_ms, edited.fire_at_ms) == (JobState.NEW, T0 + 9, None)

    def test_of_a_suspended_one(self) -> None:
        world = World()
        job = world.create(every(1000))
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        assert world.edit(job, trigger=every(2000)).state is JobState.SUSPENDED
        world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
        assert world.job(job.id).nominal_at_ms == T0 + 2000


class TestLimits:
    def test_the_body(self) -> None:
        world = World()
        world.settings(body_max_bytes=10)
        assert world.refused(create(body=b"x" * 11)) == "too-large"
        job = world.ok(create(body=b"x" * 10)).job
        assert job is not None
        assert world.refused(c.EditJob(job.id, job.policy, b"x" * 11, name="x")) == "too-large"

    def test_params(self) -> None:
        world = World()
        world.settings(params_max_bytes=10)
        job = world.create()
        assert world.refused(c.RunNow(job.id, 1, b"x" * 11)) == "too-large"

    def test_the_timeout_s_ceiling(self) -> None:
        world = World()
        world.settings(timeout_ceiling_ms=1000)
        assert world.refused(create(policy=policy(every(1000), timeout_ms=1001))) == "invalid-job"


def test_the_answer_holds_the_row_as_stored() -> None:
    world = World()
    answer = world.ok(create())
    assert answer.job is not None
    assert answer.job == world.job(answer.job.id)
    later = world.do(c.SetJobState(answer.job.id, JobState.SUSPENDED))
    assert not isinstance(later, Rejected)
    assert later.job == world.job(answer.job.id)

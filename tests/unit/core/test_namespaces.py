"""Namespaces: declared, counted exactly, limited; what a job was filled in from is what the namespace has."""

from __future__ import annotations

import pytest

from raftsched.bounds import DAY_MS
from raftsched.core import commands as c
from raftsched.core.model import JobState
from raftsched.core.rows import decode_namespace
from raftsched.core.subjects.namespace import CONTENT_MAX, DeleteNamespace, Namespace, PutNamespace
from raftsched.core.tables import Table
from raftsched.namespace_limits import LIMITS
from tests.support.memory_view import World, after, policy


def namespace(world: World, name: str = "d") -> Namespace | None:
    raw = world.view.get(Table.NAMESPACES, name.encode())
    return None if raw is None else decode_namespace(raw)


def jobs_in(world: World, name: str = "d") -> int:
    found = namespace(world, name)
    return 0 if found is None else found.jobs


def create(name: str | None = None, defaults: int | None = None, namespace: str = "d") -> c.CreateJob:
    return c.CreateJob(namespace, name, policy(), b"{}", defaults=defaults)


@pytest.mark.parametrize("limit", LIMITS)
def test_each_limit_is_kept_within_its_bounds(limit: str) -> None:
    world, (least, most, _) = World(), LIMITS[limit]
    for value in (least, most):
        world.ok(PutNamespace("d", b"{}", **{limit: value}))
        assert getattr(namespace(world), limit) == value
    for value in (least - 1, most + 1):
        answer = world.do(PutNamespace("d", b"{}", **{limit: value}))
        assert answer == c.Rejected("invalid-parameter", f"{limit} is {value}; use {least} to {most}.")
    world.ok(PutNamespace("d", b"{}"))
    assert getattr(namespace(world), limit) is None


class TestDeclared:
    def test_put_anew_and_taken_back(self) -> None:
        world = World()
        assert world.ok(PutNamespace("d", b"{}", 3)).created
        first = namespace(world)
        assert first is not None
        assert (first.content, first.max_jobs, first.jobs) == (b"{}", 3, 0)
        assert not world.ok(PutNamespace("d", b"{}", 3)).created
        assert namespace(world) == first  # no change: the revision stays
        world.ok(PutNamespace("d", b'{"owner":"ana"}'))
        second = namespace(world)
        assert second is not None
        assert second.revision > first.revision
        assert second.max_jobs is None
        world.ok(DeleteNamespace("d"))
        assert namespace(world) is None
        assert world.refused(DeleteNamespace("d")) == "not-found"
        world.ok(PutNamespace("d", b"{}", 3))
        third = namespace(world)
        assert third is not None
        assert third.revision > second.revision  # never one that was there before

    def test_nothing_of_one_that_was_taken_back_is_left_in_the_same_turn(self) -> None:
        world = World()
        for command in (PutNamespace("d", b"{}", 3), DeleteNamespace("d"), create()):
            world.ok(command)
        assert world.in_one_batch() == world.view.dump()

    def test_conditions(self) -> None:
        world = World()
        assert world.refused(PutNamespace("d", b"{}", if_revision=1)) == "stale-revision"
        world.ok(PutNamespace("d", b"{}", if_none=True))
        found = namespace(world)
        assert found is not None
        assert world.refused(PutNamespace("d", b"{}", if_none=True)) == "exists"
        assert world.refused(PutNamespace("d", b"{}", if_revision=found.revision + 1)) == "stale-revision"
        assert world.refused(DeleteNamespace("d", found.revision + 1)) == "stale-revision"
        world.ok(DeleteNamespace("d", found.revision))

    def test_one_that_holds_jobs_stays(self) -> None:
        world = World()
        world.ok(PutNamespace("d", b"{}"))
        job = world.ok(create("a")).job
        assert job is not None
        assert world.refused(DeleteNamespace("d")) == "in-use"
        world.ok(c.DeleteJob(job.id))
        world.ok(DeleteNamespace("d"))

    @pytest.mark.parametrize("name", ["", "x" * 65, "a\0b"])
    def test_names_that_are_no_keys(self, name: str) -> None:
        world = World()
        assert world.refused(PutNamespace(name, b"{}")) == "invalid-parameter"
        assert world.refused(DeleteNamespace(name)) == "not-found"
        assert world.refused(create(namespace=name)) == "invalid-job"

    def test_bounds(self) -> None:
        world = World()
        assert world.refused(PutNamespace("d", b"x" * (CONTENT_MAX + 1))) == "invalid-parameter"
        assert world.refused(PutNamespace("d", b"", -1)) == "invalid-parameter"
        world.settings(namespaces_max=1)
        world.ok(PutNamespace("d", b""))
        assert world.refused(PutNamespace("e", b"")) == "not-possible"
        world.ok(PutNamespace("d", b"{}"))


class TestCount:
    def test_jobs_that_are_deleted_or_pruned_do_not_count(self) -> None:
        world = World()
        first = world.ok(create("a")).job
        world.ok(create())
        assert jobs_in(world) == 2
        assert first is not None
        world.ok(c.DeleteJob(first.id))
        assert jobs_in(world) == 1
        world.forward(30 * DAY_MS)
        world.ok(c.Prune(world.now, 100))
        assert jobs_in(world) == 1

    def test_a_deleted_job_that_still_runs_does_not_count(self) -> None:
        world = World()
        session = world.session()
        job = world.create()
        key = world.run_now(job)
        world.assign(key, session)
        world.ok(c.DeleteJob(job.id))
        assert jobs_in(world, job.namespace) == 0
        world.end(key)
        assert jobs_in(world, job.namespace) == 0

    def test_a_one_shot_that_goes_by_itself_does_not_count(self) -> None:
        world = World()
        session = world.session()
        world.ok(PutNamespace("d", b"{}", 1))
        job = world.ok(c.CreateJob("d", None, policy(after(1_000)), b"{}")).job
        assert job is not None
        world.fire(job.id)
        world.run_once(world.instances(job.id)[0].key, session)
        assert world.job(job.id).state is JobState.EXPIRED
        assert world.refused(create()) == "not-possible"
        world.forward(30 * DAY_MS)
        world.ok(c.Prune(world.now, 100))
        assert jobs_in(world) == 0
        world.ok(create())

    def test_the_limit_is_exact_in_one_entry(self) -> None:
        world = World()
        world.ok(PutNamespace("d", b"{}", 2))
        answers = world.run(create("a"), create("b"), create("c"), create("a"))
        assert [isinstance(answer, c.Accepted) for answer in answers] == [True, True, False, True]
        world.ok(PutNamespace("d", b"{}", 1))  # below what there is: nothing goes, nothing comes
        assert jobs_in(world) == 2
        assert world.refused(create("c")) == "not-possible"
        world.ok(c.CreateJob("d", "a", policy(priority=7), b"{}", replace=True))


class TestDefaults:
    def test_a_job_is_refused_that_was_filled_in_from_what_is_not_so_any_more(self) -> None:
        world = World()
        assert world.refused(create("a", 1)) == "stale-defaults"
        job = world.ok(create("a", 0)).job
        assert job is not None
        world.ok(PutNamespace("d", b"{}"))
        found = namespace(world)
        assert found is not None
        edit = c.EditJob(job.id, policy(priority=7), b"{}", None, "a", 0)
        assert world.refused(create("b", 0)) == "stale-defaults"
        assert world.refused(edit) == "stale-defaults"
        world.ok(create("b", found.revision))
        world.ok(c.EditJob(job.id, policy(priority=7), b"{}", None, "a", found.revision))
        world.ok(c.EditJob(job.id, policy(priority=8), b"{}", None, "a"))  # filled in from nothing

    def test_a_new_declaration_of_the_same_is_another_one(self) -> None:
        world = World()
        world.ok(PutNamespace("d", b"{}"))
        found = namespace(world)
        assert found is not None
        world.ok(DeleteNamespace("d"))
        world.ok(PutNamespace("d", b"{}"))
        assert world.refused(create("a", found.revision)) == "stale-defaults"


def test_where_they_have_to_be_declared_others_take_no_new_jobs() -> None:
    world = World()
    job = world.ok(create("a")).job
    assert job is not None
    world.settings(namespaces_strict=1)
    answer = world.do(create("b"))
    assert isinstance(answer, c.Rejected)
    assert (answer.code, answer.pointer) == ("invalid-job", "/namespace")
    world.ok(c.EditJob(job.id, policy(priority=7), b"{}", None, "a"))
    world.ok(create("b", namespace="default"))
    world.ok(PutNamespace("d", b"{}"))
    world.ok(create("b"))

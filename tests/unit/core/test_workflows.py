"""Jobs that follow others: which ends start them, once; fan-out and fan-in."""

from __future__ import annotations

import pytest

from raftsched.bounds import DAY_MS
from raftsched.core import commands as c
from raftsched.core.apply.runs import following as module
from raftsched.core.ids import BACKFILL, instance_key, split_instance
from raftsched.core.levels import DROPPED_IS_TOLD
from raftsched.core.model import (
    After,
    AfterOn,
    JobState,
    Outcome,
    Overlap,
    Retention,
    Retry,
    StepKind,
    Trigger,
    TriggerKind,
)
from raftsched.core.model import InstanceState as I
from raftsched.core.rules.results import DROPPED
from raftsched.core.subjects.workflow import JOIN_KEEP_MS, members
from raftsched.core.tables import Table
from tests.support.graph import Graph, follows
from tests.support.memory_view import World, at, every


class TestOneAfterTheOther:
    def test_the_end_starts_what_follows_in_the_same_entry(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("b"))
        root = graph.start()
        first = graph.end("a")
        (b,) = graph.runs("b")
        assert (b.state, b.cause, b.root, b.nominal_at_ms) == (I.WAITING, first, root, split_instance(root)[0])
        assert b.steps[0].detail == "after"
        graph.world.forward(5_000)
        graph.end("b")
        (last,) = graph.runs("c")
        assert (last.cause, last.root, last.nominal_at_ms) == (b.key, root, b.nominal_at_ms)
        graph.end("c")
        assert [key for key, _ in members(graph.world.view, root)] == sorted([root, b.key, last.key])

    def test_of_a_scheduled_run(self) -> None:
        graph = Graph(a=every(60_000), b=follows("a"))
        for _ in range(2):
            graph.world.fire(graph.jobs["a"])
            graph.end("a")
            graph.end("b")
        assert [row.nominal_at_ms for row in graph.runs("b")] == [row.nominal_at_ms for row in graph.runs("a")]
        assert graph.world.job(graph.jobs["b"].id).runs == 2

    @pytest.mark.parametrize(
        ("outcome", "wanted"),
        [
            (Outcome.SUCCEEDED, {"good", "any"}),
            (Outcome.FAILED, {"bad", "any"}),
            (Outcome.TIMED_OUT, {"bad", "any"}),
        ],
    )
    def test_which_ends(self, outcome: Outcome, wanted: set[str]) -> None:
        graph = Graph(
            a=None, good=follows("a"), bad=follows("a", on=AfterOn.FAILED), any=follows("a", on=AfterOn.ENDED)
        )
        graph.start()
        graph.end("a", outcome)
        assert {name for name in ("good", "bad", "any") if graph.runs(name)} == wanted

    def test_killed_is_an_end_and_no_failure(self) -> None:
        graph = Graph(a=None, bad=follows("a", on=AfterOn.FAILED), any=follows("a", on=AfterOn.ENDED))
        graph.world.ok(c.Kill(graph.start()))
        assert (len(graph.runs("bad")), len(graph.runs("any"))) == (0, 1)

    def test_only_the_end_for_good_counts(self) -> None:
        graph = Graph()
        graph.add("a", retry=Retry((1_000,)))
        graph.add("b", follows("a", on=AfterOn.ENDED))
        key = graph.start()
        graph.end("a", Outcome.FAILED)
        assert not graph.runs("b")
        wake_at_ms = graph.world.instance(key).wake_at_ms
        assert wake_at_ms is not None
        graph.world.now = wake_at_ms
        graph.world.ok(c.Wake(key, wake_at_ms))
        graph.end("a", Outcome.FAILED)
        assert len(graph.runs("b")) == 1

    def test_the_parts_of_a_run_start_nothing_by_themselves(self) -> None:
        graph = Graph()
        graph.add("a", shards=2)
        graph.add("b", follows("a", on=AfterOn.ENDED))
        root = graph.start()
        graph.world.ok(c.Split(root))
        parts = [row.key for row in graph.runs("a") if row.parent is not None]
        graph.world.run_once(parts[0], graph.session)
        assert not graph.runs("b")
        graph.world.run_once(parts[1], graph.session)
        assert [row.cause for row in graph.runs("b")] == [root]

    def test_parts_know_what_started_their_run(self) -> None:
        graph = Graph(a=None)
        graph.add("b", follows("a"), shards=2)
        root = graph.start()
        graph.end("a")
        graph.world.ok(c.Split(graph.runs("b")[0].key))
        assert {(row.cause, row.root) for row in graph.runs("b")} == {(root, root)}

    def test_a_job_that_is_deleted_starts_nothing(self) -> None:
        graph = Graph(a=None, b=follows("a", on=AfterOn.ENDED))
        graph.start()
        graph.world.ok(c.DeleteJob(graph.jobs["a"].id))
        assert not graph.runs("b")

    def test_no_job_that_follows_costs_no_rows(self) -> None:
        graph = Graph(a=None, b=None)
        root = graph.start()
        graph.end("a")
        assert graph.world.instance(root).root is None
        assert graph.world.count(Table.WORKFLOWS) == 0

    def test_a_job_may_follow_one_that_is_not_there_yet(self) -> None:
        graph = Graph(b=follows("a"))
        graph.add("a")
        graph.start()
        graph.end("a")
        assert len(graph.runs("b")) == 1

    def test_an_edit_ends_it(self) -> None:
        graph = Graph(a=None, b=follows("a"))
        graph.world.edit(graph.jobs["b"], trigger=Trigger(kind=TriggerKind.MANUAL))
        assert graph.world.meta.followers == 0
        graph.start()
        graph.end("a")
        assert not graph.runs("b")


class TestWhatCannotRun:
    def test_is_recorded_with_the_reason_and_is_an_end(self) -> None:
        graph = Graph(a=None)
        graph.add("b", follows("a"), suspended=True)
        graph.add("c", follows("b", on=AfterOn.ENDED))
        graph.add("d", follows("b"))
        root = graph.start()
        graph.end("a")
        (b,) = graph.runs("b")
        assert (b.state, b.reason, b.cause, b.root) == (I.SKIPPED, "suspended", root, root)
        assert [row.cause for row in graph.runs("c")] == [b.key]
        assert not graph.runs("d")

    def test_runs_that_may_not_overlap(self) -> None:
        graph = Graph(a=None, b=follows("a"))
        graph.start("a", 1)
        graph.end("a")
        graph.start("a", 2)
        graph.end("a")
        assert sorted((row.state, row.reason) for row in graph.runs("b")) == [(I.WAITING, None), (I.SKIPPED, "overlap")]

    def test_overlap_is_the_followers_own(self) -> None:
        graph = Graph(a=None)
        graph.add("b", follows("a"), overlap=Overlap.REPLACE)
        graph.add("c", follows("b", on=AfterOn.ENDED))
        for request in (1, 2):
            graph.start("a", request)
            graph.end("a")
        assert sorted(row.state for row in graph.runs("b")) == [I.WAITING, I.KILLED]
        assert len(graph.runs("c")) == 1  # the one that was replaced has ended

    def test_as_often_as_it_may(self) -> None:
        graph = Graph(a=None, b=Trigger(kind=TriggerKind.AFTER, after=After(("default/a",)), max_runs=1))
        graph.start("a", 1)
        graph.end("a")
        graph.end("b")
        assert graph.world.job(graph.jobs["b"].id).state is JobState.EXPIRED
        graph.start("a", 2)
        graph.end("a")
        assert sorted((row.state, row.reason) for row in graph.runs("b")) == [
            (I.SUCCEEDED, None),
            (I.SKIPPED, "expired"),
        ]


class TestSeveral:
    def test_all_have_to_come(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a"), d=follows("b", "c"))
        root = graph.start()
        graph.end("a")
        b = graph.end("b")
        assert not graph.runs("d")
        assert graph.world.count(Table.JOINS) == 1
        last = graph.end("c")
        (d,) = graph.runs("d")
        assert (d.cause, d.root, d.joined) == (last, root, (b, last))
        assert graph.world.count(Table.JOINS) == 0

    def test_that_come_in_one_entry(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a"), d=follows("b", "c"))
        graph.start()
        graph.end("a")
        world = graph.world
        keys = [graph.runs(name)[0].key for name in "bc"]
        tokens = [world.assign(key, graph.session) for key in keys]
        world.run(*(c.Ended(graph.session, token, Outcome.SUCCEEDED, world.now, world.now) for token in tokens))
        assert len(graph.runs("d")) == 1

    def test_what_was_none_is_none_until_it_is(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a"), d=follows("b", "c"))
        graph.start()
        graph.end("a")
        b = graph.end("b", Outcome.FAILED)
        graph.end("c")
        assert not graph.runs("d")
        graph.world.ok(c.Requeue(b))
        graph.end("b")
        assert len(graph.runs("d")) == 1

    def test_an_end_that_is_taken_back(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a"), d=follows("b", "c"))
        graph.start()
        graph.end("a")
        b = graph.end("b")
        graph.world.ok(c.Rerun(b))
        graph.end("b", Outcome.FAILED)
        graph.end("c")
        assert not graph.runs("d")

    def test_runs_of_one_scheduled_time_belong_together(self) -> None:
        graph = Graph(a=every(60_000), b=every(60_000), d=follows("a", "b"))
        for name in "ab":
            graph.world.fire(graph.jobs[name])
        first = graph.end("a")
        last = graph.end("b")
        (d,) = graph.runs("d")
        assert (d.root, d.cause, d.joined) == (first, last, (first, last))

    def test_and_those_of_different_times_do_not(self) -> None:
        graph = Graph(a=every(60_000), b=every(60_000), d=follows("a", "b"))
        graph.world.fire(graph.jobs["a"])
        graph.end("a")
        for _ in range(2):
            graph.world.fire(graph.jobs["b"])
            if not graph.runs("d"):
                graph.end("b")
        assert len(graph.runs("d")) == 1
        graph.end("b")
        assert len(graph.runs("d")) == 1

    def test_nor_those_that_were_asked_for(self) -> None:
        graph = Graph(a=None, b=None, d=follows("a", "b"))
        graph.start("a", 1)
        graph.start("b", 2)  # in the same millisecond
        graph.end("a")
        graph.end("b")
        assert not graph.runs("d")

    def test_backfilled_ones_do(self) -> None:
        graph = Graph(a=every(60_000), b=every(60_000), d=follows("a", "b"))
        world = graph.world
        nominal = world.job(graph.jobs["a"].id).anchor_at_ms - 60_000
        for name in "ab":
            world.ok(c.Backfill(graph.jobs[name].id, 1, (nominal,)))
            graph.end(name)
        assert [row.key for row in graph.runs("d")] == [instance_key(nominal, graph.jobs["d"].id, BACKFILL)]

    def test_any_of_them_once(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a"), d=follows("b", "c", any_of=True))
        root = graph.start()
        graph.end("a")
        b = graph.end("b")
        assert [(row.cause, row.root, row.joined) for row in graph.runs("d")] == [(b, root, ())]
        graph.end("c")
        assert len(graph.runs("d")) == 1

    def test_what_was_waited_for_too_long_is_forgotten(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a"), d=follows("b", "c"))
        graph.start()
        graph.end("a")
        graph.end("b")
        world = graph.world
        world.forward(JOIN_KEEP_MS - 1)
        world.ok(c.Prune(0, 100))
        assert world.count(Table.JOINS) == 1
        world.forward(1)
        world.ok(c.Prune(0, 100))
        assert world.count(Table.JOINS) == 0


class TestResults:
    def test_are_passed_on(self) -> None:
        graph = Graph(a=None, b=follows("a", passes=True), c=follows("a"))
        graph.start()
        graph.end("a", result=b'{"rows":3}')
        assert graph.runs("b")[0].passed == b'{"default/a":{"rows":3}}'
        assert graph.runs("c")[0].passed is None

    def test_of_all_that_were_waited_for(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a"), d=follows("b", "c", passes=True))
        graph.start()
        graph.end("a")
        graph.end("b", result=b"1")
        graph.end("c")
        assert graph.runs("d")[0].passed == b'{"default/b":1,"default/c":null}'

    def test_that_are_too_large_are_left_out_and_that_is_said(self) -> None:
        graph = Graph(a=None, b=follows("a", passes=True))
        graph.world.settings(params_max_bytes=100)
        graph.start()
        graph.end("a", result=b'"' + b"x" * 98 + b'"')
        (b,) = graph.runs("b")
        assert b.passed is None
        assert (StepKind.RESULT_LEFT_OUT, "114") in [(step.kind, step.detail) for step in b.steps]

    @pytest.mark.parametrize("level", [DROPPED_IS_TOLD - 1, DROPPED_IS_TOLD])
    def test_that_were_dropped_are_told_from_a_level_on(self, level: int) -> None:
        graph = Graph()
        graph.world = World(level=level)
        graph.session = graph.world.session()
        after = {"root": None, "a": follows("root"), "b": follows("root"), "c": follows("a", "b", passes=True)}
        for name, trigger in after.items():
            graph.add(name, trigger)
        graph.start("root")
        graph.end("root")
        graph.end("a", error=f"no room\n{DROPPED}: 9000 bytes\nand more")
        graph.end("b", result=b"1", error=f"{DROPPED}: so it says")
        (c,) = graph.runs("c")
        told = [step.detail for step in c.steps if step.kind is StepKind.RESULT_DROPPED]
        if level < DROPPED_IS_TOLD:
            assert (c.passed, told) == (b'{"default/a":null,"default/b":1}', [])
        else:
            assert c.passed == b'{"default/a":{"dropped":"the result was dropped: 9000 bytes"},"default/b":1}'
            assert told == ["default/a"]

    def test_of_many_jobs_that_were_dropped_some_are_named(self) -> None:
        names = [f"a{number}" for number in range(7)]
        graph = Graph(root=None, **{name: follows("root") for name in names}, z=follows(*names, passes=True))
        graph.start("root")
        graph.end("root")
        for name in names:
            graph.end(name, error=DROPPED)
        (z,) = graph.runs("z")
        (told,) = [step.detail for step in z.steps if step.kind is StepKind.RESULT_DROPPED]
        assert told == "default/a0, default/a1, default/a2, default/a3, default/a4 and 2 more"


class TestManyAtOnce:
    def test_more_than_an_entry_starts_follow_in_later_ones(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "FOLLOWERS_AT_ONCE", 3)
        graph = Graph(a=None, **{f"b{i}": follows("a") for i in range(8)})
        key = graph.start()
        graph.end("a")
        started = []
        for _ in range(3):
            started.append(sum(len(graph.runs(f"b{i}")) for i in range(8)))
            row = graph.world.instance(key)
            if row.wake_at_ms is not None:
                graph.world.ok(c.Wake(key, row.wake_at_ms))
        assert started == [3, 6, 8]
        row = graph.world.instance(key)
        assert (row.telling, row.wake_at_ms) == (None, None)

    def test_a_workflow_is_not_over_before_all_were_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "FOLLOWERS_AT_ONCE", 1)
        graph = Graph(a=None)
        for name in "bcd":
            graph.add(name, follows("a"), suspended=True)
        root = graph.start()
        graph.end("a")
        states = []
        for _ in range(3):
            states.append(dict(members(graph.world.view, root))[root])
            graph.world.do(c.Wake(root, graph.world.now))
        assert states == [I.WAITING, I.WAITING, I.SUCCEEDED]
        assert [row.state for name in "bcd" for row in graph.runs(name)] == [I.SKIPPED] * 3

    def test_ends_of_one_entry_share_its_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "FOLLOWERS_AT_ONCE", 1)
        graph = Graph()
        graph.add("a", overlap=Overlap.ALLOW)
        graph.add("b", follows("a"), overlap=Overlap.ALLOW)
        keys = [graph.start("a", request) for request in (1, 2)]
        tokens = [graph.world.assign(key, graph.session) for key in keys]
        now = graph.world.now
        graph.world.run(*(c.Ended(graph.session, token, Outcome.SUCCEEDED, now, now) for token in tokens))
        assert len(graph.runs("b")) == 1
        graph.world.ok(c.Wake(keys[1], now))
        assert len(graph.runs("b")) == 2

    def test_an_instance_stays_until_all_were_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "FOLLOWERS_AT_ONCE", 1)
        graph = Graph()
        graph.add("a", retention=Retention(0, 0, DAY_MS))
        for name in "bc":
            graph.add(name, follows("a"))
        key = graph.start()
        graph.end("a")
        graph.world.ok(c.Prune(graph.world.now, 100))
        assert graph.world.refused(c.Rerun(key)) == "illegal-transition"
        graph.world.ok(c.Wake(key, graph.world.now))
        assert len(graph.runs("c")) == 1
        graph.world.ok(c.Prune(graph.world.now, 100))
        assert graph.world.row(key) is None

    def test_one_that_was_to_expire_tells_all_that_follow_of_another_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "FOLLOWERS_AT_ONCE", 1)
        graph = Graph()
        graph.add("a", expires_ms=1_000)
        for name in "bc":
            graph.add(name, follows("a", on=AfterOn.ENDED))
        key = graph.start()
        graph.world.forward(2_000)  # it is past its time, and nobody has come to that yet
        graph.world.ok(c.Kill(key))
        graph.world.ok(c.Wake(key, graph.world.now))
        assert (len(graph.runs("b")), len(graph.runs("c"))) == (1, 1)

    def test_a_one_shot_stays_until_all_were_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "FOLLOWERS_AT_ONCE", 1)
        graph = Graph()
        graph.world.settings(once_succeeded_keep_ms=0)
        graph.add("a", at(graph.world.now + 1_000))
        for name in "bc":
            graph.add(name, follows("a"))
        graph.world.fire(graph.jobs["a"])
        key = graph.end("a")
        graph.world.ok(c.Prune(graph.world.now, 100))
        assert graph.world.row(key) is not None
        graph.world.ok(c.Wake(key, graph.world.now))
        graph.world.ok(c.Prune(graph.world.now, 100))
        assert graph.world.row(key) is None
        assert len(graph.runs("c")) == 1

    def test_one_batch_of_entries_comes_to_the_same(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a"), d=follows("b", "c"))
        root = graph.start()
        for name in "abcd":
            graph.end(name)
        graph.world.ok(c.Rerun(root, downstream=True))
        assert graph.world.in_one_batch() == graph.world.view.dump()

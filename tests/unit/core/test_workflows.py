"""Jobs that follow others: which ends start them, once; fan-out and fan-in; killing and rerunning a workflow."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core import commands as c
from raftsched.core.apply import Applier
from raftsched.core.apply import workflows as module
from raftsched.core.apply.downstream import follower
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import encode
from raftsched.core.creation import circle
from raftsched.core.entry import encode_entry
from raftsched.core.ids import BACKFILL, instance_key, split_instance
from raftsched.core.model import (
    DAY_MS,
    After,
    AfterOn,
    Instance,
    Job,
    JobState,
    Outcome,
    Overlap,
    Policy,
    Retention,
    Retry,
    StepKind,
    Trigger,
    TriggerKind,
)
from raftsched.core.model import InstanceState as I
from raftsched.core.rows import WORKFLOWS
from raftsched.core.tables import Table
from raftsched.core.workflows import JOIN_KEEP_MS, KILL_STEP, Workflow, members
from tests.support.memory_view import World, at, every, policy


def follows(*names: str, on: AfterOn = AfterOn.SUCCEEDED, any_of: bool = False, passes: bool = False) -> Trigger:
    return Trigger(kind=TriggerKind.AFTER, after=After(tuple(f"default/{name}" for name in names), on, any_of, passes))


class Graph:
    """A world with jobs that follow each other, by their names."""

    def __init__(self, **triggers: Trigger | None) -> None:
        self.world = World()
        self.session = self.world.session()
        self.jobs: dict[str, Job] = {}
        for name, trigger in triggers.items():
            self.add(name, trigger)

    def add(self, name: str, trigger: Trigger | None = None, **fields: Any) -> Job:
        self.jobs[name] = self.world.create(trigger, name=name, **fields)
        return self.jobs[name]

    def start(self, name: str = "a", request: int = 1) -> bytes:
        return self.world.run_now(self.jobs[name], request)

    def end(self, name: str, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> bytes:
        """Runs the one run of the job that waits, and ends it so."""
        (row,) = self.world.waiting(self.jobs[name].id)
        self.world.assign(row.key, self.session)
        self.world.end(row.key, outcome, **fields)
        return row.key

    def runs(self, name: str) -> list[Instance]:
        return self.world.instances(self.jobs[name].id)

    def states(self) -> dict[str, list[I]]:
        return {name: [row.state for row in self.runs(name)] for name in self.jobs}

    def workflow(self, root: bytes) -> Workflow | None:
        return WORKFLOWS.get(self.world.view, root)


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


class TestAgain:
    def test_a_rerun_starts_nothing_a_second_time(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a", on=AfterOn.ENDED))
        root = graph.start()
        graph.end("a")
        graph.end("b")
        graph.end("c")
        graph.world.ok(c.Rerun(root))
        graph.end("a")
        assert graph.states() == {"a": [I.SUCCEEDED], "b": [I.SUCCEEDED], "c": [I.SUCCEEDED]}

    def test_not_even_when_its_run_is_not_kept_any_more(self) -> None:
        graph = Graph(a=None)
        graph.add("b", follows("a"), retention=Retention(0, 0, DAY_MS))
        root = graph.start()
        graph.end("a")
        graph.end("b")
        graph.world.ok(c.Prune(graph.world.now, 100))
        assert not graph.runs("b")
        graph.world.ok(c.Rerun(root))
        graph.end("a")
        assert not graph.runs("b")

    def test_but_what_was_not_started(self) -> None:
        graph = Graph(a=None, b=follows("a"), bad=follows("a", on=AfterOn.FAILED))
        root = graph.start()
        graph.end("a", Outcome.FAILED)
        graph.world.ok(c.Rerun(root))
        graph.end("a")
        assert (len(graph.runs("b")), len(graph.runs("bad"))) == (1, 1)

    def test_from_here_on(self) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("b"), d=follows("c"), e=follows("a", "d"))
        root = graph.start()
        for name in "abcde":
            graph.end(name)
        keys = {name: graph.runs(name)[0].key for name in "abcde"}
        graph.world.ok(c.Rerun(keys["c"], downstream=True))
        assert [name for name, states in graph.states().items() if states == [I.WAITING]] == ["c"]
        graph.end("c")
        assert graph.states()["d"] == [I.WAITING]
        graph.end("d")
        assert graph.states()["e"] == [I.WAITING]  # a is not run again: its end still counts
        graph.end("e")
        assert {name: graph.runs(name)[0].key for name in "abcde"} == keys
        assert [len(graph.runs(name)[0].attempts) for name in "abcde"] == [1, 1, 2, 2, 2]
        assert graph.workflow(root) is not None

    def test_waits_for_all_that_run_again_before_what_joins_them(self) -> None:
        graph = Graph(a=None, b=follows("a"), long1=follows("a"), long2=follows("long1"), d=follows("b", "long2"))
        root = graph.start()
        for name in ("a", "b", "long1", "long2", "d"):
            graph.end(name)
        graph.world.ok(c.Rerun(root, downstream=True))
        graph.end("a")
        graph.end("b")
        assert graph.states()["d"] == [I.SUCCEEDED]
        graph.end("long1")
        graph.end("long2")
        assert graph.states()["d"] == [I.WAITING]

    def test_behind_what_came_to_the_workflow_of_another_root(self) -> None:
        graph = Graph(a=every(60_000), b=every(60_000), d=follows("a", "b"), e=follows("d"))
        for name in "ab":
            graph.world.fire(graph.jobs[name])
        roots = {name: graph.end(name) for name in "ba"}
        graph.end("d")
        assert graph.runs("d")[0].root == roots["b"]
        assert graph.world.refused(c.Rerun(roots["a"], downstream=True)) == "illegal-transition"  # e is active
        graph.end("e")
        for times, first in enumerate("abba", start=2):
            graph.world.ok(c.Rerun(roots[first], downstream=True))
            for name in (first, "d", "e"):
                graph.end(name)
            assert [len(graph.runs(name)[0].attempts) for name in "de"] == [times, times]

    def test_not_what_runs_in_a_namespace_of_others(self) -> None:
        graph = Graph(a=None)
        graph.add("b", follows("a"), namespace="theirs")
        root = graph.start()
        graph.end("a")
        for _ in range(2):  # active at first: not even that is told
            answer = graph.world.do(c.Rerun(root, downstream=True, namespaces=("default", "mine")))
            assert isinstance(answer, c.Rejected)
            assert (answer.code, "theirs" in answer.detail) == ("forbidden", False)
            assert graph.states()["a"] == [I.SUCCEEDED]
            graph.world.forward(1_000)
            if graph.states()["b"] == [I.WAITING]:
                graph.end("b")
        graph.world.ok(c.Rerun(root, downstream=True, namespaces=("default", "theirs")))

    @pytest.mark.parametrize("state", [JobState.SUSPENDED, JobState.EXPIRED])
    def test_what_ran_once_of_a_job_that_is_paused_runs_again_as_by_any_rerun(self, state: JobState) -> None:
        graph = Graph(a=None, b=follows("a"), c=follows("a", on=AfterOn.FAILED))
        root = graph.start()
        graph.end("a")
        key = graph.end("b")
        for name in "bc":
            graph.world.ok(c.SetJobState(graph.jobs[name].id, state))
        graph.world.ok(c.Rerun(key))
        graph.end("b")
        graph.world.ok(c.Rerun(root, downstream=True))
        graph.end("a")
        graph.end("b")
        graph.world.ok(c.Rerun(root, downstream=True))
        graph.end("a", Outcome.FAILED)
        assert graph.states() == {"a": [I.FAILED], "b": [I.SUCCEEDED], "c": [I.SKIPPED]}
        assert len(graph.runs("b")[0].attempts) == 3

    def test_what_of_others_has_not_run_is_started_as_by_any_end(self) -> None:
        graph = Graph(a=None)
        graph.add("b", follows("a", on=AfterOn.FAILED), namespace="theirs")
        root = graph.start()
        graph.end("a")
        graph.world.ok(c.Rerun(root, downstream=True, namespaces=("default",)))
        graph.end("a", Outcome.FAILED)
        assert graph.states()["b"] == [I.WAITING]

    def test_a_kill_is_undone_by_who_could_have_asked_for_it(self) -> None:
        graph = Graph(a=None)
        graph.add("b", follows("a"), namespace="theirs")
        root = graph.start()
        graph.end("a")
        key = graph.end("b")
        graph.world.ok(c.KillWorkflow(root))
        assert graph.world.refused(c.Rerun(key, downstream=True, namespaces=("theirs",))) == "forbidden"
        workflow = graph.workflow(root)
        assert workflow is not None
        assert workflow.killed_at_ms is not None
        graph.world.ok(c.Rerun(key, namespaces=("theirs",)))
        graph.end("b")
        graph.world.ok(c.Rerun(key, downstream=True, namespaces=("default", "theirs")))

    def test_not_while_something_behind_it_is_active(self) -> None:
        graph = Graph(a=None, b=follows("a"))
        root = graph.start()
        graph.end("a")
        assert graph.world.refused(c.Rerun(root, downstream=True)) == "illegal-transition"

    def test_no_more_than_can_be_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftsched.core.apply.downstream.DOWNSTREAM_MAX", 1)
        graph = Graph(a=None, b=follows("a"), c=follows("a"))
        root = graph.start()
        for name in "abc":
            graph.end(name)
        assert graph.world.refused(c.Rerun(root, downstream=True)) == "too-many"

    def test_looks_at_each_job_once_and_at_no_more_lines_than_it_may(self, monkeypatch: pytest.MonkeyPatch) -> None:
        layers: dict[str, Trigger | None] = {"l0x0": None}
        for layer in (1, 2, 3):
            before = [f"l{layer - 1}x{at}" for at in range(6)]
            layers |= {f"l{layer}x{at}": follows(*before, any_of=True) for at in range(6)}
        graph = Graph(**layers)
        root = graph.start("l0x0")
        for name in layers:
            graph.end(name)
        looked: list[int] = []

        def counted(tx: Tx, job_id: int, target: str) -> tuple[Job, After] | None:
            looked.append(job_id)
            return follower(tx, job_id, target)

        monkeypatch.setattr("raftsched.core.apply.downstream.follower", counted)
        edges = 6 + 2 * 6 * 6
        monkeypatch.setattr("raftsched.core.apply.downstream.DOWNSTREAM_EDGES_MAX", edges + 18 * 6 - 1)
        assert graph.world.refused(c.Rerun(root, downstream=True)) == "too-many"
        looked.clear()
        monkeypatch.setattr("raftsched.core.apply.downstream.DOWNSTREAM_EDGES_MAX", edges + 18 * 6)
        graph.world.ok(c.Rerun(root, downstream=True))
        assert sorted(looked) == sorted(graph.jobs[name].id for name in layers if name != "l0x0")


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


class TestKill:
    def test_ends_all_that_is_active_and_starts_nothing_more(self) -> None:
        graph = Graph(
            a=None,
            b=follows("a"),
            c=follows("a"),
            after_b=follows("b", on=AfterOn.ENDED),
            after_c=follows("c", on=AfterOn.ENDED),
        )
        root = graph.start()
        graph.end("a")
        (running,) = graph.runs("b")
        graph.world.assign(running.key, graph.session)
        answer = graph.world.ok(c.KillWorkflow(root))
        assert (answer.number, answer.note) == (2, b"")
        assert graph.world.instance(running.key).kill_asked
        graph.world.end(running.key, Outcome.KILLED)
        assert graph.states() == {"a": [I.SUCCEEDED], "b": [I.KILLED], "c": [I.KILLED], "after_b": [], "after_c": []}
        workflow = graph.workflow(root)
        assert workflow is not None
        assert workflow.killed_at_ms == graph.world.now

    def test_runs_of_others_go_on_to_their_end(self) -> None:
        graph = Graph(a=None, b=follows("a"))
        graph.add("theirs", follows("a"), namespace="theirs")
        graph.add("after", Trigger(kind=TriggerKind.AFTER, after=After(("theirs/theirs",))))
        root = graph.start()
        graph.end("a")
        assert graph.world.ok(c.KillWorkflow(root, namespaces=("default",))).number == 1
        assert graph.states() == {"a": [I.SUCCEEDED], "b": [I.KILLED], "theirs": [I.WAITING], "after": []}
        graph.end("theirs")
        assert graph.states()["after"] == []

    def test_before_the_first_has_ended(self) -> None:
        graph = Graph(a=None, b=follows("a", on=AfterOn.ENDED))
        root = graph.start()
        graph.world.ok(c.KillWorkflow(root))
        assert graph.states() == {"a": [I.KILLED], "b": []}

    def test_what_is_rerun_starts_nothing_either_but_from_here_on(self) -> None:
        graph = Graph(a=None, b=follows("a"))
        root = graph.start()
        graph.world.ok(c.KillWorkflow(root))
        graph.world.ok(c.Rerun(root))
        graph.end("a")
        assert not graph.runs("b")
        graph.world.ok(c.Rerun(root, downstream=True))
        graph.end("a")
        assert len(graph.runs("b")) == 1

    def test_many_in_steps(self) -> None:
        count = KILL_STEP + 5
        graph = Graph(a=None, **{f"b{i:03}": follows("a") for i in range(count)})
        root = graph.start()
        graph.end("a")
        graph.world.ok(c.Wake(root, graph.world.now))
        first = graph.world.ok(c.KillWorkflow(root))
        assert first.number == KILL_STEP
        second = graph.world.ok(c.KillWorkflow(root, first.note))
        assert (second.number, second.note) == (5, b"")

    def test_is_named_by_its_root(self) -> None:
        graph = Graph(a=None, b=follows("a"))
        graph.start()
        graph.end("a")
        assert graph.world.refused(c.KillWorkflow(graph.runs("b")[0].key)) == "illegal-transition"
        assert graph.world.refused(c.KillWorkflow(b"x" * 24)) == "not-found"
        assert graph.world.refused(c.KillWorkflow(b"x")) == "not-found"

    def test_goes_with_its_last_run(self) -> None:
        graph = Graph(a=None, b=follows("a"))
        root = graph.start()
        graph.end("a")
        graph.end("b")
        graph.world.ok(c.DeleteJob(graph.jobs["a"].id))
        graph.world.ok(c.Prune(graph.world.now, 100))
        assert graph.workflow(root) is not None
        graph.world.ok(c.DeleteJob(graph.jobs["b"].id))
        graph.world.ok(c.Prune(graph.world.now, 100))
        assert graph.world.count(Table.WORKFLOWS) == 0


def refused(graph: Graph, name: str, trigger: Trigger, **fields: Any) -> c.Rejected:
    given: Policy = policy(trigger, **fields)
    answer = graph.world.do(c.CreateJob("default", name, given, b"{}"))
    assert isinstance(answer, c.Rejected)
    return answer


class TestCircles:
    def test_are_refused_when_written(self) -> None:
        graph = Graph(a=follows("c"), b=follows("a"))
        answer = refused(graph, "c", follows("b"))
        assert (answer.code, answer.pointer) == ("invalid-job", "/trigger/after")
        assert answer.detail.startswith(
            "it would never run: default/c waits for default/b, which waits for default/a, which waits for default/c"
        )

    def test_also_by_an_edit_and_a_new_name(self) -> None:
        graph = Graph(a=None, b=follows("a"))
        job = graph.jobs["a"]
        edited = c.EditJob(job.id, policy(follows("b")), b"{}", name="a")
        assert graph.world.refused(edited) == "invalid-job"
        graph.add("x", follows("free"))
        graph.world.ok(c.EditJob(job.id, policy(follows("x")), b"{}", name="a"))
        assert graph.world.refused(c.EditJob(job.id, policy(follows("x")), b"{}", name="free")) == "invalid-job"

    def test_beyond_what_is_looked_at_the_graph_still_comes_to_an_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftsched.core.creation.FOLLOWED_STEPS_AT_ONCE", 0)
        monkeypatch.setattr("raftsched.core.creation.CIRCLE_STEPS", 0)
        graph = Graph(a=follows("c"), b=follows("a"), c=follows("b"))
        graph.start()
        for name in "abc":
            graph.end(name)
        assert [len(graph.runs(name)) for name in "abc"] == [1, 1, 1]

    def test_are_looked_for_in_a_bounded_number_of_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftsched.core.creation.FOLLOWED_STEPS_AT_ONCE", 200)
        monkeypatch.setattr("raftsched.core.creation.CIRCLE_STEPS", 50)
        monkeypatch.setattr("raftsched.core.creation.CIRCLE_STEPS_AT_ONCE", 100)
        jobs = Graph(
            **{f"w{at}": follows(*(f"x{at}-{n}" for n in range(40)), any_of=True) for at in range(10)},
            top=follows(*(f"w{at}" for at in range(10)), any_of=True),
        ).jobs
        looked: list[str] = []

        def find(_: str, name: str) -> Job | None:
            looked.append(name)
            return jobs.get(name)

        def search(steps: int, *, followed: bool) -> tuple[int, int]:
            looked.clear()
            given = policy(follows("top"))
            found, then = circle(find, "default", "head", given, followed=lambda _: followed, steps=steps)
            assert found is None
            return len(looked), then - steps

        assert search(0, followed=True) == (5, 5 * 10 + 10 + 4 * 40)
        assert search(0, followed=False) == (2, 2 * 10 + 10 + 40)
        assert search(90, followed=False) == (1, 20)
        assert search(100, followed=False) == (0, 0)
        assert search(200, followed=True) == (0, 0)

    @pytest.mark.parametrize("at_once", [True, False])
    def test_steps_are_those_of_a_whole_entry(self, monkeypatch: pytest.MonkeyPatch, *, at_once: bool) -> None:
        """And of no other one, though nodes write several at once, each as many as it likes."""
        monkeypatch.setattr("raftsched.core.creation.FOLLOWED_STEPS_AT_ONCE", 10)
        world = Graph(p1=follows("q1"), p2=follows("q2")).world
        closing = [encode(c.CreateJob("default", f"q{at}", policy(follows(f"p{at}")), b"{}")) for at in (1, 2)]
        applier, answers = Applier(world.view), list[c.Answer]()
        for seq, commands in enumerate([closing] if at_once else [[one] for one in closing], start=1):
            entry = encode_entry(world.now, [(8, seq, commands)])
            answers += applier.entry(world.index + seq, 1, entry).batches[0].answers or []
        applier.close()
        assert [type(one) for one in answers] == [c.Rejected, c.Accepted if at_once else c.Rejected]

    def test_are_not_looked_for_under_a_name_that_is_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        graph = Graph(a=None, b=follows("a"))
        monkeypatch.setattr("raftsched.core.apply.jobs.circle", None)
        same = c.CreateJob("default", "b", policy(follows("a")), b"{}")
        assert graph.world.ok(same).created is False
        changed = c.CreateJob("default", "b", policy(follows("a"), priority=3), b"{}", replace=True)
        assert graph.world.ok(changed).job.revision == 2


@pytest.mark.parametrize(
    "trigger",
    [
        Trigger(kind=TriggerKind.AFTER),
        Trigger(kind=TriggerKind.MANUAL, after=After(("default/a",))),
        Trigger(kind=TriggerKind.AFTER, after=After(())),
        Trigger(kind=TriggerKind.AFTER, after=After(("default/a", "default/a"))),
        Trigger(kind=TriggerKind.AFTER, after=After(("a",))),
        Trigger(kind=TriggerKind.AFTER, after=After(tuple(f"default/a{i}" for i in range(101)))),
        Trigger(kind=TriggerKind.AFTER, after=After(("default/a",)), jitter_ms=1),
        Trigger(kind=TriggerKind.AFTER, after=After(("default/a",)), starts_at_ms=1),
    ],
)
def test_what_no_job_can_follow(trigger: Trigger) -> None:
    assert refused(Graph(), "b", trigger).code == "invalid-job"

"""A workflow that is run again from one of its runs on, or killed as one."""

from __future__ import annotations

import pytest

from raftsched.bounds import DAY_MS
from raftsched.core import commands as c
from raftsched.core.apply.runs.downstream import follower
from raftsched.core.apply.tx import Tx
from raftsched.core.model import After, AfterOn, Job, JobState, Outcome, Retention, Trigger, TriggerKind
from raftsched.core.model import InstanceState as I
from raftsched.core.subjects.workflow import KILL_STEP
from raftsched.core.tables import Table
from tests.support.graph import Graph, follows
from tests.support.memory_view import every


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
        monkeypatch.setattr("raftsched.core.apply.runs.downstream.DOWNSTREAM_MAX", 1)
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

        monkeypatch.setattr("raftsched.core.apply.runs.downstream.follower", counted)
        edges = 6 + 2 * 6 * 6
        monkeypatch.setattr("raftsched.core.apply.runs.downstream.DOWNSTREAM_EDGES_MAX", edges + 18 * 6 - 1)
        assert graph.world.refused(c.Rerun(root, downstream=True)) == "too-many"
        looked.clear()
        monkeypatch.setattr("raftsched.core.apply.runs.downstream.DOWNSTREAM_EDGES_MAX", edges + 18 * 6)
        graph.world.ok(c.Rerun(root, downstream=True))
        assert sorted(looked) == sorted(graph.jobs[name].id for name in layers if name != "l0x0")


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

"""Jobs that would wait for themselves, and other triggers that nothing can follow."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core import commands as c
from raftsched.core.apply import Applier
from raftsched.core.commands import encode
from raftsched.core.entry import encode_entry
from raftsched.core.model import (
    After,
    Job,
    Policy,
    Trigger,
    TriggerKind,
)
from raftsched.core.rules.creation import circle
from tests.support.graph import Graph, follows
from tests.support.memory_view import policy


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
        monkeypatch.setattr("raftsched.core.rules.creation.FOLLOWED_STEPS_AT_ONCE", 0)
        monkeypatch.setattr("raftsched.core.rules.creation.CIRCLE_STEPS", 0)
        graph = Graph(a=follows("c"), b=follows("a"), c=follows("b"))
        graph.start()
        for name in "abc":
            graph.end(name)
        assert [len(graph.runs(name)) for name in "abc"] == [1, 1, 1]

    def test_are_looked_for_in_a_bounded_number_of_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftsched.core.rules.creation.FOLLOWED_STEPS_AT_ONCE", 200)
        monkeypatch.setattr("raftsched.core.rules.creation.CIRCLE_STEPS", 50)
        monkeypatch.setattr("raftsched.core.rules.creation.CIRCLE_STEPS_AT_ONCE", 100)
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
        monkeypatch.setattr("raftsched.core.rules.creation.FOLLOWED_STEPS_AT_ONCE", 10)
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
        monkeypatch.setattr("raftsched.core.apply.jobs.lifecycle.circle", None)
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

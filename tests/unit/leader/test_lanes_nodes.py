"""Queues and nodes: rules about nodes, what none of them could take, nodes that come meanwhile."""

from __future__ import annotations

from itertools import pairwise

import pytest

from raftsched.core import commands as c
from raftsched.core.model import Condition, ConditionKind, Outcome, Placement, Retry
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import LANE_NOBODY
from raftsched.leader.dispatch import dispatcher as module
from raftsched.leader.dispatch.dispatcher import NOTE_AFTER_MS
from tests.unit.leader.dispatch_house import House, anew, keys


class TestNodes:
    def test_drained_gets_nothing_until_it_is_undrained(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutNodeRule("n2", drained=True))
        waiting = house.ready(1)
        assert house.settle() == []
        house.world.forward(NOTE_AFTER_MS)
        assert house.dispatcher.notes(house.world.now) == []  # busy, as it were; not for nobody
        house.do(c.PutNodeRule("n2"))
        assert house.settle() == waiting

    def test_drained_before_its_session_opened(self) -> None:
        house = House()
        house.do(c.PutNodeRule("n2", drained=True))
        house.session("n2")
        house.session("n3")
        house.ready(4)
        house.settle()
        assert house.running() == {"n2": 0, "n3": 4}

    def test_slots(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutNodeRule("n2", slots=2))
        waiting = house.ready(3)
        assert house.settle() == waiting[:2]
        house.do(c.PutNodeRule("n2", slots=3))
        assert house.settle() == waiting[2:]

    def test_another_node_after_a_failure(self) -> None:
        house = House()
        house.session("n2")
        house.session("n3")
        (key,) = house.ready(1, retry=Retry((0,) * 3))
        seen = []
        for _ in range(4):
            assert house.settle() == [key]
            row = house.world.end(key, Outcome.FAILED)
            house.tell()
            seen.append(row.attempts[-1].node)
            if row.wake_at_ms is not None:
                house.do(c.Wake(key, row.wake_at_ms))
        assert all(a != b for a, b in pairwise(seen)), seen
        placements = [a.placement for a in house.world.instance(key).attempts]
        assert [p and p.avoided for p in placements] == ["", *seen[:-1]]

    def test_why_there_is_kept(self) -> None:
        house = House()
        house.session("n2", slots=7)
        house.session("n3", handlers=("http",))
        first, second = house.ready(2)
        house.settle()
        assert house.world.instance(first).attempts[0].placement == Placement(0, 7, 1, 2)
        assert house.world.instance(second).attempts[0].placement == Placement(1, 7, 1, 2)


class TestForNobody:
    def test_is_put_aside_after_a_while_and_says_what_is_missing(self) -> None:
        house = House()
        house.session("n2")
        (key,) = house.ready(1, node_labels=(("disk", "ssd"),))
        assert house.settle() == []
        assert house.dispatcher.notes(house.world.now + NOTE_AFTER_MS - 1) == []
        notes = house.dispatcher.notes(house.world.now + NOTE_AFTER_MS)
        house.apply(notes)
        row = house.world.instance(key)
        assert (row.reason, row.lane) == ("no_eligible_node", LANE_NOBODY)
        assert row.error == 'No node with the handler "exec" carries the label disk=ssd.'
        assert house.dispatcher.notes(house.world.now + 9 * NOTE_AFTER_MS) == []
        assert house.settle() == []
        assert not house.dispatcher.backlog

    @pytest.mark.parametrize("how", ["session", "rule"])
    def test_comes_back_when_somebody_can(self, how: str) -> None:
        house = House()
        house.do(c.PutQueue("q", max_running=1))
        house.session("n2")
        waiting = house.ready(2, queue="q", node_labels=(("disk", "ssd"),))
        house.settle()
        house.apply(house.dispatcher.notes(house.world.now + NOTE_AFTER_MS))
        assert house.world.meta.unplaceable == 2
        if how == "rule":
            house.do(c.PutNodeRule("n2", labels=(("disk", "ssd"),)))
        else:
            house.session("n3", labels=(("disk", "ssd"),))
        house.settle()
        assert house.settle() == waiting[:1] or house.world.instance(waiting[0]).state is I.LAUNCHED
        assert house.world.meta.unplaceable == 0
        assert house.world.instance(waiting[1]).state is I.WAITING

    def test_says_so_when_something_else_is_missing(self) -> None:
        house = House()
        house.session("n2")
        (key,) = house.ready(1, need="call:x", node_labels=(("disk", "ssd"),))
        house.settle()
        house.apply(house.dispatcher.notes(house.world.now + NOTE_AFTER_MS))
        assert house.world.instance(key).error == 'No node has the handler "call:x".'
        house.session("n3", handlers=("call:x",))
        house.settle()
        assert house.world.instance(key).error == 'No node with the handler "call:x" carries the label disk=ssd.'

    def test_a_node_that_restarts_is_back_before_it_is_noted(self) -> None:
        house = House()
        house.session("n2", handlers=("call:x",))
        house.session("n3")
        (key,) = house.ready(1, need="call:x")
        house.do(c.EndSession(1, 1))
        house.settle()
        house.session("n2", handlers=("call:x",))
        assert house.settle() == [key]
        assert house.dispatcher.notes(house.world.now + NOTE_AFTER_MS) == []

    @pytest.mark.slow
    def test_where_there_are_many_nobody_has_to_step_over_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "PARKED_MAX", 10)
        monkeypatch.setattr(module, "BATCH", 40)
        house = House()
        house.session("n2")
        house.ready(200, need="call:nobody", priority=9)
        (key,) = house.ready(1)
        assert key in [key for _ in range(8) for key in house.settle()]
        assert house.world.meta.unplaceable == 190
        house.apply(house.dispatcher.notes(house.world.now + NOTE_AFTER_MS))
        assert house.world.meta.unplaceable == 200

    def test_a_new_leader_looks_at_them_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "PASS_OVER", 3)
        house = House()
        house.session("n2")
        waiting = house.ready(20, need="call:x")
        house.settle()
        house.apply(house.dispatcher.notes(house.world.now + NOTE_AFTER_MS))
        assert house.world.meta.unplaceable == 20
        house.world.ok(c.OpenSession("n3", 0, "b", b"", 100, (), ("call:x",)))  # while nobody led
        anew(house)
        got: list[bytes] = []
        for _ in range(40):
            assigns = house.pump()
            got += keys(assigns)
            house.apply(assigns)
        assert got == waiting


class TestNodesThatComeMeanwhile:
    """What is found out about the nodes is on its way through the log while they change."""

    def test_the_node_that_saw_the_paths_is_back(self) -> None:
        house = House()
        for node in ("n2", "n3"):
            house.session(node)
        (key,) = house.ready(conditions=(Condition(ConditionKind.PATH, "/in"),))
        until = house.world.instance(key).checks_end_at_ms
        assert until is not None
        house.do(c.ReportConditions(key, until, "n2", True))
        house.do(c.PutNodeRule("n2", drained=True))
        on_its_way = house.dispatcher.pump(house.assignable, house.world.now)
        assert on_its_way == [c.Recheck(key)]
        house.do(c.PutNodeRule("n2"))
        assert house.settle() == []
        house.apply(on_its_way)
        house.apply(house.dispatcher.notes(house.world.now))
        assert house.settle() == [key]

    @pytest.mark.parametrize("looks", [False, True])
    @pytest.mark.parametrize("first", ["node", "note"])
    def test_a_node_that_can_take_it_comes(self, first: str, looks: bool) -> None:
        house = House()
        house.session("n2")
        (key,) = house.ready(need="python")
        assert house.settle() == []
        house.world.forward(NOTE_AFTER_MS)
        (note,) = house.dispatcher.notes(house.world.now)
        answer = house.world.do(note) if first == "note" else None
        house.session("n3", handlers=("python",))
        if looks:
            assert house.settle() == []
        answer = answer or house.world.do(note)
        assert isinstance(answer, c.Accepted) == (first == "note")
        house.tell()
        house.dispatcher.answered(note, first == "note")
        house.dispatcher.notes(house.world.now)
        assigns = house.pump() or house.pump()  # where it was put aside it goes back to its lane first
        assert keys(assigns) == [key]

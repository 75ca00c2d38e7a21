"""Whom the leader asks to look at conditions, when, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from raftsched.bounds import HOUR_MS
from raftsched.core import commands as c
from raftsched.core.model import Condition, ConditionKind
from raftsched.core.model import InstanceState as I
from raftsched.core.subjects.checking import Check, decode
from raftsched.core.subjects.cluster import NodeRule, Session
from raftsched.leader.dispatch import condition_probes as module
from raftsched.leader.dispatch.condition_probes import LATE_MS, ConditionProbes
from raftsched.leader.dispatch.placement import NodeLoad
from tests.support.memory_view import T0, World, every
from tests.unit.leader.house import House, View, play

PATH = Condition(ConditionKind.PATH, "/data/*.csv")
HTTP = Condition(ConditionKind.HTTP, "http://127.0.0.1/ready")
JOB = Condition(ConditionKind.JOB, "default/import", within_ms=HOUR_MS)


def node(name: str, *, free: int = 1, leader: bool = False, handlers: tuple[str, ...] = ("exec",)) -> NodeLoad:
    session = Session(
        id=int(name[1:]), node=name, boot_id="", nonce=b"", ttl_ms=5_000, opened_at_ms=0, slots=2, handlers=handlers
    )
    return NodeLoad(session, running=2 - free, leader=leader)


class Bed:
    def __init__(self) -> None:
        self.view = View()
        self.world = World(self.view)
        self.told: list[tuple[str, Check]] = []
        self.probes = ConditionProbes(self.read, self.send)

    @contextmanager
    def read(self) -> Iterator[Any]:
        self.view.applied_index = self.world.index
        yield self.view

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        assert kind == "check"
        self.told.append((peer, decode(payload)))
        return True

    def wanted(self, *conditions: Condition) -> bytes:
        key = self.world.run_now(self.world.create(conditions=conditions, required_capability="exec"))
        self.probes.wanted(key)
        return key

    def ask(self, *nodes: NodeLoad, at: int = 0) -> list[str]:
        """Who is told."""
        self.told.clear()
        self.probes.ask(nodes, at)
        return [peer for peer, _ in self.told]


def test_paths_are_asked_of_all_that_could_take_it() -> None:
    bed = Bed()
    key = bed.wanted(PATH, JOB, HTTP)
    bed.world.ok(c.Kill(key))
    key = bed.wanted(PATH, HTTP)
    assert bed.ask(node("n1", leader=True), node("n2"), node("n3"), node("n4", handlers=("http",))) == ["n2", "n3"]
    until = bed.world.instance(key).checks_end_at_ms or 0
    assert bed.told[0][1] == Check(key, until, (PATH, HTTP), bed.world.index)


def test_a_server_is_asked_by_one_after_the_other() -> None:
    bed = Bed()
    nodes = [node("n1", leader=True), node("n2"), node("n3")]
    asked = []
    for _ in range(4):
        bed.wanted(HTTP)
        asked += bed.ask(*nodes)
    assert sorted(asked) == ["n2", "n2", "n3", "n3"]


@pytest.mark.parametrize("conditions", [(PATH,), (HTTP,)])
def test_the_leader_looks_itself_when_nobody_else_can(conditions: tuple[Condition, ...]) -> None:
    bed = Bed()
    bed.wanted(*conditions)
    assert bed.ask(node("n1", leader=True), node("n2", handlers=("http",))) == ["n1"]


def test_who_is_busy_and_the_leader_are_asked_a_moment_later() -> None:
    bed = Bed()
    bed.wanted(PATH)
    nodes = [node("n1", leader=True), node("n2", free=0), node("n3")]
    assert bed.ask(*nodes) == ["n3"]
    assert bed.ask(*nodes, at=LATE_MS - 1) == []
    assert bed.ask(*nodes, at=LATE_MS) == ["n1", "n2"]
    assert bed.ask(*nodes, at=2 * LATE_MS) == []


def test_when_all_are_busy_all_are_asked() -> None:
    bed = Bed()
    bed.wanted(PATH)
    assert bed.ask(node("n2", free=0), node("n3", free=0)) == ["n2", "n3"]


def test_a_drained_node_is_not_asked() -> None:
    bed = Bed()
    nodes = [node("n2"), node("n3")]
    nodes[0].follow(NodeRule(drained=True))
    bed.wanted(PATH)
    bed.wanted(HTTP)
    assert bed.ask(*nodes) == ["n3", "n3"]
    assert bed.ask(*nodes, at=LATE_MS) == []


def test_what_waits_no_more_is_not_asked_about() -> None:
    bed = Bed()
    key = bed.wanted(PATH)
    nodes = [node("n1", leader=True), node("n2")]
    bed.ask(*nodes)
    bed.world.ok(c.Kill(key))
    assert bed.ask(*nodes, at=LATE_MS) == []
    bed.probes.wanted(key)
    bed.probes.wanted(b"\0" * 24)
    assert bed.ask(*nodes) == []


def test_the_revision_it_was_made_from_counts() -> None:
    bed = Bed()
    key = bed.wanted(PATH)
    bed.world.edit(bed.world.job(bed.world.instance(key).job_id), conditions=(HTTP,))
    bed.ask(node("n2"))
    assert bed.told[0][1].conditions == (PATH,)


def test_while_nobody_is_there_it_waits() -> None:
    bed = Bed()
    bed.wanted(PATH)
    assert bed.ask() == []
    assert bed.probes.open
    assert bed.ask(node("n2")) == ["n2"]
    assert not bed.probes.open


def test_bounded_at_a_time_and_altogether(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ASK_MAX", 2)
    monkeypatch.setattr(module, "WANTED_MAX", 3)
    bed = Bed()
    for _ in range(4):
        bed.wanted(PATH)
    told = []
    for more in (True, False, False):
        bed.told.clear()
        assert bed.probes.ask([node("n2")], 0) is more
        told.append(len(bed.told))
    assert told == [2, 1, 0]


class TestInALeadership:
    def test_from_the_fire_to_the_run(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(every(60_000), conditions=(PATH,))
            house.lead()
            house.beat(session)
            house.clock.forward(60_000)
            house.beat(session)
            await house.until_idle()
            await house.tick()
            (row,) = house.world.instances(job)
            assert [(peer, check.instance) for peer, check in house.checks] == [("n2", row.key)]
            assert house.commands(c.Assign) == []
            house.do(c.ReportConditions(row.key, row.checks_end_at_ms or 0, "n2", True))
            await house.quiet()
            await house.until_idle()
            assert house.world.instance(row.key).state is I.LAUNCHED

        play(scene)

    def test_asks_again_when_the_timer_is_due_and_gives_up_at_last(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(every(60_000), conditions=(PATH,), conditions_timeout_ms=25_000)
            house.lead()
            house.clock.forward(60_000)
            for seconds in (0, 10, 10, 5):
                house.clock.forward(seconds * 1_000)
                house.beat(session)
                await house.until_idle()
                await house.tick()
            assert len(house.checks) == 3
            assert house.world.instances(job)[0].reason == "conditions_timeout"

        play(scene)

    def test_a_new_leader_goes_on(self) -> None:
        """What the old one was about to ask comes up again with the timer."""

        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(every(60_000), conditions=(PATH,))
            row = house.world.job(job)
            house.clock.wall = T0 + 60_000
            house.do(c.Fire(job, row.revision, row.nominal_at_ms or 0))
            house.lead()
            house.beat(session)
            await house.tick()
            assert house.checks == []
            house.clock.forward(10_000)
            house.beat(session)
            await house.until_idle()
            await house.tick()
            assert len(house.checks) == 1

        play(scene)

    def test_when_the_node_that_saw_it_is_gone_the_others_are_asked(self) -> None:
        async def scene(house: House) -> None:
            gone, other = house.session("n2"), house.session("n3")
            house.lead()
            job = house.create(every(60_000), conditions=(PATH,))
            house.clock.forward(60_000)
            house.beat(gone)
            house.beat(other, "n3")
            await house.until_idle()
            await house.tick()
            (row,) = house.world.instances(job)
            house.do(c.ReportConditions(row.key, row.checks_end_at_ms or 0, "n2", True))
            house.do(c.EndSession(gone, 1))
            house.checks.clear()
            house.beat(other, "n3")
            for _ in range(3):  # the recheck, and what it wants
                await house.tick()
            assert house.world.instance(row.key).checking
            assert {peer for peer, _ in house.checks} == {"n3"}
            house.do(c.ReportConditions(row.key, house.world.instance(row.key).checks_end_at_ms or 0, "n3", True))
            await house.until_idle()
            attempt = house.world.instance(row.key).live
            assert attempt is not None
            assert attempt.node == "n3"

        play(scene)

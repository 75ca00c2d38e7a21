"""The dispatcher over a real READY table."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.core import commands as c
from raftsched.core.commands import Assign
from raftsched.core.model import Outcome
from raftsched.core.rows import decode_session
from raftsched.core.subjects.webhook import TestWebhook
from raftsched.core.tables import Table, u64
from raftsched.leader.dispatch import dispatcher as module
from raftsched.leader.dispatch.dispatcher import Dispatcher, count_running
from tests.support.amounts import examples
from tests.support.memory_view import MemoryView
from tests.unit.core.hooks import deliveries, hook
from tests.unit.leader.dispatch_house import House
from tests.unit.leader.house import place


def test_priority_then_first_come() -> None:
    house = House()
    low = house.ready(3, priority=2)
    high = house.ready(3, priority=8)
    house.session("n2", slots=4)
    assert [a.instance for a in house.pump()] == [*high, low[0]]


def test_nothing_is_assigned_twice() -> None:
    house = House()
    house.session("n2")
    house.ready(5)
    first = house.pump()
    assert len(first) == 5
    assert house.pump() == []
    house.apply(first)
    assert house.pump() == []
    assert house.running() == {"n2": 5}


def test_spread_over_the_followers() -> None:
    house = House()
    for node in ("n1", "n2", "n3"):
        house.session(node)
    house.ready(40)
    house.apply(house.pump())
    assert house.running() == {"n1": 0, "n2": 20, "n3": 20}


def test_what_its_worker_has_ended_takes_no_slot() -> None:
    house = House()
    session, other = house.session("n2", slots=2), house.session("n3", slots=0)
    keys = house.ready(5)
    house.apply(house.pump())
    attempt = house.world.instance(keys[0]).live
    assert attempt is not None
    house.dispatcher.ended(other, (attempt.token,))
    house.dispatcher.ended(session, (attempt.token + 100,))
    assert house.running()["n2"] == 2
    house.dispatcher.ended(session, (attempt.token,))
    house.dispatcher.ended(session, (attempt.token,))
    assert house.running()["n2"] == 1
    house.apply(house.pump())
    assert house.running()["n2"] == 2
    house.world.end(keys[0])  # it counts once
    house.tell()
    assert house.running()["n2"] == 2
    house.dispatcher.ended(session, (attempt.token,))
    assert house.running()["n2"] == 2


def test_what_only_the_leader_could_take_is_looked_for_now_and_then_while_the_others_are_full() -> None:
    house = House()
    house.session("n1", handlers=("exec", "only-here"))
    house.session("n2", slots=2)
    house.ready(10)
    house.apply(house.pump())
    assert house.running() == {"n1": 0, "n2": 2}
    assert house.pump() == []
    (key,) = house.ready(1, "only-here")
    assert house.pump() == []
    house.world.forward(module.LEADER_LOOK_MS)
    assert [a.instance for a in house.pump()] == [key]


def test_nothing_is_looked_for_that_only_the_leader_could_take_where_another_takes_all_of_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House()
    house.session("n1")
    other = house.session("n2", slots=2)
    house.ready(10)
    house.apply(house.pump())
    looks: list[None] = []
    walk = house.dispatcher._walk
    monkeypatch.setattr(house.dispatcher, "_walk", lambda *given: (looks.append(None), walk(*given)))
    for _ in range(3):
        house.world.forward(module.LEADER_LOOK_MS)
        assert house.pump() == []
    assert not looks
    house.silent.add(other)  # nobody but the leader is given runs now
    assert len(house.pump()) == 8
    assert looks


def test_no_more_than_there_are_slots() -> None:
    house = House()
    house.session("n2", slots=3)
    keys = house.ready(5)
    assigns = house.pump()
    assert len(assigns) == 3
    house.apply(assigns)
    assert house.dispatcher.backlog
    house.world.end(keys[0], Outcome.SUCCEEDED)
    house.tell()
    assert [a.instance for a in house.pump()] == [keys[3]]


def test_refused_ones_come_again() -> None:
    house = House()
    house.session("n2")
    keys = house.ready(2)
    house.pump()
    assert not house.dispatcher.backlog
    house.dispatcher.answered(Assign(keys[0], 1), False)
    assert house.running() == {"n2": 1}
    assert [a.instance for a in house.pump()] == [keys[0]]
    house.dispatcher.answered(Assign(b"unheard of", 1), False)


def test_what_an_earlier_leadership_assigned_is_counted_where_it_went() -> None:
    house = House()
    first, second = house.session("n2"), house.session("n3")
    (key,) = house.ready(1)
    (mine,) = house.pump()
    other = second if mine.session == first else first
    house.apply([Assign(key, other)])  # was in the log before ours
    house.apply([mine])
    loads = {load.session.id: load.running for load in house.dispatcher.loads().values()}
    assert loads == {other: 1, mine.session: 0}


def test_counts_from_the_tables_at_the_start() -> None:
    house = House()
    session = house.session("n2")
    house.ready(3)
    house.apply(house.pump())
    fresh = Dispatcher(house.read, "n1", house.world.view)
    stored = house.world.view.get(Table.SESSIONS, u64(session))
    assert stored is not None
    fresh.opened(decode_session(stored), count_running(house.world.view, session))
    assert [n.running for n in fresh.loads().values()] == [3]


class TestWhatNobodyCanTake:
    def test_does_not_hold_up_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "PASS_OVER", 10)
        house = House()
        house.session("n2")
        house.ready(50, need="call:nobody", priority=9)
        keys = house.ready(3)
        got = [a.instance for _ in range(12) for a in house.pump()]
        assert got == keys

    def test_is_no_backlog(self) -> None:
        """Else one such run would slow down every other in the cluster."""
        house = House()
        house.session("n2")
        house.ready(2, need="call:nobody")
        assert house.pump() == []
        assert not house.dispatcher.backlog

    def test_is_taken_when_somebody_comes_who_can(self) -> None:
        house = House()
        house.session("n2")
        keys = house.ready(2, need="call:later")
        assert house.pump() == []
        house.session("n3", handlers=("call:later",))
        assert [a.instance for a in house.pump()] == keys

    def test_made_anew_it_is_looked_at_anew(self) -> None:
        house = House()
        house.session("n2")
        (key,) = house.ready(1, need="call:nobody")
        assert house.pump() == []
        job = house.world.job(house.world.instance(key).job_id)
        house.world.edit(job, required_capability="exec")
        house.world.ok(c.Kill(key))
        house.world.ok(c.Rerun(key))
        house.tell()
        assert [a.instance for a in house.pump()] == [key]


def test_who_is_busy_does_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PASS_OVER", 10)
    house = House()
    house.session("n2", slots=1, handlers=("busy",))
    house.session("n3", handlers=("exec",))
    house.ready(60, need="busy", priority=9)
    keys = house.ready(2)
    got = [a.instance for _ in range(12) for a in house.pump()]
    assert [key for key in got if key in keys] == keys


class TestSearch:
    """A node is free, but not for what waits at the front."""

    def house(self) -> tuple[House, int, list[bytes]]:
        house = House()
        session = house.session("n2", slots=1, handlers=("busy",))
        waiting = house.ready(module.FRONT + 20, need="busy", priority=9)
        house.session("n3", handlers=("exec",))
        assert house.settle() == waiting[:1]
        return house, session, waiting

    def rows_of(self, house: House, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], int]:
        """Returns what one pump assigns, and how many rows of READY it reads."""
        read = 0
        scan = MemoryView.scan

        def counted(self, table, *args, **fields):  # type: ignore[no-untyped-def]
            nonlocal read
            for row in scan(self, table, *args, **fields):
                read += table is Table.READY
                yield row

        with monkeypatch.context() as patch:
            patch.setattr(MemoryView, "scan", counted)
            return [assign.instance for assign in house.pump()], read

    def test_one_that_found_nothing_is_not_repeated_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        house, _, waiting = self.house()
        assert self.rows_of(house, monkeypatch) == ([], 0)
        house.world.forward(module.SEARCH_MS)
        assert self.rows_of(house, monkeypatch) == ([], len(waiting) - 1)

    def test_a_slot_for_the_front_is_filled_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        house, session, waiting = self.house()
        attempt = house.world.instance(waiting[0]).live
        assert attempt is not None
        house.dispatcher.ended(session, (attempt.token,))
        got, read = self.rows_of(house, monkeypatch)
        assert got == [waiting[1]]
        assert read < module.FRONT + 10

    def test_what_is_behind_the_front_is_found_with_the_next_one(self) -> None:
        house, _, _ = self.house()
        (behind,) = house.ready(1)
        house.world.forward(module.SEARCH_MS)
        assert [assign.instance for assign in house.pump()] == [behind]

    def test_one_that_finds_something_goes_on(self) -> None:
        house, _, _ = self.house()
        house.world.forward(module.SEARCH_MS)
        for _ in range(3):
            (behind,) = house.ready(1)
            assigns = house.pump()
            assert [assign.instance for assign in assigns] == [behind]
            house.apply(assigns)

    def test_a_queue_that_goes_on_is_walked_at_once(self) -> None:
        house, _, _ = self.house()
        house.do(c.PutQueue("q", paused=True))
        (paused,) = house.ready(1, queue="q")
        house.world.forward(module.SEARCH_MS)
        assert house.settle() == []
        house.do(c.PutQueue("q"))
        assert house.settle() == [paused]

    def test_a_clock_that_goes_back_does_not_end_them(self) -> None:
        house, _, _ = self.house()
        (behind,) = house.ready(1)
        house.world.forward(-1_000)
        assert [assign.instance for assign in house.pump()] == [behind]


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_whoever_is_free_gets_what_is_ready(seed: int) -> None:
    """However often things change: pumped often enough, nothing is left that place() could place."""
    note(f"seed {seed}")
    rng = random.Random(seed)
    house = House()
    before = module.PASS_OVER, module.LEADER_LOOK_MS, module.SEARCH_MS
    module.PASS_OVER = rng.choice([1, 3, before[0]])
    module.LEADER_LOOK_MS = module.SEARCH_MS = 0  # the clock stands still while it is pumped
    needs = ["exec", "a", "b", "nobody"]
    try:
        for _ in range(25):
            action = rng.randrange(6)
            if action == 0:
                house.session(
                    rng.choice(["n1", "n2", "n3"]), rng.randint(1, 5), tuple(rng.sample(needs[:3], rng.randint(1, 3)))
                )
                house.dispatcher = _anew(house)  # as a session that was replaced ends
            elif action in (1, 2):
                house.ready(rng.randint(1, 6), rng.choice(needs), rng.randint(0, 9))
            elif action == 3:
                house.silent ^= {rng.randint(1, 8)}
            elif action == 4:
                for row in house.world.instances():
                    if row.live is not None and rng.random() < 0.5:
                        for _ in range(rng.randrange(3)):
                            house.dispatcher.ended(row.live.session, (row.live.token,))
                        house.world.end(row.key)
                        house.tell()
            else:
                assigns = house.pump()
                if assigns and rng.random() < 0.2:
                    for assign in assigns:
                        house.dispatcher.answered(assign, None)
                else:
                    house.apply(assigns)
        for _ in range(200):
            house.apply(house.pump())
        nodes = [n for n in house.dispatcher.loads().values() if house.assignable(n.session.id)]
        for key, _ in house.world.view.scan(Table.READY):
            job = house.world.job(house.world.instance(key[12:]).job_id)
            assert place(nodes, job.policy) is None
        for node in house.dispatcher.loads().values():
            assert node.running == count_running(house.world.view, node.session.id)
    finally:
        module.PASS_OVER, module.LEADER_LOOK_MS, module.SEARCH_MS = before


def _anew(house: House) -> Dispatcher:
    made = Dispatcher(house.read, "n1", house.world.view)
    for _, raw in house.world.view.scan(Table.SESSIONS):
        session = decode_session(raw)
        if session.open:
            made.opened(session, count_running(house.world.view, session.id))
    return made


def test_what_is_delivered_to_a_webhook_goes_to_nodes_alone() -> None:
    """A job that needs the same may go to a worker, which takes all namespaces and queues."""
    house = House()
    number = house.world.ok(c.OpenWorker("worker/w", 0, b"n", 10, handlers=("http",))).number
    assert number is not None
    house.dispatcher.opened(decode_session(house.world.view.get(Table.SESSIONS, u64(number)) or b""), 0)
    house.session("n2", slots=0)
    (job,) = house.ready(need="http", target="ops.example:443")
    hook(house.world)
    house.do(TestWebhook("ops"))
    (delivery,) = deliveries(house.world)
    assert [a.instance for a in house.pump()] == [job]
    house.session("n2", handlers=("http",))
    assert [(a.instance, a.session == number) for a in house.pump()] == [(delivery.key, False)]

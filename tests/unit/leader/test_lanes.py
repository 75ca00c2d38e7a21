"""The dispatcher and queues with limits: order, what is full, rates, changes, and all of it at random."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.core import commands as c
from raftsched.core.model import InstanceState as I
from raftsched.core.rows import decode_queue
from raftsched.core.tables import LANE_NOBODY, Table, from_lane
from raftsched.leader.dispatch import dispatcher as module
from raftsched.leader.dispatch.dispatcher import Dispatcher, count_running
from raftsched.leader.dispatch.lanes import lanes_in_use
from tests.support.amounts import examples
from tests.support.memory_view import MemoryView, policy
from tests.unit.leader.dispatch_house import House, anew, keys
from tests.unit.leader.house import place

SECOND = 1_000


class TestOrder:
    def test_the_most_urgent_of_all_lanes_first(self) -> None:
        house = House()
        for name in ("q", "r"):
            house.do(c.PutQueue(name))
        (low,) = house.ready(priority=1, queue="q")
        (middle,) = house.ready(priority=5)
        (first,) = house.ready(priority=8, queue="r")
        (second,) = house.ready(priority=8, queue="q")
        (third,) = house.ready(priority=8)
        house.session("n2")
        assert keys(house.pump()) == [first, second, third, middle, low]

    def test_ageing_goes_over_all_lanes(self) -> None:
        house = House()
        house.do(c.PutQueue("q"))
        (old,) = house.ready(priority=1, queue="q")
        house.world.forward(4 * house.world.meta.settings.ageing_ms)
        (young,) = house.ready(priority=5)
        house.session("n2")
        assert keys(house.pump()) == [old, young]


class TestFull:
    def test_no_more_than_may_and_one_more_for_each_that_ends(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", max_running=2))
        waiting = house.ready(5, queue="q")
        assert house.settle() == waiting[:2]
        assert not house.dispatcher.backlog
        house.world.end(waiting[0])
        house.tell()
        assert house.dispatcher.backlog
        assert house.settle() == [waiting[2]]

    def test_what_is_on_its_way_counts(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", max_running=2))
        waiting = house.ready(3, queue="q")
        first = house.pump()
        assert keys(first) == waiting[:2]
        assert house.pump() == []
        house.dispatcher.answered(first[0], None)
        assert keys(house.pump()) == [waiting[0]]

    @pytest.mark.slow
    def test_a_long_queue_that_is_full_costs_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", max_running=1))
        house.do(c.PutQueue("r", paused=True))
        house.ready(400, queue="q", priority=9)
        house.ready(400, queue="r", priority=9)
        house.settle()
        read = Counter[Table]()
        scan = MemoryView.scan

        def counted(self, table, *args, **fields):  # type: ignore[no-untyped-def]
            for row in scan(self, table, *args, **fields):
                read[table] += 1
                yield row

        for _ in range(10):
            (key,) = house.ready(1)
            with monkeypatch.context() as patch:
                patch.setattr(MemoryView, "scan", counted)
                assigns = house.pump()
            assert keys(assigns) == [key]
            house.apply(assigns)
        assert read[Table.READY] <= 20

    def test_nor_does_it_hold_up_an_assignment_beforehand(self) -> None:
        """What becomes due goes straight to a node: only while nothing that could go waits for one."""
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", max_running=1))
        house.ready(3, queue="q")
        house.settle()
        assert not house.dispatcher.backlog
        now = house.world.now
        free, limited = policy(required_capability="exec"), policy(required_capability="exec", queue="q")
        assert house.dispatcher.place([(b"k" * 24, free, "default")], house.assignable, now)
        assert not house.dispatcher.place([(b"l" * 24, limited, "default")], house.assignable, now)

    def test_nobody_overtakes_what_waits_in_his_queue(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", rate_count=1, rate_period_ms=SECOND))
        house.ready(2, queue="q")
        house.settle()
        later = house.world.now + 2 * SECOND
        limited = policy(required_capability="exec", queue="q")
        assert not house.dispatcher.place([(b"l" * 24, limited, "default")], house.assignable, later)

    def test_what_apply_refuses_comes_again(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", max_running=2))
        waiting = house.ready(2, queue="q")
        assigns = house.pump()
        house.world.ok(c.PutQueue("q", paused=True))  # the leader has not heard of it yet
        told = house.world.actions
        for assign in assigns:
            assert isinstance(house.world.do(assign), c.Rejected)
            house.dispatcher.answered(assign, False)
        house.world.actions = told
        house.tell()
        assert house.settle() == []
        assert house.running() == {"n2": 0}
        house.do(c.PutQueue("q"))
        assert house.settle() == waiting


class TestWhoIsBusy:
    def busy(self, house: House, lanes: int, each: int) -> None:
        """Lanes full of runs for a node that has no slot left."""
        house.session("n2", slots=1, handlers=("busy",))
        for i in range(lanes):
            house.do(c.PutQueue(f"q{i}"))
            house.ready(each, "busy", 9, queue=f"q{i}")
        assert len(house.settle()) == 1

    def test_holds_up_nobody_in_however_many_lanes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "PASS_OVER", 3)
        monkeypatch.setattr(module, "PASSED_MAX", 6)
        monkeypatch.setattr(module, "SEARCH_MS", 0)  # the clock stands still while it is pumped
        house = House()
        self.busy(house, lanes=12, each=10)
        house.session("n3")
        waiting = [*house.ready(1), *house.ready(2, queue="q7")]
        got: list[bytes] = []
        for _ in range(40):
            assigns = house.pump()
            got += keys(assigns)
            house.apply(assigns)
        assert sorted(got) == sorted(waiting)

    def test_is_read_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "SEARCH_MS", 0)  # the clock stands still while it is pumped
        house = House()
        self.busy(house, lanes=1, each=200)
        house.session("n3")
        house.pump()
        read = Counter[Table]()
        get = MemoryView.get

        def counted(self: MemoryView, table: Table, key: bytes) -> bytes | None:
            read[table] += 1
            return get(self, table, key)

        monkeypatch.setattr(MemoryView, "get", counted)
        assert house.pump() == []
        assert read[Table.INSTANCES] == 1

    def test_what_was_passed_over_goes_to_the_lane_of_a_queue_made_since(self) -> None:
        house = House()
        house.session("n2", slots=1, handlers=("busy",))
        waiting = house.ready(3, "busy", queue="q")
        assert house.settle() == waiting[:1]
        house.session("n3")
        assert house.settle() == []
        house.do(c.PutQueue("q", paused=True))
        house.settle()
        house.settle()
        assert not house.dispatcher.backlog


class TestRate:
    def test_says_when_to_look_again(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", rate_count=2, rate_period_ms=2 * SECOND))
        waiting = house.ready(4, queue="q")
        assert house.settle() == waiting[:2]
        assert house.dispatcher.unblocked_at_ms == house.world.now + SECOND
        house.world.forward(SECOND - 1)
        house.dispatcher.unblock_lanes(house.world.now)
        assert not house.dispatcher.backlog
        house.world.forward(1)
        house.dispatcher.unblock_lanes(house.world.now)
        assert house.settle() == [waiting[2]]

    def test_a_clock_that_goes_back_does_not_shut_it_for_as_long(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", rate_count=1, rate_period_ms=SECOND))
        house.world.forward(86_400_000)
        waiting = house.ready(2, queue="q")
        assert house.settle() == waiting[:1]
        house.world.forward(-86_400_000)
        house.dispatcher.unblock_lanes(house.world.now)
        assert house.settle() == waiting[1:]


class TestChanges:
    def test_pause_and_resume(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", paused=True))
        waiting = house.ready(2, queue="q")
        assert house.settle() == []
        assert not house.dispatcher.backlog
        house.do(c.PutQueue("q"))
        assert house.settle() == waiting

    @pytest.mark.slow
    def test_a_queue_that_is_paused_when_a_thousand_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In an emergency: what waits already stays where it is, and is no longer in the way."""
        monkeypatch.setattr(module, "BATCH", 50)
        house = House()
        waiting = house.ready(300, queue="q")
        house.do(c.PutQueue("q", paused=True))
        (other,) = house.ready(1)
        house.session("n2")
        got = [key for _ in range(10) for key in house.settle()]
        assert got == [other]
        assert not house.dispatcher.backlog
        assert house.world.instance(waiting[-1]).lane == house.world.instance(waiting[0]).lane != 0
        house.do(c.PutQueue("q"))
        got = [key for _ in range(20) for assigns in [house.pump()] for key in (house.apply(assigns), keys(assigns))[1]]
        assert got == waiting[:99]  # of 100 slots, one is taken

    def test_deleted(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", paused=True))
        waiting = house.ready(2, queue="q")
        assert house.settle() == []
        house.do(c.DeleteQueue("q"))
        assert house.settle() == waiting

    def test_deleted_and_made_anew(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", paused=True))
        waiting = house.ready(3, queue="q")
        assert house.settle() == []
        house.do(c.DeleteQueue("q"))
        house.do(c.PutQueue("q", max_running=1))
        house.settle()
        house.settle()
        assert [k for k in waiting if house.world.instance(k).state is I.LAUNCHED] == waiting[:1]

    def test_a_new_leader_finds_the_lanes(self) -> None:
        house = House()
        house.do(c.PutQueue("q", max_running=2))
        house.do(c.PutQueue("r", paused=True))
        waiting = house.ready(3, queue="q")
        house.ready(1, queue="r")
        (free,) = house.ready(1)
        assert len(lanes_in_use(house.world.view)) == 3
        house.dispatcher = Dispatcher(house.read, "n1", house.world.view)
        house.session("n2")
        assert sorted(house.settle()) == sorted([*waiting[:2], free])


@settings(max_examples=examples(80))
@given(st.integers(0, 2**32))
def test_whoever_may_go_goes_and_nobody_else(seed: int) -> None:
    """However queues, rules and nodes change: pumped often enough, nothing waits that could start, whatever is in its
    way is one of the things that may be, and the counts are those of the tables."""
    note(f"seed {seed}")
    rng = random.Random(seed)
    house = House()
    before = (module.PASS_OVER, module.BATCH, module.PARKED_MAX, module.PASSED_MAX, module.KNOWN_MAX)
    look_ms, module.LEADER_LOOK_MS = module.LEADER_LOOK_MS, 0  # the clock stands still while it is pumped
    module.PASS_OVER, module.BATCH, module.PARKED_MAX = (
        rng.choice([1, 3, 256]),
        rng.choice([1, 5, 500]),
        rng.choice([1, 9]),
    )
    module.PASSED_MAX, module.KNOWN_MAX = 2 * module.PASS_OVER, rng.choice([2, 10_000])
    queues, needs = ["default", "q", "r"], ["exec", "a", "nobody"]
    try:
        for _ in range(30):
            match rng.randrange(10):
                case 0:
                    node = rng.choice(["n1", "n2", "n3"])
                    house.session(node, rng.randint(1, 5), tuple(rng.sample(needs[:2], rng.randint(1, 2))))
                    anew(house)  # as a session that was replaced ends
                case 1 | 2 | 3:
                    house.ready(rng.randint(1, 6), rng.choice(needs), rng.randint(0, 9), queue=rng.choice(queues))
                case 4:
                    rate = rng.choice([None, None, 2])
                    most = rng.choice([None, 1, 3])
                    house.do(c.PutQueue(rng.choice(queues), most, rate, 4_000 if rate else 0, rng.random() < 0.2))
                case 5:
                    house.world.do(c.DeleteQueue(rng.choice(queues)))
                    house.tell()
                case 6:
                    rule = c.PutNodeRule(rng.choice(["n1", "n2", "n3"]), rng.random() < 0.4, rng.choice([None, 1, 4]))
                    house.do(rule)
                case 7:
                    for row in house.world.instances():
                        if row.live is not None and rng.random() < 0.5:
                            house.world.end(row.key)
                            house.tell()
                case 8:
                    house.world.forward(rng.choice([-3_000, 1, 1_000, 30_000]))
                    house.dispatcher.unblock_lanes(house.world.now)
                    house.apply(house.dispatcher.notes(house.world.now))
                case _:
                    assigns = house.pump()
                    if rng.random() < 0.2:
                        for assign in assigns:
                            house.dispatcher.answered(assign, None)
                    else:
                        house.apply(assigns)
        for _ in range(300):
            house.dispatcher.unblock_lanes(house.world.now)
            house.apply(house.pump())
        check(house)
    finally:
        module.PASS_OVER, module.BATCH, module.PARKED_MAX, module.PASSED_MAX, module.KNOWN_MAX = before
        module.LEADER_LOOK_MS = look_ms


def check(house: House) -> None:
    view = house.world.view
    limits = {key.decode(): decode_queue(raw) for key, raw in view.scan(Table.QUEUES)}
    nodes = list(house.dispatcher.loads().values())
    for row, _ in view.scan(Table.READY):
        own = house.world.job(house.world.instance(row[12:]).job_id).policy
        if from_lane(row) == LANE_NOBODY:
            assert not any(n.can(own, "default") for n in nodes)
        elif own.queue in limits and module.QueueLimits(view).blocked_reason(own.queue, house.world.now):
            pass
        else:
            assert place(nodes, own) is None, (own.queue, own.required_capability, house.dispatcher.backlog)
    for node in nodes:
        assert node.running == count_running(view, node.session.id)
    assert not +house.dispatcher._limits._ahead
    assert not house.dispatcher._moving

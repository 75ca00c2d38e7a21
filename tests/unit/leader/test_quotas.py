"""Limits of the runs of a namespace: kept whatever queues its jobs are in, and nobody else waits for them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.core import commands as c
from raftsched.core.model import InstanceState as I
from raftsched.core.model import Overlap
from raftsched.core.rows import decode_queue
from raftsched.core.subjects.namespace import DeleteNamespace, PutNamespace
from raftsched.core.subjects.notices import quota_queue
from raftsched.core.subjects.queue import Queue
from raftsched.core.tables import Table
from tests.support.amounts import examples
from tests.support.invariants import violations
from tests.support.memory_view import policy
from tests.unit.leader.dispatch_house import House, anew, keys

SECOND = 1_000


def limits(most: int | None = None, starts: int | None = None, name: str = "b") -> PutNamespace:
    return PutNamespace(name, b"{}", max_running=most, max_starts_per_minute=starts)


def runs(house: House, count: int, namespace: str = "b", **fields: Any) -> list[bytes]:
    """That wait, of a job of the namespace."""
    made = house.world.ok(
        c.CreateJob(namespace, None, policy(overlap=Overlap.ALLOW, required_capability="exec", **fields), b"{}")
    )
    assert made.job is not None
    found = []
    for _ in range(count):
        house.requests += 1
        house.world.forward(1)
        found.append(house.world.run_now(made.job, house.requests))
        house.tell()
    return found


def quota(house: House, name: str = "b") -> Queue | None:
    raw = house.world.view.get(Table.QUEUES, quota_queue(name).encode())
    return None if raw is None else decode_queue(raw)


def running(house: House, name: str = "b") -> int:
    found = quota(house, name)
    return -1 if found is None else found.running


class TestRunning:
    def test_no_more_than_may_and_one_more_for_each_that_ends(self) -> None:
        house = House()
        house.session("n2")
        house.do(limits(most=2))
        waiting = [*runs(house, 3), *runs(house, 2)]  # of two jobs
        assert house.settle() == waiting[:2]
        assert not house.dispatcher.backlog
        others = runs(house, 3, "other")
        assert house.settle() == others
        house.world.end(waiting[0])
        house.tell()
        assert house.settle() == [waiting[2]]
        assert running(house) == 2

    def test_it_goes_over_all_queues(self) -> None:
        house = House()
        house.session("n2")
        house.do(c.PutQueue("q", max_running=2))
        house.do(limits(most=3))
        free, queued = runs(house, 2), runs(house, 3, queue="q")
        assert sorted(house.settle()) == sorted([*free, queued[0]])
        others = runs(house, 1, "other", queue="q")
        assert house.settle() == others  # which came later, and whose namespace may
        house.world.end(free[0])
        house.tell()
        assert house.settle() == []  # the queue is full by now
        house.world.end(others[0])
        house.tell()
        assert house.settle() == [queued[1]]
        assert violations(house.world.view) == []

    def test_what_runs_and_waits_when_it_is_said_counts(self) -> None:
        house = House()
        house.session("n2", slots=2)
        waiting = runs(house, 5)
        assert house.settle() == waiting[:2]
        house.session("n3")
        house.do(limits(most=3))
        assert running(house) == 2
        assert house.settle() == []  # what waits goes to the lane of the namespace first
        assert house.settle() == [waiting[2]]
        assert not house.dispatcher.backlog
        house.do(limits(most=4))
        assert house.settle() == [waiting[3]]
        house.do(unlimited(house))
        assert house.settle() == [waiting[4]]
        assert violations(house.world.view) == []

    def test_apply_refuses_what_the_leader_did_not_know(self) -> None:
        house = House()
        number = house.session("n2")
        first, second = runs(house, 2)
        house.do(limits(most=1))
        house.do(c.Assign(first, number))
        assert house.world.refused(c.Assign(second, number)) == "quota-full"
        row = house.world.instance(first)
        assert row.live is not None
        assert row.live.quota == quota_queue("b")

    def test_assignments_beforehand(self) -> None:
        house = House()
        house.session("n2")
        house.do(limits(most=1))
        own = policy(required_capability="exec")
        starts = [(b"k" * 24, own, "b"), (b"l" * 24, own, "b"), (b"m" * 24, own, "other")]
        given = house.dispatcher.place(starts, house.assignable, house.world.now)
        assert keys(given) == [b"k" * 24, b"m" * 24]


def unlimited(house: House) -> c.Command:
    """No limits any more: it holds a job, so it stays declared."""
    assert house.world.refused(DeleteNamespace("b")) == "in-use"
    return limits()


class TestStarts:
    def test_so_many_in_a_minute(self) -> None:
        house = House()
        house.session("n2")
        house.do(limits(starts=2))
        waiting = runs(house, 4)
        assert house.settle() == waiting[:2]
        opens = house.dispatcher.unblocked_at_ms
        assert opens is not None
        assert abs(opens - house.world.now - 30 * SECOND) < SECOND
        house.world.forward(opens - house.world.now)
        house.dispatcher.unblock_lanes(house.world.now)
        assert house.settle() == [waiting[2]]
        for key in waiting[:3]:
            house.world.end(key)  # that they end lets no others start
        house.tell()
        assert house.settle() == []


@pytest.mark.parametrize("name", ["b", "c"])
def test_queues_of_namespaces_are_nobodys(name: str) -> None:
    house = House()
    house.do(limits(most=1))
    assert house.world.refused(c.PutQueue(quota_queue(name))) == "not-possible"
    assert house.world.refused(c.DeleteQueue(quota_queue(name))) == "not-possible"
    job = c.CreateJob("default", None, policy(queue=quota_queue(name)), b"{}")
    assert house.world.refused(job) == "invalid-job"


def test_they_take_no_room_of_the_others() -> None:
    house = House()
    house.world.settings(queues_max=1)
    house.do(limits(most=1))
    house.do(c.PutQueue("q"))
    assert house.world.refused(c.PutQueue("r")) == "not-possible"


@pytest.mark.parametrize("wrong", [limits(most=0), limits(most=-1), limits(starts=0), limits(starts=2**60)])
def test_out_of_bounds(wrong: PutNamespace) -> None:
    assert House().world.refused(wrong) == "invalid-parameter"


def test_a_namespace_that_goes_takes_its_limits_along() -> None:
    house = House()
    house.do(limits(most=1))
    assert house.world.meta.quotas == 1
    house.do(DeleteNamespace("b"))
    assert (house.world.meta.quotas, house.world.meta.queues, quota(house)) == (0, 0, None)


@given(st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_at_random(seed: int) -> None:
    note(f"seed {seed}")
    rng = random.Random(seed)
    house = House()
    house.session("n2", slots=4)
    house.session("n3", slots=4)
    before: Counter[str] = Counter()
    for _ in range(60):
        match rng.randrange(7):
            case 0 | 1:
                runs(house, rng.randint(1, 3), rng.choice("bcd"), queue=rng.choice(["default", "q"]))
            case 2:
                house.do(limits(rng.choice([None, 1, 2]), rng.choice([None, 60]), rng.choice("bc")))
            case 3:
                house.do(c.PutQueue("q", rng.choice([None, 1, 3])))
            case 4:
                if house.world.view.get(Table.QUEUES, b"q") is not None:
                    house.do(c.DeleteQueue("q"))
            case 5:
                anew(house)
            case _:
                house.world.forward(rng.choice([100, 1_500]))
                for key in [key for key, _ in house.world.view.scan(Table.INSTANCES)]:
                    if house.world.instance(key).live is not None and rng.random() < 0.5:
                        house.world.end(key)
                        house.tell()
        house.dispatcher.unblock_lanes(house.world.now)
        house.settle()
        house.settle()
        assert violations(house.world.view) == []
        live = Counter(house.world.job(row.job_id).namespace for row in rows(house) if row.live is not None)
        for name in "bc":
            found = quota(house, name)
            if found is not None and found.max_running is not None:
                assert live[name] <= max(found.max_running, before[name])  # it may have been lowered
        before = live
    for name in "bc":
        house.do(limits(name=name))
    if house.world.view.get(Table.QUEUES, b"q") is not None:
        house.do(c.DeleteQueue("q"))
    for _ in range(500):  # without limits all of it gets its turn
        house.settle()
        going = [row for row in rows(house) if row.live is not None]
        if not going:
            break
        for row in going:
            house.world.end(row.key)
            house.tell()
    assert all(row.state is I.SUCCEEDED for row in rows(house))


def rows(house: House) -> list[Any]:
    return [house.world.instance(key) for key, _ in house.world.view.scan(Table.INSTANCES)]

"""The dispatcher splits runs with parts when their turn comes, and places the parts."""

from __future__ import annotations

from raftsched.core import commands as c
from raftsched.core.model import FINAL, Instance, Outcome
from raftsched.core.model import InstanceState as I
from raftsched.leader.dispatch.cycle import SPLITS_MAX
from raftsched.leader.dispatch.dispatcher import NOTE_AFTER_MS
from tests.unit.leader.dispatch_house import House, anew


def settle(house: House) -> list[bytes]:
    """Until nothing more is assigned or split; the keys of what was assigned."""
    return [key for _ in range(8) for key in house.settle()]


def wake(house: House) -> None:
    """Lets parents do what remains to be done."""
    for row in house.world.instances():
        if row.state is I.RUNNING and row.wake_at_ms is not None:
            house.do(c.Wake(row.key, row.wake_at_ms))


def parts_of(house: House, parent: bytes) -> list[Instance]:
    return [row for row in house.world.instances() if row.parent == parent]


def end_all(house: House, outcome: Outcome = Outcome.SUCCEEDED) -> None:
    for row in house.world.instances():
        if row.live is not None:
            house.do(c.Ended(row.live.session, row.live.token, outcome, house.world.now, house.world.now))


def test_shards_go_where_there_is_room() -> None:
    house = House()
    house.session("n2", slots=2)
    house.session("n3", slots=2)
    (parent,) = house.ready(shards=6)
    assert len(settle(house)) == 4
    assert house.running() == {"n2": 2, "n3": 2}
    assert house.world.instance(parent).state is I.RUNNING
    end_all(house)
    settle(house)
    end_all(house)
    assert house.world.instance(parent).state is I.SUCCEEDED


def test_many_shards_are_made_in_steps() -> None:
    house = House()
    house.session("n2", slots=1_000)
    (parent,) = house.ready(shards=120)
    for _ in range(5):
        settle(house)
        wake(house)
    assert len(parts_of(house, parent)) == 120
    assert house.running() == {"n2": 120}


def test_on_all_the_leader_is_one_of_them() -> None:
    house = House()
    house.session("n1")
    house.session("n2")
    house.session("n3", handlers=("http",))
    (parent,) = house.ready(on_all=True)
    settle(house)
    assert sorted(row.only_on for row in parts_of(house, parent)) == ["n1", "n2"]
    assert house.running() == {"n1": 1, "n2": 1, "n3": 0}


def test_on_all_with_nobody_it_waits_as_any_run() -> None:
    house = House()
    house.session("n2", handlers=("http",))
    (parent,) = house.ready(on_all=True)
    assert settle(house) == []
    house.world.forward(NOTE_AFTER_MS)
    house.apply(house.dispatcher.notes(house.world.now))
    assert house.world.instance(parent).reason == "no_eligible_node"
    house.session("n3")
    settle(house)
    assert [row.only_on for row in parts_of(house, parent)] == ["n3"]


def test_shards_wait_for_a_free_slot() -> None:
    house = House()
    house.session("n2", slots=1)
    house.ready()
    settle(house)
    (parent,) = house.ready(shards=2)
    settle(house)
    assert house.world.instance(parent).state is I.WAITING
    end_all(house)
    settle(house)
    assert house.world.instance(parent).state is I.RUNNING


def test_a_part_for_who_is_gone_waits_and_says_so() -> None:
    house = House()
    house.session("n2")
    gone = house.session("n3", slots=1)
    (parent,) = house.ready(on_all=True)
    house.dispatcher.closed(gone)
    house.do(c.Split(parent, ("n2", "n3")))
    house.do(c.EndSession(gone, house.world.meta.epoch))
    settle(house)
    house.world.forward(NOTE_AFTER_MS)
    house.apply(house.dispatcher.notes(house.world.now))
    waiting = parts_of(house, parent)[1]
    assert waiting.reason == "no_eligible_node"
    assert "n3, which has no open session" in (waiting.error or "")
    house.session("n3", slots=1)
    settle(house)
    assert house.running() == {"n2": 1, "n3": 1}


def test_one_cycle_splits_a_bounded_number() -> None:
    house = House()
    house.session("n2", slots=1_000)
    parents = house.ready(3 * SPLITS_MAX, shards=2)
    split = [one for one in house.dispatcher.pump(house.assignable, house.world.now) if isinstance(one, c.Split)]
    assert len(split) == SPLITS_MAX
    anew(house)
    settle(house)
    assert {house.world.instance(key).state for key in parents} == {I.RUNNING}


def test_a_rerun_places_what_failed() -> None:
    house = House()
    house.session("n2")
    house.session("n3")
    (parent,) = house.ready(on_all=True)
    settle(house)
    failing, other = parts_of(house, parent)
    for row, outcome in ((failing, Outcome.FAILED), (other, Outcome.SUCCEEDED)):
        live = house.world.instance(row.key).live
        assert live is not None
        house.do(c.Ended(live.session, live.token, outcome, house.world.now, house.world.now))
    assert house.world.instance(parent).state is I.FAILED
    house.do(c.Rerun(parent))
    assert settle(house) == [failing.key]
    end_all(house)
    assert house.world.instance(parent).state in FINAL
    assert house.world.instance(parent).state is I.SUCCEEDED

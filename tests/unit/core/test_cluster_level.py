"""The level of a cluster: what raises it, who stops at it, and what may not be proposed below it."""

from __future__ import annotations

from enum import Enum

import msgspec
import pytest

from raftsched.core import commands as c
from raftsched.core import levels
from raftsched.core.actions import LevelRaised
from raftsched.core.commands import encode
from raftsched.core.entry import NewerLog, encode_entry
from raftsched.core.levels import HISTORY, PARTS_SINCE, SINCE, fitted, is_later, newest_level
from raftsched.core.model import Overlap, TriggerKind
from raftsched.core.rules.allowed import Allowed
from raftsched.core.rules.run_keys import Concurrency
from raftsched.core.subjects.cluster import Member
from raftsched.core.subjects.keyed import Idempotent
from tests.support.memory_view import World, every, policy

NEWEST = newest_level()
CREATE = c.CreateJob("default", "a", policy(every(1_000)), b"{}")


def test_the_history_has_each_level_that_something_came_with() -> None:
    assert list(HISTORY) == list(range(1, NEWEST + 1))
    assert {*SINCE.values(), *PARTS_SINCE.values()} <= set(HISTORY)


def test_a_cluster_begins_with_the_level_that_it_is_formed_with() -> None:
    assert World(level=0).meta.level == 0  # by a version that knew of no levels
    world = World(form=False)
    world.ok(c.Form(b"cluster", (Member("n1", "h:1", b"s"),), NEWEST))
    assert world.meta.level == NEWEST


def test_it_only_rises() -> None:
    world = World(level=0)
    world.ok(c.RaiseLevel(3))
    assert world.actions == [LevelRaised(3)]
    world.ok(c.RaiseLevel(NEWEST))
    for level in (3, NEWEST, -1):
        assert world.refused(c.RaiseLevel(level)) == "stale"
    assert world.meta.level == NEWEST


def test_it_stays_while_it_is_held() -> None:
    world = World(level=0)
    world.settings(upgrade_hold=1)
    assert world.refused(c.RaiseLevel(NEWEST)) == "stale"
    world.settings(upgrade_hold=0)
    world.ok(c.RaiseLevel(NEWEST))


@pytest.mark.parametrize("begins", [True, False])
def test_a_version_that_does_not_know_the_level_stops(begins: bool) -> None:
    world = World(form=not begins)
    members = (Member("n1", "h:1", b"s"),)
    command = c.Form(b"x", members, NEWEST + 1) if begins else c.RaiseLevel(NEWEST + 1)
    with pytest.raises(NewerLog, match=f"of level {NEWEST + 1}: this version knows the levels up to {NEWEST}"):
        world.entry(encode_entry(world.now, [(7, 99, [encode(command)])]))


# ---------------------------------------------------------------- what is too early


class Shape(Enum):
    ROUND = "round"
    SQUARE = "square"


class Holder(msgspec.Struct):
    shape: Shape = Shape.ROUND
    several: tuple[object, ...] = ()
    named: dict[str, object] = {}


class Made(msgspec.Struct):
    several: list[int] = msgspec.field(default_factory=list)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> int:
    """A level that is not reached, which some things came with."""
    level = NEWEST + 1
    monkeypatch.setitem(SINCE, c.Barrier, level)
    monkeypatch.setitem(PARTS_SINCE, (type(CREATE.policy), "concurrency"), level)
    monkeypatch.setitem(PARTS_SINCE, (TriggerKind, "RRULE"), level)
    monkeypatch.setitem(PARTS_SINCE, (Shape, "SQUARE"), level)
    monkeypatch.setitem(PARTS_SINCE, (Made, "several"), level)
    return level


def test_a_command_of_a_later_level_is_too_early(later: int) -> None:
    barrier = encode(c.Barrier())
    for raw in (
        barrier,
        encode(c.Attributed(msgspec.Raw(barrier), name="root")),
        encode(Idempotent(b"k" * 32, b"d" * 32, barrier)),
        encode(c.Attributed(msgspec.Raw(encode(Idempotent(b"k" * 32, b"d" * 32, barrier))))),
    ):
        assert is_later(raw, later - 1)
        assert not is_later(raw, later)
    assert not is_later(encode(CREATE), later - 1)


def test_a_field_of_a_later_level_is_too_early_where_it_says_something(later: int) -> None:
    limited = msgspec.structs.replace(CREATE.policy, concurrency=Concurrency("k", "k", 1))
    assert is_later(encode(msgspec.structs.replace(CREATE, policy=limited)), later - 1)
    assert not is_later(encode(msgspec.structs.replace(CREATE, policy=limited)), later)


def test_a_default_that_is_made_anew_each_time_says_nothing_either(later: int) -> None:
    assert levels._needed(Made()) == 1
    assert levels._needed(Made([1])) == later


def test_a_value_of_a_later_level_is_too_early_wherever_it_stands(later: int) -> None:
    trigger = msgspec.structs.replace(CREATE.policy.trigger, kind=TriggerKind.RRULE)
    for changed in (
        msgspec.structs.replace(CREATE.policy, trigger=trigger),
        msgspec.structs.replace(CREATE.policy, triggers=(CREATE.policy.trigger, trigger)),
    ):
        assert is_later(encode(msgspec.structs.replace(CREATE, policy=changed)), later - 1)
    round_, square = Holder(), Holder(Shape.SQUARE)
    assert levels._needed(Holder(several=(round_,), named={"a": [round_]})) == 1
    assert levels._needed(Holder(several=(square,))) == later
    assert levels._needed(Holder(named={"a": [round_, {"b": square}]})) == later
    other = msgspec.structs.replace(CREATE.policy, overlap=Overlap.ALLOW)
    assert not is_later(encode(msgspec.structs.replace(CREATE, policy=other)), later - 1)


def test_variables_of_jobs_are_left_out_where_the_level_has_none() -> None:
    said = msgspec.structs.replace(CREATE, policy=msgspec.structs.replace(CREATE.policy, env=("APP_DAY",)))
    wrap = [
        lambda raw: raw,
        lambda raw: encode(c.Attributed(msgspec.Raw(raw), name="root")),
        lambda raw: encode(Idempotent(b"k" * 32, b"d" * 32, raw)),
        lambda raw: encode(c.Attributed(msgspec.Raw(encode(Idempotent(b"k" * 32, b"d" * 32, raw))))),
    ]
    for wrapped in wrap:
        raw, without = wrapped(encode(said)), wrapped(encode(CREATE))
        assert is_later(raw, 5)
        assert fitted(raw, 5) == without
        assert not is_later(fitted(raw, 5), 5)
        assert fitted(raw, 6) is raw
        assert fitted(without, 5) is without
    rules = Allowed(exec=("/opt/*",), env=("APP_*",))
    for command in (
        c.OpenSession("n1", 0, "b", b"n" * 16, 1, allowed=rules),
        c.OpenWorker("w", 0, b"n" * 16, 1, allowed=rules),
    ):
        found = c.decode(fitted(encode(command), 5))
        assert found == msgspec.structs.replace(command, allowed=Allowed(exec=("/opt/*",)))


def test_what_came_before_clusters_had_a_level_is_never_too_early() -> None:
    assert SINCE[c.KillWorkflow] <= levels.BEGAN
    assert not is_later(encode(c.KillWorkflow(b"r" * 24, b"")), 0)


def test_the_command_that_raises_the_level_is_never_too_early() -> None:
    assert not is_later(encode(c.RaiseLevel(NEWEST)), 0)


def test_a_job_that_was_made_before_its_variables_were_known_is_the_same_job() -> None:
    world = World()
    named = msgspec.structs.replace(CREATE, name="report")
    made = world.ok(named)
    knowing = msgspec.structs.replace(named, policy=msgspec.structs.replace(CREATE.policy, env=("APP_DAY",)))
    assert world.ok(knowing).job == made.job
    assert world.refused(msgspec.structs.replace(knowing, body=b'{"x":1}')) == "name-taken"
    changed = msgspec.structs.replace(knowing, policy=msgspec.structs.replace(knowing.policy, priority=9))
    assert world.refused(changed) == "name-taken"

"""The cluster's own commands: forming, leaderships, settings, sessions."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.actions import ClusterFormed, LeadershipOpened, SessionChanged
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import Table
from tests.support.memory_view import World, every


def opening(replaces: int = 0, node: str = "n2", boot: str = "boot") -> c.OpenSession:
    return c.OpenSession(node, replaces, boot, b"nonce", 4, (("disk", "ssd"),), ("exec",), "h:1", "0.1")


def test_formed_once() -> None:
    world = World(form=False)
    world.ok(c.Form(b"one", ()))
    assert world.actions == [ClusterFormed(b"one")]
    assert world.refused(c.Form(b"two", ())) == "stale"
    assert world.meta.cluster_id == b"one"


def test_leaderships_only_go_up() -> None:
    world = World()
    world.ok(c.OpenLeadership(5, "n3"))
    assert world.actions == [LeadershipOpened(5, "n3")]
    for epoch in (5, 4, 0):
        assert world.refused(c.OpenLeadership(epoch, "n1")) == "stale"
    assert (world.meta.epoch, world.meta.leader) == (5, "n3")


def test_a_barrier_changes_nothing() -> None:
    world = World()
    before = {k: v for k, v in world.view.dump().items() if k != "ORIGINS"}
    world.ok(c.Barrier())
    assert {k: v for k, v in world.view.dump().items() if k != "ORIGINS"} == before


def test_settings() -> None:
    world = World()
    world.settings(session_ttl_ms=9_000)
    assert world.meta.settings.session_ttl_ms == 9_000


@pytest.mark.parametrize(
    "change",
    [
        {"session_ttl_ms": 0},
        {"session_ttl_ms": 500},  # shorter than what the keepers need to kill
        {"catch_up_max": 0},
        {"catch_up_max": 10**9},
        {"attempts_kept": 0},
        {"attempts_kept": -3},
        {"queue_all_max": -1},
        {"active_max": 0},
        {"start_deadline_ms": -1},
        {"start_deadline_ms": 2**62},
        {"once_failed_keep_ms": -1},
        {"once_succeeded_keep_ms": 2**62},
        {"timeout_ceiling_ms": 0},
        {"body_max_bytes": -1},
        {"params_max_bytes": 2**40},
    ],
)
def test_settings_that_would_break_apply(change: dict[str, int]) -> None:
    world = World()
    assert world.refused(c.PutSettings(msgspec.structs.replace(Settings(), **change))) == "invalid-parameter"


class TestOpen:
    def test_the_first(self) -> None:
        world = World()
        number = world.ok(opening()).number
        assert number == 1
        assert world.actions == [SessionChanged(1, "n2", True, 1)]
        (session,) = world.sessions()
        assert (session.node, session.open, session.ttl_ms, session.opened_at_ms) == (
            "n2",
            True,
            5_000,
            world.now,
        )

    def test_its_ttl_is_fixed(self) -> None:
        world = World()
        world.ok(opening())
        world.settings(session_ttl_ms=9_000)
        assert world.sessions()[0].ttl_ms == 5_000

    def test_names_the_session_it_replaces(self) -> None:
        world = World()
        assert world.refused(opening(1)) == "stale"
        world.ok(opening())
        assert world.refused(opening()) == "stale"  # also the late repeat of an opening
        assert world.ok(opening(1)).number == 2
        assert world.refused(opening(1)) == "stale"
        assert [s.id for s in world.sessions()] == [2]

    def test_numbers_are_cluster_wide(self) -> None:
        world = World()
        assert [world.ok(opening(node=n)).number for n in ("n1", "n2", "n3")] == [1, 2, 3]

    def test_not_a_member(self) -> None:
        world = World()
        assert world.refused(opening(node="n4")) == "illegal-transition"
        assert world.refused(opening(node="")) == "illegal-transition"

    def test_an_open_one_is_ended_only_under_the_same_boot(self) -> None:
        world = World()
        world.ok(opening())
        assert world.refused(opening(1, boot="other")) == "illegal-transition"
        world.ok(c.EndSession(1, 1))
        assert world.ok(opening(1, boot="other")).number == 2

    def test_replacing_under_the_same_boot_gives_its_runs_back(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000))
        world.fire(job)
        key = world.waiting(job.id)[0].key
        world.assign(key, session)
        world.ok(opening(session))
        assert [a for a in world.actions if isinstance(a, SessionChanged)] == [
            SessionChanged(1, "n2", False, 1),
            SessionChanged(2, "n2", True, 1),
        ]
        assert world.instance(key).state is I.WAITING
        assert world.refused(c.Assign(key, session)) == "stale"
        world.assign(key, 2)


class TestEnd:
    def test_only_by_the_newest_leadership(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000))
        world.fire(job)
        key = world.waiting(job.id)[0].key
        world.assign(key, session)
        world.ok(c.OpenLeadership(7, "n3"))
        for epoch in (1, 6, 8):
            assert world.refused(c.EndSession(session, epoch)) == "stale"
        assert world.instance(key).live is not None
        world.ok(c.EndSession(session, 7))
        assert world.instance(key).state is I.WAITING
        assert world.refused(c.EndSession(session, 7)) == "stale"
        assert world.refused(c.EndSession(99, 7)) == "stale"

    def test_only_its_own_runs(self) -> None:
        world = World()
        first, second = world.session("n2"), world.session("n3")
        keys = []
        for session in (first, second):
            job = world.create(every(1000))
            world.fire(job)
            keys.append(world.waiting(job.id)[0].key)
            world.assign(keys[-1], session)
        world.ok(c.EndSession(first, 1))
        assert world.instance(keys[0]).live is None
        assert world.instance(keys[1]).live is not None
        assert world.count(Table.ASSIGNED) == 1


class TestMembers:
    def test_who_catches_up_has_a_session(self) -> None:
        world = World()
        world.members("n1 n2 n3", "n4")
        assert world.ok(opening(node="n4")).number == 1

    def test_a_removed_node_s_runs_are_its_own_until_its_session_ends(self) -> None:
        world = World()
        session = world.session("n2")
        job = world.create(every(1000))
        world.fire(job)
        key = world.waiting(job.id)[0].key
        world.assign(key, session)
        world.members("n1 n3")
        assert world.instance(key).live is not None, "it may be running"
        world.ok(c.EndSession(session, 1))
        assert world.instance(key).state is I.WAITING
        assert world.refused(opening(session)) == "illegal-transition"

    @pytest.mark.parametrize("removed_first", [True, False])
    def test_nodes_that_come_and_go_leave_nothing(self, removed_first: bool) -> None:
        world = World()
        before = (world.count(Table.SESSIONS), world.count(Table.NODES))
        world.members("n1 n2 n3", "n4")
        session = world.ok(opening(node="n4")).number
        assert session is not None
        if removed_first:
            world.members("n1 n2 n3")
            assert world.sessions()[0].open, "its lease has not run out"
            world.ok(c.EndSession(session, 1))
        else:
            world.ok(c.EndSession(session, 1))
            world.members("n1 n2 n3")
        assert (world.count(Table.SESSIONS), world.count(Table.NODES)) == before
        world.members("n1 n2 n3", "n4")
        assert world.ok(opening(node="n4")).number == session + 1, "numbers are never used again"

    def test_taken_in_again_before_its_session_ended(self) -> None:
        world = World()
        session = world.session("n2")
        world.members("n1 n3")
        world.members("n1 n3", "n2")
        assert world.refused(opening(0, boot="another disk")) == "stale"
        assert world.refused(opening(session, boot="another disk")) == "illegal-transition"
        world.ok(c.EndSession(session, 1))
        assert world.ok(opening(session, boot="another disk")).number == session + 1

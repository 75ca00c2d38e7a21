"""Sessions of remote workers: opened under a name, replaced by the same incarnation only, forgotten when they end."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.bounds import BOOT_ID_MAX, SERVED_MAX, WORKER_HANDLERS_MAX
from raftsched.core import commands as c
from raftsched.core.actions import SessionBound, SessionChanged
from raftsched.core.limits import EXECUTOR_MAX
from raftsched.core.model import InstanceState as I
from raftsched.core.model import Outcome
from raftsched.core.rules.allowed import Allowed
from raftsched.core.rules.executors import is_worker, node_name, worker_key, worker_name
from raftsched.core.tables import Table
from tests.support.memory_view import World

W1 = worker_key("w1")


def opening(worker: str = W1, replaces: int = 0, **fields: Any) -> c.OpenWorker:
    return c.OpenWorker(worker, replaces, b"nonce", **{"slots": 4, "handlers": ("exec",), **fields})


def test_names_of_executors() -> None:
    assert (W1, is_worker(W1), worker_name(W1), node_name(W1)) == ("worker/w1", True, "w1", None)
    assert (is_worker("n1"), worker_name("n1"), node_name("n1"), node_name("")) == (False, None, "n1", None)


def test_a_worker_that_is_no_member_gets_a_session() -> None:
    world = World()
    answer = world.ok(opening(weight=3, queues=("mail",), namespaces=("shop",), version="1"))
    (row,) = [s for s in world.sessions() if s.node == W1]
    assert (row.id, row.ttl_ms, row.weight, row.queues) == (answer.number, 10_000, 3, ("mail",))
    assert (row.namespaces, row.version, row.open) == (("shop",), "1", True)
    assert world.actions == [SessionChanged(row.id, W1, True, world.meta.epoch)]
    assert world.meta.workers == 1


def test_a_node_s_session_cannot_be_had_by_this_way() -> None:
    world = World()
    assert world.refused(opening("n2")) == "invalid-parameter"
    assert world.refused(c.OpenSession(W1, 0, "boot", b"nonce", 4)) == "illegal-transition"


def test_a_name_that_is_in_use_is_taken_until_its_session_is_over() -> None:
    world = World()
    first = world.ok(opening(incarnation="a")).number
    assert first is not None
    assert world.refused(opening(replaces=first, incarnation="b")) == "name-taken"
    assert world.refused(opening(replaces=first)) == "name-taken"
    assert world.refused(opening(replaces=0, incarnation="a")) == "stale"
    world.ok(c.EndSession(first, world.meta.epoch))
    world.ok(opening(incarnation="b"))


def test_who_promises_nothing_replaces_nothing() -> None:
    """Two processes that say nothing of themselves are not the same one."""
    world = World()
    first = world.ok(opening()).number
    assert first is not None
    assert world.refused(opening(replaces=first)) == "name-taken"


def test_the_same_incarnation_ends_its_earlier_session_and_its_runs_are_lost() -> None:
    world = World()
    first = world.ok(opening(incarnation="a")).number
    assert first is not None
    key = world.run_now(world.create())
    world.ok(c.Assign(key, first))
    second = world.ok(opening(replaces=first, incarnation="a", opening=1)).number
    row = world.instance(key)
    assert (row.state, row.lost, row.reason) == (I.WAITING, 1, "worker_lost")
    assert [s.id for s in world.sessions() if s.node == W1] == [second]
    assert world.meta.workers == 1


def test_a_request_to_open_that_was_overtaken_ends_nothing() -> None:
    """It waited in a node that stood still; what it promises is about the session before the one that is open now."""
    world = World()
    second = world.ok(opening(incarnation="a", opening=2)).number
    assert second is not None
    assert world.refused(opening(replaces=second, incarnation="a", opening=1)) == "stale"
    assert world.refused(opening(replaces=second, incarnation="a", opening=2)) == "stale"
    assert world.refused(opening(replaces=second, incarnation="a")) == "stale"
    assert [s.id for s in world.sessions() if s.node == W1] == [second]
    world.ok(opening(replaces=second, incarnation="a", opening=3))


@pytest.mark.parametrize(("was", "now"), [(0, 0), (7, 7), (7, 6), (7, 0)])
def test_a_request_that_was_overtaken_ends_no_session(was: int, now: int) -> None:
    """It waited in a node that stood still: what it promises is about a session before the present one."""
    world = World()
    first = world.ok(opening(incarnation="a", opening=was)).number
    assert first is not None
    key = world.run_now(world.create())
    world.assign(key, first)
    assert world.refused(opening(replaces=first, incarnation="a", opening=now)) == "stale"
    assert world.instance(key).live is not None


def test_a_session_is_another_token_s_from_now_on_and_its_runs_go_on() -> None:
    world = World()
    first = world.ok(opening(incarnation="a")).number
    assert first is not None
    key = world.run_now(world.create())
    token = world.assign(key, first)
    world.ok(c.BindSession(first, b"nonce", b"other", "b"))
    assert world.actions == [SessionBound(first)]
    (row,) = [s for s in world.sessions() if s.node == W1]
    assert (row.id, row.nonce, row.boot_id, row.open) == (first, b"other", "b", True)
    live = world.instance(key).live
    assert live is not None
    assert live.token == token
    assert world.refused(opening(replaces=first, incarnation="a", opening=1)) == "name-taken"
    world.ok(opening(replaces=first, incarnation="b", opening=1))


def test_whose_session_it_is_not_cannot_give_it_away() -> None:
    world = World()
    first = world.ok(opening()).number
    assert first is not None
    assert world.refused(c.BindSession(first, b"wrong", b"other")) == "stale"
    assert world.refused(c.BindSession(first + 1, b"nonce", b"other")) == "stale"
    assert world.refused(c.BindSession(world.session("n1"), b"", b"other")) == "stale", "a node's own"
    assert world.refused(c.BindSession(first, b"nonce", b"other", "x" * (BOOT_ID_MAX + 1))) == "invalid-parameter"
    world.ok(c.EndSession(first, world.meta.epoch))
    assert world.refused(c.BindSession(first, b"nonce", b"other")) == "stale"


def test_the_rows_of_workers_that_come_and_go_do_not_stay() -> None:
    world = World()
    before = world.count(Table.SESSIONS), world.count(Table.NODES)
    for number in range(20):
        session = world.ok(opening(worker_key(f"pod-{number}"))).number
        assert session is not None
        world.ok(c.CloseSession(session, ()) if number % 2 else c.EndSession(session, world.meta.epoch))
    assert (world.count(Table.SESSIONS), world.count(Table.NODES)) == before
    assert world.meta.workers == 0


def test_there_are_no_more_workers_than_may_be() -> None:
    world = World()
    world.settings(workers_max=2)
    first = world.ok(opening(worker_key("a"), incarnation="x")).number
    world.ok(opening(worker_key("b")))
    assert first is not None
    assert world.refused(opening(worker_key("c"))) == "too-many"
    world.ok(opening(worker_key("a"), replaces=first, incarnation="x", opening=1))  # in the place of its own
    assert world.meta.workers == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"worker": worker_key("x" * EXECUTOR_MAX)},
        {"incarnation": "x" * 200},
        {"slots": 0},
        {"slots": 10**9},
        {"weight": 0},
        {"queues": ()},
        {"namespaces": tuple(f"n{i}" for i in range(SERVED_MAX + 1))},
        {"handlers": ("exec",) * (WORKER_HANDLERS_MAX + 1)},
        {"labels": tuple((f"k{i}", "v") for i in range(33))},
        {"allowed": Allowed(http=("10.0.0.0/33",))},
        {"allowed": Allowed(http_deny=("a b",))},
        {"allowed": Allowed(exec=("/x",) * 101)},
    ],
)
def test_what_a_worker_says_of_itself_has_bounds(fields: dict[str, Any]) -> None:
    world = World()
    assert world.refused(opening(**fields)) == "invalid-parameter"
    assert world.meta.workers == 0


def test_a_late_report_of_an_old_token_is_refused() -> None:
    world = World()
    first = world.ok(opening(incarnation="a")).number
    assert first is not None
    key = world.run_now(world.create())
    old = world.ok(c.Assign(key, first)).number
    assert old is not None
    world.ok(c.EndSession(first, world.meta.epoch))
    second = world.ok(opening(worker_key("w2"))).number
    assert second is not None
    token = world.ok(c.Assign(key, second)).number
    assert token is not None
    for session, number in ((first, old), (second, old), (first, token)):
        assert world.refused(c.Ended(session, number, Outcome.SUCCEEDED, None, world.now)) == "stale"
    world.ok(c.Ended(second, token, Outcome.SUCCEEDED, None, world.now, output_node="n3"))
    assert world.instance(key).attempts[-1].output_node == "n3"

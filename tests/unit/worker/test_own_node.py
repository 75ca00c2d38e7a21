"""What only a node's own worker does: it reads its tables, sends heartbeats to the leader, and proposes commands."""

from __future__ import annotations

import asyncio

import pytest

from raftsched.cluster_settings import Settings
from raftsched.core.commands import Ended, Kill, OpenSession, PutSettings, encode
from raftsched.core.model import InstanceState, Outcome
from raftsched.core.subjects.leasing import AttemptsFinished, decode_finished
from raftsched.core.subjects.namespace import PutNamespace
from raftsched.worker.session.kept_ends import KeptEnds
from tests.unit.worker.node_world import NODE, NodeWorld
from tests.unit.worker.world import STORE


async def opened(own: NodeWorld) -> int:
    """Until it has a session, of which no lease was granted."""
    own.grant_ms = None
    await own.until(lambda: own.asked)
    return own.worker.session


async def test_an_opening_says_what_the_node_is_and_a_start_waits_for_the_lease(own: NodeWorld) -> None:
    await opened(own)
    row = own.session()
    assert (row.handlers, row.limits_whole_runs) == (("exec", "shell", "python", "http"), True)
    given = own.give()
    await asyncio.sleep(0.6)
    assert not own.runner.launched
    own.grant_ms = 5_000
    await own.leased()
    assert list(own.runner.launched) == [given.token]


async def test_a_grant_prolongs_the_lease_never_beyond_the_ttl_and_never_back(own: NodeWorld) -> None:
    session = await opened(own)
    sent = own.asked[0]
    own.clock.jump(700)  # the answer was under way for so long
    for grant_ms, lease_ms in ((3_000, 3_000), (2_000, 3_000), (60_000, 5_000)):
        own.grant(session, sent, grant_ms)
        assert own.runner.lease == (session, sent + lease_ms)


@pytest.mark.parametrize("wrong", ["session", "heartbeat", "passed"])
async def test_grants_that_do_not_count(own: NodeWorld, wrong: str) -> None:
    session = await opened(own)
    sent = own.asked[0]
    if wrong == "session":
        own.grant(session - 1, sent, 5_000)
    elif wrong == "heartbeat":
        own.grant(session, sent - 1, 5_000)
    else:
        own.clock.jump(1_000)
        own.grant(session, sent, 1_000)
    own.raft.deliver("grant", b"\xc1")
    assert not own.worker.holds_lease
    assert own.runner.lease == (0, 0)


async def test_no_grant_within_the_ttl_means_another_session(own: NodeWorld) -> None:
    first = await opened(own)
    await own.until(lambda: own.session().id != first)
    before, after = own.proposed(OpenSession)
    assert (before.replaces, after.replaces) == (0, first)
    assert before.nonce != after.nonce


@pytest.mark.parametrize(
    ("stuck", "why"),
    [
        ("leader", "this node hears of no leader"),
        ("supervisor", "its supervisor process does not answer"),
        ("store", "the disk of this node does not take what is written"),
    ],
)
async def test_no_heartbeats_while_something_stands_still_and_the_lapse_says_what(
    own: NodeWorld, caplog: pytest.LogCaptureFixture, stuck: str, why: str
) -> None:
    session = await own.leased()
    if stuck == "leader":
        own.raft.leader_id = None
    elif stuck == "supervisor":
        own.runner.moving = False
    else:
        own.store_moves = False
    count = len(own.raft.sent)
    await own.lapsed()
    assert len(own.raft.sent) == count
    assert f"n1: session {session} lapsed: its lease ran out, because {why}. " in caplog.text


async def test_a_lapse_for_want_of_grants_names_no_reason(own: NodeWorld, caplog: pytest.LogCaptureFixture) -> None:
    session = await own.leased()
    own.grant_ms = None
    await own.lapsed()
    assert f"n1: session {session} lapsed: its lease ran out. " in caplog.text


async def test_heartbeats_go_to_the_leader_every_half_second(own: NodeWorld) -> None:
    await own.leased()
    own.raft.sent.clear()
    await asyncio.sleep(5)
    assert 8 <= len(own.raft.sent) <= 11
    own.raft.leader_id = NODE  # this node itself
    await asyncio.sleep(0.7)
    assert own.raft.sent[-1][0] == NODE


async def test_a_node_without_a_session_says_why(own: NodeWorld) -> None:
    await own.leased()
    own.worker.pause._waits_for = lambda: "it waits for 7 (cat, in uninterruptible sleep)"
    with own.cut_off():
        await own.lapsed()
        own.raft.sent.clear()
        await own.until(lambda: len(own.beats()) >= 2)
    assert {(beat.session, beat.holds) for beat in own.beats()} == {(0, False)}
    assert "7 (cat" in own.beats()[-1].trouble


async def test_a_session_that_an_earlier_process_opened_is_not_adopted(own: NodeWorld) -> None:
    """Though it is open, and this process has asked for one: what runs under it was started before."""
    await own.running()
    own.seed += 1  # it draws other numbers
    with own.cut_off():
        await own.start_again()
        await own.until(lambda: own.link._nonce)
        own.see_again()
        assert own.worker.session == 0
    assert not own.runner.launched


async def test_what_came_by_a_snapshot_is_started_and_killed(own: NodeWorld) -> None:
    (running,) = await own.running()
    hidden = own.give(quiet=True)
    own.raft.commit(Kill(running.key), quiet=True)
    assert list(own.runner.launched) == [running.token]
    assert not own.runner.killed
    own.job()  # the next entry that is told has a gap before it
    assert list(own.runner.launched) == [running.token, hidden.token]
    assert own.runner.killed == [running.token]


async def test_assignments_of_others_are_not_ours(own: NodeWorld) -> None:
    await own.leased()
    own.accepted(OpenSession("n2", 0, "boot-9", b"x", 4))
    own.key = "n2"
    own.give()
    assert not own.runner.launched


async def test_ends_are_proposed_together_and_again_until_the_state_shows_them(own: NodeWorld) -> None:
    tokens = [given.token for given in await own.running(5)]
    own.raft.reachable = False
    own.raft.proposed.clear()
    for token in tokens:
        own.end(token)
    await asyncio.sleep(1)
    assert [end.token for end in own.proposed()] == tokens
    await asyncio.sleep(3)
    assert len(own.proposed()) >= 2 * len(tokens)
    own.raft.reachable = True
    await own.settled()


async def test_an_end_is_told_by_a_node_that_stops_without_a_session(own: NodeWorld) -> None:
    (given,) = await own.running()
    own.grant_ms = None
    own.runner.fenced.clear()
    await own.lapsed()
    own.end(given.token)
    await own.worker.stop()
    assert own.state(given) is InstanceState.SUCCEEDED


async def test_the_leader_is_told_at_once_what_is_over(own: NodeWorld) -> None:
    (given,) = await own.running()
    own.end(given.token)
    await own.becomes(given, InstanceState.SUCCEEDED)
    told = [(peer, decode_finished(raw)) for peer, kind, raw in own.raft.sent if kind == "over"]
    assert told == [(own.raft.leader_id, AttemptsFinished(own.worker.session, (given.token,)))]


async def test_what_is_kept_of_output_is_what_the_state_says_at_the_start(own: NodeWorld) -> None:
    await own.leased()

    def started() -> int:
        return own.runner.launched[own.give().token].output_max

    assert started() == 1 << 20
    own.raft.commit(PutSettings(Settings(output_max_bytes=1 << 16)))
    assert started() == 1 << 16
    own.raft.commit(PutNamespace("default", b"{}", output_max_bytes=1 << 13))
    assert started() == 1 << 13
    own.raft.commit(PutNamespace("default", b"{}", output_max_bytes=1 << 14), quiet=True)  # by a snapshot
    assert started() == 1 << 14


async def test_tables_that_are_older_than_a_run_drop_nothing_of_its_kept_end(own: NodeWorld) -> None:
    """After a start a node knows what is committed only when it has heard of a leader."""
    session, future = await own.leased(), 7
    KeptEnds(own.kept, STORE).write([encode(Ended(session, future, Outcome.SUCCEEDED, None, 1)), b"\xc1"])
    own.raft.reachable = False
    await own.start_again("boot-2")  # which does not open a session as long as that one is open
    await asyncio.sleep(10)
    assert future in own.link.reports
    own.raft.reachable = True
    for _ in range(future + 1):
        own.give()
    await own.until(lambda: future not in own.link.reports)


async def test_what_was_given_to_a_session_that_has_lapsed_is_forgotten_with_it(own: NodeWorld) -> None:
    """The leader may not have heard yet, and give it more."""
    await own.leased()
    own.grant_ms = None
    own.runner.fenced.clear()
    await own.lapsed()
    given = own.give()
    own.grant_ms = own.ttl_ms
    own.runner.fenced.set()
    await own.leased()
    assert own.was_lost(given)
    assert own.worker._todo == {}
    assert own.runner.launched == {}


async def test_a_worker_without_runs_ticks_only_when_its_lease_wants_it(
    own: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And at its usual rate as soon as it has one: what is said of runs is no later for it."""
    await own.leased()
    await asyncio.sleep(1)
    ticks: list[int] = []
    tick = own.worker.tick
    monkeypatch.setattr(own.worker, "tick", lambda: (ticks.append(own.clock.boot_ms()), tick()))
    asked = len(own.asked)
    await asyncio.sleep(10)
    quiet = len(ticks)
    assert quiet <= 22
    assert len(own.asked) - asked >= 16, "the lease is renewed as often as ever"
    (given,) = await own.running()
    ticks.clear()
    await asyncio.sleep(2)
    assert len(ticks) >= 19
    own.end(given.token)
    await own.settled()


async def test_a_worker_that_has_stopped_ticks_no_more_whatever_it_is_given(own: NodeWorld) -> None:
    await own.leased()
    await asyncio.sleep(1)  # it rests
    await own.worker.stop()
    assert own.worker._tick_timer is not None
    own.worker.given(own.worker.newest + 1, None)
    own.worker.start_given()
    assert own.worker._tick_timer.cancelled()

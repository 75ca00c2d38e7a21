"""The loop of a remote worker: which requests it sends, what it starts, and what it never does."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

from raftsched.core.commands import SelfReport
from raftsched.core.model import Outcome, OutputRef, Verdict
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.remote.server_port import Refused
from tests.unit.remote.world import GRACE_MS, POLL_MS, TTL_MS, World, run

OUTPUT = OutputRef(1, 0, 5, b"x" * 32, 0)


def test_a_run_is_started_reported_and_settled() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.give(7, handler={"shell": "date"}, params={"n": 1}, namespace="shop", own_grace=True)
        await world.launched(7)
        spec = world.runner.launched[7]
        assert (spec.session, spec.timeout_ms, spec.stop_ms, spec.namespace) == (session, 60_000, 5_000, "shop")
        assert spec.output_max == 1 << 20
        world.begin(7)
        await world.until(lambda: [r.outcome for r in world.cluster.reports] == [None])
        world.end(7, result=b'{"sum":3}', exit_code=0)
        await world.until(lambda: world.agent.running == 0)
        last = world.cluster.reports[-1]
        assert (last.outcome, last.result, last.exit_code) == ("succeeded", {"sum": 3}, 0)
        assert world.outputs.begun == world.outputs.forgotten == [7]

    run(body)


def test_reports_do_not_wait_for_the_poll_that_waits() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        before = world.clock.boot_ms()
        world.end(7)
        await world.until(lambda: world.cluster.ends() == [(7, "succeeded")])
        assert world.clock.boot_ms() - before < POLL_MS / 10
        assert max(node.most_under_way for node in world.nodes) == 2

    run(body)


def test_a_start_that_is_heard_of_late_takes_the_place_of_no_end() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.end(7)
        world.begin(7)
        await world.until(lambda: world.agent.running == 0)
        assert world.cluster.ends() == [(7, "succeeded")]

    run(body)


def test_ends_that_arise_together_travel_together() -> None:
    async def body(world: World) -> None:
        await world.leased()
        tokens = range(10, 60)
        for token in tokens:
            world.cluster.give(token)
        await world.launched(*tokens)
        before = len(world.polls)
        for token in tokens:
            world.end(token)
        await world.until(lambda: world.agent.running == 0)
        assert len(world.polls) - before <= 3

    run(body)


def test_the_lease_counts_from_when_the_request_was_sent() -> None:
    async def body(world: World) -> None:
        await world.leased()
        (node,) = world.nodes
        await world.until(lambda: len(node.polls) >= 2)
        node.holds.clear()
        sent = node.at[-1]
        await asyncio.sleep(POLL_MS / 1000 + 0.5)  # the answer is late by half a second
        node.holds.set()
        await world.until(lambda: world.runner.lease[1] >= sent + TTL_MS)
        assert world.runner.lease == (world.agent.session, sent + TTL_MS)

    run(body, nodes=1)


def test_an_answer_that_is_lost_gives_its_runs_once() -> None:
    async def body(world: World) -> None:
        await world.leased()
        first = next(node for node in world.nodes if node.polls)
        first.deaf = True
        world.cluster.give(7)
        world.cluster.give(8)
        await world.launched(7, 8)  # FakeRunner fails when one comes twice
        world.end(7)
        world.end(8)
        await world.until(lambda: world.agent.running == 0)
        assert sorted(world.cluster.ends()) == [(7, "succeeded"), (8, "succeeded")]

    run(body)


def test_an_answer_that_comes_twice_starts_nothing_twice() -> None:
    """A node that is behind shows runs that were taken, reported and settled."""

    async def body(world: World) -> None:
        await world.leased()
        run_ = world.cluster.give(7)
        await world.launched(7)
        world.end(7)
        await world.until(lambda: world.agent.running == 0)
        world.cluster.given[7] = run_  # as a node shows it that has not applied the end
        for node in world.nodes:
            node.polls.clear()
        await asyncio.sleep(10)
        assert {poll.after for poll in world.polls} == {7}
        assert list(world.runner.launched) == [7]

    run(body)


def test_reports_are_repeated_until_a_poll_with_them_was_answered() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        with world.cut_off():
            world.end(7)
            await asyncio.sleep(2)
        await world.until(lambda: world.cluster.ends() == [(7, "succeeded")])
        await world.until(lambda: world.agent.running == 0)
        count = len(world.cluster.reports)
        await asyncio.sleep(6)
        assert len(world.cluster.reports) == count

    run(body)


def test_a_refused_report_is_dropped() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.cluster.stale.add(7)
        world.end(7)
        await world.until(lambda: world.agent.running == 0)
        assert world.cluster.ends() == []
        before = sum(len(poll.reports) for poll in world.polls)
        await asyncio.sleep(6)
        assert sum(len(poll.reports) for poll in world.polls) == before

    run(body)


def test_a_report_that_is_none_makes_its_run_fail_and_no_other() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.invalid = lambda report: report.result == "bad"
        for token in (7, 8):
            world.cluster.give(token)
        await world.launched(7, 8)
        world.end(7, result=b'"bad"', exit_code=3)
        await world.until(lambda: world.agent.running == 1)
        (end,) = [report for report in world.cluster.reports if report.token == 7]
        assert (end.outcome, end.error, end.result, end.exit_code) == (
            "failed",
            "Its report was refused: /result is bad",
            None,
            None,
        )
        world.end(8)
        await world.until(lambda: world.agent.running == 0)
        assert world.cluster.ends() == [(7, "failed"), (8, "succeeded")]
        assert world.agent.session == session

    run(body)


def test_what_is_refused_whatever_it_says_is_given_up() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.invalid = lambda report: True
        world.cluster.give(7)
        await world.launched(7)
        world.begin(7)
        await asyncio.sleep(1)
        assert world.runner.killed == [], "it has only not been said when it began"
        world.end(7)
        await world.until(lambda: world.agent.running == 0)
        assert world.agent.session == session

    run(body)


def test_what_is_no_json_is_reported_as_failed() -> None:
    """A poll with it could not be sent, and the lease would run out."""

    async def body(world: World) -> None:
        session = await world.leased()
        for token in (7, 8):
            world.cluster.give(token)
        await world.launched(7, 8)
        world.runner.on_self_report(8, SelfReport(5, "half \ud83d of it"))
        world.end(7, error="half \ud83d of it")
        await world.until(lambda: world.agent.running == 1)
        (end,) = [report for report in world.cluster.reports if report.outcome is not None]
        assert (end.token, end.outcome) == (7, "failed")
        assert (end.error or "").startswith("Its report was refused: it is not JSON")
        assert world.agent.session == session

    run(body)


def test_a_run_whose_start_is_refused_is_ended() -> None:
    """The cluster has given it up; it goes on here."""

    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.cluster.stale.add(7)
        world.begin(7)
        await world.until(lambda: world.runner.killed == [7])

    run(body)


@pytest.mark.parametrize("how", ["down", "silent"])
def test_another_node_is_asked_before_the_lease_ends(how: str) -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        for _ in range(4):
            first = max(world.nodes, key=lambda node: max(node.at, default=0))
            setattr(first, how, True)
            await asyncio.sleep(TTL_MS / 1000)
            setattr(first, how, False)
        assert world.agent.session == session
        assert ("fence",) not in world.runner.events[2:]

    run(body)


def test_two_silent_nodes_leave_time_for_the_third() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        for last in world.nodes * 2:
            for node in world.nodes:
                node.silent = node is not last
            await asyncio.sleep(2 * TTL_MS / 1000)
            assert world.agent.session == session

    run(body)


def test_a_node_without_a_leader_is_left_for_another() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        for node in world.nodes[:2]:
            node.lease = False
        await asyncio.sleep(3 * TTL_MS / 1000)
        assert world.agent.session == session

    run(body)


def test_the_node_that_answered_last_is_asked_first() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.nodes[0].down = True
        await asyncio.sleep(POLL_MS / 1000 * 2)
        for node in world.nodes:
            node.polls.clear()
        await asyncio.sleep(20)
        assert sum(1 for node in world.nodes if node.polls) == 1

    run(body)


def test_a_lease_that_ran_out_stays_over() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.runner.fenced.clear()
        with world.cut_off():
            await world.until(lambda: not world.agent.session)
            assert world.runner.lease == (0, 0)
        at = world.clock.boot_ms()
        await asyncio.sleep(5)
        assert all(moment <= at for node in world.nodes for moment in node.at)  # nothing more under the old session
        assert len(world.cluster.openings) == 1  # and no new one before nothing of it is left
        world.runner.fenced.set()
        assert await world.leased() == session + 1
        assert world.cluster.openings[-1].incarnation == world.cluster.openings[0].incarnation
        assert world.cluster.openings[-1].opening > world.cluster.openings[0].opening
        world.end(7)  # what the runner says of the old one is no news of the new one
        await asyncio.sleep(3)
        assert world.cluster.reports == []

    run(body)


def test_a_worker_that_was_stopped_for_long_asks_nothing_more_under_its_session() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.clock.jump(TTL_MS)
        world.runner.fenced.clear()
        at = world.clock.boot_ms()
        await world.until(lambda: not world.agent.session)
        assert all(moment < at for node in world.nodes for moment in node.at)
        world.runner.fenced.set()

    run(body)


def test_an_answer_that_comes_after_the_lease_s_end_prolongs_nothing() -> None:
    async def body(world: World) -> None:
        await world.leased()
        (node,) = world.nodes
        node.holds.clear()
        await asyncio.sleep(0.2)
        world.clock.jump(TTL_MS)
        world.runner.fenced.clear()
        world.cluster.give(7)
        node.holds.set()
        await asyncio.sleep(1)
        assert world.runner.lease == (0, 0)
        assert not world.runner.launched
        world.runner.fenced.set()

    run(body, nodes=1)


def test_nothing_is_started_when_too_little_of_the_lease_is_left() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.grant_ms = KILL_BEFORE_MS + 200
        await world.until(lambda: world.runner.lease[1] - world.clock.boot_ms() < KILL_BEFORE_MS + 250)
        world.cluster.give(7)
        await asyncio.sleep(0.1)
        assert not world.runner.launched
        world.cluster.grant_ms = None
        await world.launched(7)  # with the next renewal, or under the next session

    run(body, nodes=1)


def test_a_link_that_is_lost_is_told_with_the_node_and_what_comes_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "raftsched")

    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        caplog.clear()
        with world.cut_off():
            await world.until(lambda: "no session yet" in caplog.text)
        first = caplog.messages[0]
        assert first.startswith(
            "w1: n1 did not answer: cannot be connected to. n2 is asked next; what runs goes on for "
        )
        (over,) = [said for said in caplog.messages if "lapsed" in said]
        assert over.startswith(f"w1: session {session} lapsed: its lease ran out, because n")
        assert "did not answer: cannot be connected to" in over
        assert over.endswith(". What ran under it is ended, and others may run it. A new session is asked for.")
        none = next(said for said in caplog.messages if "no session" in said)
        assert re.fullmatch(
            r"w1: no session yet, so nothing runs here: n[12]: cannot be connected to\. The worker asks again\.", none
        )

    run(body, nodes=2)


def test_who_ended_a_session_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.end()
        await world.until(lambda: world.agent.session > session)
        assert f"w1: session {session} lapsed: n1 says that it is over. " in caplog.text

    run(body, nodes=1)


@pytest.mark.parametrize("status", [401, 409])
def test_who_is_refused_for_want_of_a_token_is_told_how_to_say_one(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    async def body(world: World) -> None:
        await world.agent.stop()
        world.agent = world.make(world.runner)
        world.nodes[0].refuses = Refused("unauthorized", "This cluster wants a token.", status)
        await world.agent.start()
        await world.until(lambda: "no session yet" in caplog.text)
        assert "n1: This cluster wants a token. " in caplog.text
        hint = "Say a token of the role worker with --token-file. "
        assert (hint in caplog.text) == (status == 401)

    run(body, nodes=1)


def test_a_session_that_is_over_ends_all_at_once() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.runner.fenced.clear()
        before = world.clock.boot_ms()
        world.cluster.end()
        await world.until(lambda: world.runner.lease == (0, 0))
        assert world.clock.boot_ms() - before < 1_000
        world.runner.fenced.set()
        assert await world.leased() == session + 1

    run(body)


def test_a_run_that_was_killed_for_the_lease_ends_the_session_and_is_not_reported() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.end(7, Outcome.LOST)
        assert world.agent.session == 0
        assert await world.leased() == session + 1
        assert world.cluster.reports == []

    run(body)


def test_a_run_whose_keeper_was_killed_is_lost_alone() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.end(7, Outcome.LOST, alone=True)
        await world.until(lambda: world.cluster.ends() == [(7, "lost")])
        assert world.agent.session == session

    run(body)


def test_runs_are_killed_on_request_once() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        before = world.clock.boot_ms()
        world.cluster.kill(7)
        await world.until(lambda: world.runner.killed)
        assert world.clock.boot_ms() - before < POLL_MS / 10
        await asyncio.sleep(6)
        assert world.runner.killed == [7]
        assert all(poll.killing == [7] for node in world.nodes for poll in node.polls[-1:] if node.at[-1] > before)
        world.end(7, Outcome.KILLED)
        await world.until(lambda: world.cluster.ends() == [(7, "killed")])
        await asyncio.sleep(6)
        assert max(world.nodes, key=lambda node: node.at[-1:]).polls[-1].killing == []

    run(body)


def test_a_run_that_comes_with_its_kill_is_not_started() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.kills.add(7)
        world.cluster.give(7)
        await world.until(lambda: world.cluster.ends() == [(7, "killed")])
        assert not world.runner.launched

    run(body)


def test_another_incarnation_waits_until_the_name_is_free() -> None:
    async def body(world: World) -> None:
        await world.leased()
        other = world.make(type(world.runner)(), "boot/2")
        await other.start()
        await asyncio.sleep(5)
        assert not other.session
        assert world.agent.session
        await world.agent.stop()
        await world.until(lambda: other.session)
        await other.stop()

    run(body)


def test_an_opening_whose_answer_is_lost_is_repeated_under_a_higher_number() -> None:
    async def body(world: World) -> None:
        with world.cut_off():
            await world.until(lambda: len(world.cluster.openings) >= 4)
        await world.leased()
        numbers = [opening.opening for opening in world.cluster.openings]
        assert numbers == sorted(set(numbers))

    run(body)


def test_an_opening_that_takes_longer_than_its_lease_is_none() -> None:
    async def body(world: World) -> None:
        await world.leased()
        (node,) = world.nodes
        world.cluster.end()
        await world.until(lambda: not world.agent.session)
        node.holds.clear()
        await world.until(lambda: len(world.cluster.openings) == 2)
        await asyncio.sleep(0.1)
        world.clock.jump(TTL_MS)
        node.holds.set()
        await world.leased()
        assert len(world.cluster.openings) == 3

    run(body, nodes=1)


def test_a_supervisor_that_is_silent_gets_no_more_of_the_lease() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.runner.moving = False
        await asyncio.sleep(POLL_MS / 1000 + 0.1)
        for node in world.nodes:
            node.polls.clear()
        await asyncio.sleep(2)
        assert world.polls == []
        await world.until(lambda: world.agent.session == 0)
        world.runner.moving = True
        assert await world.leased() == session + 1

    run(body)


def test_a_worker_that_cannot_start_says_so_and_hands_back() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.end(7, Outcome.KILLED, begun=False, error="this node cannot start a process: no memory")
        await world.until(lambda: world.cluster.ends() == [(7, "not_begun")])
        said = next(poll for poll in world.polls if poll.reports)
        assert said.pause_ms > 0
        assert "no memory" in said.trouble

    run(body)


def test_a_job_that_cannot_be_run_here_fails_with_the_reason() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7, handler={"call": "send-invoice"})
        await world.until(lambda: world.cluster.ends() == [(7, "failed")])
        assert 'no handler "send-invoice"' in (world.cluster.reports[-1].error or "")

    run(body)


def test_values_of_secrets_are_kept_out_of_errors_and_results() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7, handler={"exec": ["true"], "env": {"KEY": "hunter22"}}, secrets=["hunter22"])
        await world.launched(7)
        assert world.runner.launched[7].task.hidden == ("hunter22",)
        world.end(7, Outcome.FAILED, error="no hunter22", result=b'["hunter22"]')
        await world.until(world.cluster.ends)
        assert (world.cluster.reports[-1].error, world.cluster.reports[-1].result) == ("no ***", ["***"])

    run(body)


def test_an_end_waits_for_its_output() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        world.outputs.taken.clear()
        world.end(7, output=OUTPUT)
        await asyncio.sleep(3)
        assert world.cluster.reports == []
        world.outputs.taken.set()
        await world.until(lambda: world.cluster.ends() == [(7, "succeeded")])
        assert world.cluster.reports[-1].output == "output of 7"

    run(body)


def test_a_poll_that_is_refused_for_a_report_carries_less_until_it_is_found() -> None:
    async def body(world: World) -> None:
        await world.leased()
        for token in range(1, 9):
            world.cluster.give(token)
        await world.launched(*range(1, 9))
        first = next(node for node in world.nodes if node.polls)
        poll = first._poll

        async def picky(session: str, request: Any) -> Any:
            if any(report.result == "bad" for report in request.reports):
                raise Refused("invalid", "/reports/0/result: is bad", 422)
            return await poll(session, request)

        first._poll = picky  # type: ignore[method-assign]
        for token in range(1, 9):
            world.end(token, result=b'"bad"' if token == 5 else b"1")
        await world.until(lambda: world.agent.running == 0)
        ends = {token: "failed" if token == 5 else "succeeded" for token in range(1, 9)}
        assert dict(world.cluster.ends()) == ends
        assert [r.error for r in world.cluster.reports if r.token == 5] == [
            "Its report was refused: /reports/0/result: is bad"
        ]

    run(body)


def test_a_token_that_was_revoked_is_asked_about_again_and_again() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        for node in world.nodes:
            node.refuses = Refused("unauthorized", "This token is not valid.", 401)
        await world.until(lambda: not world.agent.session)
        await asyncio.sleep(120)
        assert len(world.cluster.openings) < 20
        for node in world.nodes:
            node.refuses = None
        assert await world.leased() == session + 1

    run(body)


# ---------------------------------------------------------------- stopping


def test_a_worker_that_stops_takes_nothing_and_gives_runs_their_grace() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        winding = asyncio.create_task(world.agent.wind_down())
        await world.until(lambda: ("wind down", GRACE_MS) in world.runner.events)
        await world.until(lambda: world.polls[-1].pause_ms > 0 or any(p.pause_ms for p in world.polls))
        world.cluster.give(8)  # the leader had not heard of it
        await world.until(lambda: (8, "not_begun") in world.cluster.ends())
        await asyncio.sleep(1)
        assert not winding.done()
        world.end(7)
        await winding
        await world.agent.stop()
        assert (7, "succeeded") in world.cluster.ends()
        assert [close.ran for close in world.cluster.closed] == [[]]
        assert world.cluster.number == session
        assert list(world.runner.launched) == [7]

    run(body)


def test_what_is_left_after_the_grace_period_is_handed_back() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        world.cluster.give(8)
        await world.launched(7, 8)
        await world.agent.wind_down()

        async def stopping() -> None:
            world.end(7, Outcome.KILLED, error="Its node stopped.")
            await asyncio.sleep(0.5)

        world.runner.stopping = stopping
        await world.agent.stop()
        assert world.cluster.ends() == [(7, "killed")]
        assert world.cluster.reports[-1].error == "Its worker stopped, and handed it back."
        assert [close.ran for close in world.cluster.closed] == [[8]]  # no end of it was told

    run(body)


def test_the_lease_is_renewed_while_what_runs_is_wound_down() -> None:
    async def body(world: World) -> None:
        world.agent._grace.grace_ms = 3 * TTL_MS
        session = await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        winding = asyncio.create_task(world.agent.wind_down())
        await asyncio.sleep(2.5 * TTL_MS / 1000)
        assert world.agent.session == session
        assert world.agent.holds_lease
        world.agent.hurry()
        await winding

    run(body)


def test_a_second_signal_hurries() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        winding = asyncio.create_task(world.agent.wind_down())
        await asyncio.sleep(0.1)
        before = world.clock.boot_ms()
        world.agent.hurry()
        await winding
        assert world.clock.boot_ms() - before < 100

    run(body)


@pytest.mark.parametrize("hurried", [True, False])
def test_what_is_ended_at_once_is_handed_back(hurried: bool) -> None:
    """The runner ends what runs when it stops, as where a lease is over; but this one is not."""

    async def body(world: World) -> None:
        if not hurried:
            world.agent._grace.grace_ms = 0
        await world.leased()
        world.cluster.give(7)
        world.cluster.give(8)
        await world.launched(7, 8)
        winding = asyncio.create_task(world.agent.wind_down())
        await asyncio.sleep(0.1)
        world.agent.hurry()
        await winding

        async def stopping() -> None:
            world.end(8)
            world.end(7, Outcome.LOST, alone=False)
            await asyncio.sleep(0.5)

        world.runner.stopping = stopping
        await world.agent.stop()
        assert world.cluster.ends() == [(8, "succeeded")]
        assert [close.ran for close in world.cluster.closed] == [[7]]

    run(body)


def test_a_worker_without_nodes_stops_all_the_same() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7)
        await world.launched(7)
        with world.cut_off():
            await world.agent.stop()
        assert world.runner.events[-1] == ("stop",)
        assert world.cluster.closed == []

    run(body)


def test_a_worker_that_stops_before_it_has_a_session_opens_none() -> None:
    async def body(world: World) -> None:
        with world.cut_off():
            await asyncio.sleep(1)
            await world.agent.wind_down()
            await world.agent.stop()
        await asyncio.sleep(5)
        assert not world.cluster.open

    run(body)


def test_what_a_run_says_is_reported_now_and_then_and_with_its_end() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(1)
        await world.launched(1)

        def said() -> list[tuple[str | None, int | None, str | None, Any]]:
            reports = [report for poll in world.polls for report in poll.reports if report.says]
            return [(report.outcome, report.progress, report.text, report.state) for report in reports]

        world.runner.on_self_report(1, SelfReport(1, "begins"))
        await world.until(said)
        for percent in range(2, 50):
            world.runner.on_self_report(1, SelfReport(percent, "goes on", b'{"row":%d}' % percent))
        await asyncio.sleep(1)
        assert said() == [(None, 1, "begins", None)]
        await world.until(lambda: len(said()) == 2)
        assert said()[1] == (None, 49, "goes on", {"row": 49})
        world.end(1, Outcome.FAILED, verdict=Verdict.SNOOZE, delay_ms=60_000, said=SelfReport(50))
        await world.until(lambda: len(said()) == 3)
        assert said()[2] == ("failed", 50, None, {"row": 49})
        ends = [report for poll in world.polls for report in poll.reports if report.outcome]
        assert [(end.verdict, end.delay_ms) for end in ends] == [("snooze", 60_000)]

    run(body)


def test_no_more_is_kept_of_a_run_than_nodes_keep_and_than_the_worker_does() -> None:
    async def body(world: World) -> None:
        await world.leased()
        world.cluster.give(7, output_max_bytes=10_000)
        await world.launched(7)
        world.polls_link._output_max = 50_000  # --output-max
        world.cluster.give(8, output_max_bytes=10_000)
        world.cluster.give(9, output_max_bytes=1 << 20)
        await world.launched(8, 9)
        assert [world.runner.launched[token].output_max for token in (7, 8, 9)] == [10_000, 10_000, 50_000]

    run(body)

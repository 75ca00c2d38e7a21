"""What only a remote worker does: which requests it sends to which node, and what becomes of those that are refused."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence

import pytest

from raftsched.core.commands import Ended, EndSession, SelfReport
from raftsched.core.model import InstanceState, Outcome
from raftsched.remote.polls import TELL_MS
from raftsched.remote.server_port import Failed, Refused
from raftsched.surface.worker_sessions import PollIn
from raftsched.worker.processes.wire import NODE_STOPPED
from raftsched.worker.session.worker import KEEP_AFTER_MS
from tests.unit.remote.polls_world import STEP_S, PollsWorld
from tests.unit.worker.world import OUTPUT, Given

ONE_NODE = pytest.mark.parametrize("polls", [1], indirect=True)
LOST = "raftsched: the output could not be sent in time\n"
TTL_S = PollsWorld.ttl_ms / 1000


def taken_away(polls: PollsWorld, given: Given) -> None:
    """The cluster has given it up."""
    session = polls.worker.session
    polls.raft.commit(Ended(session, given.token, Outcome.FAILED, None, polls.clock.wall_ms(), error="elsewhere"))


def outcomes(polls: PollsWorld, given: Sequence[Given]) -> list[Outcome]:
    """As they were committed."""
    ends = {end.token: end.outcome for end in polls.proposed()}
    return [ends[one.token] for one in given]


# ---------------------------------------------------------------- polls


async def test_reports_do_not_wait_for_the_poll_that_waits(polls: PollsWorld) -> None:
    (given,) = await polls.running()
    before = polls.clock.boot_ms()
    polls.end(given.token)
    await polls.becomes(given, InstanceState.SUCCEEDED)
    assert polls.clock.boot_ms() - before < polls.poll_ms / 10
    assert max(node.most_under_way for node in polls.nodes) == 2


async def test_ends_that_arise_together_travel_together(polls: PollsWorld) -> None:
    given = await polls.running(50)
    before = len(polls.polls)
    for one in given:
        polls.end(one.token)
    await polls.settled()
    assert len(polls.polls) - before <= 3


async def test_an_answer_that_is_lost_gives_its_runs_once(polls: PollsWorld) -> None:
    await polls.leased()
    next(node for node in polls.nodes if node.polls).deaf = True
    given = [polls.give(), polls.give()]
    await polls.launched(*given)  # FakeRunner fails when one comes twice
    for one in given:
        polls.end(one.token)
    await polls.settled()
    assert outcomes(polls, given) == [Outcome.SUCCEEDED] * 2


async def test_a_poll_says_what_was_taken_and_what_is_being_ended(polls: PollsWorld) -> None:
    given, _ = await polls.running(2)
    polls.worker.kill(given.token)
    polls.end(given.token + 1)
    await asyncio.sleep(polls.poll_ms / 1000)
    assert (polls.last().after, polls.last().killing) == (given.token + 1, [given.token])
    polls.end(given.token, Outcome.KILLED)
    await polls.settled()
    await asyncio.sleep(2 * polls.poll_ms / 1000)
    assert (polls.last().after, polls.last().killing) == (given.token + 1, [])


# ---------------------------------------------------------------- nodes


@pytest.mark.parametrize("how", ["down", "silent"])
async def test_another_node_is_asked_before_the_lease_ends(polls: PollsWorld, how: str) -> None:
    session = await polls.leased()
    for _ in range(4):
        first = max(polls.nodes, key=lambda node: max(node.at, default=0))
        setattr(first, how, True)
        await asyncio.sleep(TTL_S)
        setattr(first, how, False)
    assert polls.worker.session == session
    assert ("fence",) not in polls.runner.events[2:]


async def test_two_silent_nodes_leave_time_for_the_third(polls: PollsWorld) -> None:
    session = await polls.leased()
    for last in polls.nodes * 2:
        for node in polls.nodes:
            node.silent = node is not last
        await asyncio.sleep(2 * TTL_S)
        assert polls.worker.session == session


async def test_a_node_without_a_leader_is_left_for_another(polls: PollsWorld) -> None:
    session = await polls.leased()
    for node in polls.nodes[:2]:
        node.leads = False
    await asyncio.sleep(3 * TTL_S)
    assert polls.worker.session == session


async def test_the_node_that_answered_last_is_asked_first(polls: PollsWorld) -> None:
    await polls.leased()
    polls.nodes[0].down = True
    await asyncio.sleep(2 * polls.poll_ms / 1000)
    polls.forget_polls()
    await asyncio.sleep(20)
    assert sum(1 for node in polls.nodes if node.polls) == 1


# ---------------------------------------------------------------- openings


async def test_openings_are_of_one_incarnation_and_have_growing_numbers(polls: PollsWorld) -> None:
    """One whose answer is lost must not end, when it comes late, what a later one has opened."""
    with polls.cut_off():
        await polls.until(lambda: len(polls.openings) >= 4)
    await polls.leased()
    numbers = [opening.opening for opening in polls.openings]
    assert numbers == sorted(set(numbers))
    assert {opening.incarnation for opening in polls.openings} == {"boot-1"}


@ONE_NODE
async def test_an_opening_that_takes_longer_than_its_lease_is_none(polls: PollsWorld) -> None:
    first = await polls.leased()
    with polls.answers_late():
        polls.raft.commit(EndSession(first, 1))
        await polls.until(lambda: len(polls.openings) == 2)
        await asyncio.sleep(0.1)
        polls.clock.jump(polls.ttl_ms)
    await polls.leased()
    assert len(polls.openings) == 3


async def test_a_token_that_was_revoked_is_asked_about_again_and_again(polls: PollsWorld) -> None:
    first = await polls.leased()
    refused = refusals(polls, Refused("unauthorized", "This token is not valid.", 401))
    await polls.lapsed()
    await asyncio.sleep(120)
    assert len(polls.openings) < 20
    refused.clear()
    assert await polls.leased() > first


def refusals(polls: PollsWorld, why: Refused) -> list[Refused]:
    """What all nodes answer, until it is cleared."""
    left = [why]
    for node in polls.nodes:
        node.refuses = lambda request: next(iter(left), None)
    return left


# ---------------------------------------------------------------- what is told of it


@pytest.mark.parametrize("polls", [2], indirect=True)
async def test_a_link_that_is_lost_is_told_with_the_node_and_what_comes_of_it(
    polls: PollsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "raftsched")
    await polls.running()
    session = polls.worker.session
    caplog.clear()
    with polls.cut_off():
        await polls.until(lambda: "no session yet" in caplog.text)
    assert re.match(
        r"w1: n[12] did not answer: cannot be connected to\. n[12] is asked next; what runs goes on for ",
        caplog.messages[0],
    )
    (over,) = [said for said in caplog.messages if "lapsed" in said]
    assert over.startswith(f"w1: session {session} lapsed: its lease ran out, because n")
    assert "did not answer: cannot be connected to" in over
    assert over.endswith(". What ran under it is ended, and others may run it. A new session is asked for.")
    none = next(said for said in caplog.messages if "no session" in said)
    assert re.fullmatch(
        r"w1: no session yet, so nothing runs here: n[12]: cannot be connected to\. The worker asks again\.", none
    )


@ONE_NODE
async def test_who_ended_a_session_is_told(polls: PollsWorld, caplog: pytest.LogCaptureFixture) -> None:
    session = await polls.leased()
    polls.raft.commit(EndSession(session, 1))
    await polls.lapsed()
    assert f"w1: session {session} lapsed: n1 says that it is over. " in caplog.text


@ONE_NODE
@pytest.mark.parametrize("status", [401, 409])
async def test_who_is_refused_for_want_of_a_token_is_told_how_to_say_one(
    polls: PollsWorld, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    refusals(polls, Refused("unauthorized", "This cluster wants a token.", status))
    await polls.until(lambda: "no session yet" in caplog.text)
    assert "n1: This cluster wants a token. " in caplog.text
    hint = "Say a token of the role worker with --token-file. "
    assert (hint in caplog.text) == (status == 401)


# ---------------------------------------------------------------- reports that are refused


async def test_a_report_of_what_is_over_is_dropped(polls: PollsWorld) -> None:
    (given,) = await polls.running()
    taken_away(polls, given)
    polls.end(given.token)
    await polls.settled()
    assert [poll.reports for poll in polls.polls if poll.reports] == [[polls.reported()[0]]]
    assert polls.instance(given).error == "elsewhere"


async def test_a_run_whose_start_is_refused_is_ended(polls: PollsWorld) -> None:
    """The cluster has given it up; it goes on here."""
    (given,) = await polls.running()
    taken_away(polls, given)
    polls.begin(given.token)
    await polls.until(lambda: polls.runner.killed == [given.token])


async def test_a_report_that_is_none_makes_its_run_fail_and_no_other(polls: PollsWorld) -> None:
    polls.invalid = lambda report: report.result == "bad"
    bad, good = await polls.running(2)
    session = polls.worker.session
    polls.end(bad.token, result=b'"bad"', exit_code=3)
    await polls.until(lambda: polls.worker.running == 1)
    (end,) = polls.proposed()
    assert (end.token, end.outcome, end.error) == (bad.token, Outcome.FAILED, "Its report was refused: /result is bad")
    assert (end.result, end.exit_code) == (None, None)
    polls.end(good.token)
    await polls.settled()
    assert outcomes(polls, [bad, good]) == [Outcome.FAILED, Outcome.SUCCEEDED]
    assert polls.worker.session == session


async def test_what_is_refused_whatever_it_says_is_given_up(polls: PollsWorld) -> None:
    polls.invalid = lambda report: True
    (given,) = await polls.running()
    session = polls.worker.session
    polls.begin(given.token)
    await asyncio.sleep(1)
    assert polls.runner.killed == [], "it has only not been said when it began"
    polls.end(given.token)
    await polls.settled()
    assert polls.worker.session == session


async def test_what_is_no_json_is_reported_as_failed(polls: PollsWorld) -> None:
    """A poll with it could not be sent, and the lease would run out."""
    given, other = await polls.running(2)
    session = polls.worker.session
    polls.runner.on_self_report(other.token, SelfReport(5, "half \ud83d of it"))
    polls.end(given.token, error="half \ud83d of it")
    await polls.until(lambda: polls.worker.running == 1)
    (end,) = polls.proposed()
    assert (end.token, end.outcome) == (given.token, Outcome.FAILED)
    assert (end.error or "").startswith("Its report was refused: it is not JSON")
    assert polls.worker.session == session


def picky(is_bad: Callable[[PollIn], bool], status: int = 422) -> Callable[[PollIn | None], Refused | None]:
    """What a node refuses as a whole."""
    why = Refused("invalid", "/reports/0/result: is bad", status)
    return lambda request: why if request is not None and is_bad(request) else None


async def test_a_poll_that_is_refused_for_a_report_carries_less_until_it_is_found(polls: PollsWorld) -> None:
    given = await polls.running(8)
    for node in polls.nodes:
        node.refuses = picky(lambda request: any(report.result == "bad" for report in request.reports))
    for one in given:
        polls.end(one.token, result=b'"bad"' if one is given[4] else b"1")
    await polls.settled()
    assert outcomes(polls, given) == [Outcome.FAILED if n == 4 else Outcome.SUCCEEDED for n in range(8)]
    assert polls.instance(given[4]).attempts[-1].error == "Its report was refused: /reports/0/result: is bad"


# ---------------------------------------------------------------- output


async def test_an_end_waits_for_its_output(polls: PollsWorld) -> None:
    (given,) = await polls.running()
    polls.outputs.taken.clear()
    polls.begin(given.token)
    polls.end(given.token, output=OUTPUT)
    await asyncio.sleep(3)
    assert polls.proposed() == []
    polls.outputs.taken.set()
    await polls.settled()
    assert polls.stored.texts == [(given.token, f"output of {given.token}")]
    assert polls.outputs.begun == polls.outputs.forgotten == [given.token]


@pytest.mark.parametrize("ended", [True, False])
async def test_the_end_of_a_run_whose_output_is_being_sent_is_told_before_the_next_session(
    polls: PollsWorld, ended: bool
) -> None:
    """Without the output: the run has ended, and is not to run again. Where the session is over it comes too late."""
    (given,) = await polls.running()
    polls.outputs.taken.clear()
    polls.end(given.token, output=OUTPUT)
    await asyncio.sleep(0.1)
    if ended:
        polls.raft.commit(EndSession(polls.worker.session, 1))
        await polls.lapsed()
    else:
        with polls.cut_off():
            await polls.lapsed()
    await polls.leased()
    polls.outputs.taken.set()
    await asyncio.sleep(3)
    assert polls.state(given) is (InstanceState.WAITING if ended else InstanceState.SUCCEEDED)
    assert polls.stored.texts == ([] if ended else [(given.token, LOST)])
    assert (polls.worker.running, polls.outputs.forgotten) == (0, [given.token])


async def test_an_end_whose_output_is_being_sent_outlives_a_kill(polls: PollsWorld) -> None:
    """Without the output: the run has ended, and is not to run again."""
    (given,) = await polls.running()
    polls.outputs.taken.clear()
    with polls.cut_off():
        polls.end(given.token, output=OUTPUT)
        await asyncio.sleep(KEEP_AFTER_MS / 1000 + 1)
        assert polls.worker.holds_lease
        await polls.start_again()
    await polls.leased()
    assert polls.state(given) is InstanceState.SUCCEEDED
    assert polls.stored.texts == [(given.token, LOST)]
    await polls.until(lambda: not polls.kept.exists())


async def test_an_end_is_kept_with_its_output_once_that_was_sent(polls: PollsWorld) -> None:
    (given,) = await polls.running()
    polls.outputs.taken.clear()
    with polls.cut_off():
        polls.end(given.token, output=OUTPUT)
        await asyncio.sleep(KEEP_AFTER_MS / 1000 + 1)
        polls.outputs.taken.set()  # by the last node that heard it
        await polls.until(lambda: f"output of {given.token}".encode() in polls.kept.read_bytes())
        await polls.start_again()
    await polls.leased()
    assert polls.stored.texts == [(given.token, f"output of {given.token}")]


@pytest.mark.parametrize("in_time", [True, False])
async def test_a_worker_that_stops_waits_a_moment_for_outputs(polls: PollsWorld, in_time: bool) -> None:
    (given,) = await polls.running()
    polls.outputs.taken.clear()
    polls.end(given.token, output=OUTPUT)
    stopping = asyncio.ensure_future(polls.worker.stop())
    await asyncio.sleep(1)
    assert not stopping.done()
    if in_time:
        polls.outputs.taken.set()
    await stopping
    assert polls.state(given) is InstanceState.SUCCEEDED
    assert polls.stored.texts == [(given.token, f"output of {given.token}" if in_time else LOST)]


async def test_no_more_is_kept_of_a_run_than_nodes_keep_and_than_the_worker_does(polls: PollsWorld) -> None:
    (given,) = await polls.running()
    assert polls.runner.launched[given.token].output_max == 1 << 20
    polls.link._output_max = 50_000  # --output-max
    (given,) = await polls.running()
    assert polls.runner.launched[given.token].output_max == 50_000
    polls.link._output_max = 2 << 20
    (given,) = await polls.running()
    assert polls.runner.launched[given.token].output_max == 1 << 20


# ---------------------------------------------------------------- last words


async def test_the_runner_s_word_for_a_stop_is_told_in_words_of_a_worker(polls: PollsWorld) -> None:
    """And what was told as handed back is not named once more as what ran when the session is closed."""
    (given,) = await polls.running(max_lost=0)

    async def stopping() -> None:
        polls.end(given.token, Outcome.KILLED, error=NODE_STOPPED)
        await asyncio.sleep(0.5)

    polls.runner.stopping = stopping
    await polls.worker.stop()
    (end,) = polls.proposed()
    assert end.error == "Its worker stopped, and handed it back."
    assert polls.closed[-1].ran == []


async def test_kept_ends_are_told_by_whichever_node_answers(polls: PollsWorld) -> None:
    """Under the session of before, and nothing is asked for with it."""
    (given,) = await polls.running()
    text = polls.link.session_text
    with polls.cut_off():
        polls.end(given.token)
        await polls.until(polls.kept.exists)
        polls.die()
    polls.forget_polls()
    polls.nodes[0].down, polls.nodes[1].deaf = True, True
    await polls.start_again()
    await polls.leased()
    assert polls.state(given) is InstanceState.SUCCEEDED
    told = [poll for poll in polls.polls if poll.reports]
    assert {(poll.max_runs, len(poll.reports)) for poll in told} == {(0, 1)}
    assert polls.link.session_text != text
    await polls.until(lambda: not polls.kept.exists())


async def test_a_session_is_known_until_the_next_one_is_open(polls: PollsWorld) -> None:
    """A token that changes meanwhile takes it over: with another one, the ends of that session could not be told."""
    assert polls.link.session_text == ""
    (given,) = await polls.running()
    text = polls.link.session_text
    with polls.cut_off():
        polls.end(given.token)
        await polls.lapsed()
        assert polls.link.session_text == text
        polls.die()
        await polls.start_again()
        assert polls.link.session_text == text
    await polls.leased()
    assert polls.link.session_text not in ("", text)


# ---------------------------------------------------------------- a session that has lapsed


async def lapsed_with_an_end(polls: PollsWorld) -> Given:
    """Returns a run that has ended when the lease ran out, as another was killed. No node has heard of it, or of what
    it is asked from then on."""
    ended, killed = await polls.running(2, max_lost=0)
    polls.raft.reachable = False
    polls.begin(killed.token)
    polls.end(ended.token)
    await polls.lapsed()
    polls.end(killed.token, Outcome.LOST)
    await asyncio.sleep(2 * STEP_S)  # for what is under way
    polls.forget_polls()
    return ended


async def test_nothing_but_ends_is_told_of_it(polls: PollsWorld) -> None:
    given = await lapsed_with_an_end(polls)
    polls.raft.reachable = True
    await polls.leased()
    assert [report.token for report in polls.reported()] == [given.token]
    assert polls.state(given) is InstanceState.SUCCEEDED


async def test_it_is_not_asked_for_again_where_nothing_has_ended(polls: PollsWorld) -> None:
    """Its lease would be prolonged on the leader, and its runs would start elsewhere later."""
    (given,) = await polls.running()
    first = polls.worker.session
    with polls.cut_off():
        polls.begin(given.token)
        await polls.lapsed()
        polls.forget_polls()
        polls.end(given.token, Outcome.LOST)
    assert await polls.leased() > first
    assert polls.reported() == []


@pytest.mark.parametrize("why", [Refused("forbidden", "Not so.", 403), Failed("it met a fault")])
async def test_ends_that_no_node_takes_keep_no_session_from_being_opened(polls: PollsWorld, why: Exception) -> None:
    await lapsed_with_an_end(polls)
    for node in polls.nodes:
        node.refuses = lambda request: why if request is not None and request.reports else None
    polls.raft.reachable = True
    await polls.until(lambda: polls.worker.session, 2 * TELL_MS / 1000)
    assert polls.proposed() == []


async def test_ends_are_told_after_an_outage_of_whatever_length(polls: PollsWorld) -> None:
    given = await lapsed_with_an_end(polls)
    await asyncio.sleep(5 * TELL_MS / 1000)
    polls.raft.reachable = True
    await polls.leased()
    assert polls.state(given) is InstanceState.SUCCEEDED


@pytest.mark.parametrize("alone", [True, False])
async def test_an_end_that_a_node_cannot_take_is_told_as_failed_before_the_next_session(
    polls: PollsWorld, alone: bool
) -> None:
    given = await lapsed_with_an_end(polls)
    if alone:
        polls.invalid = lambda report: report.outcome == "succeeded"
    else:
        for node in polls.nodes:
            node.refuses = picky(lambda request: any(report.outcome == "succeeded" for report in request.reports))
    polls.raft.reachable = True
    await polls.leased()
    assert (polls.instance(given).attempts[-1].error or "").startswith("Its report was refused: ")


async def test_who_did_not_take_its_ends_is_said(polls: PollsWorld, caplog: pytest.LogCaptureFixture) -> None:
    await lapsed_with_an_end(polls)
    await asyncio.sleep(5)
    said = [words for words in caplog.messages if "no session yet" in words]
    assert said
    assert all(re.search(": n[123]: ", words) for words in said)


async def test_another_cluster_is_told_nothing_of_one_of_the_same_number(polls: PollsWorld) -> None:
    await lapsed_with_an_end(polls)
    polls.form()
    assert await polls.leased() == 1
    await asyncio.sleep(5)
    assert polls.proposed() == []
    assert (polls.worker.running, len(polls.link.reports)) == (0, 0)

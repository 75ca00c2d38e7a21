"""A node's side of remote workers, over a cluster that commits at once; time only jumps."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

import pytest

from raftsched.cluster_settings import Settings
from raftsched.core.commands import (
    Answer,
    Assign,
    Barrier,
    EndSession,
    Kill,
    OpenWorker,
    PutSecret,
    PutSettings,
    RaiseLevel,
)
from raftsched.core.levels import SESSIONS_ARE_BOUND
from raftsched.core.model import Instance, InstanceState, Outcome
from raftsched.core.rows import SESSIONS, decode_instance
from raftsched.core.subjects.leasing import decode_beats, decode_finished
from raftsched.core.subjects.webhook import PutWebhook, TestWebhook, WebhookSpec
from raftsched.core.tables import Table
from raftsched.errors import NoLeader, RaftschedError
from raftsched.remote.gateway import PROPOSE_S, NameTaken
from raftsched.remote.held import RATE_BURST
from raftsched.remote.reports import not_valid
from raftsched.surface.worker_sessions import (
    CloseIn,
    OutputPlace,
    PollAnswer,
    PollIn,
    Report,
    WorkerSessionIn,
)
from raftsched.system.nesting import DEPTH_MAX
from tests.unit.remote.gateway_world import SECRETIVE, TTL_MS, World, number_of, started


async def code_of(work: Any) -> str:
    with pytest.raises(RaftschedError) as refused:
        await work
    return refused.value.code


def tokens(answer: PollAnswer) -> list[int]:
    return [given.token for given in answer.runs]


# ---------------------------------------------------------------- sessions


async def test_an_opening_grants_the_whole_ttl_and_its_text_is_a_secret(world: World) -> None:
    out = await world.gateway.open(
        WorkerSessionIn(
            name="w1", handlers=["exec", "exec"], slots=3, weight=2, labels={"b": "2", "a": "1"}, version="9"
        ),
        queues=["gpu"],
        namespaces=["media"],
    )
    row = SESSIONS.get(world.tables, number_of(out))
    assert row is not None
    assert (row.node, row.slots, row.weight, row.labels) == ("worker/w1", 3, 2, (("a", "1"), ("b", "2")))
    assert (row.queues, row.namespaces, row.handlers) == (("gpu",), ("media",), ("exec",))
    assert (out.lease_ms, out.ttl_ms, out.poll_ms) == (row.ttl_ms, TTL_MS, TTL_MS // 4)
    assert out.session == f"{row.id}-{row.nonce.hex()}", "nodes of earlier versions know no other"
    wrong = f"{row.id}-{'0' * 32}"
    assert await code_of(world.poll(wrong)) == "session-over"
    await world.gateway.close(wrong, CloseIn())
    assert SESSIONS.get(world.tables, row.id) is not None, "who does not know it cannot close it"


async def test_a_delivery_that_an_earlier_version_gave_is_handed_out_without_anything_of_it(world: World) -> None:
    out = await world.open(handlers=["http"])
    world.accepted(PutWebhook("ops", WebhookSpec(url="https://ops.example/hook", headers=(("X", "y"),)), b"s" * 32))
    key = world.accepted(TestWebhook("ops")).instance
    assert key is not None
    world.accepted(Assign(key, number_of(out)))  # as it was: the cluster of these tests begins without a level
    (given,) = (await world.poll(out)).runs
    assert given.error == "events are delivered by nodes, not by remote workers"
    assert (given.handler, given.params, given.env, given.namespace, given.job_name) == ({}, {}, {}, "", None)


async def test_from_its_level_on_a_session_is_its_openers_whichever_node_is_asked(world: World) -> None:
    world.accepted(RaiseLevel(SESSIONS_ARE_BOUND - 1))
    early = await world.open("early")
    world.accepted(RaiseLevel(SESSIONS_ARE_BOUND))
    asked = WorkerSessionIn(name="w1", handlers=["exec"], incarnation="i", opening=1)
    out = await world.gateway.open(asked, owner="7")
    other = World(world.tables).gateway
    for gateway in (world.gateway, other):
        for owner in ("", "8", "7 ", "77"):
            assert await code_of(gateway.poll(out.session, PollIn(), 0, owner=owner)) == "session-over"
        await gateway.close(out.session, CloseIn(), owner="8")
        await gateway.poll(out.session, PollIn(), 0, owner="7")
        await gateway.poll(early.session, PollIn(), 0, owner="7")
    row = SESSIONS.get(world.tables, number_of(out))
    assert row is not None
    for text in (row.nonce.hex(), row.nonce.hex()[:32]):
        assert await code_of(other.poll(f"{row.id}-{text}", PollIn(), 0, owner="7")) == "session-over"
    other.stop()


async def test_a_name_is_taken_unless_the_same_incarnation_asks_later(world: World) -> None:
    first = await world.open()
    with pytest.raises(NameTaken) as taken:
        await world.open(incarnation="j", opening=9)
    assert taken.value.after_s > 0
    assert await code_of(world.open(opening=1)) == "name-taken", "it was overtaken"
    second = await world.open(opening=2)
    assert await code_of(world.poll(first)) == "session-over"
    assert (await world.poll(second)).lease_ms == TTL_MS


async def test_an_opening_that_another_came_before_looks_again(world: World) -> None:
    def other() -> None:
        world.raft.before = lambda: None
        world.accepted(OpenWorker("worker/w1", 0, b"n" * 16, 1, incarnation="i", opening=1))

    world.raft.before = other
    out = await world.open(opening=2)
    assert SESSIONS.get(world.tables, number_of(out) - 1) is None
    assert sum(isinstance(command, Barrier) for command in world.raft.proposed) == 1


async def test_a_node_that_does_not_know_a_session_catches_up_before_it_is_over(world: World) -> None:
    behind = World(copy.deepcopy(world.tables))
    session = await world.open()

    def catch_up() -> None:
        behind.tables._rows, behind.tables._keys = world.tables._rows, world.tables._keys
        behind.raft._index, behind.raft._seq = world.raft._index, 1_000

    behind.raft.reachable = False
    assert await code_of(behind.poll(session)) == "no-leader", "nobody knows whether it is over"
    behind.raft.reachable, behind.raft.before = True, catch_up
    token = world.give(session)
    assert tokens(await behind.poll(session)) == [token]
    asked = len(behind.raft.proposed)
    assert await code_of(behind.poll(f"{number_of(session)}-{'0' * 32}")) == "session-over"
    assert len(behind.raft.proposed) == asked, "numbers only grow: this one is known to be no other's"
    behind.gateway.stop()


@pytest.mark.parametrize("text", ["", "-", "x", "1", "-1-00", f"{10**30}-{'0' * 32}", "１-" + "0" * 32, "1-é"])
async def test_what_is_no_session_is_over(world: World, text: str) -> None:
    await world.open()
    assert await code_of(world.poll(text)) == "session-over"


async def test_closing_hands_back_what_was_not_begun_and_may_be_repeated(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    waits = world.poll(session, after=token, wait_ms=2_000)
    await asyncio.sleep(0.1)
    await world.gateway.close(session.session, CloseIn(ran=[]))
    assert await code_of(waits) == "session-over", "whoever waits is told at once"
    assert world.instance().state is InstanceState.WAITING
    await world.gateway.close(session.session, CloseIn(ran=[token]))


# ---------------------------------------------------------------- runs


async def test_a_poll_waits_for_runs_and_the_same_are_given_until_they_were_taken(world: World) -> None:
    session = await world.open()
    waits = world.poll(session, wait_ms=2_000)
    await asyncio.sleep(0.5)
    assert not waits.done()
    first = world.give(session)
    answer = await waits
    (given,) = answer.runs
    assert (given.token, given.handler, given.params) == (first, {"shell": "touch x", "env": {"A": "b"}}, {"n": 1})
    assert given.output_max_bytes == 1 << 20
    assert given.env["RAFTSCHED_WORKER"] == "w1"
    assert given.env["RAFTSCHED_FENCING_TOKEN"] == str(first)
    world.raft.commit(PutSettings(Settings(output_max_bytes=1 << 15)))
    world.rules.forget()
    second = world.give(session)
    assert [run.output_max_bytes for run in (await world.poll(session, after=first)).runs] == [1 << 15]
    assert tokens(await world.poll(session)) == [first, second], "the answer may have been lost"
    assert tokens(await world.poll(session, max_runs=1)) == [first]
    assert tokens(await world.poll(session, after=first)) == [second]
    assert tokens(await world.poll(session, after=second)) == []


async def test_what_cannot_be_resolved_is_given_with_the_reason(world: World) -> None:
    """Another node may have given it to the worker already: nobody but the worker can end it."""
    session = await world.open()
    world.accepted(PutSecret("default", "word", b"value", nonce=b"n" * 12))
    token = world.give(session, SECRETIVE)
    (given,) = (await world.poll(session)).runs
    assert given.error is not None
    assert given.error.startswith("the secret default/word cannot be read by this node")
    assert (given.handler, given.params, given.secrets) == ({}, {}, [])
    assert world.instance().state is InstanceState.LAUNCHED
    world.accepted(PutSecret("default", "word", b"value"))
    (given,) = (await world.poll(session)).runs
    assert (given.token, given.error, given.secrets) == (token, None, ["value"])
    assert (given.handler["env"], given.params) == ({"A": "value"}, {"b": ["value"]})


async def test_one_answer_has_a_bound_and_the_next_has_the_rest(world: World) -> None:
    session = await world.open(slots=90)
    large = b'{"handler":{"shell":"x"},"params":{"a":"' + b"a" * 60_000 + b'"}}'
    given = [world.give(session, large) for _ in range(90)]
    first = tokens(await world.poll(session))
    assert 0 < len(first) < 90
    rest = tokens(await world.poll(session, after=first[-1]))
    assert first + rest == given


async def test_runs_to_be_ended_are_named_until_they_are_being_ended(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    waits = world.poll(session, after=token, wait_ms=2_000)
    await asyncio.sleep(0.1)
    world.raft.commit(Kill(world.key or b""))
    assert (await waits).kill == [token]
    assert (await world.poll(session, after=token)).kill == [token]
    assert (await world.poll(session, after=token, killing=[token])).kill == []
    assert (await world.poll(session, max_runs=0)).kill == [], "it was not taken yet"
    answer = await world.poll(session)
    assert (tokens(answer), answer.kill) == ([token], [token])
    other = World(world.tables)  # another node, or this one after a restart
    assert (await other.poll(session, after=token)).kill == [token]
    other.gateway.stop()
    await world.poll(session, reports=[Report(token=token, outcome="killed")])
    assert (await world.poll(session, after=token)).kill == []


async def test_of_two_polls_that_take_runs_the_older_one_is_answered(world: World) -> None:
    session = await world.open()
    older = world.poll(session, wait_ms=2_000)
    await asyncio.sleep(0.1)
    assert (await world.poll(session, max_runs=0)).lease_ms == TTL_MS
    assert not older.done(), "one that takes none does not disturb it"
    newer = world.poll(session, wait_ms=2_000)
    assert (await older).runs == []
    token = world.give(session)
    assert tokens(await newer) == [token]


async def test_a_snapshot_makes_all_look_again(world: World) -> None:
    session, other = await world.open(), await world.open("w2")
    waits = world.poll(session, wait_ms=2_000)
    over = world.poll(other, wait_ms=2_000)
    await asyncio.sleep(0.1)
    subscribers, world.raft._subscribers = world.raft._subscribers, []
    token = world.give(session)
    world.raft.commit(EndSession(number_of(other), 1))
    world.raft._subscribers = subscribers
    world.gateway.on_applied([])
    assert tokens(await waits) == [token]
    assert await code_of(over) == "session-over"


async def test_a_kill_that_comes_with_a_snapshot_is_shown(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    assert tokens(await world.poll(session)) == [token]
    waits = world.poll(session, after=token, wait_ms=2_000)
    await asyncio.sleep(0.1)
    subscribers, world.raft._subscribers = world.raft._subscribers, []
    world.raft.commit(Kill(world.key or b""))
    world.raft._subscribers = subscribers
    world.gateway.on_applied([])
    assert (await waits).kill == [token]
    assert (await world.poll(session, after=token, killing=[token])).kill == []


# ---------------------------------------------------------------- leases


async def test_polls_that_come_together_are_asked_of_the_leader_in_one_message(world: World) -> None:
    sessions = [await world.open(f"w{i}") for i in range(5)]
    polls = [world.poll(session, wait_ms=100, pause_ms=9, trouble="no room") for session in sessions]
    assert [answer.lease_ms for answer in await asyncio.gather(*polls)] == [TTL_MS] * 5
    (message,) = [raw for _, kind, raw in world.raft.sent if kind == "worker_beats"]
    beats = decode_beats(message).beats
    assert [beat.session for beat in beats] == [number_of(session) for session in sessions]
    assert {(beat.pause_ms, beat.trouble) for beat in beats} == {(9, "no room")}


async def test_a_grant_is_for_the_request_that_it_answers_and_for_no_other(world: World) -> None:
    session = await world.open()
    world.raft.grants = False
    first = world.poll(session, wait_ms=100, max_runs=0)
    await asyncio.sleep(0.05)
    (earlier,) = {beat.request: beat for _, beat in world.raft.beats()}.values()
    assert (await first).lease_ms == 0
    second = world.poll(session, wait_ms=500, max_runs=0)
    await asyncio.sleep(0.05)
    world.raft.grant_all([earlier])  # it counts from when that one was sent
    assert (await second).lease_ms == 0


async def test_a_new_leader_is_asked_again(world: World) -> None:
    session = await world.open()
    world.raft.grants = False
    waits = world.poll(session, wait_ms=2_500)
    await asyncio.sleep(0.5)
    assert {peer for peer, _ in world.raft.beats()} == {"n2"}
    world.raft.leader_id = None
    await asyncio.sleep(1)
    world.raft.leader_id, world.raft.grants = "n3", True
    assert (await waits).lease_ms == TTL_MS
    assert world.raft.beats()[-1][0] == "n3"
    assert len({beat.request for _, beat in world.raft.beats()}) == 1


async def test_a_worker_in_a_hurry_gets_its_lease_renewed(world: World) -> None:
    """None of its polls waits, and none would be answered by the leader in time."""
    session = await world.open()
    token = world.give(session)
    assert (await world.poll(session)).lease_ms == TTL_MS, "there is something to say at once; but the lease is old"
    for _ in range(4):
        await asyncio.sleep(TTL_MS / 8_000 + 0.01)
        reports = [Report(token=token)]
        assert (await world.poll(session, after=token, reports=reports)).lease_ms == TTL_MS


async def test_without_a_leader_an_answer_renews_nothing_and_runs_are_given_all_the_same(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    world.raft.leader_id = None
    answer = await world.poll(session)
    assert (tokens(answer), answer.lease_ms) == ([token], 0), "it was committed, and the worker may hold a lease"


# ---------------------------------------------------------------- reports


async def test_reports_are_in_the_log_when_the_poll_is_answered(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    await world.poll(session, after=token, reports=[Report(token=token, started_at_ms=world.clock.wall_ms())])
    assert world.instance().state is InstanceState.RUNNING
    done = Report(token=token, outcome="failed", exit_code=3, error="no", result={"a": 1}, output="text")
    answer = await world.poll(session, after=token, reports=[done, Report(token=99, outcome="failed")])
    assert [(one.token, one.code) for one in answer.refused] == [(99, "stale")]
    (attempt,) = world.instance().attempts
    assert (attempt.outcome, attempt.exit_code, attempt.error) == (Outcome.FAILED, 3, "no")
    assert (attempt.result, attempt.output_node) == (b'{"a":1}', "n1")
    assert world.kept.texts == [(token, "text")]
    (over,) = [decode_finished(raw) for _, kind, raw in world.raft.sent if kind == "over"]
    assert (over.session, over.tokens) == (number_of(session), (token,))
    again = await world.poll(session, after=token, reports=[done])
    assert [one.code for one in again.refused] == ["stale"]
    assert world.kept.texts == [(token, "text")], "nothing is kept for what is not this session's"
    commands = len(world.raft.proposed)
    await world.poll(session, after=token, reports=[done])
    assert len(world.raft.proposed) == commands, "it costs the log nothing"


async def test_a_report_whose_output_is_none_is_refused_alone(world: World) -> None:
    session = await world.open()
    first, second, third, last = [world.give(session) for _ in range(4)]
    nowhere = OutputPlace(node="nobody", segment=1, offset=0, size=1, sha256="00" * 32)
    reports = [
        Report(token=first, outcome="succeeded", output=nowhere),
        Report(token=second, outcome="succeeded", output="text"),
        Report(token=third, outcome="succeeded", output="long"),
    ]
    answer = await world.poll(session, after=last, reports=reports)
    assert [(one.token, one.code, one.detail) for one in answer.refused] == [
        (first, "invalid", "there is no such place"),
        (third, "invalid", "it is too long"),
    ]
    assert answer.lease_ms == TTL_MS
    failed = [Report(token=token, outcome="failed", error="its report was refused") for token in (first, third)]
    assert (await world.poll(session, after=last, reports=failed)).refused == []
    full = [Report(token=last, outcome="succeeded", output="full")]
    assert await code_of(world.poll(session, after=last, reports=full)) == "disk-full", "another node may have room"


async def test_what_could_not_be_read_is_said_with_the_lease(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    unread = not_valid(token, "/exit_code is missing")
    answer = await world.gateway.poll(
        session.session, PollIn(after=token, wait_ms=30_000), world.clock.boot_ms(), refused=[unread]
    )
    assert (answer.refused, answer.lease_ms) == ([unread], TTL_MS)


async def test_a_report_of_a_run_that_this_node_has_not_heard_of_is_none_that_is_over(world: World) -> None:
    session = await world.open()
    behind = World(copy.deepcopy(world.tables))
    token = world.give(session)

    def catch_up() -> None:
        behind.raft.before = lambda: None
        behind.tables._rows, behind.tables._keys = world.tables._rows, world.tables._keys
        behind.raft._index, behind.raft._seq = world.raft._index, 1_000

    behind.raft.before = catch_up
    answer = await behind.poll(session, reports=[Report(token=token, outcome="succeeded")])
    assert answer.refused == []
    assert world.instance().state is InstanceState.SUCCEEDED
    behind.gateway.stop()


async def test_a_late_report_of_a_session_that_is_over_is_refused(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    world.raft.commit(EndSession(number_of(session), 1))
    assert await code_of(world.poll(session, reports=[Report(token=token, outcome="succeeded")])) == "session-over"
    other = await world.open("w2")
    late = await world.poll(other, reports=[Report(token=token, outcome="succeeded", output="x")])
    assert [one.code for one in late.refused] == ["stale"]
    assert not world.kept.texts
    assert world.instance().state is InstanceState.WAITING


@pytest.mark.parametrize(
    ("outcome", "state", "lost"),
    [
        ("succeeded", InstanceState.SUCCEEDED, 0),
        ("timed_out", InstanceState.TIMED_OUT, 0),
        ("killed", InstanceState.WAITING, 0),  # nobody asked: its worker stops
        ("not_begun", InstanceState.WAITING, 0),
        ("lost", InstanceState.WAITING, 1),
    ],
)
async def test_each_outcome(world: World, outcome: Any, state: InstanceState, lost: int) -> None:
    session = await world.open()
    token = world.give(session)
    answer = await world.poll(session, reports=[Report(token=token, outcome=outcome)])
    assert answer.refused == []
    assert (world.instance().state, world.instance().lost) == (state, lost)


async def test_a_worker_with_a_wrong_clock_does_not_move_runs_in_time(world: World) -> None:
    session = await world.open()
    opened = world.clock.wall_ms()
    await asyncio.sleep(5)
    token = world.give(session)
    reports = [Report(token=token, outcome="succeeded", started_at_ms=0, ended_at_ms=opened + 10**9)]
    await world.poll(session, reports=reports)
    (attempt,) = world.instance().attempts
    assert attempt.started_at_ms is not None
    assert attempt.ended_at_ms is not None
    assert opened - 1_000 <= attempt.started_at_ms <= attempt.ended_at_ms <= world.clock.wall_ms()


async def test_reports_without_a_leader_are_not_acknowledged(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    world.raft.reachable = False
    with pytest.raises(NoLeader):
        await world.poll(session, reports=[Report(token=token, outcome="succeeded")])
    world.raft.reachable = True
    answer = await world.poll(session, reports=[Report(token=token, outcome="succeeded")])
    assert answer.refused == []
    assert world.instance().state is InstanceState.SUCCEEDED


async def test_many_reports_fit_entries_of_the_log(world: World) -> None:
    session = await world.open(slots=20)
    given = [world.give(session) for _ in range(20)]
    sizes = []
    propose = world.raft.propose

    async def measured(commands: Sequence[bytes], timeout: float = PROPOSE_S) -> list[Answer]:
        sizes.append(sum(map(len, commands)))
        return await propose(commands, timeout)

    world.raft.propose = measured  # type: ignore[method-assign]
    reports = [Report(token=token, outcome="succeeded", result="a" * 60_000) for token in given]
    assert (await world.poll(session, reports=reports)).refused == []
    assert len(sizes) > 1
    assert max(sizes) < 512 * 1024


async def test_a_result_that_is_too_large_is_left_out_and_said(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    await world.poll(session, reports=[Report(token=token, outcome="succeeded", result="a" * 70_000)])
    (attempt,) = world.instance().attempts
    assert attempt.result is None
    assert attempt.error is not None
    assert "65,536" in attempt.error


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 700, 100_000])
async def test_a_result_that_nests_too_deeply_is_left_out_and_said(world: World, levels: int) -> None:
    """Whoever reads the run later may have less stack than who took the report."""
    session = await world.open()
    for nest, kept in ((DEPTH_MAX, True), (levels, False)):
        token = world.give(session)
        report = Report(token=token, outcome="failed", error="no", exit_code=3, result=nested(nest))
        assert (await world.poll(session, reports=[report])).refused == []
        (attempt,) = world.instance().attempts
        assert (attempt.outcome, attempt.exit_code) == (Outcome.FAILED, 3), "the end is in the log all the same"
        assert (attempt.result is not None) == kept
        assert attempt.error == ("no" if kept else "no; the result was dropped: it nests deeper than 64 levels")


def nested(levels: int) -> Any:
    value: Any = []
    for level in range(levels - 1):
        value = {"a": value} if level % 2 else [value]
    return value


# ---------------------------------------------------------------- bounds


async def test_a_session_has_so_many_polls_at_a_time_and_in_a_second(world: World) -> None:
    session = await world.open()
    polls = [world.poll(session, wait_ms=2_000, max_runs=0) for _ in range(5)]
    codes = [getattr(found, "code", "") for found in await asyncio.gather(*polls, return_exceptions=True)]
    assert codes == ["", "", "", "", "too-many"]
    found = []
    for _ in range(RATE_BURST + 1):
        try:
            await world.poll(session, killing=[], reports=[Report(token=1)], max_runs=0)
        except RaftschedError as error:
            found.append(error.code)
    assert not found, "each took a millisecond, so that they are as many as may be"
    world.gateway._held[number_of(session)].left = 0.0
    assert await code_of(world.poll(session)) == "rate-limited"


async def test_a_poller_that_has_gone_is_not_waited_for(world: World) -> None:
    session = await world.open()
    gone = False
    request = PollIn(wait_ms=2_500)
    now = world.clock.boot_ms()
    waits = asyncio.ensure_future(world.gateway.poll(session.session, request, now, gone=lambda: gone))
    await asyncio.sleep(0.1)
    gone = True
    await waits
    assert world.clock.boot_ms() - now < 2_000


async def test_a_node_that_stops_answers_who_waits_and_takes_no_more(world: World) -> None:
    session = await world.open()
    waits = world.poll(session, wait_ms=2_500)
    await asyncio.sleep(0.1)
    world.gateway.stop()
    assert (await waits).runs == []
    assert await code_of(world.poll(session)) == "stopping"
    assert await code_of(world.open("w2")) == "stopping"


def row_of(world: World) -> Instance:
    """Returns the run that was given last."""
    raw = world.tables.get(Table.INSTANCES, world.key or b"")
    assert raw is not None
    return decode_instance(raw)


async def test_a_report_may_say_more_than_how_it_ended(world: World) -> None:
    session = await world.open()
    token = world.give(session)
    reports = [Report(token=token, progress=40, text="copying", state={"row": 7})]
    assert (await world.poll(session, after=token, reports=reports)).refused == []
    row = row_of(world)
    assert (row.state, row.kept) == (InstanceState.LAUNCHED, b'{"row":7}')
    assert row.progress is not None
    assert (row.progress.percent, row.progress.text) == (40, "copying")
    too_much = Report(token=token, state="x" * 5_000)
    assert (await world.poll(session, after=token, reports=[too_much])).refused == []
    assert row_of(world).kept == b'{"row":7}'
    ended = Report(token=token, outcome="failed", verdict="snooze", delay_ms=60_000, progress=50)
    assert (await world.poll(session, after=token, reports=[ended])).refused == []
    row = row_of(world)
    assert (row.state, row.reason, row.snoozes, row.kept) == (InstanceState.RETRYING, "snoozed", 1, b'{"row":7}')
    refused = (await world.poll(session, after=token, reports=reports)).refused
    assert [one.code for one in refused] == ["stale"]


async def test_each_run_is_given_the_grace_of_its_job(world: World) -> None:
    session = await world.open()
    for ms in (1_500, None):
        world.give(session, grace_ms=ms)
    runs = (await world.poll(session)).runs
    assert [(run.grace_ms, run.own_grace) for run in runs] == [(1_500, True), (5_000, False)]


# ---------------------------------------------------------------- traces


@pytest.mark.parametrize(
    ("handler", "in_env"),
    [
        (b'{"shell":"x"}', True),
        (b'{"shell":"x","env":{"TRACEPARENT":"its own"}}', False),
        (b'{"http":{"url":"http://h/"}}', True),
        (b'{"http":{"url":"http://h/","headers":{"TraceParent":"its own"}}}', False),
    ],
)
async def test_a_run_comes_with_the_context_of_its_trace(handler: bytes, in_env: bool) -> None:
    """For the worker; and for the program, unless its job names a trace itself."""
    asked: list[bytes] = []

    def trace(instance: Instance) -> dict[str, str]:
        asked.append(instance.key)
        return {"traceparent": "00-a-b-01", "tracestate": "v=1"}

    async with started(trace=trace) as world:
        opened = await world.open(handlers=["shell", "http"])
        world.give(opened, b'{"handler":' + handler + b"}")
        (given,) = (await world.poll(opened)).runs
        assert asked == [world.key]
        assert (given.traceparent, given.tracestate) == ("00-a-b-01", "v=1")
        told = {"TRACEPARENT": "00-a-b-01", "TRACESTATE": "v=1"}
        assert (told.items() <= given.env.items()) == in_env
        assert ("TRACEPARENT" in given.env) == in_env


async def test_a_node_that_does_not_trace_says_nothing_of_traces(world: World) -> None:
    opened = await world.open()
    world.give(opened)
    (given,) = (await world.poll(opened)).runs
    assert (given.traceparent, given.tracestate) == (None, None)
    assert "TRACEPARENT" not in given.env

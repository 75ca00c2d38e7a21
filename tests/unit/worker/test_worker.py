"""The worker's side of "never two at once": sessions, leases, starts, reports."""

from __future__ import annotations

import asyncio
import json

import pytest

from raftsched.core.commands import CloseSession, EditJob, Ended, EndSession, Kill, OpenSession, Started
from raftsched.core.model import InstanceState, Outcome, OutputRef, Policy, Trigger, TriggerKind
from raftsched.core.tables import Table
from raftsched.worker.lease import KILL_BEFORE_MS
from raftsched.worker.runner import RunEnd
from raftsched.worker.wire import Exec, Http, Python
from tests.unit.worker.world import NODE, WALL_MS, World, run


def test_opens_a_session_after_a_fence_and_starts_only_with_a_lease() -> None:
    async def body(w: World) -> None:
        w.d_ms = None
        await w.until(lambda: w.worker.session)
        assert w.runner.events[:2] == [("start",), ("fence",)]
        row = w.session()
        assert (row.node, row.boot_id, row.slots, row.open) == (NODE, "boot-1", 4, True)
        assert row.limits_whole_runs
        assert row.handlers == ("exec", "shell", "python", "http")
        token = w.assign(w.ready(w.job()), row.id)
        await asyncio.sleep(0.6)
        assert not w.runner.launched
        w.d_ms = 5_000
        await w.leased()
        assert list(w.runner.launched) == [token]

    run(body)


def test_the_lease_counts_from_when_the_heartbeat_was_sent() -> None:
    async def body(w: World) -> None:
        w.d_ms = None
        sent: list[int] = []
        w.raft.on_heartbeat = lambda session, holds, sent_ms: sent.append(sent_ms)
        await w.until(lambda: sent)
        session = w.worker.session
        w.clock.jump(700)  # the answer was under way for so long
        w.raft.grant(session, sent[0], 3_000)
        assert w.runner.lease == (session, sent[0] + 3_000)
        # An earlier deadline never takes a later one back; more than the session's TTL is never believed.
        w.raft.grant(session, sent[0], 2_000)
        assert w.runner.lease == (session, sent[0] + 3_000)
        w.raft.grant(session, sent[0], 60_000)
        assert w.runner.lease == (session, sent[0] + 5_000)

    run(body)


@pytest.mark.parametrize("wrong", ["session", "heartbeat", "passed"])
def test_grants_that_do_not_count(wrong: str) -> None:
    async def body(w: World) -> None:
        w.d_ms = None
        sent: list[int] = []
        w.raft.on_heartbeat = lambda session, holds, sent_ms: sent.append(sent_ms)
        await w.until(lambda: sent)
        session = w.worker.session
        if wrong == "session":
            w.raft.grant(session - 1, sent[0], 5_000)
        elif wrong == "heartbeat":
            w.raft.grant(session, sent[0] - 1, 5_000)
        else:
            w.clock.jump(1_000)
            w.raft.grant(session, sent[0], 1_000)
        w.raft.deliver("grant", b"\xc1")
        assert not w.worker.holds_lease
        assert w.runner.lease == (0, 0)

    run(body)


def test_no_start_with_too_little_of_the_lease_left() -> None:
    async def body(w: World) -> None:
        w.d_ms = KILL_BEFORE_MS + 200
        await w.until(lambda: w.worker.session)
        token = w.assign(w.ready(w.job()), w.worker.session)
        await asyncio.sleep(0.45)
        assert not w.runner.launched
        w.d_ms = 5_000
        await w.until(lambda: token in w.runner.launched)

    run(body)


def test_a_lapsed_worker_ignores_grants_fences_and_opens_another_session() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        token = w.assign(w.ready(w.job()), first)
        sent: list[int] = []
        w.raft.on_heartbeat = lambda session, holds, sent_ms: sent.append(sent_ms)
        w.runner.fenced.clear()
        await w.until(lambda: not w.worker.session)
        assert w.runner.lease == (0, 0)
        late = sent[-1]
        w.raft.grant(first, late, 60_000)
        assert not w.worker.holds_lease
        await asyncio.sleep(3)
        assert w.session().id == first, "it has not opened another one before the fence was answered"
        w.d_ms = 5_000
        w.raft.on_heartbeat = w._on_heartbeat
        w.runner.fenced.set()
        second = await w.leased()
        assert second > first
        assert list(w.runner.launched) == [token]
        assert list(w.tables.scan(Table.ASSIGNED)) == []

    run(body)


def test_a_stop_beyond_the_lease_is_noticed_before_anything_is_started() -> None:
    """The clock is read when the message is handled: a grant or an assignment that waited in a queue starts nothing."""

    async def body(w: World) -> None:
        first = await w.leased()
        key = w.ready(w.job())
        w.d_ms = None
        w.clock.jump(6_000)
        w.assign(key, first)
        assert not w.runner.launched
        w.raft.grant(first, w.clock.boot_ms() - 6_000, 5_000)
        assert not w.worker.holds_lease
        await w.until(lambda: w.session().id != first)
        assert not w.runner.launched

    run(body)


def test_no_grant_within_the_ttl_means_another_session() -> None:
    async def body(w: World) -> None:
        w.d_ms = None
        await w.until(lambda: w.worker.session)
        first = w.worker.session
        await w.until(lambda: w.session().id != first)
        opened = [c for c in w.raft.proposed if isinstance(c, OpenSession)]
        assert [c.replaces for c in opened] == [0, first]
        assert opened[0].nonce != opened[1].nonce

    run(body)


def test_an_open_session_of_another_boot_is_waited_for() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        # The machine came up again: same node, another boot, the old session still open.
        w.worker._boot_id = "boot-2"
        w.runner.on_died()
        await asyncio.sleep(5)
        assert w.session().id == first
        assert w.worker.session == 0
        w.raft.commit(EndSession(first, 1))
        second = await w.leased()
        assert second > first
        assert w.session().boot_id == "boot-2"

    run(body)


def test_a_session_ended_by_the_leader_is_left() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        w.raft.commit(EndSession(first, 1))
        assert w.worker.session == 0
        assert w.runner.lease == (0, 0)
        assert await w.leased() > first

    run(body)


def test_a_dead_supervisor_ends_the_session() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        key = w.ready(w.job())
        w.assign(key, first)
        w.runner.events.clear()
        w.runner.on_died()
        assert w.worker.session == 0
        assert await w.leased() > first
        assert w.runner.events[0] == ("fence",)
        assert w.instance(key).state is InstanceState.WAITING
        assert w.instance(key).lost == 1

    run(body)


@pytest.mark.parametrize("stuck", ["supervisor", "store"])
def test_no_heartbeats_while_supervisor_or_store_stand_still(stuck: str) -> None:
    async def body(w: World) -> None:
        await w.leased()
        if stuck == "supervisor":
            w.runner.moving = False
        else:
            w.store_moves = False
        count = len(w.raft.sent)
        await asyncio.sleep(3)
        assert len(w.raft.sent) == count
        await w.until(lambda: not w.worker.holds_lease)

    run(body)


def test_heartbeats_go_to_the_leader_every_half_second() -> None:
    async def body(w: World) -> None:
        await w.leased()
        w.raft.sent.clear()
        await asyncio.sleep(5)
        assert 8 <= len(w.raft.sent) <= 11
        w.raft.leader_id = NODE  # this node itself
        await asyncio.sleep(0.7)
        assert w.raft.sent[-1][0] == NODE
        w.raft.leader_id = None
        w.raft.sent.clear()
        await asyncio.sleep(2)
        assert not w.raft.sent

    run(body)


def test_a_token_is_started_once_whatever_is_seen_again() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        keys = [w.ready(w.job(), n) for n in range(1, 4)]
        tokens = [w.assign(key, session) for key in keys]
        w.worker.rescan()
        await asyncio.sleep(3)
        assert list(w.runner.launched) == tokens
        for token in tokens:
            w.end(token)
        await w.until(lambda: not w.worker.running)
        w.worker.rescan()
        assert list(w.runner.launched) == tokens

    run(body)


def test_what_came_by_a_snapshot_is_started_and_killed() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        job = w.job()
        running = w.ready(job, 1)
        token = w.assign(running, session)
        hidden = w.assign(w.ready(job, 2), session, quiet=True)
        w.raft.commit(Kill(running), quiet=True)
        assert list(w.runner.launched) == [token]
        assert not w.runner.killed
        w.ready(job, 3)  # the next entry that is told has a gap before it
        assert list(w.runner.launched) == [token, hidden]
        assert w.runner.killed == [token]

    run(body)


def test_assignments_of_others_are_not_ours() -> None:
    async def body(w: World) -> None:
        await w.leased()
        other = OpenSession("n2", 0, "boot-9", b"x", 4)
        (answer,) = w.raft.commit(other)
        assert answer.number is not None  # type: ignore[union-attr]
        w.assign(w.ready(w.job()), answer.number)  # type: ignore[union-attr]
        assert not w.runner.launched

    run(body)


def test_kill_before_and_after_the_start() -> None:
    async def body(w: World) -> None:
        w.d_ms = None
        await w.until(lambda: w.worker.session)
        session = w.worker.session
        job = w.job()
        early, late = w.ready(job, 1), w.ready(job, 2)
        early_token, late_token = w.assign(early, session), w.assign(late, session)
        w.raft.commit(Kill(early))
        w.d_ms = 5_000
        await w.leased()
        assert list(w.runner.launched) == [late_token]
        await w.until(lambda: w.instance(early).state is InstanceState.KILLED)
        assert w.instance(early).attempts[0].started_at_ms is None
        assert early_token not in w.runner.killed
        w.raft.commit(Kill(late))
        assert w.runner.killed == [late_token]
        w.end(late_token, Outcome.KILLED)
        await w.until(lambda: w.instance(late).state is InstanceState.KILLED)

    run(body)


def test_started_and_ended_are_reported() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        key = w.ready(w.job())
        token = w.assign(key, session)
        w.runner.on_started(token, WALL_MS + 5)
        await w.until(lambda: w.instance(key).state is InstanceState.RUNNING)
        assert w.instance(key).attempts[0].started_at_ms == WALL_MS + 5
        ref = OutputRef(1, 2, 3, b"d" * 32)
        w.runner.on_ended(
            token,
            RunEnd(
                outcome=Outcome.FAILED,
                started_at_ms=WALL_MS + 5,
                ended_at_ms=WALL_MS + 9,
                exit_code=3,
                error="exit code 3",
                result=b"1",
                output=ref,
            ),
        )
        await w.until(lambda: w.instance(key).state is InstanceState.FAILED)
        attempt = w.instance(key).attempts[0]
        assert (attempt.exit_code, attempt.error, attempt.output, attempt.result) == (
            3,
            "exit code 3",
            ref,
            b"1",
        )
        assert (attempt.started_at_ms, attempt.ended_at_ms) == (WALL_MS + 5, WALL_MS + 9)
        assert w.worker.running == 0

    run(body)


def test_ends_travel_together_and_again_until_the_state_shows_them() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        job = w.job()
        tokens = [w.assign(w.ready(job, n), session) for n in range(1, 6)]
        w.raft.reachable = False
        for token in tokens:
            w.end(token)
        await asyncio.sleep(1)
        ended = [c.token for c in w.raft.proposed if isinstance(c, Ended)]
        assert ended == tokens
        await asyncio.sleep(5)
        again = [c.token for c in w.raft.proposed if isinstance(c, Ended)]
        assert len(again) >= 2 * len(tokens)
        assert w.worker.running == len(tokens)
        w.raft.reachable = True
        await w.until(lambda: w.worker.running == 0)
        w.raft.proposed.clear()
        await asyncio.sleep(5)
        assert not [c for c in w.raft.proposed if isinstance(c, Ended)]
        assert not [c for c in w.raft.proposed if isinstance(c, Started)]

    run(body)


def test_ends_known_before_a_new_session_are_told_with_its_opening() -> None:
    """Otherwise the opening would make them lost, and they would run again."""

    async def body(w: World) -> None:
        first = await w.leased()
        key = w.ready(w.job())
        token = w.assign(key, first)
        w.raft.reachable = False
        w.end(token)
        w.d_ms = None
        await w.until(lambda: not w.worker.session)
        w.raft.reachable = True
        w.d_ms = 5_000
        assert await w.leased() > first
        assert w.instance(key).state is InstanceState.SUCCEEDED
        assert w.instance(key).lost == 0

    run(body)


def test_a_run_stopped_for_the_lease_is_not_reported_but_ends_the_session() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        key = w.ready(w.job())
        token = w.assign(key, first)
        w.end(token, Outcome.LOST)
        assert w.worker.session == 0
        assert await w.leased() > first
        assert not [c for c in w.raft.proposed if isinstance(c, Ended)]
        assert w.instance(key).state is InstanceState.WAITING

    run(body)


def test_without_a_leader_it_goes_on_trying() -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        w.raft.reachable = False
        w.d_ms = None
        await w.until(lambda: not w.worker.session)
        await asyncio.sleep(10)
        w.raft.reachable = True
        w.d_ms = 5_000
        assert await w.leased() > first

    run(body)


def test_whatever_goes_wrong_it_goes_on_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(w: World) -> None:
        first = await w.leased()
        left = [OSError(24, "Too many open files"), ValueError("what nobody thought of")]
        fence = w.runner.fence

        async def broken() -> None:
            if left:
                raise left.pop()
            await fence()

        monkeypatch.setattr(w.runner, "fence", broken)
        w.runner.on_died()
        assert await w.leased() > first
        assert not left

    run(body)


def test_a_run_takes_the_revision_it_was_made_from() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        job = w.job(b'{"handler":{"exec":["old"]},"params":{"a":1}}', timeout_ms=1_234)
        key = w.ready(job)
        content = Policy(trigger=Trigger(kind=TriggerKind.MANUAL))
        w.raft.commit(EditJob(job, content, b'{"handler":{"shell":"new"}}'))
        spec = w.runner.launched[w.assign(key, session)]
        assert isinstance(spec.task, Exec)
        assert (spec.task.argv, spec.timeout_ms) == (("old",), 1_234)
        assert json.loads(spec.task.env["RAFTSCHED_PARAMS"]) == {"a": 1}

    run(body)


def test_a_handler_of_a_later_version_fails_clearly() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        for request, job_body in enumerate((b'{"handler":{"wasm":"x"}}', b"{}"), start=1):
            key = w.ready(w.job(job_body), request)
            w.assign(key, session)
            await w.failed(key)
            assert "handler" in (w.instance(key).attempts[0].error or "")
        assert not w.runner.launched

    run(body)


def test_specs_and_their_environment() -> None:
    async def body(w: World) -> None:
        session = await w.leased()

        def spec(handler: str, params: bytes | None = None):  # type: ignore[no-untyped-def]
            key = w.ready(w.job(b'{"handler":%s,"params":{"x":1}}' % handler.encode()), 7, params)
            return key, w.runner.launched[w.assign(key, session)]

        key, got = spec('{"shell":"echo $A","env":{"A":"b","RAFTSCHED_NODE_ID":"mine"},"cwd":"/srv"}')
        assert isinstance(got.task, Exec)
        assert (got.task.argv, got.task.cwd) == (("/bin/sh", "-c", "echo $A"), "/srv")
        env = got.task.env
        assert env["A"] == "b"
        assert env["RAFTSCHED_NODE_ID"] == NODE
        assert env["RAFTSCHED_FENCING_TOKEN"] == str(got.token)
        assert env["RAFTSCHED_ATTEMPT"] == "1"
        assert env["RAFTSCHED_SCHEDULED_AT"].startswith("2027-01-15T08:00:0")
        assert env["RAFTSCHED_SCHEDULED_AT"].endswith("Z")
        assert env["RAFTSCHED_INSTANCE_ID"].startswith(env["RAFTSCHED_JOB_ID"] + "@")
        assert w.instance(key).attempts[0].token == got.token

        _, got = spec('{"python":"m:f"}', b'{"y":2}')
        assert got.task == Python("m:f", b'{"y":2}', got.task.env, None)

        _, got = spec('{"http":{"url":"http://h/"}}')
        assert isinstance(got.task, Http)
        assert (got.task.method, got.task.body, got.task.expect) == ("GET", b"", ())
        assert got.task.headers["Raftsched-Fencing-Token"] == str(got.token)

        _, got = spec('{"http":{"url":"http://h/","method":"POST","expected_status":[202]}}')
        assert (got.task.body, got.task.expect) == (b'{"x":1}', (202,))
        assert got.task.headers["Content-Type"] == "application/json"

        _, got = spec('{"http":{"url":"http://h/","body":"text"}}')
        assert (got.task.method, got.task.body) == ("POST", b"text")

    run(body)


def test_stop_tells_what_ended_and_hands_back_the_rest() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        job = w.job(max_lost=0)
        done, running, given = (w.ready(job, request) for request in (1, 2, 3))
        w.end(w.assign(done, session))
        token = w.assign(running, session)
        await w.until(lambda: token in w.runner.launched)
        w.d_ms = None
        await w.until(lambda: not w.worker._tenure.may_start(w.clock.boot_ms()))
        assert w.assign(given, session) not in w.runner.launched  # too late for a start
        await w.worker.stop()
        assert w.runner.events[-1] == ("stop",)
        assert w.raft.proposed[-1] == CloseSession(session, (token,))
        assert w.instance(done).state is InstanceState.SUCCEEDED
        for key in (running, given):
            assert (w.instance(key).state, w.instance(key).lost) == (InstanceState.WAITING, 0)
        assert not w.session().open

    run(body)


def test_stop_does_not_hand_back_before_everything_has_ended() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        key = w.ready(w.job())
        w.assign(key, session)
        ended = asyncio.Event()
        w.runner.stopping = ended.wait
        stopping = asyncio.ensure_future(w.worker.stop())
        await asyncio.sleep(3)
        assert w.instance(key).live is not None
        assert w.session().open
        ended.set()
        await stopping
        assert w.instance(key).live is None

    run(body)


def test_stop_without_a_leader_gives_up_soon() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        key = w.ready(w.job())
        w.assign(key, session)
        w.raft.reachable = False
        await w.worker.stop()
        assert w.instance(key).live is not None

    run(body)

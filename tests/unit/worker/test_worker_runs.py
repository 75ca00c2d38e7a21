"""The worker's runs: each token is started once, killed when asked, and reported until that is on record."""

from __future__ import annotations

import asyncio
import json

from raftsched.cluster_settings import Settings
from raftsched.core.commands import EditJob, Ended, Kill, OpenSession, PutSettings, Started
from raftsched.core.model import InstanceState, Outcome, OutputRef, Policy, Trigger, TriggerKind
from raftsched.core.subjects.leasing import AttemptsFinished, decode_finished
from raftsched.core.subjects.namespace import PutNamespace
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.processes.wire import Exec, Http, Python
from tests.unit.worker.world import NODE, WALL_MS, World, run


def test_a_token_is_started_once_whatever_is_seen_again() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        keys = [w.ready(w.job(), n) for n in range(1, 4)]
        tokens = [w.assign(key, session) for key in keys]
        w.own.rescan()
        await asyncio.sleep(3)
        assert list(w.runner.launched) == tokens
        for token in tokens:
            w.end(token)
        await w.until(lambda: not w.worker.running)
        w.own.rescan()
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


def test_the_leader_is_told_at_once_what_is_over() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        key = w.ready(w.job())
        token = w.assign(key, session)
        w.end(token, Outcome.SUCCEEDED)
        await w.until(lambda: w.instance(key).state is InstanceState.SUCCEEDED)
        told = [(peer, decode_finished(raw)) for peer, kind, raw in w.raft.sent if kind == "over"]
        assert told == [(w.raft.leader_id, AttemptsFinished(session, (token,)))]

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


def test_what_is_kept_of_output_is_what_the_state_says_at_the_start() -> None:
    async def body(world: World) -> None:
        session = await world.leased()
        job = world.job()

        def started(request: int) -> int:
            return world.runner.launched[world.assign(world.ready(job, request), session)].output_max

        assert started(1) == 1 << 20
        world.raft.commit(PutSettings(Settings(output_max_bytes=1 << 16)))
        assert started(2) == 1 << 16
        world.raft.commit(PutNamespace("default", b"{}", output_max_bytes=1 << 13))
        assert started(3) == 1 << 13
        world.raft.commit(PutNamespace("default", b"{}", output_max_bytes=1 << 14), quiet=True)  # by a snapshot
        assert started(4) == 1 << 14

    run(body)


def test_each_run_has_the_grace_of_its_job() -> None:
    async def body(w: World) -> None:
        session = await w.leased()
        own, usual = (w.assign(w.ready(w.job(grace_ms=ms)), session) for ms in (1_500, None))
        specs = [w.runner.launched[token] for token in (own, usual)]
        assert [(spec.grace_ms, spec.stop_ms) for spec in specs] == [(1_500, 1_500), (5_000, None)]

    run(body)

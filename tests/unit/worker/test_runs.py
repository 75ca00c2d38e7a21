"""A worker's runs, on a node and elsewhere: each token is started once, killed when asked, and reported until that is
on record."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from raftsched.core.commands import EditJob, Kill, PutSecret, ReportProgress, SelfReport, Started
from raftsched.core.model import Delivery, InstanceState, Outcome, Policy, Trigger, TriggerKind, Verdict
from raftsched.system import background
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.processes.wire import Exec, Http, Python
from raftsched.worker.session.shortage import PAUSE_MIN_MS
from raftsched.worker.tasks.permits import Permits
from raftsched.worker.tasks.tasks import Resolved
from tests.unit.worker.world import OUTPUT, Given, World

WHY = "this node cannot start a process: Resource temporarily unavailable"


async def test_a_token_is_started_once_whatever_is_seen_again(w: World) -> None:
    given = await w.running(3)
    w.see_again()
    await asyncio.sleep(3)
    tokens = [one.token for one in given]
    assert list(w.runner.launched) == tokens
    for token in tokens:
        w.end(token)
    await w.settled()
    w.see_again()
    await asyncio.sleep(3)
    assert list(w.runner.launched) == tokens


async def test_what_is_to_be_killed_before_it_was_started_is_not_started(w: World) -> None:
    await w.leased()
    early = w.give(quiet=True)
    w.raft.commit(Kill(early.key), quiet=True)
    late = w.give()
    attempt = await w.becomes(early, InstanceState.KILLED)
    assert attempt is not None
    assert (attempt.started_at_ms, attempt.error) == (None, "killed before it was started")
    assert (list(w.runner.launched), w.runner.killed) == ([late.token], [])


async def test_a_fault_while_a_run_is_made_ends_that_run_and_no_other(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await w.leased()
    made, tokens = Permits.spec, set[int]()

    def spec(self: Permits, found: Resolved, **about: Any) -> RunSpec:
        tokens.add(about["token"])
        if about["token"] == min(tokens):
            raise ZeroDivisionError("nobody thought of it")
        return made(self, found, **about)

    monkeypatch.setattr(Permits, "spec", spec)
    first, second = w.give(quiet=True), w.give()
    attempt = await w.becomes(first, InstanceState.FAILED)
    assert attempt is not None
    assert attempt.error == "it could not be started: ZeroDivisionError: nobody thought of it"
    assert list(w.runner.launched) == [second.token]
    background.forget()


async def test_what_runs_is_killed_once_when_that_is_asked(w: World) -> None:
    (given,) = await w.running()
    before = w.clock.boot_ms()
    w.raft.commit(Kill(given.key))
    await w.until(lambda: w.runner.killed)
    assert w.clock.boot_ms() - before < 100
    w.see_again()
    await asyncio.sleep(6)
    assert w.runner.killed == [given.token]
    w.end(given.token, Outcome.KILLED)
    await w.becomes(given, InstanceState.KILLED)
    await w.settled()
    assert not w.worker.killing


async def test_what_has_ended_is_not_killed(w: World) -> None:
    (given,) = await w.running()
    with w.cut_off():
        w.end(given.token)
        w.worker.kill(given.token)
    await w.settled()
    assert (w.runner.killed, w.state(given)) == ([], InstanceState.SUCCEEDED)


async def test_start_and_end_are_reported(w: World) -> None:
    (given,) = await w.running()
    await asyncio.sleep(0.1)
    begun = w.clock.wall_ms()
    w.begin(given.token)
    await w.until(lambda: w.state(given) is InstanceState.RUNNING)
    assert w.instance(given).attempts[0].started_at_ms == begun
    w.end(
        given.token,
        Outcome.FAILED,
        started_at_ms=begun + 1,
        ended_at_ms=begun + 2,
        exit_code=3,
        error="exit code 3",
        result=b'{"sum":3}',
        output=OUTPUT,
    )
    attempt = await w.becomes(given, InstanceState.FAILED)
    assert attempt is not None
    assert (attempt.started_at_ms, attempt.ended_at_ms) == (begun + 1, begun + 2)
    assert (attempt.exit_code, attempt.error, attempt.result) == (3, "exit code 3", b'{"sum":3}')
    assert attempt.output == w.output
    await w.settled()


async def test_a_start_that_is_heard_of_late_takes_the_place_of_no_end(w: World) -> None:
    (given,) = await w.running()
    w.end(given.token)
    w.begin(given.token)
    await w.settled()
    assert not w.proposed(Started)
    assert w.state(given) is InstanceState.SUCCEEDED


async def test_ends_are_told_again_until_they_are_on_record(w: World) -> None:
    given = await w.running(5)
    with w.cut_off():
        for one in given:
            w.end(one.token)
        await asyncio.sleep(2)
        assert w.worker.running == len(given)
    await w.settled()
    assert {w.state(one) for one in given} == {InstanceState.SUCCEEDED}
    told = len(w.raft.proposed)
    await asyncio.sleep(6)
    assert len(w.raft.proposed) == told


async def test_ends_known_before_a_new_session_are_told_before_its_opening(w: World) -> None:
    """Otherwise the opening would make them lost, and they would run again."""
    (given,) = await w.running()
    first = w.worker.session
    with w.cut_off():
        w.end(given.token)
        await w.lapsed()
    assert await w.leased() > first
    assert w.state(given) is InstanceState.SUCCEEDED
    assert not w.was_lost(given)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"handler":{"wasm":"x"}}', "the job's handler is none of"),
        (b'{"handler":{"call":"send-invoice"}}', 'no handler "send-invoice"'),
        (b'{"handler":{"exec":["x"],"env":{"A":{"$secret":"sealed"}}}}', "the secret default/sealed cannot be read by"),
        (b'{"handler":{"exec":{"template":true}},"params":3}', "cannot read"),
    ],
)
async def test_a_job_that_cannot_be_run_here_fails_with_the_reason(w: World, body: bytes, why: str) -> None:
    w.accepted(PutSecret("default", "sealed", b"value", nonce=b"n" * 12))
    await w.leased()
    attempt = await w.becomes(w.give(body), InstanceState.FAILED)
    assert attempt is not None
    assert why in (attempt.error or "")
    assert not w.runner.launched


async def test_a_run_takes_the_revision_it_was_made_from(w: World) -> None:
    await w.leased()
    job = w.job(b'{"handler":{"exec":["old"]},"params":{"a":1}}', timeout_ms=1_234)
    key = w.ready(job)
    w.raft.commit(EditJob(job, Policy(trigger=Trigger(kind=TriggerKind.MANUAL)), b'{"handler":{"shell":"new"}}'))
    given = w.assign(key)
    await w.launched(given)
    spec = w.runner.launched[given.token]
    assert isinstance(spec.task, Exec)
    assert (spec.task.argv, spec.timeout_ms, spec.session) == (("old",), 1_234, w.worker.session)
    assert json.loads(spec.task.env["RAFTSCHED_PARAMS"]) == {"a": 1}


async def test_specs_and_their_environment(w: World) -> None:
    await w.leased()

    async def spec(handler: str, params: bytes | None = None):  # type: ignore[no-untyped-def]
        given = w.give(b'{"handler":%s,"params":{"x":1}}' % handler.encode(), params)
        await w.launched(given)
        return w.runner.launched[given.token]

    got = await spec('{"shell":"echo $A","env":{"A":"b","RAFTSCHED_WORKER":"mine"},"cwd":"/srv"}')
    assert isinstance(got.task, Exec)
    assert (got.task.argv, got.task.cwd, got.namespace) == (("/bin/sh", "-c", "echo $A"), "/srv", "default")
    env = got.task.env
    assert (env["A"], env["RAFTSCHED_WORKER"], env["RAFTSCHED_ATTEMPT"]) == ("b", w.name, "1")
    assert env["RAFTSCHED_FENCING_TOKEN"] == str(got.token)
    assert env["RAFTSCHED_SCHEDULED_AT"].startswith("2027-01-15T08:00:0")
    assert env["RAFTSCHED_SCHEDULED_AT"].endswith("Z")
    assert env["RAFTSCHED_INSTANCE_ID"].startswith(env["RAFTSCHED_JOB_ID"] + "@")

    got = await spec('{"python":"m:f"}', b'{"y":2}')
    assert got.task == Python("m:f", b'{"y":2}', got.task.env, None)

    got = await spec('{"http":{"url":"http://h/"}}')
    assert isinstance(got.task, Http)
    assert (got.task.method, got.task.body, got.task.expect) == ("GET", b"", ())
    assert got.task.headers["Raftsched-Fencing-Token"] == str(got.token)

    got = await spec('{"http":{"url":"http://h/","method":"POST","expected_status":[202]}}')
    assert (got.task.body, got.task.expect) == (b'{"x":1}', (202,))
    assert got.task.headers["Content-Type"] == "application/json"

    got = await spec('{"http":{"url":"http://h/","body":"text"}}')
    assert (got.task.method, got.task.body) == ("POST", b"text")


async def test_each_run_has_the_grace_of_its_job(w: World) -> None:
    await w.leased()
    given = [w.give(grace_ms=ms) for ms in (1_500, None)]
    await w.launched(*given)
    specs = [w.runner.launched[one.token] for one in given]
    assert [(spec.grace_ms, spec.stop_ms) for spec in specs] == [(1_500, 1_500), (5_000, None)]


async def test_values_of_secrets_are_kept_out_of_what_is_reported(w: World) -> None:
    w.accepted(PutSecret("default", "word", b"hunter22"))
    (given,) = await w.running(body=b'{"handler":{"exec":["true"],"env":{"KEY":{"$secret":"word"}}}}')
    task = w.runner.launched[given.token].task
    assert isinstance(task, Exec)
    assert (task.env["KEY"], task.hidden) == ("hunter22", ("hunter22",))
    w.runner.on_self_report(given.token, SelfReport(1, "has hunter22"))
    await w.until(lambda: w.proposed(ReportProgress))
    assert w.proposed(ReportProgress)[0].said.text == "has ***"
    w.end(given.token, Outcome.FAILED, error="no hunter22", result=b'["hunter22"]')
    attempt = await w.becomes(given, InstanceState.FAILED)
    assert attempt is not None
    assert (attempt.error, attempt.result) == ("no ***", b'["***"]')


async def test_what_a_run_says_is_reported_now_and_then_and_with_its_end(w: World) -> None:
    (given,) = await w.running()
    say, token = w.runner.on_self_report, given.token
    say(token, SelfReport(1, "begins"))
    await w.until(lambda: w.proposed(ReportProgress))
    for percent in range(2, 50):
        say(token, SelfReport(percent, "goes on", b'{"row":%d}' % percent))
    await asyncio.sleep(1)
    assert len(w.proposed(ReportProgress)) == 1
    await w.until(lambda: len(w.proposed(ReportProgress)) == 2)
    said = [told.said for told in w.proposed(ReportProgress)]
    assert said == [SelfReport(1, "begins"), SelfReport(49, "goes on", b'{"row":49}')]
    w.end(token, Outcome.FAILED, verdict=Verdict.SNOOZE, delay_ms=60_000, said=SelfReport(50))
    await w.settled()
    (end,) = w.proposed()
    assert (end.verdict, end.delay_ms, end.said) == (Verdict.SNOOZE, 60_000, SelfReport(50, None, b'{"row":49}'))


# ---------------------------------------------------------------- what could not be started


async def refused(w: World, **policy: object) -> Given:
    """A run that the runner could not start."""
    (given,) = await w.running(**policy)
    w.end(given.token, Outcome.KILLED, started_at_ms=None, error=WHY, begun=False)
    return given


async def test_the_leader_hears_that_nothing_can_be_started_before_the_run_is_handed_back(w: World) -> None:
    troubles: list[str] = []
    w.raft.subscribe(lambda results: troubles.extend(beat.trouble for beat in w.beats()[-1:]) if w.proposed() else None)
    given = await refused(w)
    await w.becomes(given, InstanceState.WAITING)
    assert troubles[0] == WHY
    assert next(beat for beat in w.beats() if beat.trouble).pause_ms >= PAUSE_MIN_MS - 100
    assert (w.worker.pause.count, w.worker.trouble) == (1, WHY)


async def test_a_run_that_is_to_run_at_most_once_is_handed_back_too(w: World) -> None:
    given = await refused(w, delivery=Delivery.AT_MOST_ONCE)
    await w.becomes(given, InstanceState.WAITING)


@pytest.mark.parametrize("heard_of", ["start", "end"])
async def test_the_pause_runs_out_and_a_start_ends_the_trouble(w: World, heard_of: str) -> None:
    given = await refused(w)
    await w.until(lambda: w.beats()[-1].pause_ms)
    await w.until(lambda: w.beats()[-1].pause_ms == 0)
    assert w.beats()[-1].trouble == WHY
    again = w.assign(given.key)
    await w.launched(again)
    (w.begin if heard_of == "start" else w.end)(again.token)
    await w.until(lambda: w.beats()[-1].trouble == "", 5)

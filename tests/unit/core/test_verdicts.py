"""What a run, or its job's outcomes, says of its end: succeed, retry, fail, cancel, snooze."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.bounds import DAY_MS, DURATION_MAX_MS, HOUR_MS, MINUTE_MS, OUTCOMES_MAX, PROGRESS_TEXT_MAX
from raftsched.core import commands as c
from raftsched.core.apply.runs import attempts as module
from raftsched.core.limits import SNOOZE_MS, STATE_MAX, policy_error
from raftsched.core.model import (
    Delivery,
    Instance,
    Job,
    JobState,
    Mapped,
    Outcome,
    Outcomes,
    Overlap,
    Progress,
    Retry,
    StepKind,
    Verdict,
)
from raftsched.core.model import InstanceState as I
from tests.support.memory_view import World, every, policy

OUTCOMES = Outcomes(
    exit=(
        Mapped(75, 75, Verdict.SNOOZE, 5 * MINUTE_MS),
        Mapped(78, 78, Verdict.CANCEL),
        Mapped(0, 0, Verdict.RETRY),
        Mapped(64, 70, Verdict.FAIL),
        Mapped(1, 3, Verdict.SUCCEED),
    ),
    status=(
        Mapped(429, 429, Verdict.SNOOZE),
        Mapped(404, 404, Verdict.CANCEL),
        Mapped(500, 599, Verdict.RETRY),
    ),
)
RETRY = Retry((1_000, 2_000))


class Run:
    """One run of a job, given to a worker."""

    def __init__(self, **fields: Any) -> None:
        self.world = World()
        self.session = self.world.session()
        self.job = self.world.create(**{"retry": RETRY, "required_capability": "exec", **fields})
        self.key = self.world.run_now(self.job)
        self.token = self.world.assign(self.key, self.session)

    def end(self, outcome: Outcome, code: int | None = None, verdict: Verdict | None = None, **said: Any) -> Instance:
        delay_ms = said.pop("delay_ms", None)
        now = self.world.now
        self.world.ok(
            c.EndedWithReport(
                self.session, self.token, outcome, now, now, exit_code=code, verdict=verdict, delay_ms=delay_ms, **said
            )
        )
        return self.row

    def again(self) -> None:
        """Its delay is over, and it is given to the worker again."""
        at_ms = self.row.wake_at_ms
        assert at_ms is not None
        self.world.now = max(self.world.now, at_ms)
        self.world.ok(c.Wake(self.key, at_ms))
        self.token = self.world.assign(self.key, self.session)

    @property
    def row(self) -> Instance:
        return self.world.instance(self.key)

    @property
    def now_job(self) -> Job:
        return self.world.job(self.job.id)


class TestWords:
    def test_succeed(self) -> None:
        run = Run()
        row = run.end(Outcome.FAILED, 3, Verdict.SUCCEED)
        assert (row.state, row.attempts[0].outcome, row.attempts[0].exit_code) == (I.SUCCEEDED, Outcome.SUCCEEDED, 3)
        assert run.now_job.last_success_at_ms == run.world.now

    def test_retry(self) -> None:
        run = Run()
        row = run.end(Outcome.SUCCEEDED, 0, Verdict.RETRY)
        assert (row.state, row.reason, row.tried) == (I.RETRYING, "retry", 1)
        assert row.attempts[0].outcome is Outcome.FAILED

    def test_fail(self) -> None:
        run = Run()
        row = run.end(Outcome.SUCCEEDED, 0, Verdict.FAIL, error="the file is broken")
        assert (row.state, row.reason, row.dead_letter) == (I.FAILED, "no_retry", True)
        assert row.error == "the file is broken"
        assert run.now_job.failures_in_a_row == 1

    def test_cancel(self) -> None:
        run = Run(suspend_after=1)
        row = run.end(Outcome.FAILED, 1, Verdict.CANCEL, error="nothing to do")
        assert (row.state, row.reason, row.dead_letter) == (I.KILLED, "cancelled", False)
        assert (row.attempts[0].outcome, row.error) == (Outcome.CANCELLED, "nothing to do")
        assert (run.now_job.failures_in_a_row, run.now_job.others) == (0, 1)

    def test_snooze(self) -> None:
        run = Run()
        row = run.end(Outcome.FAILED, 1, Verdict.SNOOZE, delay_ms=10 * MINUTE_MS)
        assert (row.state, row.reason, row.wake_at_ms) == (I.RETRYING, "snoozed", run.world.now + 10 * MINUTE_MS)
        assert (row.attempts[0].outcome, row.tried, row.snoozes) == (Outcome.SNOOZED, 0, 1)
        assert (row.steps[-1].kind, row.steps[-1].detail) == (StepKind.SNOOZED, "10m")
        run.again()
        assert run.end(Outcome.SUCCEEDED, 0).state is I.SUCCEEDED

    def test_a_snooze_uses_no_retry(self) -> None:
        run = Run()
        for _ in range(3):
            run.end(Outcome.FAILED, 1, Verdict.SNOOZE, delay_ms=1_000)
            run.again()
        delays = []
        for _ in RETRY.delays_ms:
            row = run.end(Outcome.FAILED, 1)
            assert row.wake_at_ms is not None
            delays.append(row.wake_at_ms - run.world.now)
            run.again()
        assert delays == list(RETRY.delays_ms)
        assert run.end(Outcome.FAILED, 1).state is I.FAILED

    def test_a_run_that_is_to_run_at_most_once_may_put_itself_off(self) -> None:
        run = Run(delivery=Delivery.AT_MOST_ONCE)
        assert run.end(Outcome.FAILED, 1, Verdict.SNOOZE).state is I.RETRYING

    def test_a_snooze_that_says_no_time(self) -> None:
        run = Run()
        assert run.end(Outcome.FAILED, 1, Verdict.SNOOZE).wake_at_ms == run.world.now + MINUTE_MS

    @pytest.mark.parametrize(("asked", "gets"), [(0, SNOOZE_MS[0]), (-5, SNOOZE_MS[0]), (2**60, SNOOZE_MS[1])])
    def test_a_snooze_is_bounded(self, asked: int, gets: int) -> None:
        run = Run()
        row = run.end(Outcome.FAILED, 1, Verdict.SNOOZE, delay_ms=asked)
        assert row.wake_at_ms == run.world.now + gets

    def test_snoozes_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "SNOOZES_MAX", 2)
        run = Run()
        for _ in range(2):
            run.end(Outcome.FAILED, 1, Verdict.SNOOZE, delay_ms=1_000)
            run.again()
        row = run.end(Outcome.FAILED, 1, Verdict.SNOOZE, delay_ms=1_000)
        assert (row.state, row.reason, row.dead_letter) == (I.FAILED, "snoozes_exhausted", True)
        run.world.ok(c.Requeue(run.key))
        assert run.row.snoozes == 0

    @pytest.mark.parametrize("verdict", [Verdict.SNOOZE, Verdict.CANCEL, Verdict.FAIL, Verdict.RETRY])
    def test_who_was_asked_to_end_is_killed_whatever_it_says(self, verdict: Verdict) -> None:
        run = Run()
        run.world.ok(c.Kill(run.key))
        row = run.end(Outcome.FAILED, 1, verdict)
        assert (row.state, row.reason) == (I.KILLED, "killed")

    @pytest.mark.parametrize("outcome", [Outcome.TIMED_OUT, Outcome.KILLED])
    def test_it_counts_only_if_the_run_ended_by_itself(self, outcome: Outcome) -> None:
        run = Run(outcomes=Outcomes(exit=(Mapped(143, 143, Verdict.SUCCEED),)))
        row = run.end(outcome, 143, Verdict.SUCCEED)
        assert (row.state, row.attempts[0].outcome) == (
            I.RETRYING if outcome is Outcome.TIMED_OUT else I.WAITING,
            outcome,
        )

    @pytest.mark.parametrize("outcome", [Outcome.SNOOZED, Outcome.CANCELLED, Outcome.LOST])
    def test_no_worker_reports_what_apply_makes_of_a_report(self, outcome: Outcome) -> None:
        run = Run()
        now = run.world.now
        assert run.world.refused(c.Ended(run.session, run.token, outcome, now, now)) == "stale"

    def test_another_worker_says_nothing(self) -> None:
        run = Run()
        now = run.world.now
        said = c.EndedWithReport(run.session, run.token + 1, Outcome.FAILED, now, now, verdict=Verdict.CANCEL)
        assert run.world.refused(said) == "stale"

    def test_a_run_that_is_put_off_holds_others_back(self) -> None:
        run = Run(overlap=Overlap.QUEUE_ALL)
        second = run.world.run_now(run.job, 2)
        run.end(Outcome.FAILED, 1, Verdict.SNOOZE)
        assert run.world.instance(second).held
        run.world.ok(c.Kill(run.key))
        assert not run.world.instance(second).held

    def test_a_part(self) -> None:
        world = World()
        session = world.session()
        parent = world.run_now(world.create(shards=2))
        world.ok(c.Split(parent))
        cancelled, snoozed = [row.key for row in world.instances() if row.parent == parent]
        for key, verdict in ((cancelled, Verdict.CANCEL), (snoozed, Verdict.SNOOZE)):
            token = world.assign(key, session)
            world.ok(c.EndedWithReport(session, token, Outcome.SUCCEEDED, world.now, world.now, verdict=verdict))
        assert world.instance(cancelled).state is I.KILLED
        assert (world.instance(snoozed).state, world.instance(parent).state) == (I.RETRYING, I.RUNNING)
        world.ok(c.Kill(parent))


class TestExitCodes:
    @pytest.mark.parametrize(
        ("outcome", "code", "state"),
        [
            (Outcome.FAILED, 75, I.RETRYING),
            (Outcome.FAILED, 78, I.KILLED),
            (Outcome.SUCCEEDED, 0, I.RETRYING),
            (Outcome.FAILED, 63, I.RETRYING),
            (Outcome.FAILED, 64, I.FAILED),
            (Outcome.FAILED, 70, I.FAILED),
            (Outcome.FAILED, 71, I.RETRYING),
            (Outcome.FAILED, 2, I.SUCCEEDED),
            (Outcome.FAILED, None, I.RETRYING),
        ],
    )
    def test_what_they_come_to(self, outcome: Outcome, code: int | None, state: I) -> None:
        run = Run(outcomes=OUTCOMES)
        now = run.world.now
        run.world.ok(c.Ended(run.session, run.token, outcome, now, now, exit_code=code))
        assert run.row.state is state
        assert (run.row.reason == "snoozed") is (code == 75)
        if code == 75:
            assert run.row.wake_at_ms == now + 5 * MINUTE_MS

    def test_the_word_of_the_run_goes_first(self) -> None:
        assert Run(outcomes=OUTCOMES).end(Outcome.FAILED, 78, Verdict.SUCCEED).state is I.SUCCEEDED

    def test_a_result_that_looks_like_an_answer_is_none(self) -> None:
        run = Run(outcomes=OUTCOMES)
        assert run.end(Outcome.SUCCEEDED, None, result=b'{"status":404}').state is I.SUCCEEDED


class TestAnswers:
    def run(self, **fields: Any) -> Run:
        return Run(**{"required_capability": "http", "outcomes": OUTCOMES, **fields})

    @pytest.mark.parametrize(
        ("status", "state", "reason"),
        [
            (404, I.KILLED, "cancelled"),
            (503, I.RETRYING, "retry"),
            (429, I.RETRYING, "snoozed"),
            (400, I.RETRYING, "retry"),
        ],
    )
    def test_what_they_come_to(self, status: int, state: I, reason: str) -> None:
        row = self.run().end(Outcome.FAILED, result=b'{"status":%d}' % status)
        assert (row.state, row.reason) == (state, reason)

    @pytest.mark.parametrize(
        "result", [b"[]", b'{"status":"x"}', b"{", b"{}", b"{" * 80, b'{"x":' + b"[" * 4_000, b'{"x":' + b"[" * 80]
    )
    def test_what_is_no_status_is_none(self, result: bytes) -> None:
        assert self.run().end(Outcome.SUCCEEDED, result=result).state is I.SUCCEEDED

    def test_an_answer_may_have_much_beside_its_status(self) -> None:
        many = b"[" + b"[]," * 900 + b'"%s\\""]' % (b"[" * 900)
        row = self.run().end(Outcome.FAILED, result=b'{"rows":%s,"status":404}' % many)
        assert (row.state, row.reason) == (I.KILLED, "cancelled")

    def test_retry_after_is_how_long_a_snooze_is(self) -> None:
        run = self.run()
        row = run.end(Outcome.FAILED, result=b'{"status":429}', delay_ms=HOUR_MS)
        assert row.wake_at_ms == run.world.now + HOUR_MS

    def test_retry_after_is_bounded(self) -> None:
        run = self.run()
        row = run.end(Outcome.FAILED, result=b'{"status":429}', delay_ms=5 * DAY_MS)
        assert row.wake_at_ms == run.world.now + DAY_MS

    @pytest.mark.parametrize("delay_ms", [DURATION_MAX_MS + 1, 2**63, 2**64 - 1])
    def test_of_a_run_that_was_ended_it_is_at_most_a_duration(self, delay_ms: int) -> None:
        """No API lets more through; a log may hold it all the same."""
        run = self.run(outcomes=None)
        row = run.end(Outcome.TIMED_OUT, delay_ms=delay_ms)
        assert (row.reason, row.wake_at_ms) == ("retry", run.world.now + DURATION_MAX_MS)

    @pytest.mark.parametrize(("status", "delay_ms"), [(429, HOUR_MS), (503, HOUR_MS), (500, 1_000)])
    def test_retry_after_lengthens_the_delay_of_a_retry(self, status: int, delay_ms: int) -> None:
        run = self.run(outcomes=None)
        row = run.end(Outcome.FAILED, result=b'{"status":%d}' % status, delay_ms=HOUR_MS)
        assert (row.reason, row.tried, row.wake_at_ms) == ("retry", 1, run.world.now + delay_ms)

    def test_retry_after_does_not_shorten_it(self) -> None:
        run = self.run(outcomes=None, retry=Retry((HOUR_MS,)))
        row = run.end(Outcome.FAILED, result=b'{"status":503}', delay_ms=1_000)
        assert row.wake_at_ms == run.world.now + HOUR_MS

    def test_without_a_retry_it_makes_none(self) -> None:
        run = self.run(outcomes=None, retry=Retry())
        assert run.end(Outcome.FAILED, result=b'{"status":503}', delay_ms=1_000).state is I.FAILED


def test_a_cancelled_run_suspends_nothing() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1_000), suspend_after=1)
    world.fire(job)
    key = world.waiting(job.id)[0].key
    token = world.assign(key, session)
    world.ok(c.EndedWithReport(session, token, Outcome.FAILED, world.now, world.now, verdict=Verdict.CANCEL))
    assert world.job(job.id).state is JobState.SCHEDULED


@pytest.mark.parametrize(
    "outcomes",
    [
        Outcomes(exit=(Mapped(-1, 5, Verdict.FAIL),)),
        Outcomes(exit=(Mapped(5, 4, Verdict.FAIL),)),
        Outcomes(exit=(Mapped(5, 256, Verdict.FAIL),)),
        Outcomes(status=(Mapped(99, 200, Verdict.FAIL),)),
        Outcomes(status=(Mapped(200, 600, Verdict.FAIL),)),
        Outcomes(exit=(Mapped(5, 5, Verdict.SNOOZE, 1),)),
        Outcomes(exit=tuple(Mapped(n, n, Verdict.FAIL) for n in range(OUTCOMES_MAX + 1))),
    ],
)
def test_bounds(outcomes: Outcomes) -> None:
    assert policy_error(policy(outcomes=OUTCOMES)) is None
    assert policy_error(policy(outcomes=outcomes)) is not None


class TestWhatItSaysMeanwhile:
    def says(self, run: Run, *said: Any) -> Instance:
        run.world.ok(c.ReportProgress(run.session, run.token, c.SelfReport(*said)))
        return run.row

    def test_progress(self) -> None:
        run = Run()
        run.world.forward(5_000)
        assert self.says(run, 40, "copying").progress == Progress(40, "copying", run.world.now)
        assert self.says(run, None, "waiting").progress == Progress(None, "waiting", run.world.now)
        assert self.says(run, 41).progress == Progress(41, "", run.world.now)

    @pytest.mark.parametrize(("percent", "shown"), [(-1, 0), (101, 100), (2**63, 100)])
    def test_bounds(self, percent: int, shown: int) -> None:
        run = Run()
        row = self.says(run, percent, "x" * 10_000, b'"' + b"x" * STATE_MAX + b'"')
        assert row.progress == Progress(shown, "x" * PROGRESS_TEXT_MAX, run.world.now)
        assert row.kept is None

    def test_the_next_attempt_gets_what_was_kept_and_begins_its_progress_anew(self) -> None:
        run = Run()
        self.says(run, 40, "copying", b'{"row":7}')
        row = run.end(Outcome.FAILED, 1, said=c.SelfReport(50))
        assert (row.progress, row.kept) == (Progress(50, "", run.world.now), b'{"row":7}')
        run.again()
        assert (run.row.progress, run.row.kept) == (None, b'{"row":7}')
        row = run.end(Outcome.SUCCEEDED, 0, said=c.SelfReport(100, "done", b'{"row":9}'))
        assert (row.progress, row.kept) == (Progress(100, "done", run.world.now), b'{"row":9}')

    def test_what_was_kept_outlives_a_lost_worker(self) -> None:
        run = Run()
        self.says(run, 40, None, b"1")
        run.world.ok(c.LoseAttempt(run.session, run.token, run.world.now))
        assert run.row.kept == b"1"

    def test_null_takes_it_away(self) -> None:
        run = Run()
        self.says(run, None, None, b"1")
        assert self.says(run, None, None, b"null").kept is None

    @pytest.mark.parametrize(("outcome", "kept"), [(Outcome.SUCCEEDED, None), (Outcome.FAILED, b"1")])
    def test_a_run_that_was_through_begins_anew(self, outcome: Outcome, kept: bytes | None) -> None:
        run = Run(retry=Retry())
        run.end(outcome, 0, said=c.SelfReport(100, "", b"1"))
        run.world.ok(c.Rerun(run.key))
        assert (run.row.kept, run.row.progress) == (kept, None)

    def test_only_a_live_attempt_says_anything(self) -> None:
        run = Run()
        said = c.ReportProgress(run.session, run.token, c.SelfReport(1))
        assert run.world.refused(c.ReportProgress(run.session, run.token + 1, c.SelfReport(1))) == "stale"
        assert run.world.refused(c.ReportProgress(run.session + 1, run.token, c.SelfReport(1))) == "stale"
        run.end(Outcome.SUCCEEDED, 0)
        assert run.world.refused(said) == "stale"

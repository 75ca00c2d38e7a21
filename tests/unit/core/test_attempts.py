"""Assign, start, end, retry, loss, kill, rerun."""

from __future__ import annotations

import pytest

from raftsched.core import commands as c
from raftsched.core.actions import AttemptAssigned, InstanceReady, KillAsked
from raftsched.core.levels import FIRST_START_COUNTS
from raftsched.core.limits import HANDED_BACK_MAX
from raftsched.core.model import Delivery, JobState, Outcome, Overlap, Retention, Retry
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import Table, u64
from tests.support.memory_view import T0, World, at, ended, every


def ready(world: World, **fields: object) -> bytes:
    job = world.create(every(3_600_000), **fields)
    world.fire(job)
    return world.waiting(job.id)[0].key


class TestReports:
    def test_a_whole_run(self) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        token = world.assign(key, session)
        assert AttemptAssigned("n2", session, token, key) in world.actions
        world.ok(c.Started(session, token, world.now + 5))
        assert world.instance(key).state is I.RUNNING
        assert world.ok(c.Started(session, token, world.now + 6))  # a repeat
        live = world.instance(key).live
        assert live is not None
        assert live.started_at_ms == world.now + 5
        world.ok(c.Ended(session, token, Outcome.SUCCEEDED, None, world.now + 9, 0, None, b"{}"))
        assert ended(world) == [("n2", session, token, key, "")]
        row = world.instance(key)
        attempt = row.attempts[0]
        assert (attempt.started_at_ms, attempt.ended_at_ms, attempt.exit_code) == (
            world.now + 5,
            world.now + 9,
            0,
        )
        assert (attempt.outcome, attempt.result) == (Outcome.SUCCEEDED, b"{}")
        assert row.reason is None
        job = world.job(row.job_id)
        assert (job.last_node, job.last_end_at_ms, job.last_instance) == ("n2", world.now + 9, key)

    def test_the_start_of_a_one_shot_leaves_its_job_alone(self) -> None:
        world = World()
        session = world.session()
        once, recurring = world.create(at(T0)), world.create(every(60_000))
        world.forward(60_000)
        for job in (once, recurring):
            world.fire(job)
            key = world.waiting(job.id)[0].key
            before = world.view.get(Table.JOBS, u64(job.id))
            token = world.assign(key, session)
            world.ok(c.Started(session, token, world.now + 5))
            assert (world.view.get(Table.JOBS, u64(job.id)) == before) is (job is once)
            world.ok(c.Ended(session, token, Outcome.SUCCEEDED, None, world.now + 9))
            assert world.job(job.id).last_start_at_ms == world.now + 5

    def test_stale_ones_are_dropped(self) -> None:
        world = World()
        session = world.session()
        other = world.session("n3")
        key = ready(world)
        token = world.assign(key, session)
        for wrong in ((other, token), (session, token + 1), (session, 0), (99, token)):
            assert world.refused(c.Ended(*wrong, Outcome.SUCCEEDED, None, world.now)) == "stale"
            assert world.refused(c.Started(*wrong, world.now)) == "stale"
        assert world.refused(c.Ended(session, token, Outcome.LOST, None, world.now)) == "stale"  # not a worker's word
        world.end(key)
        assert world.refused(c.Ended(session, token, Outcome.FAILED, None, world.now)) == "stale"
        assert world.instance(key).state is I.SUCCEEDED

    def test_after_the_loss_the_first_worker_is_not_heard(self) -> None:
        world = World()
        first = world.session("n2")
        second = world.session("n3")
        key = ready(world)
        old = world.assign(key, first)
        world.ok(c.EndSession(first, 1))
        new = world.assign(key, second)
        assert new > old
        assert world.refused(c.Ended(first, old, Outcome.SUCCEEDED, None, world.now)) == "stale"
        assert world.refused(c.Ended(second, old, Outcome.SUCCEEDED, None, world.now)) == "stale"
        world.end(key)

    def test_assign_only_what_waits_and_only_to_an_open_session(self) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        assert world.refused(c.Assign(key, session + 1)) == "stale"
        assert world.refused(c.Assign(b"\0" * 24, session)) == "stale"
        world.assign(key, session)
        assert world.refused(c.Assign(key, session)) == "stale"
        world.end(key)
        assert world.refused(c.Assign(key, session)) == "stale"
        other = ready(world)
        world.ok(c.EndSession(session, 1))
        assert world.refused(c.Assign(other, session)) == "stale"

    def test_tokens_rise_over_all_jobs(self) -> None:
        world = World()
        session = world.session()
        tokens = [world.assign(ready(world), session) for _ in range(5)]
        assert tokens == sorted(set(tokens))

    def test_attempts_kept_are_the_newest(self) -> None:
        world = World()
        world.settings(attempts_kept=3)
        session = world.session()
        key = ready(world, retry=Retry((1,) * 9))
        for _ in range(9):
            world.run_once(key, session, Outcome.FAILED)
            world.forward(1)
            world.ok(c.Wake(key, world.instance(key).wake_at_ms or 0))
        assert [a.number for a in world.instance(key).attempts] == [7, 8, 9]


class TestNotBegun:
    @pytest.mark.parametrize("delivery", list(Delivery))
    def test_it_waits_again_however_often_it_happens(self, delivery: Delivery) -> None:
        world = World()
        session = world.session()
        key = ready(world, delivery=delivery)
        at_ms = world.instance(key).ready_at_ms
        for _ in range(3 * HANDED_BACK_MAX):
            token = world.assign(key, session)
            world.ok(c.Ended(session, token, Outcome.KILLED, None, world.now, error="no process", begun=False))
            assert ended(world) == [("n2", session, token, key, "")]
            row = world.instance(key)
            assert (row.state, row.reason, row.error) == (I.WAITING, "not_begun", "no process")
            assert (row.lost, row.handed_back, row.tried, row.ready_at_ms) == (0, 0, 0, at_ms)
        assert world.job(row.job_id).last_end_at_ms is None
        world.run_once(key, session, Outcome.SUCCEEDED)
        assert world.instance(key).state is I.SUCCEEDED

    def test_one_that_was_asked_to_end_is_killed(self) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        token = world.assign(key, session)
        world.ok(c.Kill(key))
        world.ok(c.Ended(session, token, Outcome.KILLED, None, world.now, begun=False))
        assert world.instance(key).state is I.KILLED

    def test_what_did_start_is_not_taken_for_it(self) -> None:
        world = World()
        session = world.session()
        key = ready(world, delivery=Delivery.AT_MOST_ONCE)
        token = world.assign(key, session)
        world.ok(c.Ended(session, token, Outcome.KILLED, world.now, world.now, begun=False))
        assert world.instance(key).state is I.FAILED


class TestRetry:
    def test_each_level_has_its_delay_then_it_is_a_dead_letter(self) -> None:
        world = World()
        session = world.session()
        key = ready(world, retry=Retry((5_000, 10_000, 60_000)))
        for delay in (5_000, 10_000, 60_000):
            row = world.run_once(key, session, Outcome.FAILED)
            assert row is not None
            assert (row.state, row.reason) == (I.RETRYING, "retry")
            assert row.wake_at_ms == world.now + delay
            assert world.refused(c.Assign(key, session)) == "stale"
            assert world.refused(c.Wake(key, world.now)) == "stale"
            world.forward(delay)
            world.ok(c.Wake(key, row.wake_at_ms))
            assert any(isinstance(a, InstanceReady) and a.instance == key for a in world.actions)
            assert world.refused(c.Wake(key, row.wake_at_ms)) == "stale"
        row = world.run_once(key, session, Outcome.FAILED)
        assert row is not None
        assert (row.state, row.reason, row.dead_letter) == (I.FAILED, "retries_exhausted", True)

    def test_jitter_lengthens_a_delay_and_is_the_same_everywhere(self) -> None:
        delays = set()
        for request in range(1, 30):
            worlds = World(), World()
            for world in worlds:
                session = world.session()
                job = world.create(retry=Retry((10_000,), jitter_percent=50))
                world.run_once(world.run_now(job, request), session, Outcome.FAILED)
            rows = [world.instances()[0].wake_at_ms for world in worlds]
            assert rows[0] == rows[1]
            delays.add((rows[0] or 0) - T0)
        assert min(delays) >= 10_000
        assert max(delays) <= 15_000
        assert len(delays) > 15  # spread

    def test_only_on_what_it_is_for(self) -> None:
        world = World()
        session = world.session()
        key = ready(world, retry=Retry((1_000,), (Outcome.TIMED_OUT,)))
        row = world.run_once(key, session, Outcome.FAILED)
        assert row is not None
        assert (row.state, row.dead_letter) == (I.FAILED, True)
        assert row.reason is None  # it was not tried again at all

    def test_timed_out(self) -> None:
        world = World()
        row = world.run_once(ready(world), world.session(), Outcome.TIMED_OUT)
        assert row is not None
        assert (row.state, row.dead_letter) == (I.TIMED_OUT, True)

    def test_a_loss_uses_no_retry(self) -> None:
        world = World()
        key = ready(world, retry=Retry((1_000,)))
        session = world.session()
        world.assign(key, session)
        world.ok(c.EndSession(session, 1))
        row = world.run_once(key, world.session(), Outcome.FAILED)
        assert row is not None
        assert row.state is I.RETRYING


class TestLost:
    def test_again_under_a_new_token(self) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        token = world.assign(key, session)
        world.forward(10)
        world.ok(c.EndSession(session, 1))
        row = world.instance(key)
        assert (row.state, row.reason, row.lost) == (I.WAITING, "worker_lost", 1)
        assert row.attempts[0].outcome is Outcome.LOST
        assert world.assign(key, world.session()) > token

    @pytest.mark.parametrize("level", [FIRST_START_COUNTS - 1, FIRST_START_COUNTS])
    @pytest.mark.parametrize("started", [True, False])
    def test_it_keeps_its_place_where_it_had_not_started(self, level: int, started: bool) -> None:
        """And the job has no last run by it."""
        world = World(level=level)
        session = world.session()
        key = ready(world)
        waits_since = world.instance(key).ready_at_ms
        token = world.assign(key, session)
        if started:
            world.ok(c.Started(session, token, world.now))
        world.forward(10)
        world.ok(c.EndSession(session, 1))
        row = world.instance(key)
        kept = not started and level >= FIRST_START_COUNTS
        assert row.ready_at_ms == (waits_since if kept else world.now)
        job = world.job(row.job_id)
        assert (job.last_end_at_ms, job.last_node) == ((None, None) if kept else (world.now, "n2"))

    def test_at_most_max_lost_times(self) -> None:
        world = World()
        key = ready(world, max_lost=2)
        for lost in (1, 2, 3):
            session = world.session()
            world.assign(key, session)
            world.ok(c.EndSession(session, 1))
            assert world.instance(key).lost == lost
        row = world.instance(key)
        assert (row.state, row.reason, row.dead_letter) == (I.FAILED, "max_lost", True)

    def test_at_most_once(self) -> None:
        world = World()
        key = ready(world, delivery=Delivery.AT_MOST_ONCE, retry=Retry((1,)))
        session = world.session()
        world.assign(key, session)
        world.ok(c.EndSession(session, 1))
        row = world.instance(key)
        assert (row.state, row.reason, row.dead_letter) == (I.FAILED, "lost", True)

    def test_killed_by_nobody_is_handed_back(self) -> None:
        """Its worker ended it for reasons of its own: that is no word on the run."""
        world = World()
        row = world.run_once(ready(world), world.session(), Outcome.KILLED)
        assert row is not None
        assert (row.state, row.reason, row.lost, row.handed_back) == (I.WAITING, "handed_back", 0, 1)
        assert row.attempts[0].outcome is Outcome.KILLED


class TestHandedBack:
    """A node that stops in an orderly way ends its session by itself."""

    def test_it_runs_elsewhere_and_is_not_lost(self) -> None:
        world = World()
        session = world.session()
        keys = [ready(world, max_lost=0) for _ in range(2)]
        since = [world.instance(key).ready_at_ms for key in keys]
        tokens = [world.assign(key, session) for key in keys]
        world.forward(10)
        world.ok(c.CloseSession(session, (tokens[0],)))
        for key, at_ms in zip(keys, since, strict=True):
            row = world.instance(key)
            assert (row.state, row.reason, row.lost, row.ready_at_ms) == (I.WAITING, "handed_back", 0, at_ms)
            assert (row.attempts[0].outcome, row.attempts[0].error) == (Outcome.KILLED, "Its node stopped.")
        assert not world.sessions()[0].open
        assert world.refused(c.Assign(keys[0], session)) == "stale"
        assert world.refused(c.CloseSession(session, ())) == "stale"
        assert world.refused(c.CloseSession(-1, ())) == "stale"
        again = world.session()  # the node comes back
        assert world.assign(keys[0], again) > tokens[1]

    def test_at_most_once_only_what_was_not_begun(self) -> None:
        world = World()
        session = world.session()
        keys = [ready(world, delivery=Delivery.AT_MOST_ONCE) for _ in range(3)]
        tokens = [world.assign(key, session) for key in keys]
        world.ok(c.Started(session, tokens[1], world.now))
        world.ok(c.CloseSession(session, (tokens[0],)))
        assert [world.instance(key).state for key in keys] == [I.FAILED, I.FAILED, I.WAITING]
        row = world.instance(keys[0])
        assert (row.reason, row.dead_letter) == ("handed_back", True)

    def test_what_was_asked_to_end_is_killed(self) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        token = world.assign(key, session)
        world.ok(c.Kill(key))
        world.ok(c.CloseSession(session, (token,)))
        assert world.instance(key).state is I.KILLED

    def test_a_run_that_stops_its_nodes_does_not_go_round_for_ever(self) -> None:
        world = World()
        key = ready(world, max_lost=1)
        for _ in range(HANDED_BACK_MAX + 1):
            session = world.session()
            world.ok(c.CloseSession(session, (world.assign(key, session),)))
        assert (world.instance(key).state, world.instance(key).lost) == (I.WAITING, 1)
        session = world.session()
        world.ok(c.CloseSession(session, (world.assign(key, session),)))
        assert (world.instance(key).state, world.instance(key).reason) == (I.FAILED, "max_lost")


class TestOneLost:
    """A worker says that one attempt is lost, and its session goes on."""

    def test_it_counts_as_lost(self) -> None:
        world = World()
        session = world.session()
        again, once, other = ready(world, max_lost=1), ready(world, delivery=Delivery.AT_MOST_ONCE), ready(world)
        world.assign(other, session)
        for key in (again, once):
            world.ok(c.LoseAttempt(session, world.assign(key, session), world.now, world.now - 5, "its keeper"))
        row = world.instance(again)
        assert (row.state, row.reason, row.lost, row.tried) == (I.WAITING, "worker_lost", 1, 0)
        attempt = row.attempts[0]
        assert (attempt.outcome, attempt.error, attempt.started_at_ms) == (Outcome.LOST, "its keeper", world.now - 5)
        assert (world.instance(once).state, world.instance(once).reason) == (I.FAILED, "lost")
        assert world.instance(other).live is not None
        world.ok(c.LoseAttempt(session, world.assign(again, session), world.now))
        assert (world.instance(again).state, world.instance(again).reason) == (I.FAILED, "max_lost")

    def test_stale_ones_are_dropped(self) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        token = world.assign(key, session)
        for number, wrong in ((session, token + 1), (session + 1, token), (-1, token), (session, -1)):
            assert world.refused(c.LoseAttempt(number, wrong, world.now)) == "stale"
        world.ok(c.Kill(key))
        world.ok(c.LoseAttempt(session, token, world.now))
        assert world.instance(key).state is I.KILLED
        assert world.refused(c.LoseAttempt(session, token, world.now)) == "stale"


class TestKill:
    @pytest.mark.parametrize("state", [I.WAITING, I.RETRYING])
    def test_what_has_not_started_ends_at_once(self, state: I) -> None:
        world = World()
        session = world.session()
        key = ready(world, retry=Retry((1_000,)))
        if state is I.RETRYING:
            world.run_once(key, session, Outcome.FAILED)
        world.ok(c.Kill(key))
        row = world.instance(key)
        assert (row.state, row.reason, row.dead_letter) == (I.KILLED, "killed", False)
        assert world.job(row.job_id).failures_in_a_row == 0

    @pytest.mark.parametrize("started", [False, True])
    def test_what_runs_is_asked(self, started: bool) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        token = world.assign(key, session)
        if started:
            world.ok(c.Started(session, token, world.now))
        for _ in range(2):  # asking again is harmless
            world.ok(c.Kill(key))
            assert world.actions == [KillAsked("n2", session, token)]
        row = world.instance(key)
        assert row.kill_asked
        assert row.live is not None
        assert world.end(key, Outcome.KILLED).state is I.KILLED

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT])
    def test_it_sticks_though_the_job_would_retry(self, outcome: Outcome) -> None:
        world = World()
        session = world.session()
        key = ready(world, retry=Retry((1_000,)))
        world.assign(key, session)
        world.ok(c.Kill(key))
        assert world.end(key, outcome).state is I.KILLED

    def test_it_came_too_late(self) -> None:
        world = World()
        key = ready(world)
        world.assign(key, world.session())
        world.ok(c.Kill(key))
        row = world.end(key)
        assert (row.state, row.reason) == (I.SUCCEEDED, None)

    def test_killed_and_lost_is_killed(self) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        world.assign(key, session)
        world.ok(c.Kill(key))
        world.ok(c.EndSession(session, 1))
        assert world.instance(key).state is I.KILLED

    def test_of_what_is_over_or_unknown(self) -> None:
        world = World()
        key = ready(world)
        world.run_once(key, world.session())
        assert world.refused(c.Kill(key)) == "illegal-transition"
        assert world.refused(c.Kill(b"\1" * 24)) == "not-found"


class TestRerun:
    def test_a_further_attempt_of_the_same_instance(self) -> None:
        world = World()
        session = world.session()
        key = ready(world, retry=Retry((1_000,)))
        world.run_once(key, session, Outcome.FAILED)
        world.ok(c.Kill(key))
        world.forward(60_000)
        world.ok(c.Rerun(key))
        row = world.instance(key)
        assert (row.state, row.tried, row.lost, row.kill_asked, row.reason) == (I.WAITING, 0, 0, False, None)
        assert row.ended_at_ms is None
        world.assign(key, session)
        assert [a.number for a in world.instance(key).attempts] == [1, 2]
        assert world.end(key, Outcome.FAILED).state is I.RETRYING

    def test_under_the_newest_revision(self) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        world.run_once(key, session)
        world.edit(world.job(world.instance(key).job_id), priority=9)
        world.ok(c.Rerun(key))
        assert world.instance(key).job_revision == 2

    def test_overlap_holds_for_it(self) -> None:
        world = World()
        session = world.session()
        key = ready(world)
        world.run_once(key, session)
        job = world.job(world.instance(key).job_id)
        world.fire(job)
        assert world.refused(c.Rerun(key)) == "illegal-transition"
        assert world.refused(c.Rerun(world.waiting(job.id)[0].key)) == "illegal-transition"
        world.edit(job, overlap=Overlap.QUEUE_ONE)
        world.ok(c.Rerun(key))
        assert world.instance(key).held

    def test_of_a_gap(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000))
        for _ in range(4):
            world.fire(job)
        world.run_once(world.waiting(job.id)[0].key, session)
        gap = next(r for r in world.instances(job.id) if r.state is I.SKIPPED)
        assert gap.gap_count == 3
        world.ok(c.Rerun(gap.key))
        assert world.instance(gap.key).gap_count == 3  # one run does not make the others unmissed
        world.run_once(gap.key, session)
        world.fire(job)
        assert world.job(job.id).succeeded == 2

    def test_replacing_while_retention_bites(self) -> None:
        """Replacing ends another run, and with that end retention looks for the oldest: not for this one."""
        world = World()
        session = world.session()
        job = world.create(overlap=Overlap.REPLACE)
        done = []
        for request in range(1, 5):
            world.forward(1)
            done.append(world.run_now(job, request))
            world.run_once(done[-1], session)
        world.run_now(job, 9)
        world.edit(job, retention=Retention(1, 1, 1000))
        answer = world.do(c.Rerun(done[0]))
        assert isinstance(answer, c.Accepted)
        assert world.instance(done[0]).state is I.WAITING

    def test_of_a_deleted_job(self) -> None:
        world = World()
        key = ready(world)
        world.run_once(key, world.session())
        world.ok(c.DeleteJob(world.instance(key).job_id))
        assert world.refused(c.Rerun(key)) == "not-found"


class TestSuspendAfter:
    def test_with_the_last_error_on_it(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000), suspend_after=2)
        for expected in (JobState.SCHEDULED, JobState.SUSPENDED):
            world.fire(job)
            key = world.waiting(job.id)[0].key
            world.assign(key, session)
            world.end(key, Outcome.FAILED, error="exit 3")
            assert world.job(job.id).state is expected
        row = world.job(job.id)
        assert row.error is not None
        assert "2 failures in a row: exit 3" in row.error
        world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
        assert (world.job(job.id).error, world.job(job.id).failures_in_a_row) == (None, 0)

    def test_a_success_counts_anew(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000), suspend_after=2)
        for outcome in (Outcome.FAILED, Outcome.SUCCEEDED, Outcome.FAILED):
            world.fire(job)
            world.run_once(world.waiting(job.id)[0].key, session, outcome)
        assert world.job(job.id).state is JobState.SCHEDULED


class TestStartDeadline:
    def test_nobody_took_it(self) -> None:
        world = World()
        key = ready(world)
        row = world.instance(key)
        assert row.wake_at_ms == world.now + world.meta.settings.start_deadline_ms
        world.forward(world.meta.settings.start_deadline_ms)
        world.ok(c.Wake(key, row.wake_at_ms))
        row = world.instance(key)
        assert (row.state, row.reason, row.dead_letter) == (I.SKIPPED, "start_deadline", False)
        assert world.job(row.job_id).active == 0

    def test_taken_in_time(self) -> None:
        world = World()
        key = ready(world)
        wake_at = world.instance(key).wake_at_ms
        assert wake_at is not None
        world.assign(key, world.session())
        assert world.refused(c.Wake(key, wake_at)) == "stale"

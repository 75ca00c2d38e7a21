"""GET /v1/jobs/{id}/explain: each reason for which a job does not run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.http.durations import format_time
from raftsched.core.commands import Assign, Ended, Fire, ScheduleJob, SetJobState, TriggerFire
from raftsched.core.ids import parse_instance, parse_job
from raftsched.core.model import Job, JobState, Outcome
from raftsched.core.rows import CALENDARS, JOBS
from raftsched.quantities import format_duration
from tests.support.local_api import Client, run
from tests.support.tokens import guarded, limited

HANDLER = {"exec": ["true"]}
MANUAL = {"trigger": {"manual": True}, "handler": HANDLER}
HOUR_MS = 3_600_000
TRACEBACK = 'Traceback (most recent call last):\n  File "job.py", line 3, in run\n    go()\nValueError: no paper\n'


class Jobs:
    """Jobs of a cluster with one node, which takes every run."""

    def __init__(self, call: Client) -> None:
        self.call = call
        self.cluster = call.cluster
        self.session = self.cluster.open_session("n1", "")

    async def ok(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = await self.call(method, path, body)
        assert status < 300, answer
        return answer

    async def create(self, name: str = "tick", **fields: Any) -> Any:
        return await self.ok("POST", "/v1/jobs", {**MANUAL, "name": name, **fields})

    async def run(self, name: str = "tick") -> str:
        made = await self.ok("POST", f"/v1/namespaces/default/jobs/{name}/run", {})
        return str(made["id"])

    def start(self, instance: str) -> tuple[int, int]:
        """(session, token)"""
        key = parse_instance(instance)
        assert key is not None
        (answer,) = self.cluster.apply(Assign(key, self.session))
        return self.session, getattr(answer, "number", 0)

    def end(self, instance: str, outcome: Outcome = Outcome.SUCCEEDED, error: str | None = None) -> None:
        now = self.cluster.clock.wall
        self.cluster.apply(Ended(*self.start(instance), outcome, now, now, error=error))

    def row(self, job: Any) -> Job:
        number = parse_job(job["id"])
        assert number is not None
        with self.cluster.store.read() as view:
            row = JOBS.get(view, number)
        assert row is not None
        return row

    def fire(self, job: Any) -> None:
        row = self.row(job)
        assert row.nominal_at_ms is not None
        self.cluster.apply(Fire(row.id, row.revision, row.nominal_at_ms))

    async def told(self, name: str = "tick") -> Any:
        return await self.ok("GET", f"/v1/namespaces/default/jobs/{name}/explain")

    async def obstacles(self, name: str = "tick") -> dict[str, str]:
        return {one["reason"]: one["text"] for one in (await self.told(name))["obstacles"]}

    async def notes(self, name: str = "tick") -> dict[str, str]:
        return {one["reason"]: one["text"] for one in (await self.told(name))["notes"]}


def of_jobs(tmp_path: Path, test: Callable[[Jobs], Awaitable[None]]) -> None:
    async def main(call: Client) -> None:
        await test(Jobs(call))

    run(tmp_path, main)


def at(jobs: Jobs, ms: int) -> str:
    return format_time(jobs.cluster.clock.wall + ms)


def test_a_job_that_runs_has_no_obstacle(tmp_path: Path) -> None:
    async def test(jobs: Jobs) -> None:
        job = await jobs.create(trigger={"every": "1h"})
        told = await jobs.told()
        assert told["obstacles"] == told["notes"] == []
        assert told["text"] == f"It is SCHEDULED, due at {at(jobs, HOUR_MS)}, in 1h."
        assert (told["id"], told["job"], told["state"]) == (job["id"], "default/tick", "SCHEDULED")
        assert told["next_fire_at"] == at(jobs, HOUR_MS)
        assert told == await jobs.ok("GET", f"/v1/jobs/{job['id']}/explain")

    of_jobs(tmp_path, test)


class TestItsState:
    async def test_paused_by_somebody_until_a_time(self, call: Client) -> None:
        who = await guarded(call)
        await who["editor"]("POST", "/v1/jobs", {**MANUAL, "name": "tick", "trigger": {"every": "1h"}})
        path = "/v1/namespaces/default/jobs/tick"
        await who["editor"]("POST", f"{path}/pause", {"until": format_time(call.cluster.clock.wall + HOUR_MS)})
        _, told = await who["viewer"]("GET", f"{path}/explain")
        now = call.cluster.clock.wall
        assert told["obstacles"][0] == {
            "reason": "paused",
            "text": f"editor paused it at {format_time(now)}. It is due again by itself at "
            f"{format_time(now + HOUR_MS)}, in 1h.",
        }
        assert told["text"].startswith("It is SUSPENDED. editor paused it at ")

    def test_paused_by_an_operation_and_edited_since(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(trigger={"every": "1h"})
            await jobs.ok("POST", "/v1/jobs:actions", {"action": "pause", "filter": {"namespace": "default"}})
            since = at(jobs, 0)
            jobs.cluster.clock.forward(1_000)
            said = "Nothing of it is due until somebody resumes it."
            assert (await jobs.obstacles())["paused"] == f"Somebody paused it at {since}. {said}"
            await jobs.ok("PATCH", "/v1/namespaces/default/jobs/tick", {"owner": "ana"})
            assert (await jobs.obstacles())["paused"] == f"Somebody paused it. {said}"

        of_jobs(tmp_path, test)

    def test_created_suspended_with_a_time_that_is_past(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            past = at(jobs, -HOUR_MS)
            await jobs.create(trigger={"at": past}, suspended=True)
            text = (await jobs.obstacles())["paused"]
            assert text.startswith("Somebody created it suspended at ")
            assert f" Its time, {past}, is past: it runs at once when it is resumed." in text

        of_jobs(tmp_path, test)

    def test_suspended_for_it_failed(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(suspend_after=1, retry={"delays": []})
            jobs.end(await jobs.run(), Outcome.FAILED, TRACEBACK)
            assert (await jobs.obstacles())["failing"] == (
                "Suspended after 1 failures in a row: ValueError: no paper. "
                "Nothing of it is due until somebody resumes it."
            )

        of_jobs(tmp_path, test)

    def test_suspended_for_its_times_cannot_be_computed(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            job = jobs.row(await jobs.create(trigger={"cron": "0 9 * * *"}))
            jobs.cluster.apply(
                SetJobState(job.id, JobState.SUSPENDED, error="Its next time cannot be computed: too long")
            )
            text = (await jobs.obstacles())["times"]
            assert text.startswith("It was suspended. Its next time cannot be computed: too long. Nothing of it is due")

        of_jobs(tmp_path, test)

    def test_expired_by_somebody(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(trigger={"every": "1h"})
            await jobs.ok("POST", "/v1/namespaces/default/jobs/tick/expire", {})
            found = await jobs.obstacles()
            assert found == {"expired": f"Somebody expired it at {at(jobs, 0)}: nothing of it is due any more."}

        of_jobs(tmp_path, test)

    def test_its_max_runs_are_used_up(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            job = await jobs.create(trigger={"every": "1h", "max_runs": 1})
            assert (await jobs.notes())["runs_left"] == "It has run 0 of the 1 times that its max_runs lets it."
            jobs.cluster.clock.forward(HOUR_MS)
            jobs.fire(job)
            jobs.end((await jobs.ok("GET", f"/v1/jobs/{job['id']}"))["last_instance"])
            assert await jobs.obstacles() == {"max_runs": "It has run once, as often as its max_runs says."}

        of_jobs(tmp_path, test)

    def test_its_last_run_goes_on(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            jobs.fire(await jobs.create(trigger={"in": "0s"}))
            assert list(await jobs.obstacles()) == ["ran", "overlap"]

        of_jobs(tmp_path, test)

    def test_its_ends_at_was(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            end = at(jobs, HOUR_MS)
            job = await jobs.create(trigger={"every": "1h", "ends_at": end})
            assert (await jobs.notes())["ends_at"] == f"Its trigger ends at {end}."
            jobs.cluster.clock.forward(HOUR_MS)
            jobs.fire(job)
            jobs.end((await jobs.ok("GET", f"/v1/jobs/{job['id']}"))["last_instance"])
            assert await jobs.obstacles() == {"ended": f"Its ends_at was {end}: nothing of it is due after that."}

        of_jobs(tmp_path, test)

    def test_it_was_due_once(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            job = await jobs.create(trigger={"in": "0s"})
            jobs.fire(job)
            jobs.end((await jobs.ok("GET", f"/v1/jobs/{job['id']}"))["last_instance"])
            assert await jobs.obstacles() == {"ran": "It was due once, and that run was made."}

        of_jobs(tmp_path, test)

    def test_it_was_due_before_it_was_there(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            jobs.fire(await jobs.create(trigger={"at": at(jobs, -HOUR_MS)}))
            assert ", which was past when the job was given it, 1h later; " in (await jobs.notes())["newest_run"]

        of_jobs(tmp_path, test)

    def test_its_rule_is_over(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            job = jobs.row(await jobs.create(trigger={"rrule": "FREQ=DAILY;COUNT=1", "starts_at": at(jobs, HOUR_MS)}))
            jobs.cluster.clock.forward(2 * HOUR_MS)
            jobs.cluster.apply(ScheduleJob(job.id, 1, None))
            assert await jobs.obstacles() == {"over": "Its trigger has no time any more."}

        of_jobs(tmp_path, test)


class TestItsTimes:
    def test_manual(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create()
            assert await jobs.obstacles() == {"manual": "It has no schedule: it runs when somebody starts it by hand."}

        of_jobs(tmp_path, test)

    def test_after_others(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create("a", suspended=True)
            await jobs.create(trigger={"after": {"all_of": ["a", "b"]}})
            assert await jobs.obstacles() == {
                "follows": "It has no schedule: it runs when a run of default/a, default/b each has succeeded.",
                "upstream": "The job default/a, which it follows, is NEW.",
                "upstream_missing": "There is no job default/b, which it follows.",
            }

        of_jobs(tmp_path, test)

    def test_its_next_time_is_not_computed_yet(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(trigger={"cron": "0 9 * * *"})
            assert list(await jobs.obstacles()) == ["unscheduled"]

        of_jobs(tmp_path, test)

    def test_a_fixed_delay_counts_from_the_end(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(trigger={"every": "1h", "mode": "fixed_delay"})
            job = await jobs.ok("GET", "/v1/namespaces/default/jobs/tick")
            jobs.cluster.clock.forward(HOUR_MS)
            jobs.fire(job)
            text = (await jobs.obstacles())["fixed_delay"]
            assert text == "Its next time counts from the end of the run that is active."

        of_jobs(tmp_path, test)

    def test_it_was_due_and_is_not_fired(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(trigger={"every": "1h"})
            due = at(jobs, HOUR_MS)
            jobs.cluster.clock.forward(HOUR_MS + 24_000)
            await jobs.ok("POST", "/v1/cluster/pause")
            assert await jobs.obstacles() == {
                "overdue": f"It was due at {due}, 24s ago, and the leader has not started it yet.",
                "cluster_paused": "The cluster is paused: nothing is fired, nothing is given to nodes.",
            }

        of_jobs(tmp_path, test)

    def test_its_calendar_excludes_all(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.ok("PUT", "/v1/calendars/never", {"weekdays": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]})
            job = jobs.row(await jobs.create(trigger={"cron": "0 9 * * *", "calendar": "never"}))
            with jobs.cluster.store.read() as view:
                revision = CALENDARS.get(view, "never")
            assert revision is not None
            jobs.cluster.apply(ScheduleJob(job.id, 1, None, revision.revision, True))
            assert await jobs.obstacles() == {"calendar": "All times ahead are excluded by the calendar never."}

        of_jobs(tmp_path, test)

    @pytest.mark.parametrize(("action", "does"), [("skip", "leaves out"), ("move", "moves")])
    def test_its_calendar_leaves_out_the_next_times(self, tmp_path: Path, action: str, does: str) -> None:
        async def test(jobs: Jobs) -> None:
            first = jobs.cluster.clock.wall // 86_400_000 * 86_400_000 + 86_400_000
            days = [format_time(first + day * 86_400_000)[:10] for day in range(2)]
            await jobs.ok("PUT", "/v1/calendars/off", {"dates": days})
            trigger = {"cron": "0 9,18 * * *", "calendar": "off", "calendar_action": action}
            job = jobs.row(await jobs.create(trigger=trigger))
            with jobs.cluster.store.read() as view:
                calendar = CALENDARS.get(view, "off")
            assert calendar is not None
            jobs.cluster.clock.wall = first
            jobs.cluster.apply(ScheduleJob(job.id, 1, first + 2 * 86_400_000 + 9 * HOUR_MS, calendar.revision))
            assert (await jobs.notes())["calendar_gap"] == (
                f"The calendar off {does} the next 4 times, from {days[0]}T09:00:00.000Z to {days[1]}T18:00:00.000Z."
            )

        of_jobs(tmp_path, test)

    def test_what_moves_its_times(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            start = at(jobs, 2 * HOUR_MS)
            job = await jobs.create(trigger={"every": "1h", "jitter": "10m", "starts_at": start})
            found, row = await jobs.notes(), jobs.row(job)
            assert found["starts_at"] == f"Its trigger begins at {start}, in 2h."
            assert row.fire_at_ms is not None
            assert row.nominal_at_ms is not None
            by = format_duration(row.fire_at_ms - row.nominal_at_ms)
            assert found["jitter"] == (
                f"Its trigger puts each time off by up to 10m of jitter: the next, {start}, by {by}."
            )

        of_jobs(tmp_path, test)

    def test_one_of_several_triggers_is_over(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            job = await jobs.create(
                triggers=[{"id": "once", "at": at(jobs, 1)}, {"id": "often", "every": "1h"}], trigger=None
            )
            jobs.cluster.clock.forward(1)
            row = jobs.row(job)
            assert row.nominal_at_ms is not None
            part = TriggerFire(0, row.nominal_at_ms)
            jobs.cluster.apply(Fire(row.id, row.revision, row.nominal_at_ms, triggers=(part,)))
            assert (await jobs.notes())["trigger_over"] == "Its trigger once has no time any more."

        of_jobs(tmp_path, test)

    def test_its_next_time_is_left_out(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(trigger={"every": "1h"})
            await jobs.ok("POST", "/v1/namespaces/default/jobs/tick/skip-next", {})
            assert (await jobs.notes())["skip_next"] == (
                f"Its times up to {at(jobs, HOUR_MS)} are left out: somebody asked for that."
            )

        of_jobs(tmp_path, test)


class TestWhatARunWouldWaitFor:
    def test_a_leader(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(trigger={"every": "1h"})
            jobs.cluster.leader = None
            assert list(await jobs.obstacles()) == ["no_leader"]

        of_jobs(tmp_path, test)

    @pytest.mark.parametrize(
        ("overlap", "then"),
        [
            ("forbid", "what comes due meanwhile is skipped."),
            ("queue_one", "one more waits behind it, and what comes due then is skipped."),
            ("queue_all", "what comes due meanwhile waits behind it."),
        ],
    )
    def test_its_own_run(self, tmp_path: Path, overlap: str, then: str) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(overlap=overlap, trigger={"every": "1h"})
            one = await jobs.run()
            assert await jobs.obstacles() == {
                "overlap": f"Its run {one} is active, and its overlap policy {overlap} lets no other start: {then}"
            }

        of_jobs(tmp_path, test)

    def test_a_permit_of_its_key(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            limits: dict[str, Any] = {
                "concurrency": {"key": "acme", "max": 1},
                "overlap": "allow",
                "trigger": {"every": "1h"},
            }
            await jobs.create("other", **limits)
            await jobs.create(**limits)
            assert await jobs.obstacles() == {}
            holder = await jobs.run("other")
            assert await jobs.obstacles() == {
                "key_full": f'It waits for the one permit of its key "acme", held by {holder}.'
            }

        of_jobs(tmp_path, test)

    def test_its_queue_and_its_namespace(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(overlap="allow", queue="slow", trigger={"every": "1h"})
            await jobs.ok("PUT", "/v1/queues/slow", {"max_running": 1})
            await jobs.ok("PUT", "/v1/namespaces/default", {"limits": {"max_running": 1}})
            jobs.start(await jobs.run())
            assert await jobs.obstacles() == {
                "queue_full": 'Its queue "slow" is full: 1 of 1 run.',
                "namespace_full": 'Its namespace "default" runs 1 of 1.',
            }
            await jobs.ok("PUT", "/v1/queues/slow", {"paused": True})
            assert (await jobs.obstacles())["queue_paused"] == 'Its queue "slow" is paused.'

        of_jobs(tmp_path, test)

    def test_a_node(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(placement={"labels": {"gpu": "a100"}}, trigger={"every": "1h"})
            found = await jobs.obstacles()
            assert list(found) == ["no_eligible_node"]
            assert found["no_eligible_node"].endswith("carries the label gpu=a100.")

        of_jobs(tmp_path, test)

    def test_a_free_slot(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(overlap="allow", trigger={"every": "1h"})
            await jobs.ok("PATCH", "/v1/nodes/n1", {"slots": 1})
            jobs.start(await jobs.run())
            assert list(await jobs.obstacles()) == ["no_free_slot"]

        of_jobs(tmp_path, test)

    def test_a_node_that_starts_something_as_the_leader_knows_it(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(trigger={"every": "1h"})
            jobs.cluster.troubles["n1"] = "no process"
            assert list(await jobs.obstacles()) == ["no_node_starts"]

        of_jobs(tmp_path, test)


class TestItsRuns:
    def test_how_the_newest_went(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(retry={"delays": []})
            one = await jobs.run()
            jobs.end(one, Outcome.FAILED, TRACEBACK)
            found = await jobs.notes()
            asked = f"Its newest run is {one}. Somebody started this run by hand at {at(jobs, 0)}. "
            assert found["newest_run"].startswith(f"{asked}It is FAILED after 1 attempt; the last, on n1 ")
            assert found["newest_run"].endswith(", failed: ValueError: no paper.")
            assert found["dead_letters"] == (
                "One of its runs is a dead letter, until somebody requeues or discards it."
            )
            jobs.end(await jobs.run(), Outcome.FAILED)
            assert (await jobs.notes())["dead_letters"].endswith(
                "2 of its runs are dead letters, until somebody requeues or discards them."
            )

        of_jobs(tmp_path, test)

    def test_no_more_is_looked_at_than_an_answer_may_cost(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("raftsched.api.jobs.explain_job.DEAD_MAX", 1)
        monkeypatch.setattr("raftsched.api.auth.audit_kept.LOOK_MAX", 1)

        async def test(jobs: Jobs) -> None:
            await jobs.create(retry={"delays": []})
            for _ in range(2):
                jobs.end(await jobs.run(), Outcome.FAILED)
            assert (await jobs.notes())["dead_letters"] == (
                "1 or more of its runs are dead letters, until somebody requeues or discards them."
            )
            await jobs.ok("POST", "/v1/namespaces/default/jobs/tick/expire", {})
            assert (await jobs.obstacles())["expired"].startswith("Somebody expired it at ")
            await jobs.create("other")
            await jobs.ok("POST", "/v1/namespaces/default/jobs/other/pause", {})
            since = (await jobs.ok("GET", "/v1/namespaces/default/jobs/tick"))["modified_at"]
            assert since in (await jobs.obstacles())["expired"], (
                "the job says when, where the audit does not reach back"
            )

        of_jobs(tmp_path, test)

    def test_for_what_the_newest_waits(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            await jobs.create(queue="slow")
            await jobs.ok("PUT", "/v1/queues/slow", {"paused": True})
            one = await jobs.run()
            said = (await jobs.notes())["newest_run"]
            assert said.startswith(f"Its newest run is {one}. Somebody started this run by hand ")
            assert said.endswith('It is WAITING. Its queue "slow" is paused.')

        of_jobs(tmp_path, test)

    def test_the_only_one_was_left_out(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            job = await jobs.create(trigger={"in": "1s"}, expires="1s")
            jobs.cluster.clock.forward(HOUR_MS)
            jobs.fire(job)
            text = (await jobs.notes())["newest_run"]
            assert text.count("was skipped: it had not started when it expired") == 1

        of_jobs(tmp_path, test)

    def test_what_was_skipped_since(self, tmp_path: Path) -> None:
        async def test(jobs: Jobs) -> None:
            job = await jobs.create(trigger={"every": "1h"})
            for _ in range(2):
                jobs.cluster.clock.forward(HOUR_MS)
                jobs.fire(job)
            text = (await jobs.notes())["skipped"]
            assert text.endswith(
                "was skipped: a run of the job was active, and the overlap policy forbid lets no other start beside it."
            )

        of_jobs(tmp_path, test)


class TestWhoMayAsk:
    async def test_upstream_jobs_of_other_namespaces_are_not_told_of(self, call: Client) -> None:
        who = await guarded(call)
        job = {**MANUAL, "trigger": {"after": {"job": "other/nothing"}}, "name": "tick"}
        await who["admin"]("POST", "/v1/jobs", job)
        _, told = await who["viewer"]("GET", "/v1/namespaces/default/jobs/tick/explain")
        assert "upstream_missing" in [one["reason"] for one in told["obstacles"]]
        only = await limited(who["admin"], "only", "viewer", "default")
        _, told = await only("GET", "/v1/namespaces/default/jobs/tick/explain")
        assert "upstream_missing" not in [one["reason"] for one in told["obstacles"]]

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/v1/jobs/0d3k5xw2a9f4m/explain", 404),
            ("/v1/namespaces/default/jobs/nothing/explain", 404),
            ("/v1/jobs/0d3k5xw2a9f4m/explain?why=1", 400),
        ],
    )
    async def test_what_is_refused(self, call: Client, path: str, status: int) -> None:
        assert (await call("GET", path))[0] == status

"""Why an instance ran then and there, or did not: each kind of wait and of end, and for every step its entry, its term
and its token."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from raftsched.api.http.durations import format_time
from raftsched.api.ports import ClusterStatus
from raftsched.api.runs.explain import explain, held_up
from raftsched.api.runs.parts_words import parts_words
from raftsched.api.runs.waiting import Obstacle, waits_for
from raftsched.bounds import HOUR_MS, MINUTE_MS
from raftsched.core import commands as c
from raftsched.core.commands import encode
from raftsched.core.ids import instance_text
from raftsched.core.model import Misfire, MisfirePolicy, Outcome, Overlap, Placement, Retry, StepKind, Verdict
from raftsched.core.subjects.access import Attributed
from raftsched.core.subjects.cluster import NodeRule
from raftsched.core.subjects.queue import Queue
from raftsched.core.tables import Table
from raftsched.surface.explain import ExplainOut
from tests.support.memory_view import T0, World, at, every, policy

SECOND = 1000
TRACEBACK = 'Traceback (most recent call last):\n  File "job.py", line 3, in run\n    go()\nValueError: no paper\n'
_encode = msgspec.msgpack.Encoder().encode


def status(leader: str | None = "n1") -> ClusterStatus:
    return ClusterStatus("n3", leader, 4, "follower", 9, 9, True)


def obstacle(
    world: World, key: bytes, leader: str | None = "n1", troubles: dict[str, str] | None = None
) -> Obstacle | None:
    row = world.instance(key)
    job = world.job(row.job_id)
    return waits_for(world.view, world.meta, status(leader), job, job.policy, row, world.now, troubles or {})


def told(world: World, key: bytes) -> ExplainOut:
    row = world.instance(key)
    job = world.find(row.job_id)
    return explain(row, job, None if job is None else job.policy, obstacle(world, key), world.now)


def blocked(world: World, key: bytes, leader: str | None = "n1") -> tuple[str, str]:
    found = obstacle(world, key, leader)
    assert found is not None
    return found.reason, found.text


def waits(found: ExplainOut) -> list[tuple[str, int, bool]]:
    """(reason, how long in ms, whether it is over)"""
    return [(w.reason, w.ms, w.to is not None) for w in found.waits]


def a_run(world: World, **fields: Any) -> bytes:
    """A manual run that waits."""
    return world.run_now(world.create(**fields))


class TestWhyThen:
    def test_on_time_with_jitter(self) -> None:
        world = World()
        job = world.create(every(HOUR_MS, jitter_ms=MINUTE_MS))
        key = world.fire(job).last_instance
        assert key is not None
        found = told(world, key)
        row = world.instance(key)
        assert found.why_then.made_by == "schedule"
        assert found.why_then.trigger == "every 1h, each delayed by up to 1m"
        assert found.why_then.jitter_ms == row.jitter_ms > 0
        assert found.why_then.fired_late_ms == 0
        assert "of jitter; it fired 0s later." in found.text

    def test_a_little_late_and_started_later(self) -> None:
        world = World()
        job = world.create(at(T0 + SECOND))
        session = world.session()
        world.forward(SECOND + 7)
        key = world.fire(job).last_instance
        assert key is not None
        world.assign(key, session)
        world.forward(5)
        world.end(key)
        then = told(world, key).why_then
        assert (then.fired_late_ms, then.started_late_ms) == (7, 12)
        assert "it fired 7ms later" in then.text

    @pytest.mark.parametrize("kind", [MisfirePolicy.ONCE, MisfirePolicy.ALL])
    def test_made_up_for(self, kind: MisfirePolicy) -> None:
        world = World()
        job = world.create(every(HOUR_MS), misfire=Misfire(kind, MINUTE_MS), overlap=Overlap.ALLOW)
        world.forward(3 * HOUR_MS + 30 * MINUTE_MS)
        world.fire(job)
        row = world.instances(job.id)[-1]
        found = told(world, row.key)
        assert found.why_then.made_by == "missed"
        assert "could not fire before" in found.text
        assert "30m later: later than its grace of 1m" in found.text
        assert f'"{kind.name.lower()}" runs' in found.text

    def test_catching_up(self) -> None:
        world = World()
        job = world.create(every(HOUR_MS), misfire=Misfire(MisfirePolicy.ALL, MINUTE_MS))
        world.forward(5 * HOUR_MS + 30 * MINUTE_MS)
        world.fire(job)
        first, second, *_, last = world.instances(job.id)
        reason, text = blocked(world, second.key)
        assert reason == "overlap"
        assert f"It starts after {instance_text(first.key)}:" in text
        assert text.endswith("the job catches up, one run after the other, and 4 runs are owed.")
        world.settings()
        session = world.session()
        for row in world.instances(job.id)[:3]:
            world.run_once(row.key, session)
        assert blocked(world, last.key)[1].endswith("and this run is owed.")

    def test_a_time_that_was_past(self) -> None:
        world = World()
        job = world.create(at(T0 - 47 * MINUTE_MS))
        world.forward(7)
        world.fire(job)
        (row,) = world.instances(job.id)
        found = told(world, row.key)
        assert "which was past when the job was given it, 47m later; it fired 7ms later" in found.text
        assert found.why_then.due_at == format_time(T0)
        assert found.why_then.fired_late_ms == 7

    def test_a_gap(self) -> None:
        world = World()
        job = world.create(every(HOUR_MS), misfire=Misfire(MisfirePolicy.SKIP, MINUTE_MS))
        world.forward(3 * HOUR_MS + 30 * MINUTE_MS)
        world.fire(job)
        (row,) = world.instances(job.id)
        found = told(world, row.key)
        assert found.gap is not None
        assert (found.gap.count, found.gap.reason, found.state) == (3, "misfire", "SKIPPED")
        assert found.why_then.made_by == "skipped"
        assert found.text.startswith("3 due times from 2025-11-20T02:00:00.000Z to ")
        assert "no leader or the cluster was paused" in found.text
        assert "the misfire policy is skip" in found.text
        assert found.steps[0].index == world.index

    def test_a_gap_of_overlap(self) -> None:
        world = World()
        job = world.create(every(HOUR_MS))
        world.fire(job)
        world.fire(job)
        row = world.instances(job.id)[-1]
        text = told(world, row.key).text
        assert text.startswith("The due time ")
        assert "a run of the job was active, and the overlap policy forbid lets no other start beside it" in text

    def test_a_gap_that_was_asked_for_also_after_it_was_run(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(MINUTE_MS))
        for _ in range(2):
            world.ok(c.SkipNext(job.id, world.job(job.id).nominal_at_ms or 0))
        key = world.instances(job.id)[0].key
        words = (
            "2 due times from 2025-11-20T01:01:00.000Z to 2025-11-20T01:02:00.000Z were skipped: somebody asked that"
        )
        assert told(world, key).text == f"{words} it be left out."
        world.ok(c.Rerun(key))
        world.run_once(key, session)
        assert told(world, key).text.startswith(f"{words} it be left out. It is SUCCEEDED after 1 attempt")

    def test_handed_back(self) -> None:
        world = World()
        session = world.session()
        job = world.create()
        key = world.run_now(job)
        token = world.assign(key, session)
        world.ok(c.CloseSession(session, (token,)))
        found = told(world, key)
        assert found.steps[-1].text == "attempt 1 ended on n2: its node stopped, and handed it back"
        assert found.waiting_for is not None

    def test_asked_for(self) -> None:
        world = World()
        found = told(world, a_run(world))
        assert found.why_then.made_by == "manual"
        assert found.why_then.fired_late_ms is None
        assert "Somebody started this run by hand" in found.text

    def test_after_an_edit_it_does_not_guess(self) -> None:
        world = World()
        job = world.create(every(HOUR_MS), misfire=Misfire(MisfirePolicy.ONCE, 0), overlap=Overlap.ALLOW)
        world.forward(2 * HOUR_MS + 1)
        key = world.fire(job).last_instance
        assert key is not None
        row, edited = world.instance(key), world.edit(job, trigger=every(7 * HOUR_MS))
        found = explain(row, edited, None, None, world.now)
        assert found.why_then.trigger is None
        assert found.why_then.misfire is None
        assert "edited since" in found.text
        assert "7h" not in found.text
        assert explain(row, None, None, None, world.now).job is None  # the job is gone


class TestWhyThere:
    def test_what_the_dispatcher_saw(self) -> None:
        world = World()
        key = a_run(world)
        session = world.session("n2")
        token = world.ok(c.Assign(key, session, Placement(3, 8, 2, 3))).number
        (there,) = told(world, key).why_there
        assert (there.node, there.session, there.token, there.attempt) == ("n2", session, token, 1)
        assert there.text == (
            "n2 was chosen: of the 2 nodes that could take it, it was the least busy (3 of 8 slots taken). "
            "1 other node could not take it. The leader's own node is used last."
        )

    def test_the_only_one(self) -> None:
        world = World()
        key = a_run(world)
        world.ok(c.Assign(key, world.session("n2"), Placement(0, 8, 1, 3)))
        (there,) = told(world, key).why_there
        assert there.text == (
            "n2 was chosen: no other node could take it (0 of 8 slots taken). The leader's own node is used last."
        )

    def test_a_cluster_of_one(self) -> None:
        world = World()
        key = a_run(world)
        world.ok(c.Assign(key, world.session("n1"), Placement(0, 8, 1, 1)))
        (there,) = told(world, key).why_there
        assert there.text == "n1 was chosen: no other node could take it (0 of 8 slots taken)."

    def test_not_noted(self) -> None:
        world = World()
        key = a_run(world)
        world.assign(key, world.session("n2"))
        (there,) = told(world, key).why_there
        assert there.eligible is None
        assert "not noted" in there.text


class TestSteps:
    def test_each_names_its_entry_its_term_and_its_token(self) -> None:
        world = World()
        key = a_run(world, retry=Retry((SECOND,)))
        first = world.index
        session = world.session("n2")
        token = world.assign(key, session)
        world.end(key, Outcome.FAILED)
        found = told(world, key)
        assert [(s.kind, s.index, s.token, s.attempt) for s in found.steps] == [
            ("created", first, None, None),
            ("assigned", first + 2, token, 1),
            ("ended", first + 3, token, 1),
            ("retry", first + 3, None, None),
        ]
        assert {s.term for s in found.steps} == {1}
        assert found.steps[1].text == f"attempt 1 was given to n2 under session {session}"
        assert found.steps[2].text == "attempt 1 ended on n2: failed"
        assert not found.steps_left_out

    def test_the_end(self) -> None:
        world = World()
        key = a_run(world)
        token = world.assign(key, world.session("n2"))
        world.end(key)
        found = told(world, key)
        assert found.steps[-1].text == "it is SUCCEEDED: attempt 1 on n2 succeeded"
        assert found.text.endswith(f"It is SUCCEEDED after 1 attempt; the last, on n2 with token {token}, succeeded.")
        assert found.waiting_for is None

    def test_the_end_has_the_line_of_the_error_that_says_what_happened(self) -> None:
        world = World()
        key = a_run(world)
        token = world.assign(key, world.session("n2"))
        world.end(key, Outcome.FAILED, error=TRACEBACK)
        text = told(world, key).text
        assert text.endswith(f"the last, on n2 with token {token}, failed: ValueError: no paper."), text

    def test_the_end_has_a_line_of_the_error_without_commands_for_a_terminal(self) -> None:
        world = World()
        key = a_run(world)
        token = world.assign(key, world.session("n2"))
        world.end(key, Outcome.FAILED)
        row = world.instance(key)
        row.attempts[-1].error = "exit code 3: no\x1b[2J paper.\nIn the printer."
        text = explain(row, None, None, None, world.now).text
        assert text.endswith(f"the last, on n2 with token {token}, failed: exit code 3: no paper."), text
        row.attempts[-1].error = "x" * 1_000
        assert explain(row, None, None, None, world.now).text.endswith(f" failed: {'x' * 200}.")

    def test_killed_while_it_waited_and_run_again(self) -> None:
        world = World()
        key = a_run(world)
        world.ok(c.Kill(key))
        assert told(world, key).text.endswith("It is KILLED: somebody asked for it.")
        world.ok(c.Rerun(key))
        found = told(world, key)
        assert [s.text for s in found.steps[1:]] == [
            "it came to its end: somebody asked for it",
            "somebody asked to run it again",
        ]

    def test_too_many_are_left_out_and_said_to_be(self) -> None:
        world = World()
        world.settings(steps_kept=5, attempts_kept=2)
        key = a_run(world)
        session = world.session()
        for _ in range(4):
            world.run_once(key, session)
            world.ok(c.Rerun(key))
        assert told(world, key).steps_left_out

    def test_every_kind_has_words(self) -> None:
        world = World()
        key = a_run(world)
        row = world.instance(key)
        for kind in StepKind:
            for detail in (None, "something"):
                step = msgspec.structs.replace(row.steps[0], kind=kind, detail=detail, token=77)
                row.steps.append(step)
        for shown in explain(row, None, None, None, world.now).steps:
            assert len(shown.text) > 10
            assert "None" not in shown.text


class TestWaits:
    def test_each_has_its_length(self) -> None:
        world = World()
        job = world.create(retry=Retry((SECOND,)), overlap=Overlap.QUEUE_ALL)
        session = world.session()
        first = world.run_now(job, 1)
        key = world.run_now(job, 2)
        world.forward(100)
        world.run_once(first, session)
        world.forward(20)
        token = world.assign(key, session)
        world.forward(3)
        world.ok(c.Started(session, token, world.now))
        world.forward(500)
        world.end(key, Outcome.FAILED)
        world.forward(SECOND)
        wake = world.instance(key).wake_at_ms
        assert wake is not None
        world.ok(c.Wake(key, wake))
        world.forward(9)
        found = told(world, key)
        assert waits(found) == [
            ("overlap", 100, True),
            ("worker", 20, True),
            ("start", 3, True),
            ("retry", SECOND, True),
            ("turn", 9, False),
        ]
        assert found.waits[-1].text == found.waiting_for.text if found.waiting_for else False

    def test_a_start_that_was_heard_of_with_the_end(self) -> None:
        world = World()
        key = a_run(world)
        session = world.session()
        token = world.assign(key, session)
        world.forward(500)
        world.ok(c.Ended(session, token, Outcome.SUCCEEDED, world.now - 496, world.now))
        assert waits(told(world, key)) == [("start", 4, True)]

    def test_a_start_that_was_heard_of_late(self) -> None:
        """Its keeper tells of it after a while only, for most runs are over by then."""
        world = World()
        key = a_run(world)
        session = world.session()
        token = world.assign(key, session)
        world.forward(212)
        world.ok(c.Started(session, token, world.now - 208))
        assert waits(told(world, key)) == [("start", 4, True)]

    @pytest.mark.parametrize(
        "how, reason, words",
        [
            ("lost", "worker_lost", "with n2, which was lost and had not been heard to start it"),
            ("stopped", "handed_back", "with n2, which stopped and had not started it"),
            ("not begun", "not_begun", "with n2, which did not start it"),
        ],
    )
    def test_a_worker_that_had_it_and_did_not_start_it(self, how: str, reason: str, words: str) -> None:
        world = World()
        job = world.create(every(HOUR_MS))
        key = world.fire(job).last_instance
        assert key is not None
        session, other = world.session(), world.session("n3")
        world.forward(8)
        token = world.assign(key, session)
        world.forward(11_900)
        if how == "lost":
            world.ok(c.EndSession(session, 1))
        elif how == "stopped":
            world.ok(c.CloseSession(session, ()))
        else:
            world.ok(c.Ended(session, token, Outcome.KILLED, None, world.now, begun=False))
        world.forward(20)
        world.assign(key, other)
        world.forward(4)
        world.end(key)
        found = told(world, key)
        assert waits(found) == [("worker", 8, True), (reason, 11_900, True), ("worker", 20, True), ("start", 4, True)]
        assert found.waits[1].text == words
        assert found.why_then.started_late_ms == sum(wait.ms for wait in found.waits)

    def test_a_limited_queue_and_a_leader_change_are_named(self) -> None:
        world = World()
        key = a_run(world)
        world.forward(50)
        world.assign(key, world.session())
        row = world.instance(key)
        row.attempts[0].queue = "slow"
        row.steps[1] = msgspec.structs.replace(row.steps[1], term=3)
        (wait, _) = explain(row, None, None, None, world.now).waits
        assert 'in the limited queue "slow"' in wait.text
        assert "from term 1 to 3" in wait.text


class TestHowItGoes:
    def running(self, **fields: Any) -> tuple[World, bytes, int]:
        world = World()
        key = a_run(world, **fields)
        session = world.session("n2")
        token = world.assign(key, session)
        world.ok(c.Started(session, token, world.now))
        return world, key, token

    def test_one_that_was_asked_to_end(self) -> None:
        world, key, _ = self.running()
        world.forward(SECOND)
        world.ok(c.Kill(key))
        world.forward(SECOND)
        text = told(world, key).text
        assert f"It is RUNNING on n2. It was asked to end at {format_time(world.now - SECOND)}: somebody asked" in text
        assert "SIGKILL 5s later" in text

    def test_one_that_is_past_its_timeout(self) -> None:
        world, key, _ = self.running(timeout_ms=2 * SECOND)
        world.forward(SECOND)
        assert told(world, key).text.endswith("It is RUNNING on n2.")
        world.forward(2 * SECOND)
        text = told(world, key).text
        assert f"It is past its timeout, which was over at {format_time(world.now - SECOND)}." in text

    def test_one_on_a_node_that_is_not_connected(self) -> None:
        world, key, _ = self.running()
        row = world.instance(key)
        found = explain(row, None, None, None, world.now, "n3")
        assert "It is RUNNING on n2. n2 is not connected with n3, which was asked: it may be down." in found.text

    def test_one_on_a_node_that_is_silent(self) -> None:
        world, key, _ = self.running()
        row = world.instance(key)
        found = explain(row, None, None, None, world.now, "n3", world.now - 7_300)
        assert "It is RUNNING on n2. The leader last heard of n2 7s ago. If the leader hears nothing" in found.text
        for cut_off in (None, "n3"):  # a connection that is being made anew is no news when the leader hears of it
            found = explain(row, None, None, None, world.now, cut_off, world.now - 600)
            assert found.text.endswith("It is RUNNING on n2.")


class TestWhatItWaitsForNow:
    def test_a_node_that_has_no_session(self) -> None:
        world = World()
        key = a_run(world)
        session = world.session("n2")
        world.ok(c.CloseSession(session, ()))
        reason, text = blocked(world, key)
        assert reason == "no_eligible_node"
        assert text.startswith("n2 could take it, but has no session at the moment")

    def test_nothing_when_it_runs_or_is_over(self) -> None:
        world = World()
        key = a_run(world)
        session = world.session("n2")
        token = world.assign(key, session)
        assert blocked(world, key)[0] == "start"
        world.ok(c.Started(session, token, world.now))
        assert obstacle(world, key) is None
        assert told(world, key).text.endswith("It is RUNNING on n2.")
        world.end(key)
        assert obstacle(world, key) is None

    def test_a_leader(self) -> None:
        world = World()
        assert blocked(world, a_run(world), leader=None)[0] == "no_leader"

    def test_another_run_of_its_job(self) -> None:
        world = World()
        job = world.create(at(T0), overlap=Overlap.QUEUE_ALL)
        first = world.fire(job).last_instance
        assert first is not None
        world.run_now(job, 1)
        last = world.run_now(job, 2)
        reason, text = blocked(world, last)
        assert reason == "overlap"
        assert f"It starts after {instance_text(first)}:" in text
        assert "; 1 more of its job waits in front of it" in text

    def test_its_retry(self) -> None:
        world = World()
        key = a_run(world, retry=Retry((90 * SECOND,)))
        world.assign(key, world.session())
        world.end(key, Outcome.FAILED)
        world.forward(SECOND)
        reason, text = blocked(world, key)
        assert reason == "retry"
        assert text.startswith("Its last attempt failed. The next one may start at ")
        assert text.endswith("in 1m29s.")

    def test_its_retry_says_what_went_wrong(self) -> None:
        world = World()
        key = a_run(world, retry=Retry((90 * SECOND,)))
        world.assign(key, world.session())
        world.end(key, Outcome.FAILED, error=TRACEBACK)
        assert blocked(world, key)[1].startswith("Its last attempt failed: ValueError: no paper. The next one may")

    def test_what_put_it_off(self) -> None:
        world = World()
        key = a_run(world)
        session = world.session()
        token = world.assign(key, session)
        says: dict[str, Any] = {"error": "mirror down", "verdict": Verdict.SNOOZE, "delay_ms": 600_000}
        world.ok(c.EndedWithReport(session, token, Outcome.FAILED, world.now, world.now, **says))
        reason, text = blocked(world, key)
        assert reason == "snoozed"
        assert text.startswith("Its last attempt put it off: mirror down. The next one may start at ")
        assert text.endswith("in 10m.")

    def test_a_pause_of_the_cluster(self) -> None:
        world = World()
        key = a_run(world)
        world.session()
        world.view.put(Table.META, b"meta", _encode(_with(world.meta, paused=True)))
        assert blocked(world, key)[0] == "cluster_paused"

    @pytest.mark.parametrize(
        ("limits", "reason", "says"),
        [
            ({"paused": True}, "queue_paused", "is paused"),
            ({"max_running": 2, "running": 2}, "queue_full", "2 of 2 run"),
            (
                {"rate_count": 2, "rate_period_ms": 10 * SECOND, "arrival_ns": (T0 + 8 * SECOND) * 1_000_000},
                "queue_rate",
                "lets 2 start in 10s; the next may start at 2025-11-20T01:00:03.000Z, in 3s",
            ),
            ({"max_running": 2, "running": 1, "rate_count": 2, "rate_period_ms": 10 * SECOND}, "turn", "first in line"),
        ],
    )
    def test_its_queue(self, limits: dict[str, Any], reason: str, says: str) -> None:
        world = World()
        key = a_run(world, queue="slow")
        world.session()
        world.view.put(Table.QUEUES, b"slow", _encode(Queue(name="slow", lane=0, **limits)))
        found, text = blocked(world, key)
        assert found == reason
        assert says in text

    def test_a_node_that_can(self) -> None:
        world = World()
        job = world.create(required_capability="exec", node_labels=(("disk", "ssd"),))
        key = world.run_now(job)
        assert "No node has an open session" in blocked(world, key)[1]
        world.session("n2")
        assert blocked(world, key) == (
            "no_eligible_node",
            'No node with the handler "exec" carries the label disk=ssd.',
        )
        rule = NodeRule(labels=(("disk", "ssd"),))
        world.view.put(Table.NODE_RULES, b"n2", _encode(rule))
        assert blocked(world, key)[0] == "turn"
        world.view.put(Table.NODE_RULES, b"n2", _encode(NodeRule(labels=rule.labels, drained=True)))
        assert blocked(world, key) == ("no_eligible_node", "Every node that could take it is drained: n2.")

    def test_a_handler(self) -> None:
        world = World()
        world.session("n2")
        key = a_run(world, required_capability="http")
        assert blocked(world, key) == ("no_eligible_node", 'No node has the handler "http".')

    def test_every_node_that_could_take_it_starts_nothing(self) -> None:
        world = World()
        world.session("n2")
        job = world.create(every(HOUR_MS), required_capability="exec")
        world.fire(job)
        key = world.waiting(job.id)[0].key
        found = obstacle(world, key, troubles={"n2": "no process", "n3": "no process"})
        assert found is not None
        assert (found.reason, "n2 (no process)" in found.text, "n3" in found.text) == ("no_node_starts", True, False)

    def test_who_could_take_it_has_no_session(self) -> None:
        world = World()
        world.ok(c.EndSession(world.session("n2"), 1))
        job = world.create(every(HOUR_MS), required_capability="exec")
        world.fire(job)
        key = world.waiting(job.id)[0].key
        assert blocked(world, key)[1].startswith("n2 could take it, but has no session")
        found = obstacle(world, key, troubles={"n2": "it waits for 7 (cat)"})
        assert found is not None
        assert found.text.startswith("n2 (it waits for 7 (cat)) could take it, but has no session")

    def test_labels_that_no_node_carries_together(self) -> None:
        world = World()
        world.session("n2")
        world.session("n3")
        for node, label in (("n2", "a"), ("n3", "b")):
            world.view.put(Table.NODE_RULES, node.encode(), _encode(NodeRule(labels=((label, "1"),))))
        key = a_run(world, node_labels=(("a", "1"), ("b", "1")))
        assert blocked(world, key)[1] == "No node carries all of the labels a=1 and b=1 together."

    def test_a_free_slot(self) -> None:
        world = World()
        busy = [a_run(world) for _ in range(2)]
        key = a_run(world)
        leader, follower = world.session("n1", slots=1), world.session("n2", slots=1)
        world.assign(busy[0], follower)
        assert blocked(world, key) == (
            "no_free_slot",
            "Every node that can take it is busy: n2 (1 of 1 slots).",
        ), "the leader takes nothing while another node can, busy or not"
        assert blocked(world, key, leader="n3")[0] == "turn"
        world.assign(busy[1], leader)
        assert "n1 (1 of 1 slots), n2 (1 of 1 slots)" in blocked(world, key, leader="n3")[1]

    def test_its_turn(self) -> None:
        world = World()
        world.session("n2")
        job = world.create(overlap=Overlap.ALLOW)
        key = world.run_now(job, 1)
        urgent = world.run_now(job, 2, priority=9)
        assert blocked(world, urgent)[1].startswith("It is the first in line")
        assert blocked(world, key)[1].startswith("It is number 2 in line")

    def test_its_conditions(self) -> None:
        world = World()
        key = a_run(world)
        row = world.instance(key)
        row.checking = True
        row.wake_at_ms = world.now + 5 * SECOND
        row.checks_end_at_ms = world.now + HOUR_MS
        row.error = "no file matches /data/*.csv."
        found = waits_for(world.view, world.meta, status(), world.job(row.job_id), policy(), row, world.now)
        assert found is not None
        assert found.reason == "conditions"
        assert "no file matches /data/*.csv; they are looked at again at " in found.text
        assert found.text.endswith("in 1h.")
        row.wake_at_ms = row.checks_end_at_ms  # for a job: nothing is looked at before it succeeds
        found = waits_for(world.view, world.meta, status(), world.job(row.job_id), policy(), row, world.now)
        assert found is not None
        assert "looked at again" not in found.text

    def test_a_row_that_a_node_has_not_applied_yet_is_not_gone(self) -> None:
        world = World()
        key = a_run(world)
        row = world.instance(key)
        row.checking = True
        row.error = "n2 does not look: the job's definition is gone."
        found = waits_for(world.view, world.meta, status(), world.job(row.job_id), policy(), row, world.now)
        assert found is not None
        assert found.text == "Its conditions are not met: a node was asked before it had heard of this run."

    def test_the_node_that_saw_its_paths(self) -> None:
        world = World()
        key = a_run(world)
        world.session("n2")
        row = world.instance(key)
        row.only_on = "n3"
        found = waits_for(world.view, world.meta, status(), world.job(row.job_id), policy(), row, world.now)
        assert found is not None
        assert found.reason == "node_gone"


def _with(row: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(row, **fields)


def test_when_it_expires_and_what_it_waited_for() -> None:
    world = World()
    job = world.create(expires_ms=600_000)
    key = world.run_now(job)
    row = world.instance(key)
    assert row.expires_at_ms is not None
    obstacle = Obstacle("turn", "It is the first in line.")
    waits = explain(row, world.job(job.id), world.job(job.id).policy, obstacle, world.now).text
    assert f"Unless it starts before {format_time(row.expires_at_ms)} it is skipped" in waits
    world.now = row.expires_at_ms
    world.ok(c.Wake(key, row.expires_at_ms))
    ended = explain(world.instance(key), world.job(job.id), None, None, world.now).text
    assert ended.endswith("It is SKIPPED: it expired. It had not started within 10m.")


def test_an_end_without_a_start_says_what_it_waited_for() -> None:
    world = World()
    job = world.create(expires_ms=600_000, queue="slow")
    world.ok(c.PutQueue("slow", None, None, 0, True))
    key = world.run_now(job)
    expires = world.instance(key).expires_at_ms
    assert expires is not None
    world.now = expires
    world.ok(c.Wake(key, expires))
    assert told(world, key).text.endswith(
        "It is SKIPPED: it expired. It had not started within 10m: its queue slow was paused."
    )


class TestOutages:
    """What fires late says whether nobody led, or the cluster was paused."""

    def fired(self, world: World, late_ms: int, **fields: Any) -> bytes:
        job = world.create(every(HOUR_MS), **fields)
        world.forward(HOUR_MS + late_ms)
        if world.meta.paused:
            world.ok(Attributed(Raw(encode(c.PauseCluster(False))), 0, "", "settings_resume"))
        else:
            world.ok(c.OpenLeadership(2, "n2"))
        world.forward(300)
        key = world.fire(job).last_instance
        assert key is not None
        return key

    def said(self, world: World, key: bytes) -> ExplainOut:
        row = world.instance(key)
        job = world.job(row.job_id)
        return explain(row, job, job.policy, None, world.now, outage=held_up(world.view, row))

    def test_one_that_fired_late(self) -> None:
        world = World()
        key = self.fired(world, 24_117)
        due, led = format_time(T0 + HOUR_MS), format_time(T0 + HOUR_MS + 24_117)
        assert (
            f"; it fired 24s417ms later, for nobody led from {due} at the latest to {led}, when n2 came to lead in "
            "term 2."
        ) in self.said(world, key).text

    def test_one_that_is_made_up_for(self) -> None:
        world = World()
        key = self.fired(world, 30 * MINUTE_MS, misfire=Misfire(MisfirePolicy.ONCE, MINUTE_MS))
        assert ", for nobody led from 2025-11-20T02:00:00.000Z at the latest to " in self.said(world, key).text

    def test_a_gap(self) -> None:
        world = World()
        job = world.create(every(HOUR_MS), misfire=Misfire(MisfirePolicy.SKIP, MINUTE_MS))
        world.forward(3 * HOUR_MS + 30 * MINUTE_MS)
        world.ok(c.OpenLeadership(2, "n2"))
        world.ok(c.OpenLeadership(4, "n1"))
        world.fire(job)
        (row,) = world.instances(job.id)
        found = self.said(world, row.key)
        assert found.gap is not None
        for text in (found.gap.text, found.text):
            assert "nothing could fire then, for nobody led from 2025-11-20T02:00:00.000Z at the latest to " in text
            assert "; the leader changed once more, to n1 in term 4 at " in text

    def test_a_pause_of_the_cluster(self) -> None:
        world = World()
        world.ok(Attributed(Raw(encode(c.PauseCluster(True))), 0, "", "settings_pause"))
        key = self.fired(world, MINUTE_MS)
        text = self.said(world, key).text
        assert f"for the cluster was paused from {format_time(T0)} to {format_time(T0 + HOUR_MS + MINUTE_MS)}." in text

    def test_what_was_before_it_was_due_is_no_reason(self) -> None:
        world = World()
        world.ok(c.OpenLeadership(2, "n2"))
        job = world.create(every(HOUR_MS))
        world.forward(HOUR_MS + MINUTE_MS)
        key = world.fire(job).last_instance
        assert key is not None
        assert self.said(world, key).text.endswith("it fired 1m later. It is WAITING.")


class TestParts:
    def split(self, world: World, *targets: str, **fields: Any) -> tuple[bytes, list[bytes]]:
        """The parent and its parts."""
        job = world.create(on_all=True, **fields) if targets else world.create(shards=4, **fields)
        key = world.run_now(job)
        world.ok(c.Split(key, targets))
        parent = world.instance(key)
        assert parent.parts is not None
        return key, [parent.parts.key(parent, index) for index in range(parent.parts.total)]

    def said(self, world: World, key: bytes) -> str:
        row = world.instance(key)
        words = parts_words(world.view, row)
        return explain(row, None, None, obstacle(world, key), world.now, parts=words).text

    def test_a_part_that_failed(self) -> None:
        world = World()
        session = world.session()
        key, parts = self.split(world)
        for part in parts:
            world.assign(part, session)
            world.end(part, Outcome.SUCCEEDED if part != parts[2] else Outcome.FAILED, error="exit code 1")
        assert self.said(world, key).endswith("It is FAILED: 3 of 4 parts succeeded, part 2 failed: exit code 1.")

    def test_all_that_succeeded(self) -> None:
        world = World()
        session = world.session()
        key, parts = self.split(world)
        for part in parts:
            world.run_once(part, session)
        assert self.said(world, key).endswith("It is SUCCEEDED: all 4 parts succeeded.")

    def test_parts_that_run_and_wait(self) -> None:
        world = World()
        session = world.session("n2")
        key, parts = self.split(world)
        world.run_once(parts[0], session)
        token = world.assign(parts[1], session)
        world.assign(parts[2], session)
        world.ok(c.Started(session, token, world.now))
        assert obstacle(world, key) is None
        assert self.said(world, key).endswith(
            "It is RUNNING: 1 of 4 parts succeeded; part 1 runs on n2; part 2 is about to start on n2; part 3 waits."
        )

    def test_parts_that_all_wait_say_for_what(self) -> None:
        world = World()
        session = world.session("n2")
        key, parts = self.split(world, required_capability="http")
        world.run_once(parts[0], session)
        assert blocked(world, key) == (
            "no_eligible_node",
            'It waits for part 1, as 2 more parts do: No node has the handler "http".',
        )
        assert "It is RUNNING: 1 of 4 parts succeeded; part 1, part 2, part 3 wait. It waits" in self.said(world, key)

    def test_a_part_for_a_node_that_is_gone(self) -> None:
        world = World()
        sessions = [world.session("n2"), world.session("n3")]
        key, parts = self.split(world, "n2", "n3")
        world.run_once(parts[1], sessions[1])
        world.ok(c.EndSession(sessions[0], 1))
        reason, text = blocked(world, key)
        assert reason == "node_gone"
        assert text.startswith("It waits for the part on n2: This part is for n2, which has no session at the moment")
        assert "It is RUNNING: 1 of 2 parts succeeded; the part on n2 waits. It waits for" in self.said(world, key)

    def test_one_that_was_killed(self) -> None:
        world = World()
        session = world.session()
        key, parts = self.split(world)
        world.run_once(parts[0], session)
        world.assign(parts[1], session)
        world.ok(c.Kill(key))
        wake = world.instance(key).wake_at_ms
        assert wake is not None
        world.ok(c.Wake(key, wake))
        assert "part 3 was killed: somebody asked for it; part 1 is about to start on n2. It was asked to end at " in (
            self.said(world, key)
        )
        world.end(parts[1], Outcome.KILLED)
        assert "It is KILLED: somebody asked for it; 1 of 4 parts succeeded, part 1 was killed: " in self.said(
            world, key
        )

    def test_no_more_are_looked_at_than_an_answer_may_cost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftsched.api.runs.parts_words.LOOK_MAX", 2)
        monkeypatch.setattr("raftsched.api.runs.waiting.PARTS_LOOKED", 2)
        world = World()
        key, _ = self.split(world)
        assert obstacle(world, key) is None
        assert self.said(world, key).endswith(
            "none of 4 parts succeeded; part 0, part 1 wait; 2 more are not looked at here, or not made yet."
        )

    def test_no_more_are_named_than_one_reads(self) -> None:
        world = World()
        session = world.session()
        job = world.create(shards=9)
        key = world.run_now(job)
        world.ok(c.Split(key))
        parent = world.instance(key)
        assert parent.parts is not None
        for index in range(9):
            world.run_once(parent.parts.key(parent, index), session, Outcome.TIMED_OUT)
        assert self.said(world, key).endswith(
            "none of 9 parts succeeded, "
            + "; ".join(f"part {index} took longer than its timeout" for index in range(5))
            + "; 4 more did not succeed."
        )

"""Queues with limits: exact in apply, whatever the leader proposes. Lanes of READY; ageing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.core import commands as c
from raftsched.core.actions import AttemptAssigned, InstanceReady, QueueChanged
from raftsched.core.model import InstanceState as I
from raftsched.core.model import Outcome, Overlap, Retry, StepKind
from raftsched.core.rows import decode_queue
from raftsched.core.rules.admission import blocked_reason, take, unblocked_at_ms
from raftsched.core.subjects.queue import Queue
from raftsched.core.tables import LANE_FREE, LANE_NOBODY, Table, from_lane, from_ready
from tests.support.memory_view import T0, World, ended, every, policy

SECOND = 1_000


def queue(world: World, name: str = "q") -> Queue:
    raw = world.view.get(Table.QUEUES, name.encode())
    assert raw is not None
    return decode_queue(raw)


def ready(world: World, count: int, name: str = "q", **fields: object) -> list[bytes]:
    job = world.create(overlap=Overlap.ALLOW, queue=name, **fields)
    return [world.run_now(job, request) for request in range(1, count + 1)]


class TestMaxRunning:
    def test_is_exact(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", max_running=2))
        first, second, third = ready(world, 3)
        world.assign(first, session)
        world.assign(second, session)
        assert world.refused(c.Assign(third, session)) == "queue-full"
        assert queue(world).running == 2
        world.end(first)
        world.assign(third, session)

    def test_in_one_entry_as_well(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", max_running=2))
        keys = ready(world, 4)
        answers = world.run(*[c.Assign(key, session) for key in keys])
        assert [isinstance(a, c.Accepted) for a in answers] == [True, True, False, False]

    def test_of_others_none(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", max_running=1))
        for key in ready(world, 3, "other"):
            world.assign(key, session)
            assert world.actions[-1] == AttemptAssigned("n2", session, world.meta.last_token, key)

    @pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.KILLED, None])
    def test_an_end_of_any_kind_makes_room(self, outcome: Outcome | None) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", max_running=1))
        (key,) = ready(world, 1, retry=Retry((SECOND,)))
        token = world.assign(key, session)
        if outcome is None:
            world.ok(c.EndSession(session, 1))
        else:
            world.end(key, outcome)
        assert ended(world) == [("n2", session, token, key, "q")]
        assert queue(world).running == 0

    def test_what_ran_before_the_queue_had_limits_counts(self) -> None:
        world = World()
        session = world.session()
        first, second, third = ready(world, 3)
        world.assign(first, session)
        world.assign(second, session)
        (other,) = ready(world, 1, "other")
        world.assign(other, session)
        world.ok(c.PutQueue("q", max_running=2))
        assert queue(world).running == 2
        assert world.refused(c.Assign(third, session)) == "queue-full"
        world.end(first)
        world.assign(third, session)

    def test_deleted_and_made_anew_it_counts_what_runs(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", max_running=1))
        first, second = ready(world, 2)
        world.assign(first, session)
        world.ok(c.DeleteQueue("q"))
        world.assign(second, session)
        world.ok(c.PutQueue("q", max_running=3))
        assert queue(world).running == 2
        world.end(first)
        world.end(second)
        assert queue(world).running == 0

    def test_a_run_keeps_the_queue_of_its_revision(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", max_running=1))
        world.ok(c.PutQueue("r", max_running=1))
        (key,) = ready(world, 1)
        job = world.job(world.instance(key).job_id)
        world.edit(job, queue="r")
        world.assign(key, session)
        assert (queue(world).running, queue(world, "r").running) == (1, 0)
        world.end(key)
        assert queue(world).running == 0


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (c.PutQueue("q", paused=True), "was paused"),
        (c.PutQueue("q", max_running=1), "was full"),
        (c.PutQueue("q", rate_count=1, rate_period_ms=86_400_000), "had started as many as its rate allows"),
    ],
)
def test_what_is_given_up_says_that_its_queue_held_it_up(limits: c.PutQueue, words: str) -> None:
    world = World()
    session = world.session()
    (first,) = ready(world, 1)
    world.ok(limits)
    if not limits.paused:
        world.assign(first, session)
    job = world.create(every(SECOND), queue="q")
    world.fire(job)
    (row,) = world.waiting(job.id)
    assert row.wake_at_ms is not None
    world.now = row.wake_at_ms
    world.ok(c.Wake(row.key, row.wake_at_ms))
    assert world.instance(row.key).error == f"No node could take it before its start deadline: its queue q {words}."


class TestRate:
    def test_a_bucket_that_fills_again_evenly(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", rate_count=3, rate_period_ms=3 * SECOND))
        keys = ready(world, 6)
        for key in keys[:3]:
            world.assign(key, session)
        assert world.refused(c.Assign(keys[3], session)) == "queue-rate"
        world.forward(SECOND - 1)
        assert world.refused(c.Assign(keys[3], session)) == "queue-rate"
        world.forward(1)
        world.assign(keys[3], session)
        assert world.refused(c.Assign(keys[4], session)) == "queue-rate"

    @pytest.mark.parametrize("ahead_ms", [300, 60_000])
    def test_clocks_that_differ_a_little_give_no_second_burst(self, ahead_ms: int) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", rate_count=1, rate_period_ms=SECOND))
        first, second = ready(world, 2)
        world.forward(ahead_ms)
        world.assign(first, session)
        world.forward(-ahead_ms)
        assert world.refused(c.Assign(second, session)) == "queue-rate"
        world.forward(ahead_ms + SECOND)
        world.assign(second, session)

    def test_a_clock_that_was_far_ahead_does_not_shut_it(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", rate_count=1, rate_period_ms=SECOND))
        first, second = ready(world, 2)
        world.forward(86_400_000)
        world.assign(first, session)
        world.forward(-86_400_000)
        world.assign(second, session)

    def test_another_rate_starts_with_a_full_bucket_and_the_same_one_does_not(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", rate_count=1, rate_period_ms=SECOND))
        first, second = ready(world, 2)
        world.assign(first, session)
        world.ok(c.PutQueue("q", max_running=7, rate_count=1, rate_period_ms=SECOND))
        assert world.refused(c.Assign(second, session)) == "queue-rate"
        world.ok(c.PutQueue("q", rate_count=1, rate_period_ms=2 * SECOND))
        world.assign(second, session)

    @pytest.mark.slow
    @given(
        st.integers(1, 200),
        st.integers(1_000, 60_000),
        st.lists(st.integers(0, 3_000), min_size=1, max_size=300),
    )
    def test_never_more_than_the_burst_and_what_has_filled_again(
        self, count: int, period: int, gaps: list[int]
    ) -> None:
        """Whoever asks as often as he likes: in any span, `count` and what the span has filled again."""
        row = Queue(name="q", lane=1, rate_count=count, rate_period_ms=period)
        now = T0
        starts: list[int] = []
        for gap in gaps:
            now += gap
            while blocked_reason(row, now) is None:
                take(row, now)
                starts.append(now)
        assert starts[0] == T0 + gaps[0]
        for i, start in enumerate(starts):
            for j in range(i, len(starts)):
                assert j - i + 1 <= count + (starts[j] - start) * count / period + 1e-6

    @given(st.integers(1, 1_000_000), st.integers(1_000, 86_400_000))
    def test_opens_when_it_says(self, count: int, period: int) -> None:
        row = Queue(name="q", lane=1, rate_count=count, rate_period_ms=period)
        for _ in range(min(count, 100)):
            take(row, T0)
        at = unblocked_at_ms(row, T0)
        assert blocked_reason(row, at) is None
        if at > T0:
            assert blocked_reason(row, at - 1) == "rate"

    def test_what_is_on_its_way_counts_too(self) -> None:
        row = Queue(name="q", lane=1, rate_count=3, rate_period_ms=3 * SECOND, max_running=3)
        assert blocked_reason(row, T0, ahead=2) is None
        assert blocked_reason(row, T0, ahead=3) == "full"
        row.max_running = None
        assert blocked_reason(row, T0, ahead=3) == "rate"
        assert unblocked_at_ms(row, T0, ahead=3) == T0 + SECOND


class TestPut:
    def test_paused(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", paused=True))
        (key,) = ready(world, 1)
        assert world.refused(c.Assign(key, session)) == "queue-paused"
        world.ok(c.PutQueue("q"))
        world.assign(key, session)

    def test_says_what_changed(self) -> None:
        world = World()
        assert world.ok(c.PutQueue("q", max_running=1)).created
        assert world.actions == [QueueChanged("q")]
        assert not world.ok(c.PutQueue("q", max_running=1)).created
        assert world.actions == []
        world.ok(c.PutQueue("q", max_running=2))
        assert world.actions == [QueueChanged("q")]
        world.ok(c.DeleteQueue("q"))
        assert world.actions == [QueueChanged("q")]
        assert world.refused(c.DeleteQueue("q")) == "not-found"

    def test_lanes_are_never_used_again(self) -> None:
        world = World()
        world.ok(c.PutQueue("q"))
        first = queue(world).lane
        world.ok(c.DeleteQueue("q"))
        world.ok(c.PutQueue("q"))
        assert queue(world).lane > first > LANE_FREE

    @pytest.mark.parametrize(
        "command",
        [
            c.PutQueue(""),
            c.PutQueue("x" * 129),
            c.PutQueue("q", max_running=0),
            c.PutQueue("q", max_running=-1),
            c.PutQueue("q", rate_count=0, rate_period_ms=SECOND),
            c.PutQueue("q", rate_count=1),
            c.PutQueue("q", rate_count=1_000_001, rate_period_ms=SECOND),
            c.PutQueue("q", rate_count=1, rate_period_ms=86_400_001),
        ],
    )
    def test_nonsense_is_refused(self, command: c.PutQueue) -> None:
        assert World().refused(command) == "invalid-parameter"

    def test_their_number_has_a_limit(self) -> None:
        world = World()
        world.settings(queues_max=1)
        world.ok(c.PutQueue("q"))
        assert world.refused(c.PutQueue("r")) == "not-possible"
        world.ok(c.PutQueue("q", paused=True))
        world.ok(c.DeleteQueue("q"))
        world.ok(c.PutQueue("r"))

    @pytest.mark.parametrize("name", ["x" * 129, "\U0001f600" * 33])
    def test_a_job_with_a_name_of_a_queue_that_none_may_have(self, name: str) -> None:
        create = c.CreateJob("d", None, policy(every(SECOND), queue=name), b"")
        assert World().refused(create) == "invalid-job"

    def test_a_job_without_a_queue_has_no_limits(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", paused=True))
        (key,) = ready(world, 1, "")
        world.assign(key, session)


class TestLanes:
    def test_each_queue_has_its_own(self) -> None:
        world = World()
        world.ok(c.PutQueue("q"))
        world.ok(c.PutQueue("r"))
        (free,), (q,), (r,) = ready(world, 1, "free"), ready(world, 1, "q"), ready(world, 1, "r")
        rows = {from_ready(key): from_lane(key) for key, _ in world.view.scan(Table.READY)}
        assert rows == {free: LANE_FREE, q: queue(world).lane, r: queue(world, "r").lane}

    def test_what_waits_is_sorted_when_the_queue_is_made_later(self) -> None:
        world = World()
        keys = ready(world, 3)
        (other,) = ready(world, 1, "other")
        before = world.instance(keys[0])
        world.ok(c.PutQueue("q", paused=True))
        world.ok(c.SortReady((*keys[:2], other, b"", b"\0" * 24)))
        assert [world.instance(k).lane for k in keys] == [queue(world).lane, queue(world).lane, LANE_FREE]
        assert world.instance(keys[0]).score_ms == before.score_ms
        assert sum(isinstance(a, InstanceReady) for a in world.actions) == 2

    def test_the_limit_holds_wherever_it_waits(self) -> None:
        world = World()
        session = world.session()
        keys = ready(world, 2)
        world.ok(c.PutQueue("q", max_running=1))
        world.assign(keys[0], session)
        assert world.refused(c.Assign(keys[1], session)) == "queue-full"

    def test_what_waits_goes_on_when_the_queue_is_deleted(self) -> None:
        world = World()
        session = world.session()
        world.ok(c.PutQueue("q", paused=True))
        (key,) = ready(world, 1)
        world.ok(c.DeleteQueue("q"))
        world.assign(key, session)


class TestUnplaceable:
    def test_says_so_and_is_out_of_the_way(self) -> None:
        world = World()
        (key,) = ready(world, 1)
        world.ok(c.NoteUnplaceable(key, "no node has the label disk=ssd"))
        row = world.instance(key)
        assert (row.reason, row.error, row.lane) == ("no_eligible_node", "no node has the label disk=ssd", LANE_NOBODY)
        assert (row.steps[-1].kind, row.steps[-1].detail) == (StepKind.UNPLACEABLE, row.error)
        assert world.meta.unplaceable == 1
        assert not any(isinstance(a, InstanceReady) for a in world.actions)
        steps = len(row.steps)
        world.ok(c.NoteUnplaceable(key, "no node has the label disk=ssd"))
        assert len(world.instance(key).steps) == steps
        world.ok(c.NoteUnplaceable(key, "no node has the handler exec"))
        assert world.instance(key).error == "no node has the handler exec"

    def test_back_when_somebody_can(self) -> None:
        world = World()
        world.ok(c.PutQueue("q"))
        (key,) = ready(world, 1)
        world.ok(c.NoteUnplaceable(key, "x"))
        world.ok(c.SortReady((key,)))
        row = world.instance(key)
        assert (row.reason, row.error, row.lane) == (None, None, queue(world).lane)
        assert world.meta.unplaceable == 0

    def test_the_error_of_the_last_attempt_comes_back(self) -> None:
        world = World()
        session = world.session()
        (key,) = ready(world, 1, retry=Retry((SECOND,)))
        world.assign(key, session)
        row = world.end(key, Outcome.FAILED, error="boom")
        assert row.wake_at_ms is not None
        world.forward(SECOND)
        world.ok(c.Wake(key, row.wake_at_ms))
        world.ok(c.CloseSession(session, ()))
        world.ok(c.NoteUnplaceable(key, "x"))
        world.ok(c.SortReady((key,)))
        assert world.instance(key).error == "boom"

    def test_its_start_deadline_says_what_was_missing(self) -> None:
        world = World()
        job = world.create(every(SECOND))
        world.fire(job)
        (row,) = world.waiting(job.id)
        assert row.wake_at_ms is not None
        world.ok(c.NoteUnplaceable(row.key, "no node has the label disk=ssd"))
        world.now = row.wake_at_ms
        world.ok(c.Wake(row.key, row.wake_at_ms))
        ended = world.instance(row.key)
        assert (ended.state, ended.reason) == (I.SKIPPED, "start_deadline")
        assert ended.error == "No node could take it before its start deadline: no node has the label disk=ssd"
        assert world.meta.unplaceable == 0

    @pytest.mark.parametrize("end", ["kill", "assign"])
    def test_it_can_still_be_ended_or_taken(self, end: str) -> None:
        world = World()
        (key,) = ready(world, 1)
        world.ok(c.NoteUnplaceable(key, "x"))
        session = world.session()
        if end == "kill":
            world.ok(c.Kill(key))
        else:
            world.assign(key, session)
            assert world.instance(key).reason is None
        assert world.meta.unplaceable == 0
        assert world.refused(c.NoteUnplaceable(key, "x")) == "stale"

    def test_not_what_a_node_could_take_by_now(self) -> None:
        world = World()
        session = world.session()  # its handler is exec
        (able,) = ready(world, 1, required_capability="exec")
        (other,) = ready(world, 1, required_capability="python")
        world.ok(c.NoteUnplaceable(other, "x"))
        assert world.refused(c.NoteUnplaceable(able, "x")) == "stale"
        world.ok(c.PutNodeRule("n2", drained=True))  # a matter of time
        assert world.refused(c.NoteUnplaceable(able, "x")) == "stale"
        world.ok(c.CloseSession(session, ()))
        world.ok(c.NoteUnplaceable(able, "x"))

    def test_not_what_is_held(self) -> None:
        world = World()
        job = world.create(overlap=Overlap.QUEUE_ONE)
        world.run_now(job, 1)
        key = world.run_now(job, 2)
        assert world.refused(c.NoteUnplaceable(key, "x")) == "stale"


class TestAgeing:
    def order(self, world: World) -> list[bytes]:
        return [from_ready(key) for key, _ in world.view.scan(Table.READY)]

    def test_a_level_of_priority_is_worth_so_much_waiting(self) -> None:
        world = World()
        world.settings(ageing_ms=60_000)
        (low,) = ready(world, 1, priority=4)
        world.forward(59_999)
        (high,) = ready(world, 1, priority=5)
        world.forward(2)
        (late,) = ready(world, 1, priority=5)
        assert self.order(world) == [high, low, late]

    def test_first_come_first_served_within_a_priority(self) -> None:
        world = World()
        keys = []
        for _ in range(5):
            keys += ready(world, 1)
            world.forward(1)
        assert self.order(world) == keys

    def test_nothing_starves(self) -> None:
        """However many of the highest priority come: after nine levels' time the lowest is before all of them."""
        world = World()
        (lowest,) = ready(world, 1, priority=0)
        world.forward(9 * world.meta.settings.ageing_ms + 1)
        ready(world, 3, priority=9)
        assert self.order(world)[0] == lowest

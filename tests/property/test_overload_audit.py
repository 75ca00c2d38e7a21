"""However little of a job starts in time: each due time is a run, or is counted in exactly one record, and no record
reaches over one that started. History may be as short as it likes: what is left of it is true."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.core import commands as c
from raftsched.core.model import FINAL, Instance, InstanceState, Job, Outcome, Overlap, Retention, Retry
from raftsched.core.rules.run_keys import Concurrency
from tests.support.amounts import examples
from tests.support.memory_view import World, every
from tests.support.scheduler import go_on, schedule, several

SECOND = 1_000
LONG, SHORT = Retention(100_000, 100_000), (Retention(0, 0), Retention(1, 1), Retention(3, 2))


class Overload:
    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.world = world = World()
        world.settings(start_deadline_ms=r.choice([1, 4, 30]) * SECOND, queue_all_max=r.choice([1, 5, 100]))
        self.session = world.session(slots=10_000)
        self.retention = r.choice([LONG, LONG, *SHORT])
        options: dict[str, object] = {
            "overlap": r.choice([Overlap.ALLOW, Overlap.ALLOW, Overlap.QUEUE_ALL, Overlap.FORBID, Overlap.REPLACE]),
            "expires_ms": r.choice([0, 0, 3 * SECOND, 20 * SECOND]),
            "retention": self.retention,
            "retry": Retry(r.choice([(), (SECOND,)])),
            "concurrency": r.choice([None, None, Concurrency("k", "k", 2)]),
        }
        jitter_ms = r.choice([0, 0, 700, 3 * SECOND])
        if r.random() < 0.3:
            triggers = (every(2 * SECOND, id="a", jitter_ms=jitter_ms), every(3 * SECOND, id="b"))
            job = world.create(**several(*triggers), **options)  # type: ignore[arg-type]
        else:
            job = world.create(every(SECOND, jitter_ms=jitter_ms), **options)  # type: ignore[arg-type]
        schedule(world)
        self.id, self.begin = job.id, world.now
        self.started: set[int] = set()  # due times at which it did

    @property
    def job(self) -> Job:
        return self.world.job(self.id)

    def rows(self) -> list[Instance]:
        return [row for row in self.world.instances(self.id) if not row.request]

    def due(self) -> list[int]:
        """The due times that have come, counted one by one."""
        triggers = self.job.policy.all_triggers
        until = [state.nominal_at_ms or 0 for state in self.job.triggers] or [self.job.nominal_at_ms or 0]
        times = {
            at
            for trigger, end in zip(triggers, until, strict=True)
            for at in range(self.begin + trigger.period_ms, end, trigger.period_ms)
        }
        return sorted(times)

    def step(self) -> None:
        r, world = self.r, self.world
        go_on(world, world.now + r.choice([1, 300, SECOND, 5 * SECOND, 12 * SECOND]))
        for row in world.instances(self.id):
            now = world.row(row.key)
            if now is None or now.state in FINAL:
                continue
            if now.wake_at_ms is not None and now.wake_at_ms <= world.now and r.random() < 0.9:
                world.ok(c.Wake(now.key, now.wake_at_ms))
            elif now.live is not None:
                self.end(now)
            elif r.random() < 0.15:
                answer = world.do(c.Assign(now.key, self.session))
                if isinstance(answer, c.Accepted) and r.random() < 0.7:
                    world.ok(c.Started(self.session, answer.number or 0, world.now))
                    self.note_start(now)
        if r.random() < 0.1:
            world.do(c.RunNow(self.id, r.randint(1, 2**60)))
        if r.random() < 0.1:
            world.ok(c.Prune(world.now, 100))

    def note_start(self, row: Instance) -> None:
        if not row.request:  # it was not asked for
            self.started.add(row.nominal_at_ms)

    def end(self, row: Instance) -> None:
        live = row.live
        assert live is not None
        outcome = self.r.choice([None, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.KILLED])
        if outcome is Outcome.KILLED and live.started_at_ms is None:
            self.world.ok(c.Ended(live.session, live.token, outcome, None, self.world.now, begun=False))
        elif outcome is not None:
            self.note_start(row)
            self.world.ok(c.Ended(live.session, live.token, outcome, self.world.now, self.world.now))

    def audit(self) -> None:
        rows, due = self.rows(), self.due()
        covered: set[int] = set()
        for row in rows:
            until = row.gap_until_ms or row.nominal_at_ms
            inside = {at for at in due if row.nominal_at_ms <= at <= until}
            assert len(inside) == max(1, row.gap_count), f"{row.reason}: {row.gap_count} said, {len(inside)} are there"
            assert covered.isdisjoint(inside), "in two places"
            covered |= inside
            if row.gap_count and row.state is InstanceState.SKIPPED:
                assert self.started.isdisjoint(inside), "a record reaches over a time that ran"
        if self.retention is LONG:
            assert covered == set(due), f"not on record: {sorted(set(due) - covered)[:5]}"
        for row, following in pairwise(rows):
            waited = {row.reason, following.reason} == {"start_deadline"}
            if waited and self.retention is LONG and not (row.attempts or following.attempts):
                between = [r for r in self.world.instances(self.id) if row.key < r.key < following.key]
                assert between, "two records of neighbours"


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**32))
def test_every_due_time_is_on_record(seed: int) -> None:
    note(f"seed {seed}")
    overload = Overload(random.Random(seed))
    for _ in range(12):
        overload.step()
        overload.audit()
    world = overload.world
    assert world.in_one_batch() == world.view.dump()

"""Whatever the outage: each due time is run, or is covered by exactly one record of what was skipped, which counts it.

The leader computes the fires as it does in the product; the due times are counted again here, one by one."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched import schedule
from raftsched.core.commands import Fire
from raftsched.core.model import Instance, InstanceState, Job, Misfire, MisfirePolicy, Overlap, Retention, Trigger
from raftsched.leader.due.firing import fire_command
from raftsched.leader.due.scheduling import schedule_command
from raftsched.leader.due.triggers import CalendarJob
from tests.support.amounts import examples
from tests.support.memory_view import World, cron, every

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


def due_times(job: Job, until_ms: int, first_ms: int) -> list[int]:
    """Nominal times from the first one on, up to but not including `until_ms`, by walking."""
    trigger = job.policy.trigger
    found, at = [], first_ms
    while at < until_ms:
        found.append(at)
        following = schedule.next_nominal(trigger, at, anchor_ms=job.anchor_at_ms, hash_id=job.id)
        if following is None:
            break
        at = following
    return found


def audit(world: World, job: Job, first_ms: int) -> None:
    """Every due time has a run or lies in exactly one gap, and the gaps count what lies in them."""
    assert job.nominal_at_ms is not None
    wanted = due_times(job, job.nominal_at_ms, first_ms)
    rows = world.instances(job.id)
    runs = [r.nominal_at_ms for r in rows if not r.gap_count]
    gaps = [r for r in rows if r.gap_count]
    assert len(runs) == len(set(runs)), "a time ran twice"
    covered = set(runs)
    for gap in gaps:
        assert gap.gap_until_ms is not None
        inside = [t for t in wanted if gap.nominal_at_ms <= t <= gap.gap_until_ms]
        assert inside[0] == gap.nominal_at_ms
        assert inside[-1] == gap.gap_until_ms
        assert len(inside) == gap.gap_count, f"{gap.reason}: {gap.gap_count} said, {len(inside)} are there"
        assert covered.isdisjoint(inside), "run or skipped, not both"
        covered.update(inside)
    assert covered == set(wanted), f"missed in silence: {sorted(set(wanted) - covered)}"
    following = dict(pairwise([*wanted, job.nominal_at_ms]))
    for row in rows:
        if not row.gap_count and job.policy.trigger.jitter_ms:
            assert row.nominal_at_ms + row.jitter_ms < following[row.nominal_at_ms], "put off past the next time"
    for earlier, later in pairwise(rows):
        if earlier.gap_count and later.gap_count:
            assert earlier.reason != later.reason, "one gap, two records"


def follows_policy(job: Job, made: list[Instance], now_ms: int, held: int) -> None:
    """What one fire brought about, against the policy. `held`: how many runs waited for others of the job before."""
    policy = job.policy
    late = [r for r in made if not r.gap_count and r.nominal_at_ms + r.jitter_ms < now_ms - policy.misfire.grace_ms]
    assert all(r.nominal_at_ms + r.jitter_ms <= now_ms for r in made if not r.gap_count), "before its jitter was over"
    if policy.misfire.policy is MisfirePolicy.SKIP:
        assert not late
    elif policy.misfire.policy is MisfirePolicy.ONCE:
        assert len(late) <= 1
        if not held and policy.overlap is not Overlap.QUEUE_ALL:  # which may have no room for any
            gaps = [r.nominal_at_ms for r in made if r.gap_count and r.reason == "overlap"]
            assert all(at + policy.trigger.jitter_ms >= now_ms - policy.misfire.grace_ms for at in gaps), "left out"
    assert all(r.steps[0].detail == "missed" for r in late)
    assert all(r.steps[0].detail is None for r in made if not r.gap_count and r not in late)


def trigger_of(r: random.Random) -> Trigger:
    return r.choice(
        [
            every(SECOND),
            every(7 * SECOND, jitter_ms=6 * SECOND),
            every(MINUTE, jitter_ms=30 * SECOND),
            cron("* * * * * *"),
            cron("*/5 * * * * *", jitter_ms=8 * SECOND),
            cron("0 */2 * * * *", jitter_ms=40 * SECOND),
            cron("30 2 * * *", timezone="Europe/Madrid"),
        ]
    )


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**32))
def test_nothing_is_missed_in_silence(seed: int) -> None:
    note(f"seed {seed}")
    r = random.Random(seed)
    world = World()
    world.settings(catch_up_max=r.choice([1, 2, 5, 100]), queue_all_max=r.choice([0, 1, 3]))
    session = world.session(slots=10_000)
    job = world.create(
        trigger_of(r),
        overlap=r.choice([Overlap.FORBID, Overlap.ALLOW, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.REPLACE]),
        misfire=Misfire(r.choice(list(MisfirePolicy)), r.choice([0, 1, SECOND, 90 * SECOND, 15 * MINUTE])),
        max_concurrency=r.choice([0, 0, 1, 2]),
        retention=Retention(100_000, 100_000),
    )
    if job.nominal_at_ms is None:
        world.ok(schedule_command(CalendarJob(job, None), world.now, world.now))
        job = world.job(job.id)
    first = job.nominal_at_ms
    assert first is not None
    for _ in range(r.randint(1, 7)):
        assert job.fire_at_ms is not None
        outage = r.choice([0, 0, 1, 20, SECOND, 30 * SECOND, 10 * MINUTE, r.randint(0, 3 * HOUR)])
        world.now = max(world.now, job.fire_at_ms) + outage
        seen, held = {row.key for row in world.instances(job.id)}, job.held
        command = fire_command(CalendarJob(job, None), world.now, world.meta.settings.catch_up_max)
        assert isinstance(command, Fire)
        world.forward(r.choice([0, 0, 3, 2 * SECOND]))  # until the entry is made
        world.ok(command)
        job = world.job(job.id)
        assert job.fire_at_ms is not None
        made = [row for row in world.instances(job.id) if row.key not in seen]
        follows_policy(job, made, world.now, held)
        audit(world, job, first)
        if r.random() < 0.6:
            for row in world.instances(job.id):
                waiting = world.instance(row.key)
                if waiting.state is InstanceState.WAITING and not waiting.held:
                    world.run_once(row.key, session)

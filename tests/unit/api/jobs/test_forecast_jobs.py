"""Jobs that follow others, in a forecast."""

from __future__ import annotations

import msgspec

from raftsched.api.jobs.forecast_jobs import Forecast
from raftsched.api.jobs.forecast_load import Load
from raftsched.bounds import MINUTE_MS
from raftsched.core.model import After, Job, JobState, Policy, Trigger, TriggerKind
from raftsched.schedule.due_counts import Window
from tests.support.cron_times import cron, ms
from tests.support.memory_view import MemoryView
from tests.support.operations import operations

NOW = ms("2027-03-27T22:00:00Z")
STEPS = 100


def job(job_id: int, trigger: Trigger) -> Job:
    return Job(
        id=job_id,
        namespace="default",
        name=f"j{job_id}",
        revision=1,
        state=JobState.SCHEDULED,
        policy=Policy(trigger=trigger),
        body=b"{}",
        created_at_ms=NOW,
        modified_at_ms=NOW,
        anchor_at_ms=NOW,
        nominal_at_ms=None,
    )


def follower(job_id: int, of: int) -> Job:
    """Follows the jobs 1 to `of`, each of them."""
    after = After(tuple(f"default/j{one}" for one in range(1, of + 1)), any_of=True)
    return job(job_id, Trigger(kind=TriggerKind.AFTER, after=after))


def test_no_step_takes_longer_the_more_jobs_a_job_follows() -> None:
    upstream = 40
    found = Forecast(Window(NOW, MINUTE_MS, STEPS), NOW, None, None, [], True)
    jobs = [job(number, cron("*/2 * * * *")) for number in range(1, upstream + 1)]
    for one in (*jobs, follower(upstream + 1, upstream)):
        candidate = found.look(MemoryView(), msgspec.msgpack.encode(one))
        if candidate is not None:
            list(found.count(candidate))
    assert max(operations(found.follow())) < 300 * STEPS
    load = Load(STEPS, MINUTE_MS)
    for group in found.groups.values():
        sum(load.add(group))
    assert load.due() == [2 * upstream, 0] * (STEPS // 2), "a run for each"

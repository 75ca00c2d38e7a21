"""Runs that did not start are counted in the record of the one before; whoever asks for them by id is shown that."""

from __future__ import annotations

from typing import Any

from raftsched.core import commands as c
from raftsched.core.ids import instance_text, parse_instance, parse_job
from raftsched.core.rows import INSTANCES, JOBS
from tests.integration.api.runs.test_stats import make
from tests.support.local_api import Client


def missed(call: Any, job: str, times: int) -> list[str]:
    """Due times of a job at which nobody took its runs; the ids that these had."""
    cluster, job_id, keys = call.cluster, parse_job(job), []
    assert job_id is not None
    for _ in range(times):
        with cluster.store.read() as view:
            row = JOBS.get(view, job_id)
        assert row is not None
        assert row.nominal_at_ms is not None
        cluster.clock.forward(max(0, row.nominal_at_ms - cluster.clock.wall))
        (answer,) = cluster.apply(c.Fire(job_id, row.revision, row.nominal_at_ms))
        assert isinstance(answer, c.Accepted)
        assert answer.job is not None
        keys.append(answer.job.last_instance)
    for key in keys:
        with cluster.store.read() as view:
            at_ms = INSTANCES.get(view, key).wake_at_ms
        cluster.clock.forward(max(0, at_ms - cluster.clock.wall))
        cluster.apply(c.Wake(key, at_ms))
    return [instance_text(key) for key in keys]


async def test_each_of_them_is_shown_as_the_record(call: Client) -> None:
    job = await make(call)
    ids = missed(call, job, 3)
    for one in ids:
        status, found = await call("GET", f"/v1/instances/{one}")
        assert status == 200
        assert (found["id"], found["state"], found["reason"]) == (ids[0], "SKIPPED", "start_deadline")
        assert (found["skipped"], found["skipped_until"]) == (3, "2030-01-01T00:03:00.000Z")
    _, found = await call("GET", f"/v1/jobs/{job}/instances")
    assert [item["id"] for item in found["items"]] == ids[:1]
    _, shown = await call("GET", f"/v1/jobs/{job}")
    status, told = await call("GET", f"/v1/instances/{shown['last_instance']}/explain")
    assert status == 200
    text = (
        "3 due times from 2030-01-01T00:01:00.000Z to 2030-01-01T00:03:00.000Z were skipped: no node could take "
        "them before their start deadlines. Of the last: No node could take it before its start deadline."
    )
    assert told["text"] == text
    assert told["gap"]["count"] == 3
    _, why = await call("GET", f"/v1/jobs/{job}/explain")
    assert text in str(why)
    _, counted = await call("GET", f"/v1/jobs/{job}/stats")
    assert (counted["skipped_fires"], counted["instances"]["SKIPPED"]) == (3, 1)


async def test_one_alone_counts_as_one_and_says_what_it_waited_for(call: Client) -> None:
    job = await make(call)
    (one,) = missed(call, job, 1)
    _, found = await call("GET", f"/v1/instances/{one}/explain")
    assert found["text"].endswith(
        "It is SKIPPED: its start deadline was over. No node could take it before its start deadline."
    )
    _, counted = await call("GET", f"/v1/jobs/{job}/stats")
    assert counted["skipped_fires"] == 1


async def test_other_times_are_not_found(call: Client) -> None:
    job = await make(call)
    ids = missed(call, job, 2)
    nominal = int(ids[-1].partition("@")[2])
    for wrong in (f"{job}@{nominal + 60_000}", f"{job}@{nominal - 120_000}", f"{ids[1]}-00000000000000ab"):
        assert parse_instance(wrong) is not None
        status, _ = await call("GET", f"/v1/instances/{wrong}")
        assert status == 404, wrong
    status, _ = await call("POST", f"/v1/instances/{ids[0]}/rerun")
    assert status == 202
    status, _ = await call("GET", f"/v1/instances/{ids[1]}")
    assert status == 404, "what runs again stands for no other run"

"""The metrics by which workers are scaled: what waits by queue, and who there is to run it."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from raftsched.api.cluster import ready, scaling_metrics
from raftsched.core import commands as c
from tests.integration.api.test_workers import JOB, given_to, key_of, open_worker
from tests.support.local_api import Client


async def told(call: Client) -> dict[tuple[str, str], float]:
    """Returns the newest samples, by their name and the value of their label."""
    call.cluster.clock.forward(10_000)
    _, text = await call("GET", "/metrics")
    raw = text if isinstance(text, str) else text.decode()
    families = text_string_to_metric_families(raw)
    return {(s.name, next(iter(s.labels.values()), "")): s.value for f in families for s in f.samples}


async def wait_in(call: Client, queue: str, count: int = 1, **more: Any) -> None:
    _, job = await call("POST", "/v1/jobs", {**JOB, "queue": queue, **more})
    for _ in range(count):
        assert (await call("POST", f"/v1/jobs/{job['id']}/run", {}))[0] == 202


async def test_what_waits_is_counted_by_queue(call: Client) -> None:
    assert (await call("PUT", "/v1/queues/own", {"max_running": 5}))[0] in (200, 201)
    assert (await call("PUT", "/v1/queues/empty", {"max_running": 5}))[0] in (200, 201)
    assert (await call("PUT", "/v1/namespaces/quota", {"limits": {"max_running": 5}}))[0] in (200, 201)
    await wait_in(call, "own", 3)
    await wait_in(call, "free", 2)
    await wait_in(call, "free", 1, namespace="quota")
    found = await told(call)
    assert [found["raftsched_queue_ready", name] for name in ("own", "free", "empty")] == [3, 3, 0]
    assert found["raftsched_queue_ready_exact", ""] == 1
    assert found["raftsched_queue_oldest_wait_seconds", "own"] >= 10
    assert found["raftsched_queue_oldest_wait_seconds", "empty"] == 0
    assert (await call("GET", "/v1/queues/own"))[1]["waiting"] == 3


async def test_runs_that_nobody_can_take_are_counted_for_their_queue(call: Client) -> None:
    """Else nothing would be scaled up from none."""
    assert (await call("PUT", "/v1/queues/gpu", {"max_running": 5}))[0] in (200, 201)
    _, job = await call("POST", "/v1/jobs", {**JOB, "queue": "gpu"})
    _, made = await call("POST", f"/v1/jobs/{job['id']}/run", {})

    call.cluster.apply(c.NoteUnplaceable(key_of(made["id"]), "nobody"))
    found = await told(call)
    assert found["raftsched_instances_unplaceable", ""] == 1
    assert found["raftsched_queue_ready", "gpu"] == 1


async def test_slots_and_runs_are_counted_by_what_has_them(call: Client) -> None:
    node = call.cluster.open_session("n1", "127.0.0.1:1")  # of 4 slots
    first = open_worker(call.cluster, "w1", slots=2, queues=("gpu",))
    open_worker(call.cluster, "w2", slots=3)
    await given_to(call, first, queue="gpu")
    await given_to(call, node)
    await given_to(call, node)
    await wait_in(call, "gpu")
    await wait_in(call, "other")
    found = await told(call)
    for name, wanted in (("executors", (1, 2)), ("executor_slots", (4, 5)), ("executor_running", (2, 1))):
        assert tuple(found[f"raftsched_{name}", kind] for kind in ("node", "worker")) == wanted, name
    assert found["raftsched_queue_worker_slots", "gpu"] == 5
    assert found["raftsched_queue_worker_slots", "other"] == 3


async def test_no_worker_takes_what_goes_to_a_webhook(call: Client) -> None:
    """Else workers would be added for what they are not given."""
    open_worker(call.cluster, "w1", slots=3)
    hook = {"name": "ops", "url": "https://ops.example/hook", "events": ["failed"]}
    assert (await call("POST", "/v1/webhooks", hook))[0] == 201
    assert (await call("POST", "/v1/webhooks/ops/test", {}))[0] == 202
    found = await told(call)
    assert found["raftsched_queue_ready", "_webhooks.ops"] == 1
    assert found["raftsched_queue_worker_slots", "_webhooks.ops"] == 0


async def test_all_that_waits_is_counted_whatever_it_waits_for(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little of it is looked at."""
    for bound in ("SHARED_MAX", "LANE_MAX", "OWN_MAX", "QUOTAS_MAX", "OLDEST_MAX"):
        monkeypatch.setattr(ready, bound, 1)
    monkeypatch.setattr(scaling_metrics, "QUEUES_MAX", 1)

    async def waiting() -> tuple[float, ...]:
        found = await told(call)
        return tuple(found["raftsched_instances_waiting", what] for what in ("worker", "key", "job"))

    assert await waiting() == (0, 0, 0)
    assert (await call("PUT", "/v1/queues/own", {"max_running": 1}))[0] in (200, 201)
    await wait_in(call, "free", 4)
    await wait_in(call, "own", 3)
    assert await waiting() == (7, 0, 0)
    await wait_in(call, "free", 4, concurrency={"key": "k", "max": 1})
    assert await waiting() == (8, 3, 0)
    await wait_in(call, "free", 3, overlap="queue_all")
    assert await waiting() == (9, 3, 2)


async def test_what_is_overdue_is_said_though_nothing_fires(call: Client) -> None:
    assert (await told(call))["raftsched_due_overdue_seconds", ""] == 0
    for delay in ("2h", "1h"):
        job = {"trigger": {"in": delay}, "handler": {"exec": ["true"]}}
        assert (await call("POST", "/v1/jobs", job))[0] == 201
    assert (await told(call))["raftsched_due_overdue_seconds", ""] == 0
    call.cluster.clock.forward(3_600_000)
    assert 0 < (await told(call))["raftsched_due_overdue_seconds", ""] < 60


async def test_the_wait_of_the_oldest_delivery_is_said_however_many_wait(call: Client) -> None:
    hook = {"name": "ops", "url": "https://ops.example/hook", "events": ["failed"]}
    assert (await call("POST", "/v1/webhooks", hook))[0] == 201
    assert (await told(call))["raftsched_webhook_oldest_wait_seconds", "ops"] == 0
    for _ in range(3):
        assert (await call("POST", "/v1/webhooks/ops/test", {}))[0] == 202
        call.cluster.clock.forward(100_000)
    found = await told(call)
    assert 310 <= found["raftsched_webhook_oldest_wait_seconds", "ops"] < 320
    assert found["raftsched_webhook_gone", "ops"] == 0


async def test_bounds_are_said(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "SHARED_MAX", 2)
    monkeypatch.setattr(ready, "LANE_MAX", 3)
    assert (await call("PUT", "/v1/queues/own", {"max_running": 5}))[0] in (200, 201)
    await wait_in(call, "free", 2)
    await wait_in(call, "own", 3)
    assert (await told(call))["raftsched_queue_ready_exact", ""] == 1
    await wait_in(call, "free", 2)
    found = await told(call)
    assert (found["raftsched_queue_ready", "free"], found["raftsched_queue_ready_exact", ""]) == (2, 0)
    monkeypatch.setattr(ready, "SHARED_MAX", 10)
    await wait_in(call, "own", 3)
    found = await told(call)
    assert (found["raftsched_queue_ready", "own"], found["raftsched_queue_ready_exact", ""]) == (3, 0)
    monkeypatch.setattr(scaling_metrics, "QUEUES_MAX", 1)
    found = await told(call)
    assert [name for metric, name in found if metric == "raftsched_queue_ready"] == ["free"]

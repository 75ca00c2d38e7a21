"""Celery under load, broker and results in Redis. Also the application that its worker imports.

Results are kept, so that an outcome is on disk as with the others; the no-op task returns when it started.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import datetime, timedelta
from typing import Any

import redis
from celery import Celery, group
from celery.signals import worker_ready
from loops import UTC, begin, closed_loop, far, say, say_burst, say_create, shared

REDIS = f"redis://127.0.0.1:{os.environ['PEER_PORT']}"
PRODUCERS = 4  # threads that create what is to run

# Who creates waits for no result: without a backend there is no subscription to make for each task.
app = Celery("celery_load", broker=f"{REDIS}/0", backend=None if __name__ == "__main__" else f"{REDIS}/1")
app.conf.update(
    broker_pool_limit=300,  # a connection for each thread
    broker_transport_options={"visibility_timeout": 24 * 3600},  # tasks for later are not delivered twice
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=64,  # as its manual advises for many short tasks
    task_ignore_result=False,
)


@worker_ready.connect
def ready(**_: object) -> None:
    """What the benchmark waits for; the worker's own log would cost two lines a task."""
    print("the worker is ready", flush=True)


@app.task
def noop() -> float:
    return time.time()


def results(store: redis.Redis, count: int, limit_s: float) -> list[dict[str, Any]]:
    """Of all tasks, once there are as many. The poll is one cheap command."""
    deadline = time.monotonic() + limit_s
    while store.dbsize() < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {store.dbsize()} of {count} tasks are done after {limit_s:.0f} s")
        time.sleep(0.05)
    keys = list(store.scan_iter("celery-task-meta-*", count=10_000))
    rows = [json.loads(row) for row in store.mget(keys)]
    if len(rows) != count or any(row["status"] != "SUCCESS" for row in rows):
        raise SystemExit(f"{len(rows)} results of {count}: {sorted({row['status'] for row in rows})}")
    return rows


def done_s(row: dict[str, Any]) -> float:
    at = datetime.fromisoformat(row["date_done"])
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def create(given: dict[str, Any]) -> None:
    for in_flight in given["in_flight"]:
        say_create(in_flight, given["seconds"], lambda _: noop.apply_async(eta=far()))


def bulk(given: dict[str, Any]) -> None:
    size, in_flight = given["batch"], given["batch_in_flight"]
    latencies, took, share = closed_loop(
        in_flight, given["seconds"], lambda _: group(noop.s().set(eta=far()) for _ in range(size)).apply_async()
    )
    say("create-batch", batch=size, in_flight=in_flight, jobs_per_second=len(latencies) * size / took, cpu_load=share)


def run(store: redis.Redis, count: int) -> float:
    """From the first create to the last result, in seconds."""
    store.flushdb()
    begin()
    start = time.time()
    shared(count, PRODUCERS, lambda *_: noop.delay())
    return max(map(done_s, results(store, count, 300))) - start


def burst(store: redis.Redis, count: int, lead_s: float) -> None:
    store.flushdb()
    due = datetime.now(UTC) + timedelta(seconds=lead_s)
    shared(count, PRODUCERS, lambda *_: noop.apply_async(eta=due))
    if datetime.now(UTC) > due:
        raise SystemExit("creating took longer than the lead; use --lead")
    say_burst(due.timestamp(), [row["result"] for row in results(store, count, lead_s + 300)])


def main(given: dict[str, Any]) -> None:
    store = redis.Redis(port=int(os.environ["PEER_PORT"]), db=1)
    if "create" in given["parts"]:
        create(given)
    if "bulk" in given["parts"]:
        bulk(given)
    if {"run", "burst"} & set(given["parts"]):
        run(store, given["warm"])
    if "run" in given["parts"]:
        took = run(store, given["count"])
        say("run", runs=given["count"], per_second=given["count"] / took, seconds=took)
    if "burst" in given["parts"]:
        burst(store, given["count"], given["lead_s"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

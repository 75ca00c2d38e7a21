"""APScheduler under load: one scheduler that runs the jobs, which a table in PostgreSQL holds.

Jobs are added through schedulers of their own that never start a job, one a thread: an APScheduler adds one job at a
time, so this is faster than through the one that runs them.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from datetime import datetime, timedelta
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from loops import UTC, begin, far, percentile, say, say_burst, say_create, shared
from sqlalchemy import create_engine

ADDERS = 32
starts: list[tuple[str, float]] = []  # (job, start), by the wall clock


def noop(job: str = "") -> None:
    starts.append((job, time.time()))


def scheduler(engine: Any) -> BackgroundScheduler:
    """Late runs are not dropped, as they would be by default; each is run."""
    return BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(engine=engine)},
        executors={"default": ThreadPoolExecutor(20)},
        job_defaults={"misfire_grace_time": None, "coalesce": False},
        timezone=UTC,
    )


class Peer:
    def __init__(self, port: str) -> None:
        address = f"postgresql+psycopg://bench@127.0.0.1:{port}/bench"
        self.engine = create_engine(address, pool_size=ADDERS + 2, max_overflow=0)
        self.adders = [scheduler(self.engine) for _ in range(ADDERS)]
        for adder in self.adders:
            adder.start(paused=True)

    def add(self, thread: int, at: datetime) -> None:
        self.adders[thread].add_job(noop, DateTrigger(at, timezone=UTC))

    def run(self, count: int) -> float:
        """From the first create to the end of the last run, in seconds."""
        runner, ended = self.counted(count)
        begin()
        start = datetime.now(UTC)
        shared(count, ADDERS, lambda thread, _: self.add(thread, start))
        runner.start()
        took = ended(300) - start.timestamp()
        runner.shutdown()
        return took

    def burst(self, count: int, lead_s: float) -> None:
        runner, ended = self.counted(count)
        due = datetime.now(UTC) + timedelta(seconds=lead_s)
        shared(count, ADDERS, lambda thread, _: self.add(thread, due))
        if datetime.now(UTC) > due:
            raise SystemExit("creating took longer than the lead; use --lead")
        starts.clear()
        runner.start()
        ended(lead_s + 300)
        runner.shutdown()
        say_burst(due.timestamp(), [at for _, at in starts])

    def counted(self, count: int) -> tuple[BackgroundScheduler, Any]:
        """A scheduler, and what waits until so many runs ended and says when the last did."""
        runner = scheduler(self.engine)
        done, times = threading.Event(), []

        def executed(_: JobExecutionEvent) -> None:
            times.append(time.time())
            if len(times) >= count:
                done.set()

        def ended(limit_s: float) -> float:
            if not done.wait(limit_s):
                raise SystemExit(f"only {len(times)} of {count} runs ended within {limit_s:.0f} s")
            return max(times)

        runner.add_listener(executed, EVENT_JOB_EXECUTED)
        return runner, ended

    def periodic(self, count: int, every_s: float, lead_s: float, seconds: float) -> None:
        begin = datetime.now(UTC) + timedelta(seconds=lead_s)
        end = begin + timedelta(seconds=seconds)
        first = {str(i): begin + timedelta(seconds=random.random() * every_s) for i in range(count)}

        def add(thread: int, i: int) -> None:
            trigger = IntervalTrigger(seconds=every_s, start_date=first[str(i)], end_date=end, timezone=UTC)
            self.adders[thread].add_job(noop, trigger, args=[str(i)])

        shared(count, ADDERS, add)
        if datetime.now(UTC) > begin:
            raise SystemExit("creating took longer than the lead")
        starts.clear()
        runner = scheduler(self.engine)
        runner.start()
        time.sleep((end - datetime.now(UTC)).total_seconds() + every_s)
        now, seen = time.time(), list(starts)
        runner.shutdown(wait=False)
        due = {
            (job, k): at.timestamp() + k * every_s for job, at in first.items() for k in range(int(seconds / every_s))
        }
        runs: dict[str, list[float]] = {}
        for job, at in seen:  # each job's in order
            runs.setdefault(job, []).append(at)
        began = {(job, k): at for job, times in runs.items() for k, at in enumerate(times)}
        late = [(began.get(run, now) - at) * 1000 for run, at in due.items()]
        say(
            "periodic", layout="spread", jobs=count, seconds=seconds, due=len(due),
            not_run=len(due.keys() - began.keys()), p50_ms=percentile(late, 0.5), p99_ms=percentile(late, 0.99),
            max_ms=max(late),
        )  # fmt: skip


def main(given: dict[str, Any]) -> None:
    peer = Peer(os.environ["PEER_PORT"])
    if "create" in given["parts"]:
        for in_flight in (n for n in given["in_flight"] if n <= ADDERS):
            say_create(in_flight, given["seconds"], lambda thread: peer.add(thread, far()))
    if {"run", "burst", "periodic"} & set(given["parts"]):
        peer.run(given["warm"])
    if "run" in given["parts"]:
        took = peer.run(given["count"])
        say("run", runs=given["count"], per_second=given["count"] / took, seconds=took)
    if "burst" in given["parts"]:
        peer.burst(given["count"], given["lead_s"])
    if "periodic" in given["parts"]:
        peer.periodic(given["count"], given["every_s"], given["periodic_lead_s"], given["periodic_s"])
    for adder in peer.adders:
        adder.shutdown()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

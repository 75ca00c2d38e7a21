"""The trial of beats: Celery's beats share a schedule in a cluster, and are killed with -9, as its leaders are. Each
due time is then looked for in the queue: none may be missing, and of those that are there twice the run says why.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import redis

from scripts.benches.usage import Meter
from tests.support.cluster import ROOT, Cluster
from tests.support.patience import wait_until

JOBS = Path(__file__).parent / "jobs"
QUEUE = "celery"
PAUSE_S = (2.0, 8.0)  # from one kill to the next
AWAY_S = (0.2, 3.0)  # from a kill to the start that follows
PAGE = 1_000


class Beat:
    """One `celery beat` process after the other."""

    def __init__(self, number: int, environment: dict[str, str], directory: Path) -> None:
        self.name = f"beat-{number}"
        self.cpu_s = 0.0  # of those that are gone
        self._log = directory / f"{self.name}.log"
        self._environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = ["-m", "celery", "-A", "due_each_second", "beat", "-S", "raftsched.celery:Scheduler", "-l", "warning"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command], env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def end(self, *, kill: bool) -> int:
        """Ends it by SIGKILL or SIGTERM. Returns its exit code."""
        assert self.process is not None
        self.process.kill() if kill else self.process.terminate()
        _, status, used = os.wait4(self.process.pid, 0)
        self.cpu_s += used.ru_utime + used.ru_stime
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")


@dataclass
class Found:
    """`twice`: a line for each due time whose task was sent more than once, with the reason that its run gives."""

    counts: Counter[str] = field(default_factory=Counter)
    twice: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)  # from a due time to the start of the run that sent it first
    cpu_ms: dict[str, float] = field(default_factory=dict)  # for each due time
    took_s: float = 0.0

    def summary(self) -> str:
        late = sorted(self.late_ms) or [0.0]
        told = [f"{what} {count}" for what, count in sorted(self.counts.items())]
        told += [f"p{share} {late[min(len(late) - 1, len(late) * share // 100)]:.0f} ms late" for share in (50, 99)]
        told += [f"{what} {spent:.2f} ms of a processor a due time" for what, spent in self.cpu_ms.items()]
        return ", ".join([*told, f"{self.took_s:.0f} s"])


def run_beats(
    cluster: Cluster,
    broker: str,
    rng: random.Random,
    note: Callable[[str], None],
    *,
    beats: int = 3,
    entries: int = 50,
    times: int = 200,
    pause_s: tuple[float, float] = PAUSE_S,
) -> Found:
    """Has each entry due so many times. The cluster and the broker are running, and the broker is empty."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAFTSCHED_")},
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(JOBS)]),
        "RAFTSCHED_SERVER": cluster.servers,
        "TRIAL_BROKER": broker,
        "TRIAL_ENTRIES": str(entries),
        "TRIAL_TIMES": str(times),
        "TRIAL_DATA": str(cluster.directory / "beats"),
    }
    # On a machine with much else to do the due times come faster than they are sent.
    told = cluster.leader().request("PATCH", "/v1/cluster/settings", {"start_deadline": "1d"})
    assert told.status == 200, told.body
    found, meter = Found(), Meter(cluster)
    all_beats = [Beat(number, environment, cluster.directory) for number in range(1, beats + 1)]
    began = time.monotonic()
    try:
        for beat in all_beats:
            beat.start()
        wait_until(lambda: _ended(all_beats) or sum(_jobs(cluster).values()) == entries, "the entries are jobs")
        while not found.wrong and _jobs(cluster).get("EXPIRED", 0) < entries:
            time.sleep(rng.uniform(*pause_s))
            _hurt(cluster, all_beats, rng, meter, found, note)
        wait_until(lambda: not _active(cluster), "all runs are at their end", seconds=300)
        found.took_s = time.monotonic() - began
        spent = meter.read()
    finally:
        codes = [
            beat.end(kill=False) for beat in all_beats if beat.process is not None and beat.process.returncode is None
        ]
    found.wrong += [f"a beat ended with {code} after SIGTERM" for code in codes if code not in (0, -signal.SIGTERM)]
    due = entries * times
    found.cpu_ms = {
        "beats": 1000 * sum(beat.cpu_s for beat in all_beats) / due,
        "nodes": 1000 * sum(used.all_cpu_s for used in spent.values()) / due,
    }
    _account(cluster, broker, times, found)
    return found


def _ended(beats: list[Beat]) -> bool:
    return any(beat.process is not None and beat.process.poll() is not None for beat in beats)


def _hurt(
    cluster: Cluster,
    beats: list[Beat],
    rng: random.Random,
    meter: Meter,
    found: Found,
    note: Callable[[str], None],
) -> None:
    if rng.random() < 0.3:
        leader = cluster.leader()
        meter.before_kill(leader)
        leader.kill()
        found.counts["leaders killed"] += 1
        note(f"killed the leader {leader.id}")
        time.sleep(rng.uniform(*AWAY_S))
        leader.start()
        cluster.wait_ready()
        return
    beat = rng.choice(beats)
    assert beat.process is not None
    if beat.process.poll() is not None:
        found.wrong.append(f"{beat.name} ended by itself: {beat.log[-500:]}")
    else:
        beat.end(kill=True)
        found.counts["beats killed"] += 1
        note(f"killed {beat.name}")
    time.sleep(rng.uniform(*AWAY_S))
    beat.start()


def _jobs(cluster: Cluster) -> Counter[str]:
    """Returns how many jobs are in each state."""
    return Counter(job["state"] for job in _pages(cluster, "/v1/jobs?label=celery-beat%3Dtrial"))


def _active(cluster: Cluster) -> bool:
    return bool(cluster.leader().get("/v1/instances?state=WAITING,LAUNCHED,RUNNING,RETRYING&limit=1")["items"])


def _pages(cluster: Cluster, address: str) -> Iterator[dict[str, Any]]:
    cursor: str | None = ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        page = cluster.leader().get(f"{address}&limit={PAGE}{more}")
        yield from page["items"]
        cursor = page["next"]


def _account(cluster: Cluster, broker: str, times: int, found: Found) -> None:
    """Holds what is in the queue against the runs."""
    sent: dict[str, list[dict[str, Any]]] = {}
    with redis.Redis.from_url(broker) as client:
        for raw in client.lrange(QUEUE, 0, -1):
            headers = json.loads(raw)["headers"]
            sent.setdefault(headers["raftsched_run"], []).append(headers)
    known = set()
    for job in _pages(cluster, "/v1/jobs?label=celery-beat%3Dtrial"):
        runs = list(_pages(cluster, f"/v1/jobs/{job['id']}/instances?"))
        known |= {run["id"] for run in runs}
        at = sorted(datetime.fromisoformat(run["scheduled_at"]) for run in runs)
        found.counts["due times"] += times
        steps = {later - earlier for earlier, later in pairwise(at)}
        if len(at) != times or steps - {timedelta(seconds=1)}:
            found.wrong.append(f"{job['name']}: {len(at)} runs of {times} due times, {steps} apart")
        for run in runs:
            _account_run(job["name"], run, sent.get(run["id"], []), found)
    if unknown := sent.keys() - known:
        found.wrong.append(f"tasks of no known run: {sorted(unknown)[:5]}")


def _account_run(name: str, run: dict[str, Any], sent: list[dict[str, Any]], found: Found) -> None:
    title = f"{name} due {run['scheduled_at']}"
    outcomes = [f"attempt {one['number']} {(one['outcome'] or 'open').lower()}" for one in run["attempts"]]
    found.counts["tasks sent"] += len(sent)
    found.counts["runs with several attempts"] += len(outcomes) > 1
    if not sent:
        found.counts["missing"] += 1
        found.wrong.append(f"{title}: not sent; {run['state']} {run['reason']} {outcomes}")
    elif run["state"] != "SUCCEEDED":
        found.wrong.append(f"{title}: sent, but {run['state']} {run['reason']} {outcomes}")
    if len({one["id"] for one in sent}) > 1:
        found.wrong.append(f"{title}: sent under several ids")
    if len(sent) > 1:
        found.counts["sent twice"] += 1
        by = sorted(one["raftsched_attempt"] for one in sent)
        told = f"{title}: sent by attempts {by}: {', '.join(outcomes)}; the result says {run['result']}"
        found.twice.append(told)
        named = len(set(by)) == len(by) and "attempt 1 lost" in outcomes[0] and (run["result"] or {}).get("again")
        if not named:
            found.wrong.append(f"without a reason: {told}")
    if run["late_ms"] is not None:
        found.late_ms.append(run["late_ms"])

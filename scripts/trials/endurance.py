"""The trial: jobs of every kind run while nodes are killed and stopped; then everything is accounted for."""

from __future__ import annotations

import http.client
import json
import os
import random
import shlex
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.benches.load import rfc3339
from scripts.trials.beats import read_history
from scripts.trials.checker import AGREED, STOOD, Job, Verdict, judge
from scripts.trials.faults import Faults
from tests.support.cluster import Cluster, NodeProcess

JOBS = Path(__file__).resolve().parent / "jobs"
LEAD_S = 4.0  # from creating the jobs to the first that is due: a time that is past at its creation is not due
BATCH = 50  # jobs created by one request
PATIENCE_S = 90.0  # for everything to end once all nodes are well
STRAGGLERS_S = 1.0  # a process that nobody knows of any more would write a beat meanwhile
ASK_PAUSE_S = (0.1, 0.5)
ASK_TIMEOUT_S = 3.0  # a stopped node accepts connections
LOST_MAX = 1_000  # it is not the job's fault here


@dataclass(slots=True)
class Trial:
    """`held` is True when nothing was found; False also when the trial showed nothing."""

    verdict: Verdict
    faults: Faults
    seconds: float = 0.0
    accepted_requests: int = 0
    empty: list[str] = field(default_factory=list)  # why it showed nothing

    @property
    def held(self) -> bool:
        return self.verdict.held and not self.empty


def make_jobs(rng: random.Random, count: int, begin_ms: int, end_ms: int, files: Path) -> list[tuple[Job, Any]]:
    """(what to expect, what to POST) of each: three of five recur and forbid overlap, the others are queued, may
    overlap, run once, or run when asked."""
    made = []
    for number in range(count):
        kind = ("forbid", "forbid", "forbid", "once", ("queue_all", "allow", "asked")[number // 5 % 3])[number % 5]
        name = f"{kind.replace('_', '-')}-{number}"
        job: dict[str, Any] = {"name": name, "max_lost": LOST_MAX, "handler": {}}
        due: list[int] = []
        longest = 4.0
        if kind == "once":
            at = rng.randrange(begin_ms, end_ms)
            job["trigger"] = {"at": rfc3339(at)}
            due = [at]
        elif kind == "asked":
            job |= {"trigger": {"manual": True}, "overlap": "queue_all"}
            longest = 1.0
        else:
            period = 1000 * rng.randint(4, max(4, min(16, (end_ms - begin_ms) // 3000)))
            first = begin_ms + rng.randrange(min(period, end_ms - begin_ms))
            due = list(range(first, end_ms + 1, period))
            every = {"every": f"{period}ms", "starts_at": rfc3339(first), "ends_at": rfc3339(end_ms)}
            job |= {"trigger": every, "overlap": kind, "retention": {"succeeded": 100_000, "failed": 100_000}}
            longest = {"forbid": period * 0.0012, "queue_all": 1.0, "allow": 4.0}[kind]
        seconds = round(rng.uniform(0.1, longest), 2)
        handle(job, rng.choice(("python", "python", "python", "exec", "shell", "stubborn")), files / name, seconds)
        made.append((Job(name, kind != "allow", due, may_be_asked=kind == "asked"), job))
    return made


def handle(job: dict[str, Any], how: str, file: Path, seconds: float) -> None:
    """Makes it write into the file for so long, as a run of this kind does."""
    command = [sys.executable, "-I", "-S", str(JOBS / "beating.py"), str(file), str(seconds)]
    if how == "python":
        job["handler"] = {"python": "beating:live"}
        job["params"] = {"file": str(file), "seconds": seconds}
    elif how == "shell":
        job["handler"] = {"shell": f"{shlex.join(command)} & wait $!"}
    else:
        job["handler"] = {"exec": [*command, *(["stubborn"] if how == "stubborn" else [])]}


class Requests:
    """Asks for runs through any node until told to stop; remembers in the jobs what was acknowledged."""

    def __init__(self, cluster: Cluster, jobs: list[tuple[str, Job]], rng: random.Random) -> None:
        self.accepted = 0
        self._cluster = cluster
        self._jobs = jobs  # (id, job)
        self._rng = rng
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="requests")

    def __enter__(self) -> Requests:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        while self._jobs and not self._stop.wait(self._rng.uniform(*ASK_PAUSE_S)):
            number, job = self._rng.choice(self._jobs)
            node = self._rng.choice(self._cluster.nodes)
            try:
                reply = node.request("POST", f"/v1/jobs/{number}/run", {}, timeout=ASK_TIMEOUT_S)
            except (OSError, http.client.HTTPException):
                continue  # whether it runs nobody knows
            if reply.status == 202:
                job.asked.add(reply.json["id"])
                self.accepted += 1


def run_trial(
    cluster: Cluster, directory: Path, seed: int, jobs: int, seconds: float, note: Callable[[str], None]
) -> Trial:
    """On a running cluster whose nodes have `JOBS` on their pythonpath. The same seed makes the same jobs and the same
    choice of faults; when exactly they hit is up to the machine. Raises RuntimeError when not all jobs are accepted in
    time."""
    began = time.monotonic()
    files = directory / "beats"
    files.mkdir()
    begin_ms = int((time.time() + LEAD_S) * 1000)
    made = make_jobs(random.Random(f"jobs {seed}"), jobs, begin_ms, begin_ms + int(seconds * 1000), files)
    rng = random.Random(f"faults {seed}")
    ids: dict[str, str] = {}
    for at in range(0, len(made), BATCH):
        bodies = [body for _, body in made[at : at + BATCH]]
        reply = rng.choice(cluster.nodes).request("POST", "/v1/jobs:batch", bodies)
        answers = reply.json["items"] if reply.status == 200 else []
        if [a["status"] for a in answers] != [201] * len(bodies):
            raise RuntimeError(f"not all jobs were accepted: {reply.status} {reply.body[:1000]!r}")
        ids |= {body["name"]: answer["id"] for body, answer in zip(bodies, answers, strict=True)}
    if time.time() * 1000 >= begin_ms:
        raise RuntimeError(f"creating the jobs took {LEAD_S} s and more: the machine is too busy for this trial")
    note(f"{len(made)} jobs are accepted; faults for {seconds:.0f} s ...")
    faults = Faults(cluster, rng, note)
    asked = [(ids[job.name], job) for job, _ in made if job.may_be_asked]
    with Requests(cluster, asked, random.Random(f"requests {seed}")) as requests:
        try:
            faults.run(max(0.0, begin_ms / 1000 + seconds - time.time()))
        finally:
            faults.heal()
    note("all nodes are well again; waiting for everything to end ...")
    verdict = Verdict()
    cluster.wait_ready()
    quiet_ns = wait_quiet(cluster)
    time.sleep(STRAGGLERS_S)
    for crash in faults.crashed:
        verdict.against(STOOD, crash)
    verdict.look(STOOD, len(cluster.nodes))
    for job, _ in made:
        job.rows = agreed_rows(cluster, ids[job.name], job.name, verdict)
    told = {job.name: {"due_ms": job.due_ms, "asked": sorted(job.asked), "rows": job.rows} for job, _ in made}
    (directory / "told.json").write_text(json.dumps(told))
    judge([job for job, _ in made], {job.name: read_history(files / job.name) for job, _ in made}, quiet_ns, verdict)
    trial = Trial(verdict, faults, time.monotonic() - began, requests.accepted)
    if not faults.done:
        trial.empty.append("no fault happened")
    if not verdict.counts["attempts lost"]:
        trial.empty.append("no attempt was lost")
    if not verdict.counts["runs that wrote their end"]:
        trial.empty.append("no run came to its end")
    return trial


def wait_quiet(cluster: Cluster) -> int | None:
    """Until the cluster says that all jobs have ended; the boot clock then, None: it took too long."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        node = cluster.leader()
        jobs = pages(node, "/v1/jobs?limit=1000&consistency=leader")
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if all(job["active"] == 0 and job["next_fire_at"] is None for job in jobs):
            return now_ns
        time.sleep(0.2)
    return None


def agreed_rows(cluster: Cluster, job: str, name: str, verdict: Verdict) -> list[dict[str, Any]] | None:
    """The instances of a job, as all nodes have them; None: it is gone."""
    said = []
    for node in cluster.nodes:
        found = node.request("GET", f"/v1/jobs/{job}?consistency=leader").status == 200
        said.append(pages(node, f"/v1/jobs/{job}/instances?limit=1000") if found else None)
    verdict.look(AGREED)
    if any(rows != said[0] for rows in said):
        verdict.against(AGREED, f"{name}: the nodes list {[None if r is None else len(r) for r in said]} instances")
    return said[0]


def pages(node: NodeProcess, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = node.get(path + cursor)
        found += page["items"]
        if not page["next"]:
            return found
        cursor = f"&cursor={page['next']}"


def keep(directory: Path, where: Path) -> None:
    """Copies what a violation is studied with: the jobs' lines, what the cluster said of them, and the nodes' logs."""
    where.mkdir(parents=True, exist_ok=True)
    for file in (*directory.glob("*.log"), *directory.glob("*.json"), *directory.glob("beats/*")):
        target = where / file.name
        target.write_bytes(file.read_bytes())


def as_json(trial: Trial, seed: int) -> str:
    """One line: what was done and found, without the words."""
    return json.dumps(
        {
            "trial": "endurance",
            "seed": seed,
            "held": trial.held,
            "seconds": round(trial.seconds, 1),
            "faults": dict(trial.faults.done),
            "accepted_requests": trial.accepted_requests,
            **{name.replace(" ", "_"): number for name, number in trial.verdict.counts.items()},
            "violations": sum(map(len, trial.verdict.violations.values())),
            "cores": os.cpu_count(),
        }
    )

"""The trial: nodes are taken to a later version and back while jobs come due every second, then to it for good.

From a released version to this one; or from this one to a copy that knows one level more, in which jobs got their field
`expires`.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from raftsched.core.levels import newest_level
from scripts.trials.rolling import Found, end_jobs, instances, restart, start_jobs
from tests.support.cluster import Cluster

_NEWER_JOB = {"trigger": {"manual": True}, "handler": {"shell": "true"}, "expires": "1h"}
_MORE = """
from raftsched.core.model import Policy

HISTORY[{level}] = "runs that expire"
PARTS_SINCE[Policy, "expires_ms"] = {level}
"""


@dataclass(frozen=True)
class Version:
    """`source`: holds its package; None: that of this checkout. `level`: the newest that it knows. `newer_job`: what it
    can create, and versions that know less cannot; None: nothing is known of that kind."""

    source: Path | None
    level: int
    newer_job: dict[str, Any] | None = None


THIS = Version(None, newest_level())


def later_version(directory: Path) -> Version:
    """Makes the later version below the directory."""
    package = Path(__file__).resolve().parents[2] / "raftsched"
    shutil.copytree(package, directory / "raftsched", ignore=shutil.ignore_patterns("__pycache__"))
    level = newest_level() + 1
    with (directory / "raftsched/core/levels.py").open("a") as file:
        file.write(_MORE.format(level=level))
    return Version(directory, level, _NEWER_JOB)


class Writer:
    """Creates jobs all the time, at any node. `longest_s`: the longest time between two that were accepted."""

    def __init__(self, cluster: Cluster) -> None:
        self.accepted = 0
        self.longest_s = 0.0
        self._cluster = cluster
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _write(self) -> None:
        last = time.monotonic()
        while not self._ends.wait(0.02):
            for node in self._cluster.alive():
                try:
                    body = {"trigger": {"manual": True}, "handler": {"shell": "true"}}
                    if node.request("POST", "/v1/jobs", body, timeout=5).status != 201:
                        continue
                except OSError:
                    continue
                now = time.monotonic()
                self.longest_s, last, self.accepted = max(self.longest_s, now - last), now, self.accepted + 1
                break


def run_upgrade(
    cluster: Cluster,
    before: Version,
    after: Version,
    seconds: float,
    note: Callable[[str], None],
    *,
    back: bool = True,
    kill: random.Random | None = None,
) -> Found:
    """All nodes run the version before. Takes them to the one after it, back if that is asked for, and there for
    good. `kill`: each is ended by SIGKILL, and once more while it starts."""
    found = Found()
    made = start_jobs(cluster, seconds)
    with Writer(cluster) as writer:
        _hold(cluster, 1)
        for version in (after, before, after) if back else (after,):
            note(f"to the version that knows level {version.level}")
            for node in cluster.nodes:
                node.source = version.source
                restart(cluster, node, found, note, kill=kill)
            cluster.wait("the leader to know all levels", lambda at=version.level: _levels(cluster) == [at] * 3)
            if cluster.leader().get("/v1/cluster")["level"] != before.level:
                found.wrong.append("the level rose though it is held")
        if after.newer_job is not None:
            reply = cluster.leader().request("POST", "/v1/jobs", after.newer_job)
            if reply.json.get("code") != "unknown-command":
                found.wrong.append(f"what not all nodes knew for good was taken: {reply.body!r}")
        _hold(cluster, 0)
        cluster.wait("the level to rise", lambda: cluster.leader().get("/v1/cluster")["level"] == after.level)
        if after.newer_job is not None:
            reply = cluster.leader().request("POST", "/v1/jobs", after.newer_job)
            if reply.status != 201:
                found.wrong.append(f"what all nodes know is refused: {reply.body!r}")
    note(f"{writer.accepted} jobs were created meanwhile, with {writer.longest_s:.2f} s at most between two")
    if after.level > before.level:
        _go_back(cluster, before, found)
    end_jobs(cluster, made, seconds, found)
    for name, job_id in made.items():
        _account_seconds(name, instances(cluster, job_id), found)
        _account_nodes(cluster, name, job_id, found)
    return found


def _hold(cluster: Cluster, held: int) -> None:
    reply = cluster.leader().request("PATCH", "/v1/cluster/settings", {"upgrade_hold": held})
    assert reply.status == 200, reply.body


def _levels(cluster: Cluster) -> list[int | None]:
    return [node["level"] for node in cluster.leader().get("/v1/cluster")["nodes"]]


def _go_back(cluster: Cluster, before: Version, found: Found) -> None:
    """A node of the version before does not start any more, says why, and loses nothing."""
    node = cluster.followers()[0]
    later, node.source = node.source, before.source
    node.terminate(60)
    node.start()
    assert node.process is not None
    code = node.process.wait(60)
    if code == 0 or "too old for this cluster" not in node.log.read_text()[-2_000:]:
        found.wrong.append(f"{node.id} went back: exit code {code}")
    node.source = later
    node.start()
    cluster.wait_ready()


def _account_seconds(name: str, rows: list[dict[str, Any]], found: Found) -> None:
    """Each second is there, once."""
    due = sorted(datetime.fromisoformat(row["scheduled_at"]).timestamp() for row in rows)
    for before, after in pairwise(due):
        if not 0.999 < after - before < 1.001:
            found.wrong.append(f"{name}: due at {before} and then at {after}")


def _account_nodes(cluster: Cluster, name: str, job_id: str, found: Found) -> None:
    """All nodes say the same of its runs."""
    said = {
        node.request("GET", f"/v1/jobs/{job_id}/instances?limit=1000&consistency=leader").body
        for node in cluster.alive()
    }
    if len(said) != 1:
        found.wrong.append(f"{name}: the nodes say {len(said)} different things of its runs")

"""The trial: nodes are taken to a later version and back while jobs come due every second, then to it for good.

The later version is a copy of this one that knows one level more, in which jobs got their field `expires`.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from raftsched.core.levels import newest_level
from scripts.trials.rolling import Found, end_jobs, instances, restart, start_jobs
from tests.support.cluster import Cluster

_HISTORY, _PARTS = "HISTORY = {\n", "PARTS_SINCE: dict[tuple[type, str], int] = {}\n"
_NEWER_JOB = {"trigger": {"manual": True}, "handler": {"shell": "true"}, "expires": "1h"}


def later_version(directory: Path) -> Path:
    """Makes the later version below the directory, and returns where its package is."""
    package = Path(__file__).resolve().parents[2] / "raftsched"
    shutil.copytree(package, directory / "raftsched", ignore=shutil.ignore_patterns("__pycache__"))
    file = directory / "raftsched/core/levels.py"
    source, level = file.read_text(), newest_level() + 1
    assert source.count(_HISTORY) == source.count(_PARTS) == 1, "the levels are not where they were"
    source = source.replace(_HISTORY, f'{_HISTORY}    {level}: "runs that expire",\n')
    more = f'from raftsched.core.model import Policy\n\nPARTS_SINCE[Policy, "expires_ms"] = {level}\n'
    file.write_text(source.replace(_PARTS, _PARTS + more))
    return directory


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


def run_upgrade(cluster: Cluster, later: Path, seconds: float, note: Callable[[str], None]) -> Found:
    found, level = Found(), newest_level()
    made = start_jobs(cluster, seconds)
    with Writer(cluster) as writer:
        _hold(cluster, 1)
        for source, known in ((later, level + 1), (None, level), (later, level + 1)):
            note(f"to the version that knows level {known}")
            for node in cluster.nodes:
                node.source = source
                restart(cluster, node, found, note)
            cluster.wait("the leader to know all levels", lambda known=known: _levels(cluster) == [known] * 3)
            if cluster.leader().get("/v1/cluster")["level"] != level:
                found.wrong.append("the level rose though it is held")
        if (reply := cluster.leader().request("POST", "/v1/jobs", _NEWER_JOB)).json["code"] != "unknown-command":
            found.wrong.append(f"what not all nodes knew for good was taken: {reply.body!r}")
        _hold(cluster, 0)
        cluster.wait("the level to rise", lambda: cluster.leader().get("/v1/cluster")["level"] == level + 1)
        if (reply := cluster.leader().request("POST", "/v1/jobs", _NEWER_JOB)).status != 201:
            found.wrong.append(f"what all nodes know is refused: {reply.body!r}")
    note(f"{writer.accepted} jobs were created meanwhile, with {writer.longest_s:.2f} s at most between two")
    _go_back(cluster, found)
    end_jobs(cluster, made, seconds, found)
    for name, job_id in made.items():
        _account_seconds(name, instances(cluster, job_id), found)
    return found


def _hold(cluster: Cluster, held: int) -> None:
    reply = cluster.leader().request("PATCH", "/v1/cluster/settings", {"upgrade_hold": held})
    assert reply.status == 200, reply.body


def _levels(cluster: Cluster) -> list[int | None]:
    return [node["level"] for node in cluster.leader().get("/v1/cluster")["nodes"]]


def _go_back(cluster: Cluster, found: Found) -> None:
    """A node of the version before does not start any more, says why, and loses nothing."""
    node = cluster.followers()[0]
    later, node.source = node.source, None
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

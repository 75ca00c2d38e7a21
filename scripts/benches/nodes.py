"""What the nodes say about themselves, and what the kernel says about their processes."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import lmdb

from raftsched.store.environment import DATA
from raftsched.store.store import MAP_BYTES
from tests.support.cluster import Cluster, NodeProcess

MAX_READERS = 512  # as the node has it: who opens the store first says how many
STORE = "store"  # a node's directory of it
PUNCTUAL_S = 0.05  # one of the histogram's bounds; well below an election timeout
_LATE = "raftsched_heartbeat_late_seconds"


def metrics(node: NodeProcess) -> dict[str, float]:
    """/metrics by name with labels, as in `name{le="0.1"}`."""
    found: dict[str, float] = {}
    for line in node.request("GET", "/metrics").body.decode().splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


@dataclass
class Heartbeats:
    """Those that a leader sent between two looks at its metrics."""

    sent: int = 0
    late_s: float = 0.0  # summed
    unpunctual: int = 0  # later than PUNCTUAL_S

    def add(self, before: dict[str, float], after: dict[str, float]) -> None:
        grown = {name: after[name] - before[name] for name in after if name.startswith(_LATE)}
        sent = int(grown[f"{_LATE}_count"])
        self.sent += sent
        self.late_s += grown[f"{_LATE}_sum"]
        self.unpunctual += sent - int(grown[f'{_LATE}_bucket{{le="{PUNCTUAL_S}"}}'])

    @property
    def mean_late_ms(self) -> float:
        return self.late_s / self.sent * 1000 if self.sent else float("nan")


def term(node: NodeProcess) -> int:
    return int(node.get("/v1/cluster")["term"])


def indices(node: NodeProcess) -> tuple[int, int]:
    """(commit index, applied index)"""
    found = metrics(node)
    return int(found["raftsched_raft_commit_index"]), int(found["raftsched_raft_applied_index"])


def wait_caught_up(cluster: Cluster, node: NodeProcess, leader: NodeProcess, timeout: float) -> float:
    """Until `node` has applied all that was committed when this was called; seconds."""
    goal = indices(leader)[0]
    start = time.perf_counter()
    cluster.wait(f"{node.id} has applied entry {goal}", lambda: indices(node)[1] >= goal, timeout)
    return time.perf_counter() - start


def anonymous_kib(pid: int) -> int:
    """Memory of a process that no file stands behind (proc(5), smaps_rollup)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/{pid}/smaps_rollup says nothing of anonymous memory")


def disk_bytes(directory: Path) -> int:
    """Blocks taken by the files below a directory; they may come and go meanwhile."""
    total = 0
    for file in directory.rglob("*"):
        with suppress(OSError):
            total += file.stat().st_blocks * 512
    return total


def used_pages(node: NodeProcess) -> int:
    """Pages of a node's store that hold something; its files have free ones, too. Read as LMDB's other processes do."""
    return sum(_pages(file.parent) for file in _files(node))


def _files(node: NodeProcess) -> list[Path]:
    """Those of the log and of the tables."""
    return sorted((node.data / STORE).glob(f"*/{DATA}"))


def _pages(directory: Path) -> int:
    with lmdb.open(str(directory), readonly=True, map_size=MAP_BYTES, max_dbs=64, max_readers=MAX_READERS) as env:
        with env.begin() as txn:
            names = [bytes(name) for name in txn.cursor().iternext(values=False)]
        databases = [env.open_db(name, create=False) for name in names]
        with env.begin() as txn:
            stats = [env.stat(), *(txn.stat(database) for database in databases)]
    return sum(one["branch_pages"] + one["leaf_pages"] + one["overflow_pages"] for one in stats)


def file_bytes(node: NodeProcess) -> int:
    """Length of the store's files."""
    return sum(file.stat().st_size for file in _files(node))


def job_ids(node: NodeProcess) -> set[str]:
    """The ids of all jobs, as this node has them."""
    found: set[str] = set()
    path: str | None = "/v1/jobs?limit=1000"
    while path:
        page = node.get(path)
        found.update(item["id"] for item in page["items"])
        path = f"/v1/jobs?limit=1000&cursor={page['next']}" if page["next"] else None
    return found

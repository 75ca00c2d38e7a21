"""What nodes take of the machine: processor, memory, disk. Of a node's own process and of those below it (sentinel,
supervisor, keepers and the runs), which are told apart.

What reaches the disk is told by the disk: sectors written to the device that the data directories are on, divided by
the nodes. That counts the file system's journal, but also what others write. What the kernel counts for a process
(proc(5), pid/io write_bytes) is no measure: with large folios it counts hundreds of pages for one that changed. How
much a process handed to write(2) is known exactly (wchar), but that is answers and entries for its peers, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster import Cluster, NodeProcess

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Used:
    cpu_s: float = 0.0
    below_cpu_s: float = 0.0
    handed: int = 0  # bytes that the node's process gave to write(2): disk and connections

    @property
    def all_cpu_s(self) -> float:
        return self.cpu_s + self.below_cpu_s

    def __add__(self, other: Used) -> Used:
        return Used(
            self.cpu_s + other.cpu_s,
            self.below_cpu_s + other.below_cpu_s,
            self.handed + other.handed,
        )

    def __sub__(self, other: Used) -> Used:
        return Used(
            self.cpu_s - other.cpu_s,
            self.below_cpu_s - other.below_cpu_s,
            self.handed - other.handed,
        )


class Meter:
    """What each node used since this was made, across restarts: `before_kill` goes before a kill."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._begin = used(cluster.nodes)
        self._earlier = {node.id: Used() for node in cluster.nodes}  # by processes that were killed
        self._device_begin = device_written(cluster.directory)

    def before_kill(self, node: NodeProcess) -> None:
        self._earlier[node.id] += used([node])[node.id] - self._begin[node.id]
        self._begin[node.id] = Used()

    def read(self) -> dict[str, Used]:
        now = used(self._cluster.nodes)
        return {node: self._earlier[node] + now[node] - self._begin[node] for node in now}

    def per_job(self, leader: NodeProcess, jobs: int) -> dict[str, float | None]:
        """Microseconds of the leader's process and of the costlier follower's; KiB written to the disk by a node."""
        spent = self.read()
        handed = max(one.handed for one in spent.values())
        mine = spent.pop(leader.id)
        return {
            "leader_us": mine.cpu_s / jobs * 1e6,
            "follower_us": max((one.cpu_s for one in spent.values()), default=0.0) / jobs * 1e6,
            "written_kib_per_job": self._written_kib(jobs),
            "handed_kib_per_job": handed / jobs / 1024,
        }

    def per_start(self, starts: int) -> dict[str, float | None]:
        """Microseconds of all nodes, with the processes below them; KiB written to the disk by a node."""
        spent = self.read().values()
        return {
            "cpu_per_start_us": sum(one.all_cpu_s for one in spent) / starts * 1e6,
            "below_cpu_per_start_us": sum(one.below_cpu_s for one in spent) / starts * 1e6,
            "written_kib_per_start": self._written_kib(starts),
            "handed_kib_per_start": max(one.handed for one in spent) / starts / 1024,
        }

    def _written_kib(self, jobs: int) -> float | None:
        """By a node, on the average."""
        now = device_written(self._cluster.directory)
        if now is None or self._device_begin is None:
            return None
        return (now - self._device_begin) / len(self._cluster.nodes) / jobs / 1024


def device_written(directory: Path) -> int | None:
    """Bytes written to the device under a directory since boot; None when it is no block device (overlay, tmpfs)."""
    number = directory.stat().st_dev
    try:
        fields = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").read_text().split()
    except OSError:
        return None
    return int(fields[6]) * 512


def used(nodes: list[NodeProcess]) -> dict[str, Used]:
    """Of each node up to now; nothing of one that does not live."""
    children = _children()
    found = {}
    for node in nodes:
        found[node.id] = Used()
        if node.process is not None and node.alive:
            own, below_s = _cpu_s(node.process.pid)
            below = _below(node.process.pid, children)
            below_s += sum(sum(_cpu_s(pid)) for pid in below)
            found[node.id] = Used(own, below_s, _handed(node.process.pid))
    return found


def cpu_s(pid: int) -> float:
    """Returns what one process took, without those below it."""
    return _cpu_s(pid)[0]


def processes_of(pid: int) -> list[int]:
    """Returns the process and all below it."""
    return [pid, *_below(pid, _children())]


def proportional_anonymous_kib(pid: int) -> int:
    """Of a process and all below it, what several share counted once."""
    return sum(map(anonymous_kib, processes_of(pid)))


def anonymous_kib(pid: int) -> int:
    """Of one process; its part of what it shares (proc(5), smaps_rollup: Pss_Anon). Nothing of one that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1])
    return 0


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid, parent in _parents():
        found.setdefault(parent, []).append(pid)
    return found


def _below(pid: int, children: dict[int, list[int]]) -> list[int]:
    found = list(children.get(pid, ()))
    for each in found:  # it grows meanwhile
        found += children.get(each, ())
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                yield int(name), int(_stat(int(name))[1])


def _stat(pid: int) -> list[str]:
    """From the state on (proc(5), pid/stat)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _cpu_s(pid: int) -> tuple[float, float]:
    """(of the process itself to the nanosecond, of its children that ended and were waited for)"""
    try:
        children = sum(map(int, _stat(pid)[13:15])) / _TICK
        return time.clock_gettime((~pid << 3) | 2), children  # clock_getcpuclockid(3)
    except OSError:
        return 0.0, 0.0


def _handed(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            if line.startswith("wchar:"):
                return int(line.split()[1])
    return 0

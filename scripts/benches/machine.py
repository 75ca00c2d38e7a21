"""What the machine did meanwhile: how busy it was, and how much of that the benchmark and its nodes were."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


class Load:
    """From here until `shares` is asked for."""

    def __init__(self) -> None:
        self._all, self._idle = _cpu()
        self._own = _own_s()
        self._load = time.process_time()

    def spent_s(self) -> float:
        """Returns CPU seconds of this benchmark and of what it started."""
        return _own_s() - self._own

    def shares(self) -> dict[str, float]:
        """Of all cores: busy, busy with other things than this benchmark and what it started, busy with the load."""
        everything, idle = _cpu()
        total = max(everything - self._all, 1e-9)
        busy = total - (idle - self._idle)
        own = self.spent_s()
        return {
            "cpu_busy": busy / total,
            "cpu_others": max(0.0, busy - own) / total,
            "cpu_load": (time.process_time() - self._load) / total,
        }


def _cpu() -> tuple[float, float]:
    """(all, idle) seconds of all cores since boot (proc(5), stat: user nice system idle iowait irq softirq steal)."""
    numbers = [int(word) / _TICK for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(numbers), numbers[3] + numbers[4]


def _own_s() -> float:
    """CPU seconds of this process and all below it, those that ended and were waited for among them."""
    stats: dict[int, tuple[int, float]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                stats[int(name)] = int(fields[1]), sum(map(int, fields[11:15])) / _TICK
    me, total = os.getpid(), 0.0
    for pid, (_, used) in stats.items():
        ancestor = pid
        while ancestor != me and ancestor in stats:
            ancestor = stats[ancestor][0]
        if ancestor == me:
            total += used
    return total

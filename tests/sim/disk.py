"""A machine's disk: jobs take virtual time, are done whole or not at all, and fail while the disk is full.

A job runs at once when its time has come; its report comes later. So a process killed in between has lost the job, or
has it on the disk without knowing. That a write of the log is whole or absent is LMDB's promise and not looked at here;
that it was made to sync it is (power.py), and what a kill in the midst of other jobs leaves behind (crash.py). The
tables are written without syncs; what a loss of power leaves of them is any part of it (power.py).
"""

from __future__ import annotations

import errno
import random
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from tests.sim.crash import Crashed, Doom
from tests.sim.loop import Loop, Scheduler

Done = Callable[[Any, BaseException | None], None]


class Disk:
    """The part of a machine's disk that outlives the process."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.low_s = 0.0003
        self.high_s = 0.002
        self.slow = 1.0  # factor
        self.hang_until = 0.0
        self.full = False
        self.doom: Doom | None = None
        self.crashed: Callable[[], None] = lambda: None

    def latency_s(self) -> float:
        latency = self.rng.uniform(self.low_s, self.high_s) * self.slow
        return latency * 20 if self.rng.random() < 0.01 else latency


class DiskWriter:
    """raftsched.raft.writer.Writer: one job after another."""

    def __init__(self, scheduler: Scheduler, loop: Loop, disk: Disk, post: Callable[..., object], name: str) -> None:
        self._scheduler = scheduler
        self._loop = loop
        self._disk = disk
        self._post = post
        self._writes = "snapshots" not in name
        self._jobs: deque[tuple[Callable[[], Any], Done]] = deque()
        self._busy = False

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        self._jobs.append((job, done))
        if not self._busy:
            self._begin()

    def close(self) -> None:
        """What has not begun is not done any more."""
        self._jobs.clear()

    def _begin(self) -> None:
        self._busy = True
        wait = max(0.0, self._disk.hang_until - self._scheduler.now)
        self._scheduler.after(wait + self._disk.latency_s(), self._run)

    def _run(self) -> None:
        loop, scheduler, disk = self._loop, self._scheduler, self._disk
        if loop.dead or not self._jobs:
            self._busy = False
            return
        later = max(
            disk.hang_until, loop.busy_until if not loop.cost else 0.0
        )  # a stopped process's threads stand, too
        if later > scheduler.now:
            scheduler.at(later + 0.0001, self._run)
            return
        job, done = self._jobs.popleft()
        result: Any = None
        error: BaseException | None = None
        if disk.full and (self._writes or disk.rng.random() < 0.7):
            error = OSError(errno.ENOSPC, "No space left on device")
        else:
            try:
                with disk.doom.watched() if disk.doom is not None else nullcontext():
                    result = job()
            except Crashed:
                disk.crashed()
                return
            except Exception as raised:
                error = raised
            if disk.doom is not None and disk.doom.at:  # somebody took the end of the process for an error of his own
                disk.crashed()
                return
        scheduler.after(disk.rng.uniform(0.0, 0.001) * disk.slow, self._report, done, result, error)

    def _report(self, done: Done, result: Any, error: BaseException | None) -> None:
        if self._loop.dead:
            return
        self._post(done, result, error)
        if self._jobs:
            self._begin()
        else:
            self._busy = False

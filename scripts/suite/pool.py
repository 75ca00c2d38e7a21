"""Runs bundles side by side: so many at a time as keep all cores busy, the longest first.

How many that are is guessed by what the bundles took before; where the cores are idle all the same, one more begins.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from scripts.suite.bundles import Bundle

LANES_MAX = 5
# Tests wait for disks, elections and each other: together they may want a little more than there is.
OVERCOMMIT = 1.2
IDLE = 0.2  # of all cores, during
LOOK_S = 3.0
SAYS_EVERY_S = 30.0


class Cores:
    """Tells how much of the machine was idle lately (/proc/stat, proc(5))."""

    def __init__(self) -> None:
        self._at, (self._idle, self._all) = time.monotonic(), _ticks()

    def idle(self) -> float:
        """Returns the share of all cores that was idle since the last answer; 0 while that is less than LOOK_S ago."""
        now = time.monotonic()
        if now - self._at < LOOK_S:
            return 0.0
        idle, every = _ticks()
        share = (idle - self._idle) / max(1, every - self._all)
        self._at, self._idle, self._all = now, idle, every
        return share


def _ticks() -> tuple[int, int]:
    """Returns the ticks in which the cores were idle, and all ticks."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


@dataclass
class Run:
    bundle: Bundle
    process: subprocess.Popen[bytes]
    log: Path
    lane: int
    began: float


@dataclass(frozen=True)
class Ended:
    bundle: Bundle
    code: int  # of the process; that of pytest is 5 where nothing was chosen
    wall_s: float
    log: Path

    @property
    def good(self) -> bool:
        return self.code in (0, 5)


class Stopped(Exception):
    """The pool was told to end by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class Pool:
    """`ready(need)` says whether what a bundle needs is installed; `say` prints a line of progress."""

    def __init__(
        self,
        folder: Path,
        environment: dict[str, str],
        say: Callable[[str], None],
        ready: Callable[[str], bool] = lambda _: True,
        cores: int | None = None,
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._say = say
        self._ready = ready
        self._cores = cores or len(os.sched_getaffinity(0))
        self._running: list[Run] = []

    def run(self, bundles: list[Bundle]) -> list[Ended]:
        """Runs all and returns how they ended. Raises Stopped after SIGINT and SIGTERM; all of them are over then."""
        before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            return self._run(sorted(bundles, key=lambda bundle: -bundle.wall_s))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._end_all()

    def _run(self, waiting: list[Bundle]) -> list[Ended]:
        began = said = time.monotonic()
        machine = Cores()
        total, expected = len(waiting), sum(bundle.cpu_s for bundle in waiting)
        ended: list[Ended] = []
        while waiting or self._running:
            idle = machine.idle() > IDLE
            while (bundle := self._next(waiting, idle)) is not None:
                waiting.remove(bundle)
                self._start(bundle)
                idle = False  # one more is enough until it has had its chance
            time.sleep(0.05)
            over = [run for run in self._running if run.process.poll() is not None]
            for run in over:
                self._running.remove(run)
                ended.append(Ended(run.bundle, run.process.returncode, time.monotonic() - run.began, run.log))
            for end in ended[len(ended) - len(over) :]:
                self._say(f"{self._at(began, len(ended), total)} {end.bundle.name}: {_outcome(end)}")
                said = time.monotonic()
            if self._running and time.monotonic() - said > SAYS_EVERY_S:
                said = time.monotonic()
                names = ", ".join(f"{run.bundle.name} ({said - run.began:.0f} s)" for run in self._running)
                left = sum(bundle.cpu_s for bundle in waiting) / expected if expected else 0.0
                self._say(f"{self._at(began, len(ended), total)} running {names}; {left:.0%} of the work has not begun")
        return ended

    def _next(self, waiting: list[Bundle], idle: bool) -> Bundle | None:
        """Returns the longest bundle that the cores have room for, or the longest of all where they are idle."""
        if len(self._running) >= LANES_MAX:
            return None
        used = sum(run.bundle.cores for run in self._running)
        for bundle in waiting:
            fits = idle or not self._running or used + bundle.cores <= self._cores * OVERCOMMIT
            if fits and (not bundle.needs or self._ready(bundle.needs)):
                return bundle
        return None

    def _start(self, bundle: Bundle) -> None:
        lane = min(set(range(1, LANES_MAX + 1)) - {run.lane for run in self._running})
        log = self._folder / f"{bundle.name.replace('/', '-').replace(' ', '-')}.log"
        environment = {**self._environment, "RAFTSCHED_TEST_LANE": f"{lane}: {bundle.name}"}
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["nice", "-n", str(bundle.nice), *bundle.command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,  # so that a signal ends all of it
            )
        self._running.append(Run(bundle, process, log, lane, time.monotonic()))

    def _end_all(self) -> None:
        for run in self._running:
            try:
                os.killpg(run.process.pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        for run in self._running:
            try:
                run.process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(run.process.pid, signal.SIGKILL)
                run.process.wait()
        self._running.clear()

    @staticmethod
    def _at(began: float, done: int, total: int) -> str:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        return f"[{minutes}:{seconds:02}] {done}/{total}"


def _stop(number: int, _: FrameType | None) -> None:
    raise Stopped(number)


def _outcome(end: Ended) -> str:
    """Returns the last line that the bundle printed, which is pytest's count."""
    text = end.log.read_text(errors="replace").strip()
    last = text.splitlines()[-1].strip("= ") if text else "no output"
    return last if end.good else f"FAILED ({last})"

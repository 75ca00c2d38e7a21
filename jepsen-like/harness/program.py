"""A process of raftsched under trial: started with a clock that can be shifted, killed, started again."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.clock import SECOND, boot_ns

END_WITH = Path(__file__).resolve().parent / "end_with.py"


class Program:
    """One process at a time. `expected`: it may end by itself, because of what is done to it."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.clock = directory / "clock"  # what is added to its wall clock, in nanoseconds
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.expected = False
        self.starts = 0

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def begin(self, command: Sequence[str], more: Mapping[str, str]) -> int:
        """Starts it, to end with this process. `more`: of its environment. Returns the pid."""
        self.expected = False
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAFTSCHED_")}
        with self.log.open("ab") as log:
            log.write(f"---- start {self.starts} at {boot_ns() / SECOND:.3f}\n".encode())
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-E", str(END_WITH), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env | more,
                start_new_session=True,
            )
        return self.process.pid

    def shift_clock(self, seconds: float) -> None:
        with self.clock.open("r+b") as file:  # in place: the process has it mapped
            file.write(struct.pack("=q", round(seconds * SECOND)))

    async def kill(self) -> None:
        if self.process is not None:
            self.expected = True
            if self.process.poll() is None:
                self.process.kill()
            await asyncio.to_thread(self.process.wait)

    async def terminate(self, timeout_s: float = 30.0) -> int | None:
        """SIGTERM; None: it did not end in time and was killed."""
        assert self.process is not None
        self.expected = True
        self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.to_thread(self.process.wait, timeout_s)
        except subprocess.TimeoutExpired:
            await self.kill()
            return None

"""The processes of a node, found from outside: itself, its sentinel and supervisor, the keepers of its runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

GUARD = b"raftsched.worker.processes.sentinel"  # in the command line of a supervisor and its keepers


@dataclass(frozen=True)
class Guards:
    """Keeper, supervisor and sentinel: any two of the three may die or stand still at once."""

    sentinel: int
    supervisor: int
    keepers: tuple[int, ...]


def guards(node: int) -> list[Guards]:
    """Of the node with this pid. None while it starts them; two for a moment when one of them has died."""
    found = []
    for sentinel in children(node):
        for supervisor in children(sentinel):
            if GUARD in command_line(supervisor):
                keepers = tuple(pid for pid in children(supervisor) if GUARD in command_line(pid))
                found.append(Guards(sentinel, supervisor, keepers))
    return found


def command_line(pid: int) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as listed:
                found += map(int, listed.read().split())
    return found


def send(number: signal.Signals, pids: Iterable[int]) -> None:
    """To those that still live."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def private_bytes(pid: int) -> int:
    """What RLIMIT_DATA counts: private writable memory, not the mapped store."""
    with suppress(OSError), open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0

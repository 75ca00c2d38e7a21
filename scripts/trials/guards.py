"""The processes between a node and its runs, found from outside: sentinel, supervisor, keepers."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from tests.support.cluster import NodeProcess

MODULE = b"raftsched.worker.processes.sentinel"  # in the command line of a supervisor and its keepers


@dataclass(frozen=True, slots=True)
class Guards:
    sentinel: int
    supervisor: int
    keepers: tuple[int, ...]


def guards(node: NodeProcess) -> list[Guards]:
    """One; none while the node starts them, two for a moment when one of them has died."""
    assert node.process is not None
    found = []
    for sentinel in children(node.process.pid):
        for supervisor in children(sentinel):
            if MODULE in command_line(supervisor):
                keepers = tuple(pid for pid in children(supervisor) if MODULE in command_line(pid))
                found.append(Guards(sentinel, supervisor, keepers))
    return found


def supervisors(node: NodeProcess) -> list[int]:
    return [found.supervisor for found in guards(node)]


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

"""Knows the nodes that run in this program: what is enqueued there without a client goes to the newest of them."""

from __future__ import annotations

import asyncio
import os
from typing import Any, NamedTuple


class RunningNode(NamedTuple):
    node: Any  # a raftsched.Node
    loop: asyncio.AbstractEventLoop
    pid: int


_running: list[RunningNode] = []
_pids: set[int] = set()  # of processes in which a node runs, or ran


def note(node: Any) -> None:
    """Notes a node that runs in the event loop of the caller."""
    _running.append(RunningNode(node, asyncio.get_running_loop(), os.getpid()))
    _pids.add(os.getpid())


def forget(node: Any) -> None:
    """Forgets a node that stops."""
    _running[:] = [one for one in _running if one.node is not node]


def newest() -> RunningNode | None:
    """Returns the one that started last; None: none runs in this process."""
    here = [one for one in _running if one.pid == os.getpid() and not one.loop.is_closed()]
    return here[-1] if here else None


def ran() -> bool:
    """Returns whether one runs in this process, or ran."""
    return os.getpid() in _pids


def of(node: object) -> RunningNode | None:
    """Returns it where it is a node that runs in this process; None: it is something else."""
    return next((one for one in _running if one.node is node and one.pid == os.getpid()), None)

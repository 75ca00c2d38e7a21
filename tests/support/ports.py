"""Ports of 127.0.0.1 that nothing else takes: not another run of tests, and no connection of anybody."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path

# Below those that Linux gives to connections by itself (net.ipv4.ip_local_port_range): a port that a node gave up for
# a moment is not taken by a connection meanwhile.
_FIRST, _LAST = 12_000, 32_000
_LOCKS = Path(tempfile.gettempdir()) / f"raftsched-ports-{os.getuid()}"
_held: dict[int, int] = {}  # port -> descriptor of its lock


def free_ports(count: int) -> list[int]:
    """Returns ports at which nobody listens, and which no other process of tests is given while this one lives."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(_FIRST, _LAST)
        if _take(port):
            ports.append(port)
    return ports


def dev_port() -> int:
    """Returns a port for `raftsched dev --port`: those that its three nodes take beside it are free as well."""
    while True:
        (port,) = free_ports(1)
        if all(_take(port + more) for more in (1, 2, 100, 101, 102)):
            return port


def _take(port: int) -> bool:
    _LOCKS.mkdir(exist_ok=True)
    lock = os.open(_LOCKS / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as plain:  # also one without SO_REUSEADDR can have it
            plain.bind(("127.0.0.1", port))
    except OSError:  # another process has the port or its lock, or this one has
        os.close(lock)
        return False
    _held[port] = lock
    return True


def give_back(ports: Iterable[int]) -> None:
    """Others may have them again."""
    for port in ports:
        os.close(_held.pop(port))


def closed_port() -> int:
    """Returns a port at which nobody listens as long as this process lives."""
    return free_ports(1)[0]

"""Real Raft nodes in one process: real sockets, real stores, ports given by the kernel."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from pathlib import Path

from raftsched.clock import SystemClock
from raftsched.core.commands import Barrier, encode
from raftsched.raft import Raft, RaftOptions
from raftsched.store import Store

FAST = RaftOptions(
    election_min_ms=150,
    election_max_ms=300,
    heartbeat_ms=30,
    tick_ms=10,
    connect_min_ms=10,
    connect_max_ms=50,
    handshake_ms=500,
)
BARRIER = encode(Barrier())
PATIENCE_S = 30.0


def listening() -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    return sock


def address_of(sock: socket.socket) -> str:
    return f"127.0.0.1:{sock.getsockname()[1]}"


class Cluster:
    def __init__(self, directory: Path, names: str = "abc", options: RaftOptions = FAST) -> None:
        self.directory = directory
        self.options = options
        self.sockets = {name: listening() for name in names}
        self.addresses = {name: address_of(sock) for name, sock in self.sockets.items()}
        self.nodes: dict[str, Raft] = {}
        self.stores: dict[str, Store] = {}
        self.fatal: list[BaseException] = []

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *error: object) -> None:
        for name in list(self.nodes):
            await self.stop(name)
        for sock in self.sockets.values():
            sock.close()

    async def start(self, *names: str, key: bytes = b"secret") -> None:
        for name in names or self.addresses:
            store = Store.open(self.directory / name, sync=False)
            self.stores[name] = store
            bind = self.sockets.pop(name, self.addresses[name])
            node = Raft(
                store,
                name,
                bind,
                self.addresses,
                None,
                key,
                SystemClock(),
                random.Random(),
                f"127.0.0.1:80{ord(name)}",
                options=self.options,
                on_fatal=self.fatal.append,
            )
            self.nodes[name] = node
            await node.start()

    async def stop(self, name: str) -> None:
        node = self.nodes.pop(name)
        await node.stop()
        self.stores.pop(name).close()

    async def leader(self) -> Raft:
        await until(lambda: any(node.leading for node in self.nodes.values()))
        return next(node for node in self.nodes.values() if node.leading)


async def until(condition: Callable[[], object]) -> None:
    """Waits for a condition that the loop's own events bring about."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)

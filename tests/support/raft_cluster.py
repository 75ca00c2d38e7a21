"""Real Raft nodes in one process: real sockets, real stores, ports given by the kernel."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from raftsched.core.commands import Barrier, encode
from raftsched.raft import Raft, RaftOptions
from raftsched.raft.transport.tls import Wire
from raftsched.raft.writer import Done, ThreadWriter, Writer
from raftsched.security.keyring import Keyring
from raftsched.store import Store
from raftsched.system.clock import SystemClock
from tests.support.patience import patient_ms, until
from tests.support.ports import free_ports, give_back

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


def listening(port: int = 0) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def at_ease(options: RaftOptions) -> RaftOptions:
    """The options with elections as much later as this machine is slower: nobody is elected because it was busy."""
    names = ("election_min_ms", "election_max_ms", "handshake_ms")
    return replace(options, **{name: patient_ms(getattr(options, name)) for name in names})


def address_of(sock: socket.socket) -> str:
    return f"127.0.0.1:{sock.getsockname()[1]}"


class Cluster:
    def __init__(
        self,
        directory: Path,
        names: str = "abc",
        options: RaftOptions = FAST,
        writers: Callable[[Callable[..., object], str], Writer] = ThreadWriter,
    ) -> None:
        self.writers = writers
        self.directory = directory
        self.options = at_ease(options)
        self._ports = free_ports(len(names))  # nobody else's while a node that had one starts again
        self.sockets = {name: listening(port) for name, port in zip(names, self._ports, strict=True)}
        self.addresses = {name: address_of(sock) for name, sock in self.sockets.items()}
        self.nobody = listening()  # accepts nothing
        self.told: dict[str, dict[str, str]] = {}  # what a node is started with, where that is not `addresses`
        self.nodes: dict[str, Raft] = {}
        self.stores: dict[str, Store] = {}
        self.fatal: list[BaseException] = []

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *error: object) -> None:
        for name in list(self.nodes):
            await self.stop(name)
        for sock in (self.nobody, *self.sockets.values()):
            sock.close()
        give_back(self._ports)

    async def start(self, *names: str, key: bytes = b"secret", wire: Wire | None = None) -> None:
        for name in names or self.addresses:
            store = Store.open(self.directory / name, sync=False)
            self.stores[name] = store
            bind = self.sockets.pop(name, self.addresses[name])
            node = Raft(
                store,
                name,
                bind,
                {**self.told.get(name, self.addresses), name: self.addresses[name]},
                None,
                Keyring(key),
                SystemClock(),
                random.Random(),
                f"127.0.0.1:80{ord(name)}",
                options=self.options,
                on_fatal=self.fatal.append,
                writers=self.writers,
                wire=wire,
            )
            self.nodes[name] = node
            await node.start()

    async def stop(self, name: str) -> None:
        node = self.nodes.pop(name)
        await node.stop()
        self.stores.pop(name).close()

    def move(self, *names: str) -> None:
        """Gives nodes that do not run other addresses. The others are started with the old ones from now on."""
        before = dict(self.addresses)
        self.told = {name: self.told.get(name, before) for name in self.addresses}
        ports = free_ports(len(names))
        self._ports += ports
        self.addresses.update({name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)})

    async def leader(self) -> Raft:
        await until(lambda: any(node.leading for node in self.nodes.values()))
        return next(node for node in self.nodes.values() if node.leading)


class SlowDisks:
    """Writers whose turns, once `slow`, end only when they are released: the writer threads really wait."""

    def __init__(self) -> None:
        self.slow = False
        self._held: list[threading.Event] = []

    def __call__(self, post: Callable[..., object], name: str) -> Writer:
        return _SlowWriter(self, post, name)

    def waiting(self) -> list[threading.Event]:
        """Turns under way."""
        self._held = [turn for turn in self._held if not turn.is_set()]
        return self._held

    def hold(self) -> threading.Event:
        turn = threading.Event()
        self._held.append(turn)
        return turn

    def restore(self) -> None:
        self.slow = False
        for turn in self._held:
            turn.set()


class _SlowWriter(ThreadWriter):
    def __init__(self, disks: SlowDisks, post: Callable[..., object], name: str) -> None:
        super().__init__(post, name)
        self._disks = disks

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        if self._disks.slow:
            turn = self._disks.hold()
            super().submit(lambda: (job(), turn.wait())[0], done)
        else:
            super().submit(job, done)

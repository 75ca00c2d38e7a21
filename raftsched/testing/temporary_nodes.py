"""Runs several nodes in one process and event loop."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from raftsched.embedded.node import Node
from raftsched.security.keyring import KEY_FILE, own_key

SIZE_MAX = 7
SLOTS = 8  # of each node
READY_S = 60.0
ELECTION_TIMEOUT_MS = 500  # there is no network in between that could be slow


class _Port:
    """A free port of loopback that stays reserved while no node listens there, as while one is stopped."""

    def __init__(self) -> None:
        self._kept = _bound(0)
        self.number: int = self._kept.getsockname()[1]

    def socket(self) -> socket.socket:
        return _bound(self.number)

    def close(self) -> None:
        self._kept.close()


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class Cluster(Sequence[Node]):
    """`async with cluster(3) as nodes:` its nodes, n1 first. Nodes can be stopped and started again one by one."""

    def __init__(self, size: int = 3, *, directory: Path | None = None, **settings: Any) -> None:
        """`directory`: where the nodes keep their data, which stays there; None: a temporary one. `settings`: of all
        nodes, as for raftsched.Node. ValueError for a size that is no cluster's."""
        if not 1 <= size <= SIZE_MAX:
            raise ValueError(f"a cluster has 1 to {SIZE_MAX} nodes here, not {size}; three are usual")
        self._size = size
        self._directory = directory
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        slots = {} if settings.get("no_run") else {"slots": SLOTS}
        self._settings = {**slots, "grace": "1s", "http_allow": "any", "jobs_as_node": True, **settings}
        self._ports: dict[str, tuple[_Port, _Port]] = {}  # HTTP and Raft
        self._nodes: list[Node] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, which: Any) -> Any:
        """Returns a node by number from 0, or by id."""
        if isinstance(which, str):
            return next(node for node in self._nodes if node.id == which)
        return self._nodes[which]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    @property
    def servers(self) -> str:
        """The addresses of all nodes, for clients: raftsched.Client(cluster.servers)."""
        return ",".join(node.url for node in self._nodes)

    # ------------------------------------------------------------ life

    async def __aenter__(self) -> Cluster:
        try:
            if self._directory is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="raftsched-")
            directory = Path(self._temporary.name) if self._temporary else self._directory or Path()
            names = [f"n{number}" for number in range(1, self._size + 1)]
            self._ports = {name: (_Port(), _Port()) for name in names}
            peers = {name: f"127.0.0.1:{raft.number}" for name, (_, raft) in self._ports.items()}
            settings = self._settings
            if self._size > 1 and not settings.keys() & {"cluster_key_file", "insecure_raft"}:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                own_key(directory)
                settings = {"cluster_key_file": str(directory / KEY_FILE), **settings}
            for name in names:
                http = f"127.0.0.1:{self._ports[name][0].number}"
                self._nodes.append(Node(id=name, data=directory / name, peers=peers, http=http, **settings))
            await asyncio.gather(*(self.start(node) for node in self._nodes))
            await self.ready()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        try:
            await asyncio.gather(*(node.stop() for node in self._nodes))
        finally:
            for pair in self._ports.values():
                for port in pair:
                    port.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    async def ready(self, timeout: float | None = READY_S) -> None:
        """Waits until all nodes that run can take requests. `timeout` in seconds; raises TimeoutError."""
        await asyncio.gather(*(node.ready(timeout) for node in self._nodes if node.running))

    async def start(self, node: Node) -> None:
        """Starts a node that was stopped, where it was. It is ready when `node.ready()` says so."""
        http, raft = self._ports[node.id]
        from raftsched.node import Sockets

        await node.start(sockets=Sockets(http.socket(), raft.socket()), election_timeout_ms=ELECTION_TIMEOUT_MS)

    async def leader(self) -> Node:
        """Returns the node that all running ones take for the leader, waiting for one."""
        while True:
            await self.ready()
            said = {node.leader for node in self._nodes if node.running}
            for node in self._nodes:
                if said == {node.id} and node.running:
                    return node
            await asyncio.sleep(0.02)


def cluster(size: int = 3, *, directory: Path | None = None, **settings: Any) -> Cluster:
    """See Cluster: `async with cluster(3) as nodes:`."""
    return Cluster(size, directory=directory, **settings)

"""What lies between the nodes: loopback with a relay, or a network namespace for each node.

Cuts are made per direction. In namespaces they are blackhole routes, so that packets vanish as they do on a broken
cable; on loopback the relay holds the bytes back. Delays and resets come from the relays in both.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

RELAY = Path(__file__).with_name("relay.py")
SUBNET = "198.18.0"  # of the block for tests of networks (RFC 2544)
HUB = f"{SUBNET}.254"
HTTP_PORT = 7401
RAFT_PORT = 7501
RELAY_PORT = 7601


class Network(Protocol):
    """Addresses are (host, port). `prefix` is put before the command of a node, or of a remote worker. Only where each
    has a namespace of its own can a worker be cut off."""

    name: str
    nodes: Sequence[str]

    def http(self, node: str) -> tuple[str, int]: ...
    def raft(self, node: str) -> tuple[str, int]: ...
    def dialled(self, node: str) -> tuple[str, int]:
        """Where the others look for a node's Raft port."""

    def prefix(self, node: str) -> list[str]: ...
    async def started(self, node: str, pid: int) -> None: ...
    async def cut(self, source: str, dest: str) -> None:
        """What `source` sends does not reach `dest` any more."""

    async def mend(self, source: str, dest: str) -> None: ...
    async def slow(self, source: str, dest: str, delay_s: float, bytes_per_s: float) -> None: ...
    async def reset(self, source: str, dest: str) -> None: ...
    async def close(self) -> None: ...


class RelayProcess:
    """A relay in a process of its own, and its commands."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    @classmethod
    async def start(
        cls, listen: dict[str, list[Any]], hosts: dict[str, str] | None, prefix: Iterable[str] = ()
    ) -> RelayProcess:
        config = json.dumps({"listen": listen, "hosts": hosts})
        process = await asyncio.create_subprocess_exec(
            *prefix,
            *(sys.executable, "-S", str(RELAY), config),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the harness
        )
        relay = cls(process)
        await relay._answer("ready")
        return relay

    async def command(self, **given: Any) -> None:
        async with self._turn:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(given).encode() + b"\n")
            await self._process.stdin.drain()
            await self._answer("done")

    async def _answer(self, wanted: str) -> None:
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode().strip()
        if line != wanted:
            raise RuntimeError(f"a relay of the harness ended (it said {line!r})")

    async def close(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Links:
    """What is cut and slowed now, and the relay commands that make it so. A connection carries both directions, whoever
    dialled it, so each way of a link is set at two relays."""

    def __init__(self, relays: dict[str, RelayProcess]) -> None:
        self._relays = relays  # by the node that they stand before
        self._held: set[tuple[str, str]] = set()
        self._slow: dict[tuple[str, str], tuple[float, float]] = {}

    async def hold(self, source: str, dest: str, held: bool) -> None:
        (self._held.add if held else self._held.discard)((source, dest))
        await self._tell(source, dest)

    async def slow(self, source: str, dest: str, delay_s: float, bytes_per_s: float) -> None:
        self._slow[source, dest] = (delay_s, bytes_per_s)
        await self._tell(source, dest)

    async def reset(self, source: str, dest: str) -> None:
        await self._relays[dest].command(op="reset", source=source, dest=dest)

    def _way(self, source: str, dest: str) -> dict[str, Any]:
        delay_s, bytes_per_s = self._slow.get((source, dest), (0.0, 0.0))
        return {"open": (source, dest) not in self._held, "delay_s": delay_s, "bytes_per_s": bytes_per_s}

    async def _tell(self, source: str, dest: str) -> None:
        for dialler, dialled in ((source, dest), (dest, source)):
            await self._relays[dialled].command(
                op="link",
                source=dialler,
                dest=dialled,
                there=self._way(dialler, dialled),
                back=self._way(dialled, dialler),
            )


class Loopback:
    """All on 127.0.0.1, on free ports; one relay process before all nodes."""

    name = "loopback"

    def __init__(self, nodes: Sequence[str], ports: dict[str, list[int]], relay: RelayProcess) -> None:
        self.nodes = nodes
        self._ports = ports
        self._relay = relay
        self._links = Links(dict.fromkeys(nodes, relay))

    @classmethod
    async def create(cls, nodes: Sequence[str], workers: Sequence[str] = ()) -> Loopback:
        found = iter(free_ports(3 * len(nodes)))
        ports = {node: [next(found) for _ in range(3)] for node in nodes}
        listen: dict[str, list[Any]] = {
            node: ["127.0.0.1", relay, "127.0.0.1", raft] for node, (_, raft, relay) in ports.items()
        }
        return cls(nodes, ports, await RelayProcess.start(listen, None))

    def http(self, node: str) -> tuple[str, int]:
        return "127.0.0.1", self._ports[node][0]

    def raft(self, node: str) -> tuple[str, int]:
        return "127.0.0.1", self._ports[node][1]

    def dialled(self, node: str) -> tuple[str, int]:
        return "127.0.0.1", self._ports[node][2]

    def prefix(self, node: str) -> list[str]:
        return []

    async def started(self, node: str, pid: int) -> None:
        await self._relay.command(op="pids", pids={node: pid})

    async def cut(self, source: str, dest: str) -> None:
        await self._links.hold(source, dest, True)

    async def mend(self, source: str, dest: str) -> None:
        await self._links.hold(source, dest, False)

    async def slow(self, source: str, dest: str, delay_s: float, bytes_per_s: float) -> None:
        await self._links.slow(source, dest, delay_s, bytes_per_s)

    async def reset(self, source: str, dest: str) -> None:
        await self._links.reset(source, dest)

    async def close(self) -> None:
        await self._relay.close()


class Namespaces:
    """A namespace for each node, joined by a bridge in the one that the harness runs in. Its caller has made a network,
    a mount and a process namespace of its own (`machine.enter`), so nothing is left when it ends."""

    name = "namespaces"

    def __init__(self, nodes: Sequence[str], places: Sequence[str], relays: dict[str, RelayProcess]) -> None:
        self.nodes = nodes
        self._places = places  # the nodes, then the remote workers
        self._relays = relays
        self._links = Links(relays)

    @classmethod
    async def create(cls, nodes: Sequence[str], workers: Sequence[str] = ()) -> Namespaces:
        ip("link set lo up", "link add hub type bridge", f"addr add {HUB}/24 dev hub", "link set hub up")
        places = [*nodes, *workers]
        hosts = {f"{SUBNET}.{number}": node for number, node in enumerate(places, 1)}
        relays = {}
        for host, node in hosts.items():
            ip(f"netns add {node}", f"link add veth-{node} type veth peer name eth0 netns {node}")
            ip(f"link set veth-{node} master hub", f"link set veth-{node} up")
            ip(f"-n {node} addr add {host}/24 dev eth0", f"-n {node} link set eth0 up", f"-n {node} link set lo up")
            if node in workers:
                continue  # nobody dials it
            listen = {node: [host, RELAY_PORT, "127.0.0.1", RAFT_PORT]}
            relays[node] = await RelayProcess.start(listen, hosts, ["nsenter", f"--net=/run/netns/{node}"])
        return cls(nodes, places, relays)

    def _host(self, node: str) -> str:
        return f"{SUBNET}.{self._places.index(node) + 1}"

    def http(self, node: str) -> tuple[str, int]:
        return self._host(node), HTTP_PORT

    def raft(self, node: str) -> tuple[str, int]:
        return "127.0.0.1", RAFT_PORT

    def dialled(self, node: str) -> tuple[str, int]:
        return self._host(node), RELAY_PORT

    def prefix(self, node: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{node}"]

    async def started(self, node: str, pid: int) -> None:
        return None

    async def cut(self, source: str, dest: str) -> None:
        ip(f"-n {source} route replace blackhole {self._host(dest)}/32")

    async def mend(self, source: str, dest: str) -> None:
        ip(f"-n {source} route del blackhole {self._host(dest)}/32", may_fail=True)

    async def slow(self, source: str, dest: str, delay_s: float, bytes_per_s: float) -> None:
        await self._links.slow(source, dest, delay_s, bytes_per_s)

    async def reset(self, source: str, dest: str) -> None:
        await self._links.reset(source, dest)

    async def close(self) -> None:
        for relay in self._relays.values():
            await relay.close()


def ip(*commands: str, may_fail: bool = False) -> None:
    for command in commands:
        done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
        if done.returncode and not may_fail:
            raise RuntimeError(f"ip {command}: {done.stderr.strip()}")


def free_ports(count: int) -> list[int]:
    """Returns different ports at which nobody listens, below those that Linux gives to connections by itself."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(12_000, 32_000)
        with suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            if port not in ports:
                ports.append(port)
    return ports

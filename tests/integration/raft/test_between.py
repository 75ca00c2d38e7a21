"""Somebody on the way between two nodes: he reads nothing, and is noticed at the first byte that he changes."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from raftsched.core.commands import RunNow, encode
from raftsched.raft import Raft
from raftsched.raft.transport.tls import KeyTls, Plain, Wire
from raftsched.security import certificates
from raftsched.system.clock import SystemClock
from tests.support.patience import until, within
from tests.support.raft_cluster import Cluster, address_of

MARKER = b"body-of-a-job-" * 20
Changes = Callable[[bytes], bytes]


class Between:
    """Stands at a node's address, and passes on what it gets."""

    def __init__(self, target: str) -> None:
        self.address = ""
        self.seen = bytearray()
        self.change: Changes = lambda data: data  # of what goes to the node
        self.taken = 0
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Between:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.address = address_of(self._server.sockets[0])
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        host, port = self._target.rsplit(":", 1)
        try:
            there, back = await self.connect(host, int(port))
        except OSError:
            writer.close()
            return
        self._begin(self._pass(reader, back, lambda data: self.change(data)))  # noqa: PLW0108 - it may be another one later
        self._begin(self._pass(there, writer, lambda data: data))

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(host, port)

    def _begin(self, passing: object) -> None:
        task = asyncio.get_running_loop().create_task(passing)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Changes) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.seen += data
                writer.write(change(data))
                await writer.drain()
        except (OSError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()


class Posing(Between):
    """Ends the TLS of both sides, with a certificate of its own, and reads what comes."""

    async def __aenter__(self) -> Posing:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates.load_pair(context, certificates.make_ephemeral(SystemClock().wall_ms()))
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0, ssl=context)
        self.address = address_of(self._server.sockets[0])
        return self

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return await asyncio.open_connection(host, port, ssl=context)


def two(directory: Path, proxy: type[Between]) -> tuple[Cluster, Between]:
    """Nodes "a", who dials, and "b", whom it reaches through a proxy only."""
    cluster = Cluster(directory, "ab")
    return cluster, proxy(cluster.addresses["b"])


async def begin(cluster: Cluster, between: Between, wire: Callable[[], Wire]) -> None:
    """Both are said to be elsewhere: a where nobody is, b where the proxy is."""
    cluster.addresses.update(a=address_of(cluster.nobody), b=between.address)
    for name in "ab":
        await cluster.start(name, wire=wire())


async def formed(cluster: Cluster) -> Raft:
    leader = await cluster.leader()
    await leader.propose([encode(RunNow(job_id=1, request=1, params=MARKER))])
    return leader


@pytest.mark.parametrize("wire", [lambda: KeyTls(SystemClock().wall_ms()), Plain], ids=["tls", "plain"])
def test_who_only_passes_on_reads_nothing(tmp_path: Path, wire: Callable[[], Wire]) -> None:
    async def scenario() -> None:
        cluster, between = two(tmp_path, Between)
        async with between, cluster:
            await begin(cluster, between, wire)
            await formed(cluster)
            await until(lambda: len({node.applied_index for node in cluster.nodes.values()}) == 1)
            said = bytes(between.seen)
            plain = wire is Plain
            assert (MARKER in said) is plain
            for told in (cluster.nodes["a"].store_id, cluster.nodes["a"].cluster_id, b"127.0.0.1:"):
                assert (told in said) is plain
            assert all(not any(node.refused().values()) for node in cluster.nodes.values())

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["changed", "left out", "added", "repeated"])
def test_the_first_changed_byte_ends_the_connection(tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        cluster, between = two(tmp_path, Between)
        done = asyncio.Event()

        def change(data: bytes) -> bytes:
            if done.is_set():
                return data
            done.set()
            if how == "changed":
                return data[:-1] + bytes([data[-1] ^ 1])
            return {"left out": data[:-1], "added": data + b"\0" * 64, "repeated": data + data}[how]

        async with between, cluster:
            await begin(cluster, between, lambda: KeyTls(SystemClock().wall_ms()))
            await formed(cluster)
            b = cluster.nodes["b"]
            assert b.refused()["tls"] == 0
            state = b.term, b.applied_index
            times = between.taken
            between.change = change
            await within(done.wait())
            await until(lambda: b.refused()["tls"] == 1)
            assert sum(b.refused().values()) == 1
            await until(lambda: between.taken > times)
            await formed(cluster)
            assert (b.term, b.applied_index) >= state

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "disturbed on its way" in caplog.text


def test_who_poses_as_both_is_refused_by_both(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """He has no key: what each end proves is about the certificate that it sees."""

    async def scenario() -> None:
        cluster, between = two(tmp_path, Posing)
        async with between, cluster:
            await begin(cluster, between, lambda: KeyTls(SystemClock().wall_ms()))
            a, b = cluster.nodes["a"], cluster.nodes["b"]
            await until(lambda: b.refused()["wrong-key"] >= 3)
            assert not a.peers()[0].connected
            assert a.leader_id is None
            for told in (a.store_id, b.store_id, b"127.0.0.1:"):
                assert told not in between.seen

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "somebody sits between" in caplog.text

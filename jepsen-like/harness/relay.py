"""A TCP relay in front of one or more nodes' Raft ports, so that single links can be cut, slowed and reset.

It knows nothing of what it carries. Who calls is told by the address, where each node has its own, or else by which
process owns the calling socket. Commands come as JSON lines on stdin and are answered by a line each; it ends with
its stdin. Run as a script: relay.py CONFIG, with CONFIG as JSON:

    {"listen": {"n1": [host, port, host of the node, port of the node]}, "hosts": {"10.0.0.1": "n1"} or null}
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

CHUNK = 64 * 1024
AHEAD = 32  # chunks on their way in one direction
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time: close sends RST


@dataclass
class Direction:
    """One way of a link, as it is now."""

    delay_s: float = 0.0
    bytes_per_s: float = 0.0  # 0: as fast as it goes
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.open.set()


@dataclass
class Link:
    """From one node to another: what the first dials, in both directions."""

    there: Direction = field(default_factory=Direction)
    back: Direction = field(default_factory=Direction)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def reset(self) -> None:
        for writer in list(self.writers):
            with suppress(OSError, AttributeError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


class Relay:
    def __init__(self, listen: dict[str, list[object]], hosts: dict[str, str] | None) -> None:
        self._listen = listen
        self._hosts = hosts
        self._pids: dict[str, int] = {}
        self._links: dict[tuple[str, str], Link] = {}

    async def serve(self) -> None:
        for dest, (host, port, to_host, to_port) in self._listen.items():

            def connected(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                dest: str = dest,
                to: tuple[str, int] = (str(to_host), int(str(to_port))),
            ) -> asyncio.Task[None]:
                return asyncio.ensure_future(self._carry(dest, to, reader, writer))

            await asyncio.start_server(connected, str(host), int(str(port)))

    def link(self, source: str, dest: str) -> Link:
        return self._links.setdefault((source, dest), Link())

    def command(self, given: dict[str, object]) -> None:
        if given["op"] == "pids":
            self._pids.update(given["pids"])  # type: ignore[call-overload]
            return
        link = self.link(str(given["source"]), str(given["dest"]))
        if given["op"] == "reset":
            link.reset()
            return
        for name, direction in (("there", link.there), ("back", link.back)):
            wanted = given.get(name)
            if isinstance(wanted, dict):
                direction.delay_s = float(wanted.get("delay_s", 0.0))
                direction.bytes_per_s = float(wanted.get("bytes_per_s", 0.0))
                if wanted.get("open", True):
                    direction.open.set()
                else:
                    direction.open.clear()

    def _source(self, writer: asyncio.StreamWriter) -> str | None:
        host, port = writer.get_extra_info("peername")[:2]
        if self._hosts is not None:
            return self._hosts.get(host)
        inode = socket_inode(host, port, writer.get_extra_info("sockname")[1])
        if inode is not None:
            for node, pid in self._pids.items():
                if owns(pid, inode):
                    return node
        return None

    async def _carry(
        self, dest: str, to: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            source = self._source(writer)
        except OSError:
            source = None
        if source is None:
            writer.transport.abort()
            return
        link = self.link(source, dest)
        link.writers.add(writer)
        onward: asyncio.StreamWriter | None = None
        try:
            await link.there.open.wait()  # nobody answers on a link that is cut
            onward_reader, onward = await asyncio.open_connection(*to)
            link.writers.add(onward)
            ways = [
                asyncio.create_task(pump(reader, onward, link.there)),
                asyncio.create_task(pump(onward_reader, writer, link.back)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # the node is not there, or the caller went away: both see a closed connection
        finally:
            for end in (writer, onward):
                if end is not None:
                    link.writers.discard(end)
                    end.transport.abort()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Direction) -> None:
    """Until one end closes. Delay does not limit the rate: chunks wait their time one behind the other."""
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(AHEAD)

    async def read() -> None:
        while data := await reader.read(CHUNK):
            await queue.put((time.monotonic() + way.delay_s, data))
        await queue.put((0.0, b""))

    reading = asyncio.create_task(read())
    try:
        while True:
            due, data = await queue.get()
            if not data:
                return
            if (left := due - time.monotonic()) > 0:
                await asyncio.sleep(left)
            await way.open.wait()
            writer.write(data)
            await writer.drain()
            if way.bytes_per_s:
                await asyncio.sleep(len(data) / way.bytes_per_s)
    except OSError:
        return
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def socket_inode(host: str, port: int, to_port: int) -> str | None:
    """Of the calling end of a connection on this machine, from the kernel's table."""
    local = f"{struct.unpack('<L', socket.inet_aton(host))[0]:08X}:{port:04X}"
    with open("/proc/net/tcp") as table:
        for line in table:
            fields = line.split()
            if fields[1] == local and fields[2].endswith(f":{to_port:04X}"):
                return fields[9]
    return None


def owns(pid: int, inode: str) -> bool:
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{number}") == f"socket:[{inode}]":
                    return True
    return False


async def main() -> None:
    config = json.loads(sys.argv[1])
    relay = Relay(config["listen"], config["hosts"])
    await relay.serve()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    while line := await reader.readline():
        relay.command(json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main())

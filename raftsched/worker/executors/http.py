"""http: requests to elsewhere, many at a time in one process, HTTP/1.1 over asyncio streams.

Ending a request closes its connection; what the other side does then is beyond us, so each request carries the
fencing token. Redirects are not followed: where a job goes is in the job.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from urllib.parse import urlsplit

from raftsched.clock import SystemClock
from raftsched.core.allowed import Destinations, permitted_addresses
from raftsched.worker import wire
from raftsched.worker.service import OP_RUN, OP_TIMEOUT, PACKET_HEAD
from raftsched.worker.spool import STDERR, STDOUT, Capture

_LINE_MAX = 64 * 1024
_HEADERS_MAX = 200
_CHUNK = 64 * 1024


class _Failed(Exception):
    """The reason, for the user."""


class HttpService:
    """Runs in a process of its own; see service.py."""

    def __init__(
        self, live_directory: str, output_max: int, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()
    ) -> None:
        """`allow`, `deny`: rules about where requests may go (core.allowed). Raises ValueError."""
        self._destinations = Destinations(allow, deny)
        self._live_directory = live_directory
        self._output_max = output_max
        self._clock = SystemClock()

    def run(self, work: socket.socket) -> None:
        asyncio.run(self._main(work))

    async def _main(self, work: socket.socket) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._tls: ssl.SSLContext | None = None
        self._over = asyncio.Event()
        self._runs: dict[int, asyncio.Task[None]] = {}
        self._asked: dict[int, int] = {}
        self._unsent: deque[bytes] = deque()
        work.setblocking(False)
        self._loop.add_reader(work, self._receive)
        await self._over.wait()

    def _receive(self) -> None:
        try:
            packet = self._work.recv(wire.PACKET_MAX)
        except BlockingIOError:
            return
        if not packet:
            self._over.set()
            return
        token, op = PACKET_HEAD.unpack_from(packet)
        if op == OP_RUN:
            task = wire.decode_task(packet[PACKET_HEAD.size :])
            self._runs[token] = self._loop.create_task(self._run(token, task))
        elif token in self._runs:
            self._asked[token] = wire.TIMED_OUT if op == OP_TIMEOUT else wire.KILLED
            self._runs[token].cancel()

    def _send(self, packet: bytes) -> None:
        self._unsent.append(packet)
        try:
            while self._unsent:
                self._work.send(self._unsent[0])
                self._unsent.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._work, self._send_rest)

    def _send_rest(self) -> None:
        self._loop.remove_writer(self._work)
        self._send(self._unsent.popleft())

    async def _run(self, token: int, task: wire.Http) -> None:
        started = self._clock.wall_ms()
        capture = Capture(self._live_directory, self._most(task))
        capture.hide(task.hidden)
        outcome, error, result = wire.SUCCEEDED, None, None
        try:
            status, reason, location = await self._request(task, capture)
            result = b'{"status":%d}' % status
            if not (status in task.expect if task.expect else 200 <= status < 300):
                outcome = wire.FAILED
                error = f"HTTP {status} {reason}".rstrip()
                if location and 300 <= status < 400:
                    error += f"; redirects are not followed, it leads to {location}"
                error = wire.shorten(f"{error}\n{capture.tail()}".rstrip())
        except asyncio.CancelledError:
            outcome = self._asked.get(token, wire.KILLED)  # the supervisor words the error
        except (_Failed, OSError, ssl.SSLError, ValueError, EOFError) as exc:
            outcome, error = wire.FAILED, wire.shorten(str(exc) or type(exc).__name__)
            capture.write(STDERR, f"raftsched: {error}\n".encode(), self._clock.boot_ms())
        frames, spooled, truncated = capture.finish(token)
        ended = max(self._clock.wall_ms(), started)
        done = wire.Finished(token, outcome, started, ended, None, error, result, frames, spooled, truncated)
        self._runs.pop(token, None)
        self._asked.pop(token, None)
        self._send(b"\0" + wire.encode(done))

    async def _request(self, task: wire.Http, capture: Capture) -> tuple[int, str, str | None]:
        """(status, reason, Location) with the body captured."""
        url = urlsplit(task.url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise _Failed(f"the URL {task.url!r} is not one; write http://host/path or https://host/path")
        secure = url.scheme == "https"
        if secure and self._tls is None:
            self._tls = ssl.create_default_context()
        port = url.port or (443 if secure else 80)
        reader, writer = await self._connect(url.hostname, port, self._tls if secure else None)
        try:
            writer.write(_head(task, url.netloc.rpartition("@")[2], url.path, url.query) + task.body)
            await writer.drain()
            return await self._response(reader, task, capture)
        except asyncio.IncompleteReadError:
            raise _Failed("the connection ended in the middle of the response") from None
        except (asyncio.LimitOverrunError, ValueError) as exc:
            raise _Failed(f"the response is not HTTP/1.1: {exc}") from None
        finally:
            writer.transport.abort()

    async def _connect(
        self, host: str, port: int, tls: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an address that was checked: the name is resolved once, and not again for connecting."""
        where = f"{host}:{port}"
        try:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as exc:
            raise _Failed(f"cannot connect to {where}: {exc.strerror or exc}") from None
        addresses, refused = permitted_addresses(self._destinations, host, port, [info[4][0] for info in found])
        if refused is not None:
            raise _Failed(f"this node {refused}")
        failed = ""
        for address in addresses:
            try:
                return await asyncio.open_connection(
                    address, port, ssl=tls, server_hostname=host if tls is not None else None, limit=_LINE_MAX
                )
            except OSError as exc:
                failed = failed or exc.strerror or str(exc)
        raise _Failed(f"cannot connect to {where}: {failed}")

    async def _response(
        self, reader: asyncio.StreamReader, task: wire.Http, capture: Capture
    ) -> tuple[int, str, str | None]:
        while True:
            line = (await reader.readuntil(b"\n")).decode("latin-1").rstrip("\r\n")
            version, _, rest = line.partition(" ")
            code, _, reason = rest.partition(" ")
            if not version.startswith("HTTP/1.") or not code.isdigit():
                raise _Failed(f"the response does not begin like HTTP/1.1: {line[:80]!r}")
            headers = await _headers(reader)
            if int(code) >= 200:
                break
        status = int(code)
        if task.method == "HEAD" or status in (204, 304):
            return status, reason, headers.get("location")
        await self._body(reader, headers, capture, self._most(task))
        return status, reason, headers.get("location")

    def _most(self, task: wire.Http) -> int:
        """Bytes of the response that are read."""
        return min(task.keep or self._output_max, self._output_max)

    async def _body(self, reader: asyncio.StreamReader, headers: dict[str, str], capture: Capture, most: int) -> None:
        room = most
        if headers.get("transfer-encoding", "").lower().endswith("chunked"):
            while True:
                line = (await reader.readuntil(b"\n")).split(b";")[0]
                size = int(line, 16)
                if size == 0:
                    return
                room = await self._copy(reader, size, room, capture)
                if room <= 0:
                    break
                await reader.readuntil(b"\n")
        else:
            length = headers.get("content-length")
            room = await self._copy(reader, int(length) if length is not None else None, room, capture)
        if room < 0:
            note = f"\nraftsched: only the first {most} bytes of the response were read\n"
            capture.write(STDERR, note.encode(), self._clock.boot_ms())

    async def _copy(self, reader: asyncio.StreamReader, size: int | None, room: int, capture: Capture) -> int:
        """Copies `size` bytes (None: up to the end) and returns what room is left; below 0: there was more."""
        while size is None or size > 0:
            data = await reader.read(_CHUNK if size is None else min(_CHUNK, size))
            if not data:
                if size is None:
                    break
                raise asyncio.IncompleteReadError(b"", size)
            capture.write(STDOUT, data[: max(room, 0)], self._clock.boot_ms())
            room -= len(data)
            if room < 0:
                break
            if size is not None:
                size -= len(data)
        return room


def _head(task: wire.Http, host: str, path: str, query: str) -> bytes:
    target = (path or "/") + (f"?{query}" if query else "")
    given = {name.lower() for name in task.headers}
    ours = {"Host": host, "Accept": "*/*", "User-Agent": "raftsched"}
    headers = {name: value for name, value in ours.items() if name.lower() not in given}
    fixed = ("connection", "content-length", "transfer-encoding")
    headers |= {name: value for name, value in task.headers.items() if name.lower() not in fixed}
    headers["Connection"] = "close"
    if task.body or task.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(len(task.body))
    text = f"{task.method} {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    if any(c in f"{task.method}{target}{k}{v}" for k, v in headers.items() for c in "\r\n\0") or " " in target:
        raise _Failed("a line break or space in method, URL or headers; encode it (%20 for a space)")
    try:
        return text.encode("latin-1") + b"\r\n"
    except UnicodeEncodeError:
        raise _Failed("URL and headers have to be latin-1; percent-encode the rest") from None


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(_HEADERS_MAX):
        line = (await reader.readuntil(b"\n")).decode("latin-1").strip()
        if not line:
            return headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise _Failed(f"more than {_HEADERS_MAX} header lines in the response")

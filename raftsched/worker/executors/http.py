"""Makes requests to elsewhere, many at a time in one process: HTTP/1.1 by h11, over asyncio streams. Mails, too.

Ending a request closes its connection; what the other side does then is beyond us, so each request carries the
fencing token. Redirects are not followed: where a job goes is in the job.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeVar
from urllib.parse import quote_from_bytes, urlsplit

import h11

from raftsched.bounds import OUTPUT_MAX
from raftsched.core.rules.allowed import Destinations, permitted_addresses
from raftsched.hosts import asked_for
from raftsched.output.format.spool import STDERR, STDOUT, Capture
from raftsched.system.clock import SystemClock
from raftsched.worker.executors.answers import CHUNK, HEAD_MAX, Answer, Failed
from raftsched.worker.executors.resolving import Resolver
from raftsched.worker.processes import wire
from raftsched.worker.processes.service import OP_RUN, OP_TIMEOUT, PACKET_HEAD

MAILS_MAX = 100  # at one time; further ones wait until their time is over
_SECONDS_DIGITS = 9  # of a Retry-After: more are no longer a day either
RETRY_AFTER_MAX_MS = 24 * 3_600_000  # as core.limits has it, which this process does not load
_T = TypeVar("_T")
_PRINTABLE = bytes(range(0x21, 0x7F)).decode()


class _Answered(NamedTuple):
    """The head of a response: what of it decides, and what is shown."""

    status: int
    reason: str
    location: str | None
    retry_after: str | None


def retry_after_of(text: str | None, now_ms: int) -> int | None:
    """Returns the delay that a Retry-After asks for (RFC 9110, section 10.2.3: seconds, or a date), at most a day.
    None: there is none that can be read."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return min(int(text[:_SECONDS_DIGITS]) * 1_000, RETRY_AFTER_MAX_MS)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    at_ms = int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1_000)
    return max(0, min(at_ms - now_ms, RETRY_AFTER_MAX_MS))


class HttpService:
    """Runs in a process of its own; see service.py."""

    def __init__(self, live_directory: str, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> None:
        """`allow`, `deny`: rules about where requests may go (core.rules.allowed). Raises ValueError."""
        self._destinations = Destinations(allow, deny)
        self._live_directory = live_directory
        self._clock = SystemClock()

    def run(self, work: socket.socket) -> None:
        asyncio.run(self._main(work))

    async def _main(self, work: socket.socket) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._resolver = Resolver()
        self._tls: ssl.SSLContext | None = None
        self._mailers: ThreadPoolExecutor | None = None
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

    async def _run(self, token: int, task: wire.Http | wire.Mail) -> None:
        started = self._clock.wall_ms()
        capture = Capture(self._live_directory, _body_max(task) if isinstance(task, wire.Http) else OUTPUT_MAX)
        capture.hide(task.hidden)
        outcome, error, result, retry_after_ms = wire.SUCCEEDED, None, None, None
        try:
            if isinstance(task, wire.Mail):
                capture.write(STDOUT, f"{await self._mail(task)}\n".encode(), self._clock.boot_ms())
            else:
                result, error, retry_after_ms = await self._ask(task, capture)
                outcome = wire.SUCCEEDED if error is None else wire.FAILED
        except asyncio.CancelledError:
            outcome = self._asked.get(token, wire.KILLED)  # the supervisor words the error
        except Exception as exc:  # whatever it is: a run that never ended would take the others of its process with it
            outcome, error = wire.FAILED, wire.shorten(str(exc) or type(exc).__name__)
            capture.write(STDERR, f"raftsched: {error}\n".encode(), self._clock.boot_ms())
        kept = capture.finish(token)
        ended = max(self._clock.wall_ms(), started)
        said = None if retry_after_ms is None else wire.SelfReport(delay_ms=retry_after_ms)
        done = wire.Finished(token, outcome, started, ended, None, error, result, *kept, said=said)
        self._runs.pop(token, None)
        self._asked.pop(token, None)
        self._send(b"\0" + wire.encode(done))

    async def _ask(self, task: wire.Http, capture: Capture) -> tuple[bytes, str | None, int | None]:
        """Returns the status as JSON, what is wrong with it, and how long it asks to wait."""
        status, reason, location, retry_after = await self._request(task, capture)
        error = None
        if not (status in task.expect if task.expect else 200 <= status < 300):
            error = f"HTTP {status} {reason}".rstrip()
            if location and 300 <= status < 400:
                error += f"; redirects are not followed, it leads to {location}"
            error = wire.failure(error, capture.tail())
        return b'{"status":%d}' % status, error, retry_after_of(retry_after, self._clock.wall_ms())

    async def _mail(self, task: wire.Mail) -> str:
        """Sends a mail; smtplib, which waits, has a thread for it."""
        from raftsched.worker.executors import mail  # few nodes send any

        if self._mailers is None:
            self._mailers = ThreadPoolExecutor(MAILS_MAX, "mail")
        connection = await self._connect(task.host, task.port, lambda address: self._connection(address, task.port))
        handle = connection.dup()  # TLS makes another socket of the first one, which is closed then
        try:
            sending = self._loop.run_in_executor(self._mailers, mail.send, task, connection)
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            sending.add_done_callback(lambda done: done.exception())  # nobody asks any more
            with suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)
            raise
        except mail.Refused as refused:
            raise Failed(str(refused)) from None
        except OSError as error:
            raise Failed(f"{task.host}:{task.port}: {mail.error_words(error)}") from None
        finally:
            handle.close()

    async def _connection(self, address: str, port: int) -> socket.socket:
        connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            await self._loop.sock_connect(connection, (address, port))
        except BaseException:
            connection.close()
            raise
        return connection

    async def _request(self, task: wire.Http, capture: Capture) -> _Answered:
        """Sends the request, and captures the body of the answer."""
        url = urlsplit(task.url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise Failed(f"the URL {task.url!r} is not one; write http://host/path or https://host/path")
        secure = url.scheme == "https"
        if secure and self._tls is None:
            self._tls = ssl.create_default_context()
        port = url.port or (443 if secure else 80)
        tls, name = (self._tls, url.hostname) if secure else (None, None)
        reader, writer = await self._connect(
            url.hostname,
            port,
            lambda address: asyncio.open_connection(address, port, ssl=tls, server_hostname=name, limit=CHUNK),
        )
        try:
            http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)
            writer.write(_sent(http, task, url.netloc.rpartition("@")[2], url.path, url.query))
            await writer.drain()
            return await self._response(Answer(http, reader, self._clock.monotonic, self._runs), task, capture)
        finally:
            writer.transport.abort()

    async def _connect(self, host: str, port: int, connect: Callable[[str], Awaitable[_T]]) -> _T:
        """Returns what `connect` makes of the first address of a host that can be reached and was checked."""
        failed = ""
        for address in await self._addresses(host.strip("[]"), port):
            try:
                return await connect(address)
            except OSError as exc:
                failed = failed or exc.strerror or str(exc)
        raise Failed(f"cannot connect to {host}:{port}: {failed}")

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Those of a host that may be asked. The name is resolved once, and not again for connecting."""
        try:
            found = await self._resolver.addresses(host)
        except OSError as exc:
            raise Failed(f"cannot connect to {host}:{port}: {exc.strerror or exc}") from None
        addresses, refused = permitted_addresses(self._destinations, asked_for(host), port, found)
        if refused is not None:
            raise Failed(f"this node {refused}")
        return addresses

    async def _response(self, answer: Answer, task: wire.Http, capture: Capture) -> _Answered:
        response = await answer.head()
        headers = {name: value.decode("latin-1") for name, value in response.headers}
        reason = bytes(response.reason).decode("latin-1")
        answered = _Answered(response.status_code, reason, headers.get(b"location"), headers.get(b"retry-after"))
        if task.method == "HEAD" or response.status_code in (204, 304):
            return answered
        limit = _body_max(task)
        room = limit
        async for data in answer.body():
            capture.write(STDOUT, data[:room], self._clock.boot_ms())
            room -= len(data)
            if room < 0:
                note = f"\nraftsched: only the first {limit} bytes of the response were read\n"
                capture.write(STDERR, note.encode(), self._clock.boot_ms())
                break
        return answered


def _body_max(task: wire.Http) -> int:
    """Returns how many bytes of the response are read."""
    return task.keep or OUTPUT_MAX


def _sent(http: h11.Connection, task: wire.Http, host: str, path: str, query: str) -> bytes:
    """Returns the bytes of the request."""
    target = (path or "/") + (f"?{query}" if query else "")
    named = {name.lower() for name in task.headers}
    ours = {"Host": host, "Accept": "*/*", "User-Agent": "raftsched"}
    headers = {name: value for name, value in ours.items() if name.lower() not in named}
    fixed = ("connection", "content-length", "transfer-encoding")
    headers |= {name: value.strip() for name, value in task.headers.items() if name.lower() not in fixed}
    headers["Connection"] = "close"
    if task.body or task.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(len(task.body))
    if any(c in f"{task.method}{target}{k}{v}" for k, v in headers.items() for c in "\r\n\0") or " " in target:
        raise Failed("a line break or space in method, URL or headers; encode it (%20 for a space)")
    try:
        lines = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]
        place = quote_from_bytes(target.encode("latin-1"), safe=_PRINTABLE)
    except UnicodeEncodeError:
        raise Failed("URL and headers have to be latin-1; percent-encode the rest") from None
    try:
        parts = [http.send(h11.Request(method=task.method, target=place, headers=lines))]
        if task.body:
            parts.append(http.send(h11.Data(data=task.body)))
        parts.append(http.send(h11.EndOfMessage()))
    except h11.LocalProtocolError as exc:
        raise Failed(f"the request cannot be sent: {exc}") from None
    return b"".join(part for part in parts if part)

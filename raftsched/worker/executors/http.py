"""Makes requests to elsewhere, many at a time in one process: HTTP/1.1 by h11, the usual of it by plain_http. Mails,
too.

Ending a request closes its connection; what the other side does then is beyond us, so each request carries the
fencing token. Redirects are not followed: where a job goes is in the job.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import NamedTuple, TypeVar
from urllib.parse import quote_from_bytes, urlsplit

import h11

from raftsched.bounds import OUTPUT_MAX
from raftsched.core.rules.allowed import Destinations, permitted_addresses
from raftsched.hosts import asked_for
from raftsched.output.format.spool import STDERR, STDOUT, Capture
from raftsched.system.clock import SystemClock
from raftsched.worker.executors import connections, plain_http
from raftsched.worker.executors.answers import CHUNK, HEAD_MAX, HEADERS_MAX, Answer, Failed
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
        connect = partial(connections.connected, port=task.port, loop=self._loop)
        connection = await self._connect(task.host, task.port, connect)
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

    async def _request(self, task: wire.Http, capture: Capture) -> _Answered:
        """Sends the request, and captures the body of the answer."""
        url = urlsplit(task.url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise Failed(f"the URL {task.url!r} is not one; write http://host/path or https://host/path")
        request = _request_of(task, url.netloc.rpartition("@")[2], url.path, url.query)
        data = request.encoded()
        connect: Callable[[str], Awaitable[connections.Connection]]
        if url.scheme == "https":
            port, self._tls = url.port or 443, self._tls or ssl.create_default_context()
            connect = partial(connections.secure, port=port, tls=self._tls, name=url.hostname)
        else:
            port = url.port or 80
            connect = partial(connections.plain, port=port, loop=self._loop)
        connection = await self._connect(url.hostname, port, connect)
        try:
            await connection.send(data)
            return await self._response(request, connection, task, capture)
        finally:
            connection.close()

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

    async def _response(
        self, request: _Request, connection: connections.Connection, task: wire.Http, capture: Capture
    ) -> _Answered:
        body = _Body(capture, _body_max(task), self._clock)
        begin = await connection.read(CHUNK)
        usual = plain_http.answer(begin, HEADERS_MAX) if task.method in plain_http.METHODS else None
        if usual is not None:
            if usual.body:
                body.keep(usual.body)
            return _answered(usual.status, usual.reason, usual.headers)
        answer = Answer(request.made_by_h11(), connection, self._clock.monotonic, self._runs, begin)
        response = await answer.head()
        if task.method != "HEAD" and response.status_code not in plain_http.WITHOUT_BODY:
            async for data in answer.body():
                if not body.keep(data):
                    break
        return _answered(response.status_code, bytes(response.reason), list(response.headers))


class _Body:
    """The body of an answer, as much of it as is kept."""

    def __init__(self, capture: Capture, limit: int, clock: SystemClock) -> None:
        self._capture, self._limit, self._clock = capture, limit, clock
        self._room = limit

    def keep(self, data: bytes) -> bool:
        """Keeps the next of it. Returns whether there is room for more."""
        self._capture.write(STDOUT, data[: self._room], self._clock.boot_ms())
        self._room -= len(data)
        if self._room >= 0:
            return True
        note = f"\nraftsched: only the first {self._limit} bytes of the response were read\n"
        self._capture.write(STDERR, note.encode(), self._clock.boot_ms())
        return False


def _answered(status: int, reason: bytes, headers: Sequence[tuple[bytes, bytes]]) -> _Answered:
    named = dict(headers)
    location, retry_after = named.get(b"location"), named.get(b"retry-after")
    return _Answered(
        status,
        reason.decode("latin-1"),
        None if location is None else location.decode("latin-1"),
        None if retry_after is None else retry_after.decode("latin-1"),
    )


def _body_max(task: wire.Http) -> int:
    """Returns how many bytes of the response are read."""
    return task.keep or OUTPUT_MAX


class _Request(NamedTuple):
    """A request. Its headers frame its body."""

    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def encoded(self) -> bytes:
        """Returns its bytes. Raises Failed when it cannot be sent."""
        return plain_http.request(*self) or self._by_h11()[1]

    def made_by_h11(self) -> h11.Connection:
        """Returns what has made the request, and is to read the answer."""
        return self._by_h11()[0]

    def _by_h11(self) -> tuple[h11.Connection, bytes]:
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)
        try:
            parts = [http.send(h11.Request(method=self.method, target=self.target, headers=self.headers))]
            if self.body:
                parts.append(http.send(h11.Data(data=self.body)))
            parts.append(http.send(h11.EndOfMessage()))
        except h11.LocalProtocolError as exc:
            raise Failed(f"the request cannot be sent: {exc}") from None
        return http, b"".join(part for part in parts if part)


def _request_of(task: wire.Http, host: str, path: str, query: str) -> _Request:
    """Returns the request that a task is. Raises Failed when it cannot be one."""
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
    return _Request(task.method, place, lines, task.body)

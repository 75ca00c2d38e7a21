"""The way in by TLS: connections whose handshake is done are the API's, all others cost little and not for long.

Until a client has sent its first byte it is a socket and a place in a list, nothing more. That byte tells TLS from
plain HTTP, which gets a plain answer. The list is short, and each place in it is for a short time: when it is full the
one that is there longest goes, which under a flood of half-open handshakes is one of the flood.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.problems import MEDIA_TYPE, Problem, body_of
from raftsched.api.tls import Certificates
from raftsched.clock import Clock

log = logging.getLogger(__name__)

HANDSHAKE_S = 10.0  # from the connection to the end of the handshake
SHUTDOWN_S = 5.0  # for the client's goodbye
PENDING_MAX = 256  # connections without a finished handshake
ACCEPTS = 16  # connections taken before others have their turn
LOOK_S = 5.0  # between two looks at the certificates' files
SAY_EVERY_S = 60.0
LINGER_S = 1.0  # for a client to read that this is not plain HTTP
REST_S = 1.0  # without descriptors: until the next try
_HANDSHAKE = b"\x16"  # the first byte of TLS (RFC 8446, section 5.1)
_REASONS = (
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "no-certificate"),
    ("CERTIFICATE_VERIFY_FAILED", "bad-certificate"),
    ("UNSUPPORTED_PROTOCOL", "old-version"),
    ("VERSION_TOO_LOW", "old-version"),
    ("ALERT", "refused-by-client"),
)


class Refusals:
    """Counted, and said once a minute."""

    def __init__(self, clock: Clock) -> None:
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._unsaid: Counter[str] = Counter()
        self._last = ""
        self._said_at: float | None = None

    def add(self, why: str, host: str) -> None:
        self.counts[why] += 1
        self._unsaid[why] += 1
        self._last = host
        self.say()

    def say(self) -> None:
        now = self._clock.monotonic()
        if not self._unsaid or (self._said_at is not None and now - self._said_at < SAY_EVERY_S):
            return
        self._said_at = now
        kinds = ", ".join(f"{why}: {count}" for why, count in sorted(self._unsaid.items()))
        log.warning("connections refused before their first request (%s), last from %s", kinds, self._last)
        self._unsaid.clear()


class Entrance(Collector):
    """Use as asyncio.Server: `close`, `wait_closed`, `port`."""

    def __init__(
        self,
        door: Callable[[], asyncio.Protocol],
        certificates: Certificates,
        sockets: Sequence[socket.socket],
        clock: Clock,
    ) -> None:
        """`sockets` listen already, and are closed by `close`."""
        self.certificates = certificates
        self.refusals = Refusals(clock)
        self._door = door
        self._sockets = list(sockets)
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}  # for their first byte
        self._shaking: dict[asyncio.Task[None], None] = {}  # in order
        self._rests: list[asyncio.TimerHandle] = []
        self._goodbyes: set[asyncio.Task[None]] = set()
        for listening in self._sockets:
            listening.setblocking(False)
            self._loop.add_reader(listening.fileno(), self._accept, listening)
        self._looking = asyncio.create_task(self._look(), name="tls")

    @property
    def port(self) -> int:
        number: int = self._sockets[0].getsockname()[1]
        return number

    @property
    def pending(self) -> int:
        return len(self._waiting) + len(self._shaking)

    def close(self) -> None:
        """No more connections; what has not shaken hands yet is closed."""
        self._looking.cancel()
        for rest in self._rests:
            rest.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        for sock in list(self._waiting):
            self._drop(sock)
        for task in (*self._shaking, *self._goodbyes):
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._looking, *self._shaking, *self._goodbyes, return_exceptions=True)

    # ------------------------------------------------------------ until the first byte

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors, no memory: it would be asked for again and again
                self.refusals.add("no-descriptors", error.strerror or "nowhere")
                self._loop.remove_reader(listening.fileno())
                self._rests = [rest for rest in self._rests if not rest.cancelled() and rest.when() > self._loop.time()]
                self._rests.append(
                    self._loop.call_later(REST_S, self._loop.add_reader, listening.fileno(), self._accept, listening)
                )
                return
            sock.setblocking(False)
            if self.pending >= PENDING_MAX:
                self._make_room()
            self._waiting[sock] = self._loop.call_later(HANDSHAKE_S, self._too_late, sock)
            self._loop.add_reader(sock.fileno(), self._first, sock)

    def _make_room(self) -> None:
        if self._waiting:
            sock = next(iter(self._waiting))
            self.refusals.add("too-many", _host(sock))
            self._drop(sock)
        else:
            task = next(iter(self._shaking))
            del self._shaking[task]
            self.refusals.add("too-many", task.get_name())
            task.cancel()

    def _too_late(self, sock: socket.socket) -> None:
        self.refusals.add("timeout", _host(sock))
        self._drop(sock)

    def _drop(self, sock: socket.socket) -> None:
        self._leave(sock)
        sock.close()

    def _leave(self, sock: socket.socket) -> float:
        """Seconds that are left of its time."""
        timer = self._waiting.pop(sock)
        timer.cancel()
        self._loop.remove_reader(sock.fileno())
        return max(0.1, timer.when() - self._loop.time())

    def _first(self, sock: socket.socket) -> None:
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:  # it only looked whether somebody listens
            self._drop(sock)
            return
        left = self._leave(sock)
        if first == _HANDSHAKE:
            task = asyncio.ensure_future(self._shake(sock, left))
            task.set_name(_host(sock))
            self._shaking[task] = None
            task.add_done_callback(lambda done: self._shaken(done, sock))
            return
        self.refusals.add("plain-http", _host(sock))
        goodbye = asyncio.ensure_future(_say_goodbye(self._loop, sock))
        self._goodbyes.add(goodbye)
        goodbye.add_done_callback(self._goodbyes.discard)

    # ------------------------------------------------------------ the handshake

    async def _shake(self, sock: socket.socket, left: float) -> None:
        host = _host(sock)
        try:
            await self._loop.connect_accepted_socket(
                self._door,
                sock,
                ssl=self.certificates.context,
                ssl_handshake_timeout=left,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            why = _why(error)
            if why is not None:
                self.refusals.add(why, host)

    def _shaken(self, task: asyncio.Task[None], sock: socket.socket) -> None:
        self._shaking.pop(task, None)
        if task.cancelled():  # perhaps before it had begun
            sock.close()

    async def _look(self) -> None:
        while True:
            self.certificates.remind()
            self.refusals.say()
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(self.certificates.look)

    # ------------------------------------------------------------ metrics

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        words = "Days until the certificate of the API expires; negative when it has."
        yield GaugeMetricFamily("raftsched_tls_certificate_days_left", words, self.certificates.days_left)
        words = "Connections to the API that have not finished their TLS handshake."
        yield GaugeMetricFamily("raftsched_tls_handshakes_pending", words, self.pending)
        words = (
            "Connections to the API that ended before their TLS handshake was done, by reason. Since this node started."
        )
        refused = CounterMetricFamily("raftsched_tls_refused", words, labels=["why"])
        for why, count in sorted(self.refusals.counts.items()):
            refused.add_metric([why], count)
        yield refused


async def bind(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, number, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, number)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(backlog)
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


async def _say_goodbye(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """Tells a client that speaks plain HTTP, in its own words, what would be right."""
    body = msgspec.json.encode(body_of(Problem("invalid-request", "This port speaks TLS; ask for https:// here.")))
    head = (
        f"HTTP/1.1 400 Bad Request\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    with sock, suppress(OSError, TimeoutError):
        async with asyncio.timeout(LINGER_S):
            await loop.sock_sendall(sock, head.encode() + body)
            sock.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(sock, 65_536):
                pass


def _why(error: BaseException) -> str | None:
    """None: the client went away by itself."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if not isinstance(error, ssl.SSLError):
        return "timeout" if "taking longer" in str(error) else None
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    said = f"{error.reason or ''} {error}".upper().replace(" ", "_")
    return next((why for part, why in _REASONS if part in said), "handshake")


def _host(sock: socket.socket) -> str:
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return "somebody who has gone"

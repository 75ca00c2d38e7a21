"""Accepts connections by TLS. Those whose handshake is done are the API's; all others cost little, and not for long.

Until a client has sent its first byte it is a socket and a place in a list, nothing more. That byte tells TLS from
plain HTTP, which gets a plain answer. The list is short, and each place in it is for a short time: when it is full the
one that is there longest goes, and before that the one of an address that has more than its part. Handshakes cost the
node more than the client; so they begin at a rate that leaves most of the event loop to those who are in.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.http.problems import MEDIA_TYPE, Problem, body_of
from raftsched.api.http.tls import Certificates
from raftsched.system import background
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)

HANDSHAKE_S = 10.0  # from the connection to the end of the handshake
SHUTDOWN_S = 5.0  # for the client's goodbye
PENDING_MAX = 256  # connections without a finished handshake
SHARES = 4  # one address has no more of them than this part
HANDSHAKES_PER_S = 500  # each takes half a millisecond of the loop (P-256; more with RSA): a quarter of it
BURST = 25
ACCEPTS = 16  # connections taken before others have their turn
GOODBYES_MAX = 64  # clients at a time that are told that this is not plain HTTP; others are hung up on
LOOK_S = 5.0  # between two looks at the certificates' files
SAY_EVERY_S = 60.0
LINGER_S = 1.0  # for a client to read that this is not plain HTTP
REST_S = 1.0  # without descriptors: until the next try
_SILENT, _READY, _SHAKING = range(3)
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


class _Handshake:
    """A connection whose handshake is not done."""

    __slots__ = ("address", "group", "has_transport", "sock", "stage", "task", "timer")

    timer: asyncio.TimerHandle

    def __init__(self, sock: socket.socket, address: str, group: str | None) -> None:
        self.sock = sock
        self.address = address
        self.group = group  # None: it comes from where many come from
        self.stage = _SILENT
        self.has_transport = False  # which closes the socket
        self.task: asyncio.Task[None] | None = None


class TlsAcceptor(Collector):
    """Use as asyncio.Server: `close`, `wait_closed`, `port`."""

    def __init__(
        self,
        factory: Callable[[], asyncio.Protocol],
        certificates: Certificates,
        sockets: Sequence[socket.socket],
        clock: Clock,
        sharing: Callable[[str], str | None] = lambda address: address,
    ) -> None:
        """`sockets` listen already, and are closed by `close`. `sharing`: what an address is counted as; None: it
        stands for many."""
        self._sharing = sharing
        self.certificates = certificates
        self.refusals = Refusals(clock)
        self._factory = factory
        self._sockets = list(sockets)
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[_Handshake, None] = {}  # in the order of their coming
        self._of_group: Counter[str] = Counter()
        self._ready: deque[_Handshake] = deque()  # have begun to speak TLS, and wait for their turn
        self._turn_at = 0.0  # when as many handshakes as were begun would be, one after the other
        self._turning: asyncio.TimerHandle | None = None
        self._rests: list[asyncio.TimerHandle] = []
        self._goodbyes: set[asyncio.Task[None]] = set()
        self._closed = False
        self._shaking: list[asyncio.Task[None]] = []  # when it is closed
        for listening in self._sockets:
            listening.setblocking(False)
            self._loop.add_reader(listening.fileno(), self._accept, listening)
        self.certificates.remind()
        self._looking = background.repeat("tls", self._look, LOOK_S)

    @property
    def port(self) -> int:
        number: int = self._sockets[0].getsockname()[1]
        return number

    @property
    def pending(self) -> int:
        return len(self._handshakes)

    def close(self) -> None:
        """No more connections; what has not shaken hands yet is closed. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._looking.cancel()
        for rest in self._rests:
            rest.cancel()
        if self._turning is not None:
            self._turning.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self._shaking = [handshake.task for handshake in self._handshakes if handshake.task is not None]
        for handshake in list(self._handshakes):
            self._drop(handshake)
        for task in self._goodbyes:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._looking, *self._shaking, *self._goodbyes, return_exceptions=True)

    # ------------------------------------------------------------ until the first byte

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, address = listening.accept()
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
            self._enter(sock, str(address[0]))

    def _enter(self, sock: socket.socket, address: str) -> None:
        handshake = _Handshake(sock, address, self._sharing(address))
        handshake.timer = self._loop.call_later(HANDSHAKE_S, self._too_late, handshake)
        if handshake.group is not None and self._of_group[handshake.group] >= PENDING_MAX // SHARES:
            self._refuse(next(g for g in self._handshakes if g.group == handshake.group), "too-many")
        elif len(self._handshakes) >= PENDING_MAX:
            self._refuse(next(iter(self._handshakes)), "too-many")
        self._handshakes[handshake] = None
        if handshake.group is not None:
            self._of_group[handshake.group] += 1
        self._loop.add_reader(sock.fileno(), self._first, handshake)

    def _too_late(self, handshake: _Handshake) -> None:
        if handshake.stage != _SHAKING:  # else the handshake has its own timer, and says so
            self._refuse(handshake, "timeout")

    def _refuse(self, handshake: _Handshake, why: str) -> None:
        self.refusals.add(why, handshake.address)
        self._drop(handshake)

    def _drop(self, handshake: _Handshake) -> None:
        self._leave(handshake)
        if handshake.task is not None:
            handshake.task.cancel()
        else:
            handshake.sock.close()

    def _leave(self, handshake: _Handshake) -> None:
        """Stops counting the connection among those in a handshake; its socket stays open."""
        del self._handshakes[handshake]
        if handshake.group is not None:
            self._of_group[handshake.group] -= 1
            if not self._of_group[handshake.group]:
                del self._of_group[handshake.group]
        handshake.timer.cancel()
        if handshake.stage == _SILENT:
            self._loop.remove_reader(handshake.sock.fileno())
        elif handshake.stage == _READY:
            self._ready.remove(handshake)

    def _first(self, handshake: _Handshake) -> None:
        try:
            first = handshake.sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:  # it only looked whether somebody listens
            self._drop(handshake)
        elif first == _HANDSHAKE:
            self._loop.remove_reader(handshake.sock.fileno())
            handshake.stage = _READY
            self._ready.append(handshake)
            if self._turning is None:
                self._turn()
        elif len(self._goodbyes) >= GOODBYES_MAX:
            self._refuse(handshake, "plain-http")
        else:
            self.refusals.add("plain-http", handshake.address)
            self._leave(handshake)
            goodbye = background.start("tls", _say_goodbye(self._loop, handshake.sock))
            self._goodbyes.add(goodbye)
            goodbye.add_done_callback(self._goodbyes.discard)

    # ------------------------------------------------------------ the handshake

    def _turn(self) -> None:
        """Begins handshakes, as many as may be now (a token bucket, as GCRA of ITU-T I.371 keeps it)."""
        self._turning = None
        while self._ready:
            now = self._loop.time()
            ahead = max(self._turn_at, now) - now
            if ahead > BURST / HANDSHAKES_PER_S:
                self._turning = self._loop.call_later(1 / HANDSHAKES_PER_S, self._turn)
                return
            self._turn_at = now + ahead + 1 / HANDSHAKES_PER_S
            handshake = self._ready.popleft()
            handshake.stage = _SHAKING
            handshake.task = background.start("tls", self._shake(handshake, max(0.1, handshake.timer.when() - now)))
            handshake.task.add_done_callback(lambda task, handshake=handshake: self._shaken(task, handshake))  # type: ignore[misc]

    async def _shake(self, handshake: _Handshake, left: float) -> None:
        handshake.has_transport = True
        try:
            await self._loop.connect_accepted_socket(
                self._factory,
                handshake.sock,
                ssl=self.certificates.context,
                ssl_handshake_timeout=left,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            why = _why(error)
            if why is not None:
                self.refusals.add(why, handshake.address)

    def _shaken(self, task: asyncio.Task[None], handshake: _Handshake) -> None:
        if handshake in self._handshakes:
            self._leave(handshake)
        if not handshake.has_transport:  # it was cancelled before its first step
            handshake.sock.close()

    async def _look(self) -> None:
        await asyncio.to_thread(self.certificates.reload_if_changed)
        self.certificates.remind()
        self.refusals.say()

    # ------------------------------------------------------------ metrics

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        words = "Days until the certificate of the API expires; negative when it has."
        yield GaugeMetricFamily("raftsched_tls_certificate_days_left", words, self.certificates.days_left)
        words = "Unix time at which the certificate of the API expires."
        name = "raftsched_tls_certificate_expiry_timestamp_seconds"
        yield GaugeMetricFamily(name, words, self.certificates.expires_ms / 1000)
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

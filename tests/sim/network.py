"""TCP between the machines, as it is when it goes wrong.

A connection is two pipes. A pipe keeps its order; what is on its way survives a path that is cut for a while, because
it is sent again, and is lost or comes late when the connection is reset. The two ends learn of a reset at different
times, or one does not for long. A path that is cut says nothing at all: only silence tells.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.sim.loop import Loop, Scheduler

SOCKET_BUFFER = 64 * 1024  # bytes that the kernel takes; beyond it they count as waiting in the sender
GRAIN_S = 0.0002  # arrivals are rounded up to this, so that what comes together is handled together
SYN_AGAIN_S = (1.0, 2.0, 4.0)
MACHINE_UP, PROCESS_GONE, POWER_OFF = "up", "gone", "off"


class Path:
    """One direction between two machines."""

    def __init__(self, low_s: float, high_s: float) -> None:
        self.cut = False
        self.low_s = low_s
        self.high_s = high_s
        self.spike = 0.0  # chance of a late segment
        self.bytes_per_s = 0  # 0: no limit
        self.free_at = 0.0  # when the limited path has sent what it took
        self.stalled: list[Pipe] = []


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: Network, source: Endpoint, target: Endpoint) -> None:
        self.bytes = 0  # not delivered yet
        self._network = network
        self._source = source
        self._target = target
        self._queue: deque[tuple[float, bytes | OSError | None]] = deque()  # None: FIN; an error: RST
        self._last = 0.0
        self._stalled = False
        self._sent = 0

    def send(self, item: bytes | OSError | None) -> None:
        network = self._network
        rng, path = network.rng, network.paths[self._source.name, self._target.name]
        size = len(item) if isinstance(item, bytes) else 40
        network.sent[self._source.name] += size
        when = network.scheduler.now + rng.uniform(path.low_s, path.high_s)
        if path.spike and rng.random() < path.spike:
            when += rng.uniform(0.0, 0.3)
        if path.bytes_per_s:
            path.free_at = max(path.free_at, network.scheduler.now) + size / path.bytes_per_s
            when += path.free_at - network.scheduler.now
        if isinstance(item, bytes) and size > 8 and rng.random() < network.split:
            cut = rng.randrange(1, size)
            self._put(when, item[:cut])
            self._put(when + rng.uniform(path.low_s, path.high_s), item[cut:])
        else:
            self._put(when, item)

    def _put(self, when: float, item: bytes | OSError | None) -> None:
        if isinstance(item, bytes):
            self.bytes += len(item)
        self._last = max(self._last, round(when / GRAIN_S + 0.5) * GRAIN_S)
        self._queue.append((self._last, item))
        if len(self._queue) == 1 and not self._stalled:
            self._network.scheduler.at(self._last, self._arrive)

    def delay(self, seconds: float) -> None:
        """Delays everything in flight by so much."""
        self._queue = deque((when + seconds, item) for when, item in self._queue)
        self._last += seconds

    def hurry(self) -> None:
        """The path has its full speed again: what waited for it arrives."""
        soon = self._network.scheduler.now + 0.001
        self._queue = deque((min(when, soon), item) for when, item in self._queue)
        self._last = min(self._last, soon)
        if self._queue and not self._stalled:
            self._network.scheduler.at(self._queue[0][0], self._arrive)

    def lose(self) -> None:
        """Loses everything in flight."""
        self._queue.clear()
        self.bytes = 0

    def _arrive(self) -> None:
        network, queue = self._network, self._queue
        if not queue or self._stalled:
            return
        now = network.scheduler.now
        if queue[0][0] > now:  # it was delayed meanwhile
            network.scheduler.at(queue[0][0], self._arrive)
            return
        path = network.paths[self._source.name, self._target.name]
        if path.cut or network.state[self._target.name] == POWER_OFF:
            if self._source.gone:  # nobody sends it again
                self.lose()
            else:
                self._stalled = True
                path.stalled.append(self)
            return
        while queue and queue[0][0] <= now:
            item = queue.popleft()[1]
            if isinstance(item, bytes):
                self.bytes -= len(item)
            self._target.arrived(item)
        if queue:
            network.scheduler.at(queue[0][0], self._arrive)
        self._source.drained()

    def go_on(self) -> None:
        """The path is whole again: after a while TCP sends again what was lost, all at once."""
        self._stalled = False
        if self._source.gone:
            self.lose()
        elif self._queue:
            again = self._network.scheduler.now + self._network.rng.uniform(0.01, 0.8)
            self._queue = deque((max(when, again), item) for when, item in self._queue)
            self._last = max(self._last, again)
            self._network.scheduler.at(self._queue[0][0], self._arrive)


class Endpoint:
    """One end of a connection: the kernel's socket and asyncio's transport on it."""

    def __init__(self, network: Network, loop: Loop) -> None:
        self.name = loop.name
        self.gone = False  # the kernel's socket is no more: what arrives is answered by RST
        self.silent_until = 0.0  # even that answer does not get through
        self.peer: Endpoint
        self.pipe: Pipe  # to the peer
        self._network = network
        self._loop = loop
        self._protocol: asyncio.Protocol | None = None
        self._inbox: list[bytes] = []
        self._end: BaseException | None = None
        self._ended = False
        self._reading = False
        self._closing = False
        self._told = False
        self._paused = False

    # ------------------------------------------------------------ the kernel's side

    def arrived(self, item: bytes | OSError | None) -> None:
        if self.gone:
            if isinstance(item, bytes) and self._network.scheduler.now >= self.silent_until:
                self.pipe.send(ConnectionResetError("reset by peer"))
            return
        if isinstance(item, bytes):
            self._inbox.append(item)
        else:
            self._end, self._ended = item, True
            if item is not None:
                self.gone = True
                if self._network.rng.random() < 0.5:
                    self._inbox.clear()
        if not self._reading:
            self._reading = True
            self._loop.call_soon(self._read)

    def reset(self, error: OSError) -> None:
        """The connection breaks at this end."""
        if not self.gone:
            self.arrived(error)

    def vanish(self) -> None:
        """The process is gone, or the machine: nothing is read or sent any more."""
        self.gone = self._told = True
        self._inbox.clear()
        self._network.forget(self)

    def drained(self) -> None:
        if self._paused and not self._told and self.pipe.bytes < SOCKET_BUFFER // 4:
            self._paused = False
            if self._protocol is not None:
                self._loop.call_soon(self._protocol.resume_writing)

    # ------------------------------------------------------------ the process's side

    def open(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)  # type: ignore[arg-type]
        if self._inbox or self._ended:
            self._reading = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._reading = False
        protocol = self._protocol
        if self._told or protocol is None:
            return
        if self._inbox and not self._closing:
            data = b"".join(self._inbox)
            self._inbox.clear()
            protocol.data_received(data)
        if self._ended and not self._told:
            if self._end is None:
                protocol.eof_received()
                self.pipe.send(None)
            self._over(self._end)

    def _over(self, error: BaseException | None) -> None:
        if self._told:
            return
        self._told = self.gone = self._closing = True
        self._network.forget(self)
        if self._protocol is not None:
            self._protocol.connection_lost(error)  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        if self.gone or self._closing:
            return
        self.pipe.send(bytes(data))
        if not self._paused and self.pipe.bytes > 2 * SOCKET_BUFFER and self._protocol is not None:
            self._paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return max(0, self.pipe.bytes - SOCKET_BUFFER)

    def abort(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self.gone:
            self.gone = True
            if self._network.rng.random() < 0.5:
                self.pipe.lose()
            self.pipe.send(ConnectionResetError("reset by peer"))
        self._loop.call_soon(self._over, None)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self.gone:
            self.pipe.send(None)
            self.gone = True
        self._loop.call_soon(self._over, None)

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer.name, 0) if name == "peername" else default


class Network:
    """All machines and what is between them."""

    def __init__(
        self,
        scheduler: Scheduler,
        rng: random.Random,
        hosts: dict[tuple[str, int], str],
        latency_s: tuple[float, float] = (0.0002, 0.001),
    ) -> None:
        self.scheduler = scheduler
        self.rng = rng
        self.hosts = dict(hosts)
        names = sorted(hosts.values())
        self.latency_s = latency_s
        self.paths = {(a, b): Path(*latency_s) for a in names for b in names if a != b}
        self.state = dict.fromkeys(names, PROCESS_GONE)
        self.sent = dict.fromkeys(names, 0)  # bytes
        self.split = 0.05  # chance that a write arrives in two parts
        self._listeners: dict[str, tuple[Loop, Callable[[], asyncio.Protocol]]] = {}
        self._endpoints: dict[str, dict[Endpoint, None]] = {name: {} for name in names}

    # ------------------------------------------------------------ what loops ask for

    def listen(self, loop: Loop, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Callable[[], None]:
        """Returns what closes the port again."""
        if self.hosts.get((host, port)) != loop.name:
            raise OSError(f"{host}:{port} is not an address of {loop.name}")
        mine = (loop, factory)
        self._listeners[loop.name] = mine

        def close() -> None:
            if self._listeners.get(loop.name) is mine:
                del self._listeners[loop.name]

        return close

    async def connect(
        self, loop: Loop, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[Endpoint, asyncio.Protocol]:
        """Raises OSError when refused; says nothing for long when the path is cut."""
        target = self.hosts.get((host, port))
        if target is None or target == loop.name:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        answer: asyncio.Future[Endpoint] = loop.create_future()
        self._travel(loop.name, target, lambda: self._syn(loop, target, answer, 0))
        try:
            end = await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                answer.result().abort()
            raise
        protocol = factory()
        end.open(protocol)
        return end, protocol

    def _travel(self, source: str, target: str, then: Callable[[], None]) -> None:
        path = self.paths[source, target]
        self.scheduler.after(self.rng.uniform(path.low_s, path.high_s), then)

    def _syn(self, loop: Loop, target: str, answer: asyncio.Future[Endpoint], tries: int) -> None:
        if answer.done() or loop.dead:
            return
        there, back = self.paths[loop.name, target], self.paths[target, loop.name]
        if there.cut or back.cut or self.state[target] == POWER_OFF:
            if tries < len(SYN_AGAIN_S):
                self.scheduler.after(SYN_AGAIN_S[tries], self._syn, loop, target, answer, tries + 1)
            return
        listener = self._listeners.get(target)
        if listener is None or listener[0].dead:
            self._travel(target, loop.name, lambda: _refuse(loop, answer))
            return
        mine, theirs = Endpoint(self, loop), Endpoint(self, listener[0])
        mine.peer, theirs.peer = theirs, mine
        mine.pipe, theirs.pipe = Pipe(self, mine, theirs), Pipe(self, theirs, mine)
        self._endpoints[target][theirs] = None
        listener[0].call_soon(self._accept, theirs, listener[1])
        self._travel(target, loop.name, lambda: self._connected(loop, answer, mine))

    def _accept(self, end: Endpoint, factory: Callable[[], asyncio.Protocol]) -> None:
        if not end.gone or end._ended:
            end.open(factory())

    def _connected(self, loop: Loop, answer: asyncio.Future[Endpoint], end: Endpoint) -> None:
        if loop.dead or answer.done():
            end.gone = True
            end.pipe.send(ConnectionResetError("reset by peer"))
            return
        self._endpoints[loop.name][end] = None
        loop.call_soon(_answer, answer, end)

    def forget(self, end: Endpoint) -> None:
        self._endpoints[end.name].pop(end, None)

    # ------------------------------------------------------------ machines

    def move(self, places: dict[str, tuple[str, int]]) -> None:
        """Gives machines other addresses; no process runs on them."""
        self.hosts = {place: name for place, name in self.hosts.items() if name not in places}
        self.hosts |= {place: name for name, place in places.items()}

    def process_started(self, name: str) -> None:
        self.state[name] = MACHINE_UP
        for (_, target), path in self.paths.items():
            if target == name and not path.cut:
                self._go_on(path)

    def process_gone(self, name: str, power: bool) -> None:
        """Killed: the kernel resets its connections. Without power nobody says anything."""
        self._listeners.pop(name, None)
        self.state[name] = POWER_OFF if power else PROCESS_GONE
        for end in list(self._endpoints[name]):
            if not power and not end.gone:
                if self.rng.random() < 0.3:
                    end.pipe.lose()
                end.pipe.send(ConnectionResetError("reset by peer") if self.rng.random() < 0.7 else None)
            elif power:
                end.pipe.lose()
            end.vanish()

    # ------------------------------------------------------------ faults

    def connections(self, a: str, b: str) -> list[Endpoint]:
        return [end for end in self._endpoints[a] if end.peer.name == b]

    def reset(self, a: str, b: str) -> int:
        """Breaks the connections of a pair, each end at its own time; returns how many there were."""
        ends = self.connections(a, b)
        for end in ends:
            self._break(end)
        return len(ends)

    def _break(self, end: Endpoint) -> None:
        rng = self.rng
        first, second = (end, end.peer) if rng.random() < 0.5 else (end.peer, end)
        style = rng.random()
        late = 0.0 if style < 0.4 else rng.uniform(0.0, 0.05) if style < 0.6 else rng.uniform(0.1, 4.0)
        first.silent_until = self.scheduler.now + late  # the other end hears nothing of it before
        if late and rng.random() < 0.6:
            first.pipe.delay(rng.uniform(0.0, min(late, 2.0)))  # comes when a newer connection may stand already
        elif rng.random() < 0.5:
            first.pipe.lose()
        first.reset(ConnectionResetError("broken"))
        self.scheduler.after(late, second.reset, ConnectionResetError("broken"))

    def half_open(self, end: Endpoint, late_s: float, known_s: float) -> None:
        """Breaks at this end. What it has sent arrives so much later, and the other end learns of it still later."""
        end.silent_until = self.scheduler.now + known_s
        end.pipe.delay(late_s)
        end.reset(ConnectionResetError("broken"))
        self.scheduler.after(known_s, end.peer.reset, ConnectionResetError("broken"))

    def cut(self, source: str, target: str) -> None:
        """From now on nothing gets through in this direction."""
        self.paths[source, target].cut = True

    def heal(self, source: str, target: str) -> None:
        path = self.paths[source, target]
        if path.cut:
            path.cut = False
            self._go_on(path)

    def heal_all(self) -> None:
        for (source, target), path in self.paths.items():
            self.heal(source, target)
            path.low_s, path.high_s = self.latency_s
            path.spike = 0.0
            self.full_speed(source, target)

    def full_speed(self, source: str, target: str) -> None:
        path = self.paths[source, target]
        if path.bytes_per_s:
            path.bytes_per_s, path.free_at = 0, 0.0
            for end in self.connections(source, target):
                end.pipe.hurry()

    def _go_on(self, path: Path) -> None:
        stalled, path.stalled = path.stalled, []
        for pipe in stalled:
            pipe.go_on()


def _refuse(loop: Loop, answer: asyncio.Future[Endpoint]) -> None:
    if not loop.dead:
        loop.call_soon(_fail, answer, ConnectionRefusedError("connection refused"))


def _fail(answer: asyncio.Future[Endpoint], error: OSError) -> None:
    if not answer.done():
        answer.set_exception(error)


def _answer(answer: asyncio.Future[Endpoint], end: Endpoint) -> None:
    if not answer.done():
        answer.set_result(end)
    else:
        end.abort()

"""Taking connections: a bounded number in each turn of the event loop, each against the bounds of `Connections`.

For plain HTTP; tls_acceptor.py is for TLS. asyncio's own server takes as many in one turn as wait, and what is refused
costs it a transport; here it costs one short answer.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from raftsched.api.http.connections import Connections, Place
from raftsched.api.http.problems import MEDIA_TYPE, body_of
from raftsched.api.http.replies import GUARDS
from raftsched.errors import RaftschedError
from raftsched.system import background

ACCEPTED_MAX = 32  # in one turn of the event loop
AGAIN_S = 0.1  # after the process had no descriptor left
_TAKEN_MAX = 64 * 1024  # bytes of a refused request
_NONE_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_body = msgspec.json.encode(
    body_of(RaftschedError("overloaded", "This node has as many connections as it takes; ask another, or try again."))
)
BUSY = (
    f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(_body)}\r\n"
    + "".join(f"{name}: {value}\r\n" for name, value in GUARDS.items())
    + "Cache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
).encode() + _body

Made = Callable[[Place], asyncio.Protocol]


class Acceptor:
    """The acceptor of one server, on one or more sockets that are bound already."""

    def __init__(self, sockets: Sequence[socket.socket], connections: Connections, made: Made) -> None:
        """`sockets` listen already. `made` makes the protocol of a connection."""
        self.sockets = tuple(sockets)
        self._connections = connections
        self._made = made
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], tuple[socket.socket, Place]] = {}  # until they are connected
        self._begun: set[socket.socket] = set()  # of these, those that a transport closes
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._closed = False
        for sock in self.sockets:
            sock.setblocking(False)
            self._loop.add_reader(sock, self._accept, sock)

    @property
    def port(self) -> int:
        number: int = self.sockets[0].getsockname()[1]
        return number

    def close(self) -> None:
        """No more are taken; those that are not connected yet are closed."""
        if self._closed:
            return
        self._closed = True
        for handle in self._paused.values():
            handle.cancel()
        for sock in self.sockets:
            self._loop.remove_reader(sock)
            sock.close()
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(ACCEPTED_MAX):
            try:
                taken, peer = sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # it has gone already
                continue
            except OSError as error:
                if error.errno not in _NONE_LEFT:
                    raise
                self._connections.no_descriptor()
                self._pause(sock)
                return
            place = self._connections.enter(peer[0])
            if place is None:
                _refuse(taken)
                continue
            taken.setblocking(False)
            task = background.start("api-connections", self._serve(taken, place))
            place.close = task.cancel
            self._tasks[task] = (taken, place)
            task.add_done_callback(self._served)

    def _pause(self, sock: socket.socket) -> None:
        """Stops accepting for a while: a waiting connection would make the loop call again at once."""
        self._loop.remove_reader(sock)
        self._paused[sock] = self._loop.call_later(AGAIN_S, self._resume, sock)

    def _resume(self, sock: socket.socket) -> None:
        del self._paused[sock]
        self._loop.add_reader(sock, self._accept, sock)

    async def _serve(self, taken: socket.socket, place: Place) -> None:
        self._begun.add(taken)
        try:
            await self._loop.connect_accepted_socket(lambda: self._made(place), taken)
        except OSError:  # it has gone already
            self._connections.leave(place)

    def _served(self, task: asyncio.Task[None]) -> None:
        taken, place = self._tasks.pop(task)
        if taken in self._begun:
            self._begun.discard(taken)
        else:  # it was cancelled before its first step
            taken.close()
        if task.cancelled() or task.exception() is not None:
            self._connections.leave(place)


def _refuse(taken: socket.socket) -> None:
    """Refuses with an answer. What came is taken first: closing before would make the kernel drop the answer."""
    with taken, suppress(OSError):
        taken.setblocking(False)
        with suppress(BlockingIOError):
            taken.recv(_TAKEN_MAX)
        taken.send(BUSY)
        taken.shutdown(socket.SHUT_WR)

"""A process that was forked off shares nothing with its parent that either could spoil for the other."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing

import pytest

from raftsched.client.sync.loop import LoopThread

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def in_child(work: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        signal.alarm(20)  # a child that hangs must not outlive its test
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.stop()


class Connection:
    """One that the loop of a thread reads from."""

    def __init__(self, thread: LoopThread) -> None:
        self.ours, self.theirs = socket.socketpair()
        self._thread = thread
        self._reader, self.writer = thread.run(self._open())
        self.loop = thread.run(self._loop())

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(sock=self.ours)

    async def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def hears(self) -> bytes:
        """Returns what comes when the other end says `there`."""
        self.theirs.sendall(b"there")
        return self._thread.run(asyncio.wait_for(self._reader.readexactly(5), 20))

    def close(self) -> None:
        self._thread.run(self._close())
        self.theirs.close()

    async def _close(self) -> None:
        self.writer.close()


def test_what_a_child_closes_stays_open_for_its_parent(thread: LoopThread) -> None:
    with closing(Connection(thread)) as connection:

        def close() -> None:  # as the end of a client does that nobody holds any more
            connection.writer.transport.abort()
            connection.loop.remove_reader(connection.writer.get_extra_info("socket").fileno())

        in_child(close)
        assert connection.hears() == b"there"


def test_what_a_child_says_does_not_reach_the_parents_peer(thread: LoopThread) -> None:
    """As the farewell of TLS, which would end the connection."""
    with closing(Connection(thread)) as connection:
        in_child(lambda: connection.writer.write(b"farewell"))
        connection.theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.theirs.recv(100)
        assert connection.hears() == b"there"


def test_what_a_parent_began_cannot_be_gone_on_with(thread: LoopThread) -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1
        yield 2

    found = thread.each(numbers)
    assert next(found) == 1

    def go_on() -> None:
        with pytest.raises(RuntimeError, match="begun before this process was forked off"):
            next(found)

    in_child(go_on)
    assert list(found) == [2]

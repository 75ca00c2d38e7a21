"""Connections of urllib3 whose answers end: after so many bytes, after so much time, and once nobody waits for them.

The packages that use them read an answer whole, errors and lists as well, and know no timeout but one of silence.
Whoever answers could fill the memory of the process, which may be a member of the cluster. So the bytes of each answer
are counted where they come from the socket, its head, chunks and trailers with them.
"""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from raftsched.objectstore import waiting
from raftsched.system.clock import SystemClock

MOST = 4 << 20  # bytes of an answer that is no object: a list of 1,000 objects with the longest keys has 1.5 MiB
MARKS_MAX = 100_000  # of < and of quotes in one: such a list has 30,000, and each may become an object of Python
SILENT_S = 60.0  # without a byte
ANSWER_S = 300.0  # that is waited for an answer in all; S3 takes minutes to put large parts together
SLOWEST = 16 << 10  # bytes a second: so much more time has an object
_LINE = 64 << 10  # bytes of a line between chunks
_LINES = 10_000  # of head, chunks and trailers,
_BETWEEN = 1 << 10  # and one more for each so many bytes
_SENT = 64 << 10  # bytes that are sent between two looks whether somebody waits

_CLOCK = SystemClock()


class AnswerRefused(Exception):
    """An answer that is longer, takes longer, or is another thing than any that makes sense."""


_asks: ContextVar[Callable[[str], None] | None] = ContextVar("asks", default=None)


@contextmanager
def told_of_requests(told: Callable[[str], None]) -> Iterator[None]:
    """Calls `told` with the address of each request that is made inside, before it is made; what it raises ends it."""
    before = _asks.set(told)
    try:
        yield
    finally:
        _asks.reset(before)


class _Bytes(io.RawIOBase):
    """The bytes of one answer as they come. `endless`: it is an object, whose bytes whoever asked counts."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw = raw
        self._sock = sock
        self._waited_s = 0.0
        self.count = 0
        self.endless = False

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int | None:
        if not self.endless and self.count > MOST:
            raise AnswerRefused(f"an answer of more than {MOST >> 20} MiB")
        left = ANSWER_S - self._waited_s + (self.count / SLOWEST if self.endless else 0.0)
        waits_s = waiting.left_s()
        if left <= 0:
            raise self._late()
        self._sock.settimeout(min(SILENT_S, left, SILENT_S if waits_s is None else waits_s))
        began = _CLOCK.monotonic()
        try:
            got = self._raw.readinto(into)
        except TimeoutError:
            waiting.left_s()
            if left <= SILENT_S:
                raise self._late() from None
            raise
        finally:
            self._waited_s += _CLOCK.monotonic() - began
        self.count += got or 0
        return got

    def _late(self) -> AnswerRefused:
        return AnswerRefused(f"an answer that has not ended after {self._waited_s:.0f} s")

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Buffered(io.BufferedReader):
    """Reads lines and pieces of a bounded length. The library reads the lines between chunks, and behind them, without
    any bound, and takes the memory for as much as a length says before it comes."""

    def __init__(self, source: _Bytes) -> None:
        super().__init__(source)
        self._source = source
        self._lines = 0

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MOST:
            raise AnswerRefused(f"an answer of more than {MOST >> 20} MiB")
        return super().read(size)

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(_LINE if size is None or size < 0 else size)
        self._lines += 1
        if (size is None or size < 0) and len(line) == _LINE:
            raise AnswerRefused(f"an answer with a line of more than {_LINE >> 10} KiB between its chunks")
        if self._lines > _LINES + self._source.count // _BETWEEN:
            raise AnswerRefused("an answer in crumbs")
        return line


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, streamed: bool, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        self._streamed = streamed
        self._bytes = _Bytes(self.fp.detach(), sock)
        self.fp = _Buffered(self._bytes)

    def begin(self) -> None:
        super().begin()
        self._bytes.endless = self._streamed and self.status in {200, 206}


class _Measured:
    """Adds to a connection that its answers are measured, and that it sends no more once nobody waits."""

    response_class: Any

    def request(self, *args: Any, preload_content: bool = True, **named: Any) -> None:
        self.response_class = partial(_Response, streamed=not preload_content)
        super().request(*args, preload_content=preload_content, **named)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        if not isinstance(data, bytes | bytearray):
            super().send(data)  # type: ignore[misc]
            return
        view = memoryview(data)
        for at in range(0, max(1, len(view)), _SENT):  # each with the whole of the timeout
            waiting.left_s()
            super().send(view[at : at + _SENT])  # type: ignore[misc]


class _Connection(_Measured, HTTPConnection):
    response_class: Any


class _SecureConnection(_Measured, HTTPSConnection):
    response_class: Any


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class BoundedPool(urllib3.PoolManager):
    """A pool for packages that parse answers as XML. An answer is read whole and looked through before it is handed
    over, but for an object: status 200 or 206 of a request with `preload_content=False`. Nothing is inflated."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def urlopen(self, method: str, url: str, redirect: bool = True, **named: Any) -> urllib3.BaseHTTPResponse:  # type: ignore[override]
        """Returns the answer. Raises AnswerRefused, NobodyWaits, and what urllib3 raises."""
        if (told := _asks.get()) is not None:
            told(url)
        response = super().urlopen(method, url, redirect, **{**named, "decode_content": False})
        streamed = not named.get("preload_content", True)
        if streamed and response.status in {200, 206}:
            return response
        try:
            content = response.data
        finally:
            response.release_conn()
        _require_plain(content)
        if not streamed:
            return response
        return urllib3.HTTPResponse(  # for another read, as for one that was not read yet
            io.BytesIO(content),
            headers=response.headers,
            status=response.status,
            reason=response.reason,
            preload_content=False,
            decode_content=False,
            request_method=method,
        )


def _require_plain(content: bytes) -> None:
    """Raises AnswerRefused for what would be much larger once it is parsed."""
    if b"<!DOCTYPE" in content:
        raise AnswerRefused("an answer with definitions of its own (<!DOCTYPE)")
    if content.count(b"<") > MARKS_MAX or content.count(b'"') + content.count(b"'") > MARKS_MAX:
        raise AnswerRefused("an answer of more parts than any list has")

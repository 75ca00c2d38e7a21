"""Bounds what is read of a collector's answer, and for how long: the package that sends spans would read all of it."""

from __future__ import annotations

import http.client
import io
import socket
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

from raftsched.system.clock import SystemClock

MOST = 64 << 10  # bytes of an answer
_ANSWER_S = 10.0  # for all of it, where the request has no timeout

_CLOCK = SystemClock()


class _Timed(io.RawIOBase):
    """The bytes of one answer. All of them have the time that one silence has else."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw = raw
        self._sock = sock
        self._until = _CLOCK.monotonic() + (sock.gettimeout() or _ANSWER_S)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int | None:
        left_s = self._until - _CLOCK.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer has not ended in time")
        self._sock.settimeout(left_s)
        return self._raw.readinto(into)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock))


class _Connection(HTTPConnection):
    response_class: Any = _Response


class _SecureConnection(HTTPSConnection):
    response_class: Any = _Response


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS = {"http": _Pool, "https": _SecurePool}


class _Bounded(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **named: Any) -> None:
        super().init_poolmanager(*args, **named)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **named: Any) -> Any:
        manager = super().proxy_manager_for(*args, **named)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(self, request: requests.PreparedRequest, *args: Any, **named: Any) -> requests.Response:
        response = super().send(request, *args, **named)
        try:
            head = response.raw.read(MOST, decode_content=False)
        except urllib3.exceptions.HTTPError as error:
            response.raw.close()
            # No ConnectionError, after which they are sent again: the collector may have taken them.
            raise requests.exceptions.RequestException(error, request=request) from None
        if len(head) == MOST:
            response.raw.close()  # and with it the connection: there may be more
        response.raw = io.BytesIO(head)
        return response


def bounded_session() -> requests.Session:
    """Returns what sends requests, and reads MOST bytes of each answer, as they come: nothing is inflated. An
    answer as a whole has the time of the request's timeout."""
    session = requests.Session()
    session.headers["Accept-Encoding"] = "identity"
    for scheme in ("https://", "http://"):
        session.mount(scheme, _Bounded())
    return session

"""Transports of asyncio by TLS that may be closed more than once."""

from __future__ import annotations

import asyncio
from typing import Any


class TlsTransport:
    """A transport by TLS whose second `close` does nothing, as that of every other transport.

    asyncio's own (up to Python 3.14) forgets its protocol by it. After that `abort` does nothing, so that a client who
    never says goodbye keeps the connection, and much else raises AttributeError.
    """

    def __init__(self, inner: asyncio.BaseTransport) -> None:
        self._inner = inner

    def close(self) -> None:
        """Begins to close it; what is written already is sent."""
        if not self._inner.is_closing():
            self._inner.close()

    def __getattr__(self, name: str) -> Any:
        """Returns what the transport itself has by that name."""
        return getattr(self._inner, name)


def closed_once(transport: asyncio.BaseTransport) -> Any:
    """Returns a transport that closes once, however often it is told to: itself when it speaks no TLS."""
    return transport if transport.get_extra_info("sslcontext") is None else TlsTransport(transport)

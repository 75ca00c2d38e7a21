"""Names to addresses, in threads: the system's resolver waits for name servers, and some never answer.

A name has one thread at a time, whoever asks for it, so that names whose servers are silent leave threads to others.
What is an address already needs none.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future, ThreadPoolExecutor

_getaddrinfo = socket.getaddrinfo
NAMES_MAX = 64  # that are asked for at one time; further ones wait


class _Lookup:
    """One that is under way or waits for a thread."""

    def __init__(self, asked: Future[list[str]]) -> None:
        self.asked = asked
        self.waiting = 0  # how many want to know


class Resolver:
    """Resolves for one event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(NAMES_MAX, "names")
        self._lookups: dict[str, _Lookup] = {}

    async def addresses(self, host: str) -> list[str]:
        """Returns those of a host. Raises OSError, and UnicodeError when it is no name."""
        try:
            return _found(host, socket.AI_NUMERICHOST)  # asks nobody
        except socket.gaierror:
            return await self._of_name(host)

    async def _of_name(self, name: str) -> list[str]:
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = self._lookups[name] = _Lookup(self._threads.submit(_found, name))
            asyncio.wrap_future(lookup.asked).add_done_callback(lambda done: self._over(name, lookup, done))
        lookup.waiting += 1
        try:
            return await asyncio.shield(asyncio.wrap_future(lookup.asked))
        finally:
            lookup.waiting -= 1
            if not lookup.waiting and lookup.asked.cancel():  # where a thread has it, who comes next waits for it, too
                del self._lookups[name]

    def _over(self, name: str, lookup: _Lookup, done: asyncio.Future[list[str]]) -> None:
        if self._lookups.get(name) is lookup:
            del self._lookups[name]
        if not done.cancelled():
            done.exception()  # whoever waits has it, too


def _found(host: str, flags: int = 0) -> list[str]:
    found = _getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    return [str(info[4][0]) for info in found]

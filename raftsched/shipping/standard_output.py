"""Output as JSON, an object a line, on the standard output of the node. Its own log goes to standard error."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from raftsched.shipping.batches import Entry, Packed
from raftsched.shipping.shipper import NotTaken

_encode = msgspec.json.Encoder().encode


class StandardOutput:
    """Whoever reads it may be slow, and then it waits: in a thread that does not keep the process from ending."""

    def __init__(self, node_id: str, fd: int = 1) -> None:
        self._node_id = node_id
        self._fd = fd

    def pack(self, entry: Entry) -> bytes:
        return _encode(line_of(entry, self._node_id)) + b"\n"

    async def take(self, lines: Sequence[Packed]) -> None:
        """Raises NotTaken: it is closed."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        data = b"".join(line.data for line in lines)
        threading.Thread(target=self._write, args=(data, loop, written), name="stdout", daemon=True).start()
        try:
            await written
        except OSError as error:
            raise NotTaken(f"standard output cannot be written ({error.strerror})") from None

    async def close(self) -> None:
        """It is the process's."""

    def _write(self, data: bytes, loop: asyncio.AbstractEventLoop, written: asyncio.Future[None]) -> None:
        failure: OSError | None = None
        left = memoryview(data)
        try:
            while left:
                try:
                    left = left[os.write(self._fd, left) :]
                except BlockingIOError:  # somebody made it so
                    select.select([], [self._fd], [])
        except OSError as error:
            failure = error
        with suppress(RuntimeError):  # the loop is over
            loop.call_soon_threadsafe(_tell, written, failure)


def line_of(entry: Entry, node_id: str) -> dict[str, Any]:
    """Returns the object of a line. `type` tells it from lines of other programs, and of this one."""
    whose, line = entry.whose, entry.line
    found: dict[str, Any] = {
        "type": "output",
        "at": time_text(entry.at_ns),
        "node": node_id,
        "namespace": whose.namespace,
        "job": whose.job,
        "instance": whose.instance,
        "attempt": whose.attempt,
        "token": entry.token,
        "stream": line.stream,
        "line": line.number,
        "text": line.text,
    }
    if whose.worker:
        found["worker"] = whose.worker
    if line.goes_on:
        found["goes_on"] = True
    return found


def time_text(at_ns: int) -> str:
    """Returns it as RFC 3339 has it, UTC, with microseconds."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    return f"{_to_the_second(seconds)}.{rest // 1_000:06d}Z"


@lru_cache(maxsize=8)
def _to_the_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def _tell(written: asyncio.Future[None], failure: OSError | None) -> None:
    if written.done():
        return
    if failure is None:
        written.set_result(None)
    else:
        written.set_exception(failure)

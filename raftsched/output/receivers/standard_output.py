"""Ships output as JSON, an object a line, to the standard output of the node. Its own log goes to standard error."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from raftsched.output.following.calls import in_daemon_thread
from raftsched.output.following.follower import NotTaken
from raftsched.output.receivers.unshipped import Entry, Packed

_encode = msgspec.json.Encoder().encode


class StandardOutput:
    """Whoever reads it may be slow, and then it waits: in a thread that does not keep the process from ending."""

    def __init__(self, node_id: str, fd: int = 1) -> None:
        self._node_id = node_id
        self._fd = fd
        self._cut = False  # what was written last ends within a line

    def pack(self, entry: Entry) -> bytes:
        return _encode(line_of(entry, self._node_id)) + b"\n"

    async def take(self, lines: Sequence[Packed]) -> None:
        """Raises NotTaken: it is closed."""
        data = b"".join(line.data for line in lines)
        try:
            await in_daemon_thread(lambda: self._write(data), "output-shipping")
        except OSError as error:
            raise NotTaken(f"standard output cannot be written ({error.strerror})") from None

    async def close(self) -> None:
        """It is the process's."""

    def _write(self, data: bytes) -> None:
        left = memoryview(b"\n" + data if self._cut else data)
        while left:
            try:
                size = os.write(self._fd, left)
            except BlockingIOError:  # somebody made it so
                select.select([], [self._fd], [])
            else:
                self._cut, left = left[size - 1] != ord("\n"), left[size:]


def line_of(entry: Entry, node_id: str) -> dict[str, Any]:
    """Returns the object of a line. `type` tells it from lines of other programs, and of this one."""
    owner, line = entry.owner, entry.line
    found: dict[str, Any] = {
        "type": "output",
        "at": time_text(entry.at_ns),
        "node": node_id,
        "namespace": owner.namespace,
        "job": owner.job,
        "instance": owner.instance,
        "attempt": owner.attempt,
        "token": entry.token,
        "stream": line.stream,
        "line": line.number,
        "text": line.text,
    }
    if owner.worker:
        found["worker"] = owner.worker
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

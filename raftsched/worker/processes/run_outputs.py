"""The outputs of runs that share a process, as its keeper gathers them.

The process writes parts to a pipe: token (8 bytes), kind (1 byte), size (2 bytes), little endian, and that many bytes.
A part is never larger than what a pipe takes as a whole (PIPE_BUF), so that threads need no lock. Code of jobs runs in
that process: a part counts only under the token of a run that the supervisor says is in there.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Iterator

import msgspec

from raftsched.output.format.redaction import redact_text
from raftsched.output.format.spool import STDERR, STDOUT, Capture
from raftsched.system.clock import SystemClock
from raftsched.worker.processes import wire
from raftsched.worker.processes.pages import RunsPage

HEAD = struct.Struct("<QBH")
PART_MAX = select.PIPE_BUF - HEAD.size
HIDE_MORE, HIDE = 3, 4  # kinds beside STDOUT and STDERR: values that are not to be shown, and the last of them
_HIDDEN_MAX = 64 * 1024  # bytes, as for a process of one run
_UNCLAIMED_MAX = 4 * 1024  # bytes

_encode = msgspec.msgpack.Encoder().encode
_hidden = msgspec.msgpack.Decoder(tuple[str, ...])


def parts(token: int, kind: int, data: bytes | memoryview) -> Iterator[bytes]:
    """Returns data as what is to be written, each in one go."""
    for at in range(0, len(data), PART_MAX):
        part = data[at : at + PART_MAX]
        yield HEAD.pack(token, kind, len(part)) + part


def hiding_parts(token: int, values: tuple[str, ...]) -> Iterator[bytes]:
    """Returns what says that these are not to be shown in what the run prints from then on."""
    yield from parts(token, HIDE_MORE, _encode(values))
    yield HEAD.pack(token, HIDE, 0)


class Unclaimed(Capture):
    """The end of what the process prints that no run has printed; it stays in memory."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory, _UNCLAIMED_MAX)

    def flush(self, token: int, now_ms: int | None = None) -> None:
        self.flush_at = None


class RunOutputs:
    def __init__(self, page: RunsPage, directory: str) -> None:
        self._page = page
        self._directory = directory
        self._clock = SystemClock()
        self.unclaimed = Unclaimed(directory)
        self._captures: dict[int, Capture] = {}  # by token
        self._hidden: dict[int, bytes] = {}  # by token
        self._finished: set[int] = set()  # tokens that the page may still have
        self._held = bytearray()
        self._broken = False  # nothing more can be told apart

    def feed(self, data: bytes) -> list[str]:
        """Takes what was read of the pipe."""
        held, at = self._held, 0
        held += data
        while not self._broken and len(held) - at >= HEAD.size:
            token, kind, size = HEAD.unpack_from(held, at)
            end = at + HEAD.size + size
            self._broken = size > PART_MAX
            if self._broken or end > len(held):
                break
            self._take(token, kind, bytes(held[at + HEAD.size : end]))
            at = end
        del held[:at]
        if self._broken:
            held.clear()
        return []

    def _take(self, token: int, kind: int, data: bytes) -> None:
        capture = self._captures.get(token) or self._begin(token)
        if capture is None:
            return
        if kind in (STDOUT, STDERR):
            capture.write(kind, data, self._clock.boot_ms())
        elif kind == HIDE_MORE:
            self._hidden[token] = (self._hidden.get(token, b"") + data)[:_HIDDEN_MAX]
        elif kind == HIDE:
            capture.hide(self._values(token))
            self._hide_unclaimed()

    def _begin(self, token: int) -> Capture | None:
        output_max = self._page.output_max(token)
        if output_max is None or token in self._finished:  # a thread that goes on may print for a run that has ended
            return None
        capture = self._captures[token] = Capture(self._directory, output_max)
        return capture

    def _values(self, token: int) -> tuple[str, ...]:
        try:
            return _hidden.decode(self._hidden.get(token, b"\x90"))
        except ValueError:  # the code of a job wrote it
            return ()

    def _hide_unclaimed(self) -> None:
        self.unclaimed.hide([value for token in self._hidden for value in self._values(token)])

    def flush(self, now: int) -> int | None:
        """Writes what is due to where readers of a running attempt find it. Returns when there is more to do (boot
        ms)."""
        next_at: int | None = None
        for token, capture in self._captures.items():
            if capture.flush_at is not None and (capture.flush_at <= now or capture.urgent):
                capture.flush(token, now)
            if capture.flush_at is not None and (next_at is None or capture.flush_at < next_at):
                next_at = capture.flush_at
        return next_at

    def last_words(self) -> str:
        """Returns the end of what no run has printed, without the values of those that are in there."""
        values = [value for token in self._hidden for value in self._values(token)]
        return redact_text(self.unclaimed.tail(), values) or ""

    def finish(self, token: int) -> wire.Collected:
        """Returns the output of a run that has ended."""
        self._finished = {one for one in self._finished if self._page.output_max(one) is not None} | {token}
        capture = self._captures.pop(token, None)
        if self._hidden.pop(token, None) is not None:
            self.unclaimed.drop()  # a value of it may be in there: that it is to be hidden comes by another pipe
            self._hide_unclaimed()
        if capture is None:
            return wire.Collected(b"", False, 0, "", token)
        tail = capture.tail()
        return wire.Collected(*capture.finish(token), tail, token)

    def rest(self) -> Iterator[wire.Collected]:
        """Returns the outputs of all runs that were not finished."""
        for token in list(self._captures):
            yield self.finish(token)

"""The lines of an output, as they are shipped: in the order in which they ended, cut where they are too long.

The same output makes the same lines with the same numbers, whenever it is read: that is how one goes on after so many
of them, and how a receiver knows what it has already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from raftsched.output.format.spool import HEAD, NOTE, STDERR, STDOUT, complete, note_of

LINE_MAX = 64 * 1024  # bytes; a longer line is shipped in parts
_NAMES = {STDOUT: "stdout", STDERR: "stderr"}
_COUNT = 8  # bytes of a NOTE


class Line(NamedTuple):
    """`number` counts from 1. `goes_on`: the next one of this stream is more of the same line."""

    number: int
    stream: str
    text: str
    goes_on: bool = False


def frames_in(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yields stream and bytes of the frames in a part of a file, large ones in pieces."""
    file.seek(start)
    while start + HEAD.size <= end:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return
        stream, left = HEAD.unpack(head)
        start += HEAD.size + left
        if start > end:
            return
        while left > 0:
            piece = file.read(min(left, LINE_MAX))
            if not piece:
                return
            left -= len(piece)
            yield stream, piece


def lines_of(frames: Iterable[tuple[int, bytes]]) -> Iterator[Line]:
    """Yields all lines. Where output was left out, a line says so, on stderr; what is around it are lines of their
    own."""
    for number, (stream, raw, goes_on) in enumerate(_cut(frames), 1):
        text = raw.decode("utf-8", "replace")
        yield Line(number, _NAMES[stream], text if goes_on else text.removesuffix("\r"), goes_on)


def _cut(frames: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes, bool]]:
    begun = {STDOUT: bytearray(), STDERR: bytearray()}  # what has no end yet
    for stream, data in frames:
        if stream == NOTE and len(data) == _COUNT:
            yield from _rest(begun)
            yield STDERR, note_of(data).strip(), False
        elif stream in begun:
            line = begun[stream]
            line += data
            if len(line) > LINE_MAX or data.find(b"\n") >= 0:
                *whole, rest = bytes(line).split(b"\n")
                for one in whole:
                    *parts, last = _parts(one)
                    yield from ((stream, part, True) for part in parts)
                    yield stream, last, False
                *parts, rest = _parts(rest)
                yield from ((stream, part, True) for part in parts)
                begun[stream] = bytearray(rest)
    yield from _rest(begun)


def _parts(line: bytes) -> list[bytes]:
    """Returns it in parts that are not too long, cut between characters."""
    parts = []
    while len(line) > LINE_MAX:
        end = complete(line[:LINE_MAX]) or LINE_MAX
        parts.append(line[:end])
        line = line[end:]
    return [*parts, line]


def _rest(begun: dict[int, bytearray]) -> Iterator[tuple[int, bytes, bool]]:
    """Yields the lines that end without an end of line."""
    for stream, line in begun.items():
        if line:
            yield stream, bytes(line), False
            line.clear()

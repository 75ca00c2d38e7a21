"""Records of output, as they lie in segment files: a header, and frames, whose digests are held against it."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError
from raftsched.output.reading.text import Text

MAGIC = b"RSo1"
# magic, body size, token, ended_at_ms, bytes left out, sha256 of the body; then crc32 of these
HEADER = struct.Struct("<4sIQqQ32s")
CRC = struct.Struct("<I")
_AT_ONCE = 256 * 1024  # bytes that are in memory of an output that is checked or taken over
ANOTHERS = "The stored output is that of another run."
DAMAGED = "The stored output is damaged: its digest does not fit."
HEADER_SIZE = HEADER.size + CRC.size


class FrameDigests(NamedTuple):
    """Size and digest of frames, and of the text that they make."""

    size: int
    sha256: bytes
    shown: int
    shown_sha256: bytes


class Span(NamedTuple):
    """Says where a record lies in a segment. `whole`: its digest fits."""

    begin: int
    end: int
    whole: bool


def head_of(size: int, token: int, ended_at_ms: int, left_out: int, sha256: bytes) -> bytes:
    """Returns the header of a record whose body has this size and digest."""
    head = HEADER.pack(MAGIC, size, token, ended_at_ms, left_out, sha256)
    return head + CRC.pack(zlib.crc32(head))


def whole_size(fd: int) -> int:
    """Returns the offset at which the last whole record of a segment ends: damage before it is not its end."""
    return max((span.end for span in spans(fd, 0, os.fstat(fd).st_size) if span.whole), default=0)


def spans(fd: int, at: int, end: int) -> Iterator[Span]:
    """Yields the records of a part of a segment. Where a header is damaged, they go on at the next one that is found
    and whose record is whole: what looks like a header may be within an output. A record that goes on behind the end
    was not written to its end, and is none."""
    found = False  # by its looks, and not because the record before it ends here
    while True:
        head = os.pread(fd, HEADER_SIZE, at)
        size = body_size(head)
        if size is not None:
            stop = at + HEADER_SIZE + size
            if stop > end and not found:
                return
            whole = stop <= end and _digest(fd, at + HEADER_SIZE, stop) == HEADER.unpack(head[: HEADER.size])[5]
            if whole or not found:
                yield Span(at, stop, whole)
                at, found = stop, False
                continue
        next_at = _find(fd, at + 1, end)
        if next_at is None:
            return
        at, found = next_at, True


def _find(fd: int, at: int, end: int) -> int | None:
    """Returns where the next bytes are that a header begins with."""
    while end - at >= HEADER_SIZE:
        piece = os.pread(fd, min(_AT_ONCE, end - at), at)
        place = piece.find(MAGIC)
        if place >= 0:
            return at + place
        if len(piece) < len(MAGIC):
            return None
        at += len(piece) - len(MAGIC) + 1
    return None


def _digest(fd: int, start: int, end: int) -> bytes:
    body = hashlib.sha256()
    for piece in pieces_of(fd, start, end):
        body.update(piece)
    return body.digest()


def body_size(head: bytes) -> int | None:
    """Returns the bytes of the frames behind a header; None: it is none."""
    if len(head) < HEADER_SIZE or head[:4] != MAGIC:
        return None
    if zlib.crc32(head[: HEADER.size]) != CRC.unpack(head[HEADER.size :])[0]:
        return None
    size: int = HEADER.unpack(head[: HEADER.size])[1]
    return size


def checked(fd: int, ref: OutputRef, token: int | None = None) -> Text:
    """Returns the output at a place of this file, after its digests were held against all of it. `token`: whose it has
    to be; None: anybody's. Raises RaftschedError "output-gone"."""
    start, end = ref.offset + HEADER_SIZE, _end_of(fd, ref, token)
    text = Text(os.dup(fd), start, end, None)
    whole = _digest(fd, start, end) == HEADER.unpack(os.pread(fd, HEADER.size, ref.offset))[5]
    if not whole or text.size != ref.size or text.digest() != ref.sha256:
        raise RaftschedError("output-gone", DAMAGED)
    return text


def _end_of(fd: int, ref: OutputRef, token: int | None) -> int:
    head = os.pread(fd, HEADER_SIZE, ref.offset)
    size = body_size(head)
    if not size:
        raise RaftschedError("output-gone", DAMAGED)
    # A place may come from a remote worker: that it was told of one does not make the output its own.
    if token is not None and HEADER.unpack(head[: HEADER.size])[2] != token:
        raise RaftschedError("output-gone", ANOTHERS)
    return ref.offset + HEADER_SIZE + size


def checked_text(path: Path, ref: OutputRef, token: int | None = None, *, whole: bool = True) -> Text:
    """Returns what `checked` returns; not `whole`: it is only looked at whose it is. Raises FileNotFoundError,
    RaftschedError "output-gone"."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if whole:
            return checked(fd, ref, token)
        return Text(os.dup(fd), ref.offset + HEADER_SIZE, _end_of(fd, ref, token), None)
    finally:
        os.close(fd)


def digests_of(fd: int, start: int, end: int) -> FrameDigests:
    """Returns what is said of the frames in a part of a file."""
    text = Text(os.dup(fd), start, end, None)
    return FrameDigests(end - start, _digest(fd, start, end), text.size, text.digest())


def pieces_of(fd: int, start: int, end: int) -> Iterator[bytes]:
    """Yields a part of a file."""
    for at in range(start, end, _AT_ONCE):
        yield os.pread(fd, min(_AT_ONCE, end - at), at)

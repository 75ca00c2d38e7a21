"""Packs pieces of both streams into one body: a row of frames, as they lie in a spool file.

A frame is its stream (one byte: 1 stdout, 2 stderr), its length (4 bytes, little endian) and so many bytes. Stream 3
says in 8 bytes (little endian) how many bytes are left out at this place; they count for offsets as if they were there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from raftsched.output.format.spool import HEAD, NOTE, STDERR, STDOUT, pack

LEFT_OUT_MAX = 2**53
_COUNT = struct.Struct("<Q")
_STREAMS = (STDOUT, STDERR)


class Piece(NamedTuple):
    """Bytes of one stream; `data` is empty where `left_out` bytes of any stream are not there."""

    stream: int
    data: bytes
    left_out: int = 0

    @property
    def printed(self) -> int:
        """Returns how far it moves the offset."""
        return len(self.data) + self.left_out


def decode(body: bytes) -> list[Piece]:
    """Raises ValueError with what is wrong."""
    return [piece for piece in each(body) if piece.printed]


def each(body: bytes) -> Iterator[Piece]:
    """Yields the piece of each frame, which may be empty. Raises ValueError with what is wrong."""
    at = 0
    while at < len(body):
        if at + HEAD.size > len(body):
            raise ValueError(f"the frame at byte {at} has no whole head of {HEAD.size} bytes")
        stream, size = HEAD.unpack_from(body, at)
        begin = at + HEAD.size
        if begin + size > len(body):
            raise ValueError(f"the frame at byte {at} says {size} bytes, and {len(body) - begin} follow")
        data = body[begin : begin + size]
        if stream == NOTE:
            if size != _COUNT.size or not 0 < _COUNT.unpack(data)[0] <= LEFT_OUT_MAX:
                raise ValueError(f"the frame at byte {at} must say in {_COUNT.size} bytes how many are left out")
            yield Piece(NOTE, b"", _COUNT.unpack(data)[0])
        elif stream not in _STREAMS:
            raise ValueError(f"the frame at byte {at} is of stream {stream}; 1 is stdout, 2 is stderr, 3 a gap")
        else:
            yield Piece(stream, data)
        at = begin + size


def encode(piece: Piece) -> bytes:
    """Returns it as a frame."""
    return pack(NOTE, _COUNT.pack(piece.left_out)) if piece.stream == NOTE else pack(piece.stream, piece.data)

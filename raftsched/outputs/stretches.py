"""Reads this node's segments for who brings what is in them elsewhere: whole records, whose digests fit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from raftsched.worker.output import Synced
from raftsched.worker.records import HEADER, HEADER_SIZE, body_size, pieces_of


class Stretch(NamedTuple):
    """Whole records of a segment, one after the other."""

    begin: int
    end: int


def next_stretch(segment: Synced, at: int, end: int, most: int) -> Stretch | None:
    """Returns the next whole records, of `most` bytes all together or a single larger one; what is damaged is left
    out. None: nothing more, also when the segment has been deleted."""
    begin = None
    try:
        for start, stop, whole in _records(segment, at, end):
            if begin is not None and (not whole or stop - begin > most):
                return Stretch(begin, start)
            if whole:
                begin, at = (start if begin is None else begin), stop
    except FileNotFoundError:
        return None
    return None if begin is None else Stretch(begin, at)


def _records(segment: Synced, at: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yields where each record begins and ends, and whether its digest fits."""
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while True:
            head = os.pread(fd, HEADER_SIZE, at)
            size = body_size(head)
            if size is None or at + HEADER_SIZE + size > end:
                return
            body = hashlib.sha256()
            for piece in pieces_of(fd, at + HEADER_SIZE, at + HEADER_SIZE + size):
                body.update(piece)
            yield at, at + HEADER_SIZE + size, body.digest() == HEADER.unpack(head[: HEADER.size])[5]
            at += HEADER_SIZE + size
    finally:
        os.close(fd)


def bytes_of(segment: Synced, at: int, size: int) -> bytes:
    """Raises FileNotFoundError."""
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, at)
    finally:
        os.close(fd)


def ended_ms_of(segment: Synced, at: int) -> int | None:
    """Returns when the run ended whose record begins there; None: none does."""
    try:
        head = bytes_of(segment, at, HEADER_SIZE)
    except FileNotFoundError:
        return None
    if body_size(head) is None:
        return None
    ended_ms: int = HEADER.unpack(head[: HEADER.size])[3]
    return ended_ms

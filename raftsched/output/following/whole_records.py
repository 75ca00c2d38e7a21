"""Reads runs of whole, checksummed records from this node's segments, for copying."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from raftsched.output.format.records import HEADER, HEADER_SIZE, body_size, spans
from raftsched.output.keeping.segment_table import Synced


class Stretch(NamedTuple):
    """Whole records of a segment, one after the other."""

    begin: int
    end: int


def next_stretch(segment: Synced, at: int, end: int, most: int) -> Stretch | None:
    """Returns the next whole records, of `most` bytes all together or a single larger one; what is damaged is left
    out. None: nothing more, also when the segment has been deleted."""
    try:
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    begin = None
    try:
        for start, stop, whole in spans(fd, at, end):
            if begin is not None and (not whole or start > at or stop - begin > most):
                break
            if whole:
                begin, at = (start if begin is None else begin), stop
    finally:
        os.close(fd)
    return None if begin is None else Stretch(begin, at)


def bytes_of(segment: Synced, at: int, size: int) -> bytes:
    """Raises FileNotFoundError."""
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, at)
    finally:
        os.close(fd)


def waiting_in(gaps: Iterable[tuple[Synced, int, int]]) -> list[tuple[int, int]]:
    """Returns the sizes of the parts of segments that have a record, and when the runs ended of the first ones."""
    found = ((end - begin, ended_ms_of(segment, begin, end)) for segment, begin, end in gaps)
    return [(size, ended_ms) for size, ended_ms in found if ended_ms is not None]


def ended_ms_of(segment: Synced, at: int, end: int) -> int | None:
    """Returns when the run ended whose record is the first in this part; None: there is none."""
    try:
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        head = os.pread(fd, HEADER_SIZE, at)
        if body_size(head) is None:  # damaged: others may wait behind it
            span = next(spans(fd, at, end), None)
            head = b"" if span is None else os.pread(fd, HEADER_SIZE, span.begin)
    finally:
        os.close(fd)
    if body_size(head) is None:
        return None
    ended_ms: int = HEADER.unpack(head[: HEADER.size])[3]
    return ended_ms

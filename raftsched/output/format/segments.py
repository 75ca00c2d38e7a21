"""The files of an output store: what their names say, how large they are, and when they were begun.

A name says whose a segment is: anybody's, or of one namespace, which has its own where it has a limit or an age of its
own. So what each has is known from the names and sizes of the files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from raftsched.output.format.records import HEADER, HEADER_SIZE, body_size
from raftsched.system.whole_file import sync_directory


@dataclass(slots=True)
class Segment:
    """One of them. `owner`: as in its name; "": anybody's."""

    owner: str
    size: int
    synced: int  # bytes of it that are on the disk for good, and whole


def owner_of(namespace: str) -> str:
    """Returns the name of a namespace in the names of its segments."""
    return hashlib.sha256(namespace.encode()).hexdigest()[:24]


def name_of(number: int, owner: str) -> str:
    """Returns the name of a segment's file."""
    return f"seg-{number:08d}-{owner}.dat" if owner else f"seg-{number:08d}.dat"


def open_segment(directory: Path, number: int, owner: str) -> int:
    """Opens the file of a segment to be written, and returns its descriptor. One that it makes has its name on the disk
    then: it has to be there before a reference to it is. Raises OSError."""
    path = directory / name_of(number, owner)
    fresh = not path.exists()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if fresh:
        sync_directory(directory)
    return fd


def segments_in(directory: Path) -> dict[int, Segment]:
    """Returns the segments that are there, by number."""
    found: dict[int, Segment] = {}
    for path in directory.glob("seg-*.dat"):
        number, _, owner = path.name[4:-4].partition("-")
        if number.isdigit():
            size = path.stat().st_size
            found[int(number)] = Segment(owner, size, size)
    return dict(sorted(found.items()))


def last_of(directory: Path, segments: Iterable[int]) -> int:
    """Returns the highest number that a segment has, or had; 0: there was none."""
    gone = (path.name[5:] for path in directory.glob("last-*"))
    return max([*segments, *(int(number) for number in gone if number.isdigit())], default=0)


def note_last(directory: Path, number: int) -> None:
    """Notes that this number is not to be used again, before the segment that has the highest one is deleted: what was
    in it may be elsewhere by this number. As the name of an empty file, for the disk may be full."""
    with suppress(OSError):
        os.close(os.open(directory / f"last-{number:08d}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        sync_directory(directory)
        for path in directory.glob("last-*"):
            if path.name < f"last-{number:08d}":
                path.unlink(missing_ok=True)


def newest_ms(path: Path) -> int:
    """Returns when something was written to it last (UTC ms). Raises OSError; FileNotFoundError: it is gone."""
    return path.stat().st_mtime_ns // 1_000_000


def begun_ms(path: Path, now_ms: int) -> int:
    """Returns when its first record ended (UTC ms), but not after what was written last: of a run on a remote worker
    the worker says when it ended, and may say anything. Now: that cannot be told."""
    try:
        with path.open("rb") as file:
            head = file.read(HEADER_SIZE)
        written_ms = newest_ms(path)
    except OSError:
        return now_ms
    if body_size(head) is None:
        return now_ms
    ended_ms: int = HEADER.unpack(head[: HEADER.size])[3]
    return min(ended_ms, written_ms, now_ms)

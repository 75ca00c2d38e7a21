"""Keeps copies of other nodes' output on this node's disk: parts of their segments, one file each.

A piece is taken where a file ends, or within it: then it is written again, for what a node sends of a segment stays as
it is. What a reader asks for is held against the digests of the record and of the log, as in a segment of its own.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError, WrongOffset
from raftsched.output.following.places import Place, place_of
from raftsched.output.keeping.lost_segments import size_at
from raftsched.output.reading.open_outputs import OpenTexts
from raftsched.output.reading.text import Text

SEGMENT_MAX = 2**40  # bytes: no segment goes on behind it

log = logging.getLogger(__name__)


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of a segment from `offset` on, which belong to the part of it that begins at `start`."""

    store: bytes
    segment: int
    owner: str
    start: int
    offset: int
    written_at_ms: int  # when something was written to the segment last, by the clock of its node
    data: bytes


@dataclass(slots=True)
class _File:
    size: int
    newest_ms: int


def _no_share(owner: str) -> int | None:
    return None


class CopyStore:
    """Safe for threads."""

    def __init__(
        self,
        directory: Path,
        *,
        keep_bytes: int,
        share_of: Callable[[str], int | None] = _no_share,
        short_of_disk: Callable[[], bool] = lambda: False,
    ) -> None:
        """`directory` is made when the first piece comes. `keep_bytes`: of all copies; beyond that the oldest go.
        `share_of`: how many bytes those of an owner may take; None: there is no such limit."""
        self.directory = directory
        self._keep_bytes = keep_bytes
        self._share_of = share_of
        self._short_of_disk = short_of_disk
        self._lock = threading.Lock()
        self._texts = OpenTexts()
        self.lost = 0  # files that others removed, hid or cut off
        self._files: dict[Place, _File] = {}
        self._kept: Counter[str] = Counter()  # bytes, by owner they are
        for place, file in _found_in(directory):
            self._files[place] = file
            self._kept[place.owner] += file.size

    def close(self) -> None:
        self._texts.clear()

    # ------------------------------------------------------------ writing

    def take(self, node: str, piece: Piece, now_ms: int) -> int:
        """Keeps a piece of a segment of that node, and returns how much of this part of it is on the disk. Blocks.

        Raises RaftschedError wrong-offset (the part does not go so far), disk-full; OSError."""
        if self._short_of_disk():
            raise RaftschedError("disk-full", "The disk has no room for copies.")
        place = Place(node, piece.store, piece.segment, piece.owner, piece.start)
        with self._lock:
            file = self._files.get(place)
            size = 0 if file is None else file.size
            at = piece.offset - piece.start
            if not 0 <= at <= size:
                raise WrongOffset(piece.start + size)
            self._make_room(place, at + len(piece.data) - size)
            newest_ms = min(piece.written_at_ms, now_ms)
            try:
                written = self._write(place, at, piece.data, newest_ms)
            except FileNotFoundError:  # somebody else removed it
                if not at:
                    raise
                self._lose([place])
                raise WrongOffset(piece.start) from None
            self._kept[place.owner] += written - size
            self._files[place] = _File(written, newest_ms)
            self._drop_beyond(place)
            return written

    def _write(self, place: Place, at: int, data: bytes, newest_ms: int) -> int:
        path = self._path(place)
        fresh = place not in self._files
        if fresh:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | (0 if at else os.O_CREAT) | os.O_CLOEXEC, 0o600)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(fd, memoryview(data)[done:], at + done)
            os.utime(fd, ns=(newest_ms * 1_000_000, newest_ms * 1_000_000))
            os.fdatasync(fd)
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        if fresh:
            for directory in (path.parent, path.parent.parent):
                _sync_names(directory)
        return size

    def _make_room(self, begun: Place, growth: int) -> None:
        """The oldest of an owner go, so that it does not take more than its share. Not the one that grows: what comes
        is kept."""
        owner = begun.owner
        share = self._share_of(owner) if owner else None
        if share is None or self._kept[owner] + growth <= share:
            return
        for place in self._oldest_first(lambda place: place.owner == owner and place != begun):
            self._drop(place)
            if self._kept[owner] + growth <= share:
                return

    def _drop_beyond(self, begun: Place) -> None:
        if self._kept.total() <= self._keep_bytes:
            return
        for place in self._oldest_first(lambda place: place != begun):
            self._drop(place)
            if self._kept.total() <= self._keep_bytes:
                return

    def _oldest_first(self, which: Callable[[Place], bool]) -> Iterator[Place]:
        yield from sorted(filter(which, self._files), key=lambda place: self._files[place].newest_ms)

    # ------------------------------------------------------------ reading

    def open(
        self, node: str, ref: OutputRef, stream: str | None = None, token: int | None = None, *, whole: bool = True
    ) -> Text | None:
        """Returns an output of that node from a copy that is whole; None: there is none. Not `whole`: for who reads all
        of it once; its digest is not held against it. Blocks."""
        for place in self._with(node, ref):  # of several disks, or sent twice: the digests tell which is meant
            here = replace(ref, offset=ref.offset - place.start)
            try:
                text = self._texts.open(place, partial(self._path, place), here, token, whole=whole)
            except (RaftschedError, FileNotFoundError):
                continue
            return text.of(stream)
        return None

    def _with(self, node: str, ref: OutputRef) -> list[Place]:
        """Returns the parts that go over this place."""
        with self._lock:
            return [
                place
                for place, file in self._files.items()
                if (place.node, place.segment) == (node, ref.segment)
                and place.start <= ref.offset < place.start + file.size
            ]

    # ------------------------------------------------------------ deleting

    def owners(self) -> set[str]:
        """Returns the owners of copies that are not anybody's."""
        return {owner for owner in tuple(self._kept) if owner}

    def drop_old(self, now_ms: int, keep_ms: int, own: Mapping[str, int]) -> int:
        """Deletes copies with nothing that was written within this time (or that of their owner, `own`); returns how
        many."""
        with self._lock:
            old = [
                place for place, file in self._files.items() if file.newest_ms < now_ms - own.get(place.owner, keep_ms)
            ]
            for place in old:
                self._drop(place)
        return len(old)

    def scan(self) -> None:
        """Finds out whether others removed, hid or cut off files; to be called each minute. Raises OSError."""
        with self._lock:
            lost = []
            for place, file in self._files.items():
                size = size_at(self._path(place), None)
                if size is None or size < file.size:
                    lost.append(place)
            self._lose(lost)

    def _lose(self, places: Sequence[Place]) -> None:
        """Takes them for gone: a piece that goes on where one of them ended is refused, and the node that sends it
        begins another part."""
        if not places:
            return
        self.lost += len(places)
        log.warning(
            "%s: %s: %d files with copies of other nodes' output were removed, hidden or cut off, and not by this node."
            " Something else changes its data directory, or a file system was mounted over it: find it and stop it. The"
            " other nodes do not send again what they have sent, unless they are started without DATA/output/copied",
            self.directory,
            f"{places[0].directory}/{places[0].file}" + ("" if len(places) == 1 else " and others"),
            len(places),
        )
        for place in places:
            self._forget(place)

    def _drop(self, place: Place) -> None:
        self._path(place).unlink(missing_ok=True)
        self._forget(place)

    def _forget(self, place: Place) -> None:
        self._texts.forget(place)
        self._kept[place.owner] -= self._files.pop(place).size
        if not self._kept[place.owner]:
            del self._kept[place.owner]

    def size(self) -> int:
        """Bytes of all copies."""
        return sum(tuple(self._kept.values()))  # at once: another thread may write

    def _path(self, place: Place) -> Path:
        return self.directory / place.directory / place.file


def _found_in(directory: Path) -> Iterator[tuple[Place, _File]]:
    for path in directory.glob("*/seg-*.dat"):
        place = place_of(path.parent.name, path.name)
        if place is not None:
            status = path.stat()
            yield place, _File(status.st_size, status.st_mtime_ns // 1_000_000)


def _sync_names(directory: Path) -> None:
    """Brings the names in a directory to the disk: what was made in it is found after a loss of power."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

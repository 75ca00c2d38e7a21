"""Examines the ends of segments that an earlier process left. A torn one stays as it is, and its segment gets no more.

The same bytes may be in a copy or at a receiver already, by their place in the segment. So nothing is cut off to write
something else there, not even what is damaged. A note tells the next process how far the segment is whole.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from pathlib import Path

from raftsched.output.format.records import whole_size
from raftsched.output.format.segments import Segment, name_of

log = logging.getLogger(__name__)


class FoundEnds:
    def __init__(self, directory: Path, segments: dict[int, Segment], lock: threading.Lock) -> None:
        """`segments`: those that were found, in the order in which they were begun; their `synced` is set. `lock`: of
        who writes to them."""
        self._directory = directory
        self._segments = segments
        self._lock = lock
        self._checking = threading.Lock()
        self.torn: set[int] = set()  # numbers of segments that get no more
        self._noted()
        newest = {segment.owner: number for number, segment in segments.items()}  # nobody wrote to others
        self._unchecked = set(newest.values()) - self.torn

    def _noted(self) -> None:
        """Reads the notes: names of empty files, for the disk may be full."""
        for path in self._directory.glob("whole-*"):
            number, _, size = path.name.removeprefix("whole-").partition("-")
            if number.isdigit() and size.isdigit():
                segment = self._segments.get(int(number))
                if segment is None:
                    path.unlink(missing_ok=True)
                elif int(size) < segment.size:
                    segment.synced = int(size)
                    self.torn.add(int(number))

    def check_all(self) -> None:
        """Checks those that were not checked yet. Blocks, but not who writes."""
        with self._checking:
            for number in tuple(self._unchecked):
                segment = self._segments.get(number)
                size = None if segment is None else self._whole(number, segment)
                with self._lock:
                    self._note(number, size)

    def check(self, number: int) -> None:
        """Checks this one, unless it was. Blocks; for who has the lock."""
        if number in self._unchecked:
            self._note(number, self._whole(number, self._segments[number]))

    def _whole(self, number: int, segment: Segment) -> int | None:
        """Returns how far it is whole, and on the disk: who killed the process may have been faster than its flush.
        None: it cannot be read."""
        path = self._directory / name_of(number, segment.owner)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(fd)
                return whole_size(fd)
            finally:
                os.close(fd)
        except FileNotFoundError:  # it was deleted meanwhile
            return None
        except OSError as error:
            log.warning("%s cannot be read: %s; no more output is written to it", path, error)
            return None

    def _note(self, number: int, size: int | None) -> None:
        if number not in self._unchecked:  # it was deleted meanwhile, or who writes was first
            return
        self._unchecked.remove(number)
        segment = self._segments[number]
        if size == segment.size:
            return
        self.torn.add(number)
        if size is not None:
            segment.synced = size
            with suppress(OSError):
                os.close(os.open(self._note_of(number, size), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))

    def forget(self, number: int) -> None:
        """The segment is being deleted."""
        segment = self._segments[number]
        if number in self.torn and segment.synced < segment.size:
            self._note_of(number, segment.synced).unlink(missing_ok=True)
        self._unchecked.discard(number)
        self.torn.discard(number)

    def _note_of(self, number: int, size: int) -> Path:
        return self._directory / f"whole-{number:08d}-{size}"

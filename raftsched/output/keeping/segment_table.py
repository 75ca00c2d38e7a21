"""The segments of an output store: which there are, how large and whose, and which of them get no more."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from raftsched.output.format.segments import Segment, last_of, name_of, note_last, open_segment, segments_in
from raftsched.output.keeping.lost_segments import LostSegments, size_at
from raftsched.output.keeping.segment_ages import SegmentAges
from raftsched.output.keeping.segment_tails import FoundEnds


class Synced(NamedTuple):
    """A segment: so many bytes of it stay as they are."""

    number: int
    owner: str
    size: int
    path: Path


class SegmentTable:
    """Holds the segments by number. For who has the lock of the store, but where it says otherwise."""

    def __init__(self, directory: Path, lock: threading.Lock, now_ms: int) -> None:
        """`now_ms`: no segment that is begun gets a number below the seconds until then (UTC). The log refers to
        segments by their numbers: those of a disk that was replaced, or of files that are gone, are not to be found on
        this one with something else in them."""
        self.directory = directory
        self._lock = lock
        self.segments = segments_in(directory)  # by number, in the order in which they were begun
        self.kept: Counter[str] = Counter()  # bytes, by owner they are
        for segment in self.segments.values():
            self.kept[segment.owner] += segment.size
        self.last = max(last_of(directory, self.segments), now_ms // 1000 - 1)
        self.ages = SegmentAges(self.segments)
        self._ends = FoundEnds(directory, self.segments, lock)
        self._lost = LostSegments(directory)

    def path_of(self, number: int) -> Path:
        """Returns the file of a segment. In any thread, without the lock."""
        segment = self.segments.get(number)
        owner = self._lost.owner_of(number) if segment is None else segment.owner
        return self.directory / name_of(number, owner or "")

    def newest_of(self, owner: str) -> int | None:
        """Returns the number of the segment that was begun last of those of an owner; None: it has none."""
        return max((number for number, segment in self.segments.items() if segment.owner == owner), default=None)

    def oldest_of(self, owner: str) -> int:
        """Returns the number of the segment that was begun first of those of an owner, which has one."""
        return next(number for number, segment in self.segments.items() if segment.owner == owner)

    def begin(self, number: int, owner: str) -> int:
        """Opens a segment, a new one where it is none yet, and returns the descriptor of its file. Raises OSError."""
        self.directory.mkdir(mode=0o700, exist_ok=True)  # it may have been removed with all that was in it
        fd = open_segment(self.directory, number, owner)
        self.last = max(self.last, number)
        self.segments.setdefault(number, Segment(owner, 0, 0))
        return fd

    def check_end(self, number: int) -> None:
        """Finds out how far a segment is whole that an earlier process left. Blocks."""
        self._ends.check(number)

    def gets_no_more(self, number: int) -> bool:
        """Returns whether nothing is to be written to it, for its age, or for what befell its end."""
        return number in self.ages.finished or number in self._ends.torn

    def note_end(self, number: int, end: int) -> None:
        """The segment ends there now."""
        segment = self.segments[number]
        self.kept[segment.owner] += end - segment.size
        segment.size = end

    def delete(self, number: int) -> None:
        """Deletes a segment that is not open. Raises OSError."""
        if number == self.last:
            note_last(self.directory, number)
        self.path_of(number).unlink(missing_ok=True)
        self._forget(number)

    def _forget(self, number: int) -> None:
        self._ends.forget(number)
        segment = self.segments.pop(number)
        self.ages.forget(number)
        self.kept[segment.owner] -= segment.size
        if not self.kept[segment.owner]:
            del self.kept[segment.owner]

    def synced(self) -> list[Synced]:
        """Returns how far each segment is on the disk for good, and whole, in the order in which they were begun.
        Without the lock. Blocks: those that an earlier process was writing to are read the first time."""
        self._ends.check_all()
        with self._lock:
            return [
                Synced(number, segment.owner, segment.synced, self.path_of(number))
                for number, segment in self.segments.items()
                if segment.synced
            ]

    # ------------------------------------------------------------ what others do to the disk

    def changed(self, fds: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """Returns the segments whose files are gone, and those whose files are shorter than they were. `fds`: the
        descriptors of those that are open. Raises OSError."""
        removed, cut = [], []
        for number, segment in self.segments.items():
            size = size_at(self.path_of(number), fds.get(number))
            if size is None:
                removed.append(number)
            elif size < segment.size:
                cut.append(number)
        return removed, cut

    def lose(self, removed: list[int], cut: list[int]) -> None:
        """Takes such segments, which are not open, for what they are. Raises OSError."""
        self._lost.say([self.path_of(number) for number in removed], "were removed or hidden")
        self._lost.say([self.path_of(number) for number in cut], "were cut off")
        for number in removed:
            self._lost.add(number, self.segments[number])
            self._forget(number)
        for number in cut:  # what was there may be elsewhere by its place: nothing else is written there
            segment = self.segments[number]
            self.note_end(number, self.path_of(number).stat().st_size)
            segment.synced = min(segment.synced, segment.size)
            self.ages.finished.add(number)

    def is_removed(self, number: int) -> bool:
        """Returns whether a segment that has no file was removed by others. Without the lock: it is taken, and one that
        is just being deleted is not known any more then."""
        with self._lock:
            return number in self.segments or self._lost.owner_of(number) is not None

    @property
    def lost(self) -> int:
        """Files that others removed, hid or cut off, since the store was opened."""
        return self._lost.count

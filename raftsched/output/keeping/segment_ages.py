"""Remembers when the segments of an output store were begun, and which of them get no more. What is in a segment goes
as a whole, so one that is written to for too long would keep what is older than it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from raftsched.output.format.segments import begun_ms

_STEPS = 16  # that an age is divided into: a segment that was begun so long ago gets no more


class SegmentAges:
    """Holds these ages. For who has the lock of the store."""

    def __init__(self, found: Iterable[int]) -> None:
        """`found`: the numbers of segments that an earlier process left."""
        self._found = set(found)
        self._begun: dict[int, int] = {}  # number -> when it was first seen to have something (UTC ms)
        self.finished: set[int] = set()  # numbers of segments that get no more

    def finish_if_old(self, number: int, path: Path, now_ms: int, keep_ms: int) -> None:
        """Finishes a segment that has something, and was begun a sixteenth of the time ago for which it is kept."""
        if number in self.finished:
            return
        begun = self._begun.get(number)
        if begun is None:
            begun = self._begun[number] = begun_ms(path, now_ms) if number in self._found else now_ms
        if begun <= now_ms - keep_ms // _STEPS:
            self.finished.add(number)

    def forget(self, number: int) -> None:
        """The segment is not there any more."""
        self._found.discard(number)
        self.finished.discard(number)
        self._begun.pop(number, None)

"""Notes how far the receiver has taken each segment, in a file beside the segments.

Namespaces take turns, so one may be ahead of another in a segment of both: each has a mark of its own then, beside
that of the segment, before which all was taken. Earlier versions read that one alone, and ship again what is behind it.
Where the file is missing, shipping was just turned on, and begins with what comes from now on. Where it is damaged, all
that is kept and says whose it is counts as not taken yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from raftsched.output.following.note_file import NoteFile


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """All before `at` was taken, or is not shipped; of the output that begins there, so many lines."""

    at: int = 0
    lines: int = 0
    last_ns: int = 0  # the time that the last line was given (UTC): none of this segment has the same or an earlier one

    def within(self, end: int) -> Mark:
        """Returns it, or one at the end where it is behind that."""
        return self if self.at <= end else Mark(end, 0, self.last_ns)


class SegmentMark(msgspec.Struct, array_like=True, frozen=True):
    """The first three are a Mark, as earlier versions have it. `floor_ns`: the `last_ns` of namespaces that are not in
    `of`; None: that above."""

    at: int = 0
    lines: int = 0
    last_ns: int = 0
    floor_ns: int | None = None
    of: dict[str, Mark] = {}

    @property
    def floor(self) -> int:
        return self.last_ns if self.floor_ns is None else self.floor_ns

    def mark_of(self, namespace: str) -> Mark:
        return self.of.get(namespace) or Mark(self.at, self.lines, self.floor)

    def moved(self, at: int, taken: Mapping[str, Mark]) -> SegmentMark:
        """Returns it when all before `at` was taken, and what is before their marks of these namespaces."""
        of = {**self.of, **taken}
        lines = max((mark.lines for mark in of.values() if mark.at == at), default=0)
        last_ns = max([self.last_ns, *(mark.last_ns for mark in taken.values())])
        return SegmentMark(at, lines or (self.lines if at == self.at else 0), last_ns, self.floor, of)


class Marks(NoteFile[SegmentMark]):
    def __init__(self, path: Path, store: bytes, ends: Mapping[int, int]) -> None:
        """`store`: the id of this node's store. `ends`: of the segments that there are, by number; where nothing is
        known yet, what is before them is not shipped; a mark behind one is moved back to it, for what comes next begins
        there. Raises OSError."""
        super().__init__(path, store, SegmentMark)
        if self.is_new:
            self.notes = {number: SegmentMark(end) for number, end in ends.items()}
            self.changed = True
            self.write()
        for number, mark in self.notes.items():
            end = ends.get(number, 0)
            first = Mark(mark.at, mark.lines, mark.last_ns).within(end)
            of = {namespace: own.within(end) for namespace, own in mark.of.items()}
            self.notes[number] = SegmentMark(first.at, first.lines, first.last_ns, mark.floor_ns, of)

    def of(self, number: int) -> SegmentMark:
        return self.notes.get(number) or SegmentMark()

    def move(self, number: int, at: int, taken: Mapping[str, Mark]) -> None:
        """The receiver has taken all before `at`, and what is before their marks of these namespaces."""
        self.notes[number] = self.of(number).moved(at, taken)
        self.changed = True

    def settle(self, sizes: Mapping[int, int]) -> None:
        """Forgets the namespaces of segments of which all was taken: what comes next is behind all of them."""
        for number, mark in list(self.notes.items()):
            if mark.of and mark.at >= sizes.get(number, mark.at + 1):
                self.notes[number] = SegmentMark(mark.at, 0, mark.last_ns)
                self.changed = True

    def forget(self, number: int) -> None:
        """The segment has been deleted."""
        self.changed = self.notes.pop(number, None) is not None or self.changed

    def numbers(self) -> list[int]:
        return list(self.notes)

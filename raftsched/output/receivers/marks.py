"""Keeps how far the receiver has taken each segment, in a file beside the segments.

Where the file is missing, shipping was just turned on, and begins with what comes from now on. Where it is damaged, all
that is kept and says whose it is counts as not taken yet.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from raftsched.system.whole_file import replace_whole

log = logging.getLogger(__name__)


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """All before `at` was taken, or is not shipped; of the output that begins there, so many lines."""

    at: int = 0
    lines: int = 0
    last_ns: int = 0  # the time that the last line was given (UTC): none of this segment has the same or an earlier one


BEGIN = Mark()


class _File(msgspec.Struct, array_like=True):
    store: bytes  # of this node: beside another one, the segments are others
    marks: dict[int, Mark]  # by segment


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_File).decode


class Marks:
    """Holds the marks by segment. For one thread at a time."""

    def __init__(self, path: Path, store: bytes, ends: Mapping[int, int]) -> None:
        """`store`: the id of this node's store. `ends`: of the segments that there are, by number; where nothing is
        known yet, what is before them is not shipped; a mark behind one is moved back to it, for what comes next begins
        there. Raises OSError."""
        self._path = path
        self._store = store
        self._marks: dict[int, Mark] = {}
        self._changed = False
        try:
            read = _decode(path.read_bytes())
        except FileNotFoundError:
            self._marks = {number: Mark(end) for number, end in ends.items()}
            self._changed = True
            self.write()
            return
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s cannot be read: %s; output is shipped again", path, error)
            return
        if read.store == store:
            for number, mark in read.marks.items():
                end = ends.get(number, 0)
                self._marks[number] = mark if mark.at <= end else Mark(end, 0, mark.last_ns)

    def of(self, number: int) -> Mark:
        return self._marks.get(number, BEGIN)

    def move(self, marks: Mapping[int, Mark]) -> None:
        """The receiver has taken what is before these."""
        self._marks.update(marks)
        self._changed = self._changed or bool(marks)

    def forget(self, number: int) -> None:
        """The segment has been deleted."""
        if self._marks.pop(number, None) is not None:
            self._changed = True

    def numbers(self) -> list[int]:
        return list(self._marks)

    def write(self) -> None:
        """Brings them to the disk, if any has moved. Raises OSError."""
        if not self._changed:
            return
        replace_whole(self._path, _encode(_File(self._store, self._marks)))
        self._changed = False

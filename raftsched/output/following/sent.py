"""The parts of this node's segments that other nodes have, as a file beside the segments says it: so a restart does not
send all of them again. Where it is lost, they are; a copy that is written twice is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from raftsched.output.following.note_file import NoteFile


class Part(msgspec.Struct, array_like=True):
    """The bytes from `start` to `end` of a segment, in one file of a node with this store."""

    start: int
    end: int
    node: str
    store: bytes


class Sent(NoteFile[list[Part]]):
    """Remembers what was sent. For one thread at a time."""

    def __init__(self, path: Path, store: bytes) -> None:
        """`store`: the id of this node's store."""
        super().__init__(path, store, list[Part])
        self._shortened: set[tuple[int, int, str]] = set()  # parts that go on behind the end: segment, start, node

    def keep_only(self, sizes: Mapping[int, int], members: Mapping[str, bytes]) -> None:
        """Forgets what is not there any more: segments, what was behind their ends, and the disks of nodes. What is
        before the end of a segment that this disk has lost the rest of is not sent again: the file would be replaced
        that has the rest."""
        for number, parts in list(self.notes.items()):
            end = sizes.get(number, 0)
            left = [part for part in parts if part.start < end and members.get(part.node) == part.store]
            for part in left:
                if part.end > end:
                    part.end, self.changed = end, True
                    self._shortened.add((number, part.start, part.node))
            if left != parts:
                self.changed = True
                self.notes[number] = left
            if not left:
                del self.notes[number]

    def gaps(self, number: int, size: int) -> Iterator[tuple[int, int]]:
        """Yields the parts of a segment that no other node is known to have, from its beginning on."""
        at = 0
        for part in sorted(self.notes.get(number, ()), key=lambda part: part.start):
            if part.start > at:
                yield at, part.start
            at = max(at, part.end)
        if at < size:
            yield at, size

    def behind(self, number: int, at: int, nodes: Collection[str]) -> Part | None:
        """Returns the part that ends there, at one of these nodes: it can go on."""
        for part in self.notes.get(number, ()):
            if part.end == at and part.node in nodes and (number, part.start, part.node) not in self._shortened:
                return part
        return None

    def add(self, number: int, part: Part) -> None:
        """Notes that a node has it on its disk. It goes on where a part of the same file ended."""
        self.changed = True
        parts = self.notes.setdefault(number, [])
        for known in parts:
            if (known.start, known.node, known.store) == (part.start, part.node, part.store):
                known.end = max(known.end, part.end)
                return
        parts.append(part)

    def store_of(self, node: str) -> bytes | None:
        """Returns the store that a node had when something was sent to it last; None: nothing was."""
        return next((part.store for parts in self.notes.values() for part in parts if part.node == node), None)

    def rename(self, node: str, store: bytes, new: bytes) -> None:
        """Notes that what tells a node's store from others is from now on `new`."""
        for part in (part for parts in self.notes.values() for part in parts):
            if (part.node, part.store) == (node, store):
                part.store = new
                self.changed = True

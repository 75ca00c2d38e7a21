"""The parts of this node's segments that other nodes have, as a file beside the segments says it: so a restart does not
send all of them again. Where it is lost, they are; a copy that is written twice is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from raftsched.system.whole_file import replace_whole

log = logging.getLogger(__name__)


class Part(msgspec.Struct, array_like=True):
    """The bytes from `start` to `end` of a segment, in one file of a node with this store."""

    start: int
    end: int
    node: str
    store: bytes


class _File(msgspec.Struct, array_like=True):
    store: bytes  # of this node: beside another one, the segments are others
    parts: dict[int, list[Part]]  # by segment


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_File).decode


class Sent:
    """Remembers what was sent. For one thread at a time."""

    def __init__(self, path: Path, store: bytes) -> None:
        """`store`: the id of this node's store."""
        self._path = path
        self._store = store
        self._parts: dict[int, list[Part]] = {}
        self._shortened: set[tuple[int, int, str]] = set()  # parts that go on behind the end: segment, start, node
        self.changed = False
        try:
            read = _decode(path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s cannot be read: %s; copies of output are sent again", path, error)
            return
        if read.store == store:
            self._parts = read.parts

    def keep_only(self, sizes: Mapping[int, int], members: Mapping[str, bytes]) -> None:
        """Forgets what is not there any more: segments, what was behind their ends, and the disks of nodes. What is
        before the end of a segment that this disk has lost the rest of is not sent again: the file would be replaced
        that has the rest."""
        for number, parts in list(self._parts.items()):
            end = sizes.get(number, 0)
            left = [part for part in parts if part.start < end and members.get(part.node) == part.store]
            for part in left:
                if part.end > end:
                    part.end, self.changed = end, True
                    self._shortened.add((number, part.start, part.node))
            if left != parts:
                self.changed = True
                self._parts[number] = left
            if not left:
                del self._parts[number]

    def gaps(self, number: int, size: int) -> Iterator[tuple[int, int]]:
        """Yields the parts of a segment that no other node is known to have, from its beginning on."""
        at = 0
        for part in sorted(self._parts.get(number, ()), key=lambda part: part.start):
            if part.start > at:
                yield at, part.start
            at = max(at, part.end)
        if at < size:
            yield at, size

    def behind(self, number: int, at: int, nodes: Collection[str]) -> Part | None:
        """Returns the part that ends there, at one of these nodes: it can go on."""
        for part in self._parts.get(number, ()):
            if part.end == at and part.node in nodes and (number, part.start, part.node) not in self._shortened:
                return part
        return None

    def add(self, number: int, part: Part) -> None:
        """Notes that a node has it on its disk. It goes on where a part of the same file ended."""
        self.changed = True
        parts = self._parts.setdefault(number, [])
        for known in parts:
            if (known.start, known.node, known.store) == (part.start, part.node, part.store):
                known.end = max(known.end, part.end)
                return
        parts.append(part)

    def store_of(self, node: str) -> bytes | None:
        """Returns the store that a node had when something was sent to it last; None: nothing was."""
        return next((part.store for parts in self._parts.values() for part in parts if part.node == node), None)

    def rename(self, node: str, store: bytes, new: bytes) -> None:
        """Notes that what tells a node's store from others is from now on `new`."""
        for part in (part for parts in self._parts.values() for part in parts):
            if (part.node, part.store) == (node, store):
                part.store = new
                self.changed = True

    def write(self) -> None:
        """Brings it to the disk, if anything has changed. Raises OSError."""
        if not self.changed:
            return
        replace_whole(self._path, _encode(_File(self._store, self._parts)))
        self.changed = False

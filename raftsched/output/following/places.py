"""The files of copies: what their names say, and which node is to have the copy of a segment."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from raftsched import names

STORE_BYTES = 8  # of a store's id, that tell a disk from the one that was there before under the same node id
_FILE = re.compile(r"seg-([0-9]{8,15})(?:-([0-9a-f]{24}))?-at-([0-9]{1,15})\.dat", re.ASCII)
_ORIGIN = re.compile(rf"(?P<node>{names.NODE.regex})\.(?P<store>[0-9a-f]{{16}})", re.ASCII)


class Place(NamedTuple):
    """A part of one segment of one disk of a node, from `start` on."""

    node: str
    store: bytes  # the first bytes of the id of the node's store
    segment: int
    owner: str  # as in the name of the segment
    start: int

    @property
    def directory(self) -> str:
        return f"{self.node}.{self.store.hex()}"

    @property
    def file(self) -> str:
        of = f"-{self.owner}" if self.owner else ""
        return f"seg-{self.segment:08d}{of}-at-{self.start}.dat"


def place_of(directory: str, file: str) -> Place | None:
    """Returns what the names of a file and its directory say; None: it is no copy."""
    origin, part = _ORIGIN.fullmatch(directory), _FILE.fullmatch(file)
    if origin is None or part is None:
        return None
    return Place(origin["node"], bytes.fromhex(origin["store"]), int(part[1]), part[2] or "", int(part[3]))


def in_order(node: str, segment: int, others: Iterable[str]) -> list[str]:
    """Returns the nodes that the copy of a segment goes to, the first that takes it (rendezvous hashing): each segment
    has an order of its own, which changes for none of the others when one of them leaves."""
    return sorted(others, key=lambda other: hashlib.sha256(f"{node}\0{segment}\0{other}".encode()).digest())

"""Sends second copies to other nodes: each segment to the first one of its order that takes it (places.in_order)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from raftsched.bounds import OUTPUT_PIECE_MAX
from raftsched.errors import RaftschedError, WrongOffset
from raftsched.output.following.copier import BYTES_PER_S, Records
from raftsched.output.following.copies import Piece
from raftsched.output.following.follower import NotTaken
from raftsched.output.following.places import in_order
from raftsched.output.following.sent import Part
from raftsched.output.following.whole_records import bytes_of
from raftsched.output.format.segments import newest_ms
from raftsched.system import background

# Sends a piece to a node. Returns when it is on that node's disk; raises RaftschedError.
Send = Callable[[str, Piece], Awaitable[None]]


class ToNodes:
    name: background.TaskName = "output-copies"
    where = ""
    patience_ms = 0

    def __init__(self, node_id: str, store_id: bytes, members: Callable[[], Mapping[str, bytes]], send: Send) -> None:
        """`store_id`: eight bytes that name this node's disk. `members`: the others, with the ids of their stores."""
        self._node_id = node_id
        self._store_id = store_id
        self._members = members
        self._send = send
        self._there: Mapping[str, bytes] = {}  # as they were looked up last
        self.piece_max = OUTPUT_PIECE_MAX

    async def places(self, wanted: Collection[int]) -> Mapping[str, bytes]:
        self._there = self._members()
        return self._there

    def targets(self, segment: int) -> list[str]:
        return in_order(self._node_id, segment, self._there)

    async def take(self, piece: Records, target: str) -> Part:
        part = Part(piece.start_at(target), piece.stretch.end, target, self._there[target])
        try:
            try:
                await self._send_all(piece, part)
            except WrongOffset:  # the node has deleted what is before
                part.start = piece.stretch.begin
                await self._send_all(piece, part)
        except RaftschedError as error:
            raise NotTaken(error) from None
        return part

    async def _send_all(self, piece: Records, part: Part) -> None:
        """Raises RaftschedError, FileNotFoundError."""
        segment, (begin, end) = piece.segment, piece.stretch
        loop = asyncio.get_running_loop()
        began = loop.time()
        for at in range(begin, end, self.piece_max):
            await asyncio.sleep(max(0.0, (at - begin) / BYTES_PER_S - (loop.time() - began)))
            data = await asyncio.to_thread(bytes_of, segment, at, min(self.piece_max, end - at))
            written_ms = newest_ms(segment.path)
            one = Piece(self._store_id, segment.number, segment.owner, part.start, at, written_ms, data)
            await self._send(part.node, one)

"""Brings what lies in this node's segments to other nodes, where their namespaces or the settings want a second copy.

Each segment goes to the first node of its order that takes it (places.in_order), in pieces, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from raftsched.bounds import OUTPUT_PIECE_MAX
from raftsched.errors import RaftschedError, WrongOffset
from raftsched.output.following.copies import Piece
from raftsched.output.following.places import in_order
from raftsched.output.following.sent import Part, Sent
from raftsched.output.following.unsent import Copies, Unsent
from raftsched.output.following.whole_records import Stretch, bytes_of, next_stretch
from raftsched.output.format.segments import newest_ms
from raftsched.output.keeping.segment_table import Synced
from raftsched.output.keeping.store import OutputStore
from raftsched.system import background
from raftsched.system.clock import Clock

LOOK_S = 1.0  # how soon an output is sent that is on the disk
BYTES_PER_S = 32 * 2**20  # that are sent in the long run: what there was before must not fill the network
RETRY_MS = 5_000  # after a node did not take a piece; each time twice as long,
RETRY_MOST_MS = 300_000  # and no longer than this

# Sends a piece to a node. Returns when it is on that node's disk; raises RaftschedError.
Send = Callable[[str, Piece], Awaitable[None]]

log = logging.getLogger(__name__)


class _Silent(NamedTuple):
    """A node that did not take a piece."""

    until_ms: int
    pause_ms: int


class Copier:
    def __init__(
        self,
        node_id: str,
        store_id: bytes,
        output: OutputStore,
        sent: Sent,
        *,
        copies: Copies,
        members: Callable[[], Mapping[str, bytes]],
        send: Send,
        clock: Clock,
    ) -> None:
        """`store_id`: eight bytes that name this node's disk. `members`: the others, with the ids of their stores."""
        self._node_id = node_id
        self._store_id = store_id
        self._sent = sent
        self.unsent = Unsent(output, sent, copies)
        self._members = members
        self._send = send
        self._clock = clock
        self._silent: dict[str, _Silent] = {}
        # for metrics
        self.sent_bytes = 0
        self.refused = 0  # times that a node did not take something

    async def copy_once(self) -> None:
        """Sends all that is to be sent now, as far as there are nodes that take it; to be called each LOOK_S."""
        members = self._members()
        wanted = await self.unsent.segments_to_copy(members)
        if members and wanted:
            await self._send_all(wanted, members)
        await self.unsent.note(wanted if members else ())

    async def _send_all(self, wanted: list[Synced], members: Mapping[str, bytes]) -> None:
        for segment, begin, end in list(self.unsent.gaps(wanted)):
            try:
                if not await self._send_part(segment, begin, end, members):
                    return  # nobody takes anything at the moment
            except Exception as error:  # the others' copies are not its fault
                background.note("output-copies", error, str(segment.path))

    async def _send_part(self, segment: Synced, at: int, end: int, members: Mapping[str, bytes]) -> bool:
        """Sends a part of a segment. False: nobody takes it."""
        while at < end:
            stretch = await asyncio.to_thread(next_stretch, segment, at, end, OUTPUT_PIECE_MAX)
            if stretch is None:
                self.unsent.leave_out(segment, at, end)
                return True
            if not await self._copy(segment, stretch, members):
                return False
            at = stretch.end
        return True

    # ------------------------------------------------------------ one stretch

    async def _copy(self, segment: Synced, stretch: Stretch, members: Mapping[str, bytes]) -> bool:
        """Sends it to the first node that takes it. False: none does."""
        now_ms = self._clock.boot_ms()
        awake = [node for node in members if node not in self._silent or self._silent[node].until_ms <= now_ms]
        order = in_order(self._node_id, segment.number, awake)
        going = self._sent.behind(segment.number, stretch.begin, order)
        if going is not None:  # where it is already, it goes on: one file less
            order.remove(going.node)
            order.insert(0, going.node)
        for node in order:
            part = Part(stretch.begin, stretch.end, node, members[node])
            if going is not None and going.node == node:
                part.start = going.start
            try:
                try:
                    await self._send_stretch(segment, stretch, part)
                except WrongOffset:  # the node has deleted what is before
                    part.start = stretch.begin
                    await self._send_stretch(segment, stretch, part)
            except FileNotFoundError:
                return True  # it has been deleted meanwhile
            except RaftschedError as error:
                self._note_silent(node, error)
                continue
            self._silent.pop(node, None)
            self._sent.add(segment.number, part)
            return True
        return False

    async def _send_stretch(self, segment: Synced, stretch: Stretch, part: Part) -> None:
        """Raises RaftschedError, FileNotFoundError."""
        loop = asyncio.get_running_loop()
        for at in range(stretch.begin, stretch.end, OUTPUT_PIECE_MAX):
            began = loop.time()
            data = await asyncio.to_thread(bytes_of, segment, at, min(OUTPUT_PIECE_MAX, stretch.end - at))
            piece = Piece(self._store_id, segment.number, segment.owner, part.start, at, newest_ms(segment.path), data)
            await self._send(part.node, piece)
            self.sent_bytes += len(data)
            await asyncio.sleep(max(0.0, len(data) / BYTES_PER_S - (loop.time() - began)))

    def _note_silent(self, node: str, error: RaftschedError) -> None:
        self.refused += 1
        before = self._silent.get(node)
        if before is None:
            log.warning("%s does not take copies of output: %s", node, error)
        pause_ms = RETRY_MS if before is None else min(2 * before.pause_ms, RETRY_MOST_MS)
        self._silent[node] = _Silent(self._clock.boot_ms() + pause_ms, pause_ms)

"""Finds the lines that a receiver has not taken yet, and notes which it took.

It begins when an attempt has ended and its output is on this node's disk. What was sent and not taken is read again
from the marks on, and is the same to the byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from raftsched.output.following.follower import Follower
from raftsched.output.following.whole_records import waiting_in
from raftsched.output.keeping.segment_table import Synced
from raftsched.output.keeping.store import OutputStore
from raftsched.output.receivers.marks import Marks
from raftsched.output.receivers.unshipped import Batch, Entry, Packed, Unshipped
from raftsched.system.clock import Clock

BYTES_PER_S = 4 * 2**20  # in the long run: what piled up must not take all of the receiver's machine, or of this node


class Receiver(Protocol):
    """Takes shipped output."""

    def pack(self, entry: Entry) -> bytes:
        """Returns what is sent of a line. From any thread."""

    async def take(self, lines: Sequence[Packed]) -> None:
        """Returns when it has all of them. Raises NotTaken, Refused."""

    async def close(self) -> None: ...


class Shipper(Follower[Batch]):
    name = "output-shipping"
    retry_ms = 1_000
    retry_most_ms = 60_000
    stop_s = 3.0

    def __init__(
        self,
        output: OutputStore,
        marks: Marks,
        receiver: Receiver,
        clock: Clock,
        *,
        namespaces: Collection[str] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`namespaces`: whose output is shipped; None: that of all."""
        super().__init__(output, marks, clock, where="the receiver", sleep=sleep)
        self.bytes_per_s = BYTES_PER_S
        self._marks = marks
        self._receiver = receiver
        self._namespaces = None if namespaces is None else frozenset(namespaces)
        self._unshipped = self._of([])  # in this round
        self._sizes: dict[int, int] = {}  # of segments, as they were seen last
        self.dropped.update(refused=0, deleted=0, damaged=0)

    async def stop(self) -> None:
        await super().stop()
        await self._receiver.close()

    async def _find(self) -> None:
        segments = await asyncio.to_thread(self._output.synced)  # it may wait for one that is being written
        self._unshipped = self._of(segments)

    def _of(self, segments: Sequence[Synced]) -> Unshipped:
        now_ms = self._clock.wall_ms()
        return Unshipped(segments, self._marks, self._receiver.pack, namespaces=self._namespaces, now_ms=now_ms)

    async def _next(self) -> Batch | None:
        while not (batch := await asyncio.to_thread(self._unshipped.next)).empty:
            if batch.lines:
                return batch
            self._note(batch, None)  # nothing of it is shipped
        self._marks.settle({number: one.segment.size for number, one in self._unshipped.readings.items()})
        return None

    async def _take(self, piece: Batch, target: str) -> None:
        await self._receiver.take(piece.lines)

    def _note(self, piece: Batch, taken: None) -> None:
        self.dropped["damaged"] += piece.damaged
        self._unshipped.taken(piece)

    async def _waiting(self) -> tuple[int, int | None]:
        """Counts what has been deleted before it was shipped, too."""
        segments = await asyncio.to_thread(self._output.synced)
        there = {segment.number: segment.size for segment in segments}
        for number, size in self._sizes.items():
            if number not in there:
                self.dropped["deleted"] += self._left_of(number, size)
        for number in self._marks.notes.keys() - there.keys():
            self._marks.forget(number)
        self._sizes = there
        left = {segment: self._left_of(segment.number, segment.size) for segment in segments}
        gaps = [(segment, self._marks.of(segment.number).at, segment.size) for segment, size in left.items() if size]
        found = await asyncio.to_thread(waiting_in, gaps)
        return sum(left.values()), min((ended_ms for _, ended_ms in found), default=None)

    def _left_of(self, number: int, size: int) -> int:
        """Returns how many bytes of a segment were not taken or passed over."""
        reading = self._unshipped.readings.get(number)
        left = size - self._marks.of(number).at if reading is None else size - reading.at + reading.pending_bytes
        return max(0, left)

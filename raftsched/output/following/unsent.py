"""The part of this node's segments that is to have a second copy and has none yet.

It is found by comparing the segments with a note of what was sent, so nothing has to be handed over, a restart finds
what was not sent, and a run's end never waits for it. What lies unsent is what is on the disk, no more, and goes with
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

from raftsched.output.following.sent import Sent
from raftsched.output.following.whole_records import ended_ms_of
from raftsched.output.keeping.segment_table import Synced
from raftsched.output.keeping.store import OutputStore

# Returns on how many disks output is to be, and for some owners of segments another number.
Copies = Callable[[Collection[str]], tuple[int, Mapping[str, int]]]


class Unsent:
    def __init__(self, output: OutputStore, sent: Sent, copies: Copies) -> None:
        self._output = output
        self._sent = sent
        self._copies = copies
        self._damaged: set[tuple[int, int, int]] = set()  # parts of segments without a whole record
        # for metrics
        self.waiting_bytes = 0
        self.waiting_since_ms: int | None = None  # when the oldest run ended whose output has no copy yet

    async def segments_to_copy(self, places: Mapping[str, bytes]) -> list[Synced]:
        """Returns the segments that are to have a second copy. `places`: where copies may be, and what tells each from
        the one that was there before under the same name; copies at others do not count any more."""
        segments = await asyncio.to_thread(self._output.synced)  # it may wait for one that is being written
        most, own = await asyncio.to_thread(self._copies, {segment.owner for segment in segments})
        self._sent.keep_only({segment.number: segment.size for segment in segments}, places)
        return [segment for segment in segments if own.get(segment.owner, most) > 1]

    def gaps(self, wanted: Collection[Synced]) -> Iterator[tuple[Synced, int, int]]:
        """Yields what has no copy yet, the segment that was begun first at first."""
        numbers = {segment.number for segment in wanted}
        self._damaged = {part for part in self._damaged if part[0] in numbers}
        for segment in wanted:
            for begin, end in self._sent.gaps(segment.number, segment.size):
                if (segment.number, begin, end) not in self._damaged:
                    yield segment, begin, end

    def leave_out(self, segment: Synced, begin: int, end: int) -> None:
        """There is no whole record in this part: it is nothing that waits."""
        self._damaged.add((segment.number, begin, end))

    async def note(self, wanted: Collection[Synced]) -> None:
        """Brings to the disk what was sent, and looks what waits of these segments. Raises OSError."""
        await asyncio.to_thread(self._sent.write)
        await self.note_waiting(wanted)

    async def note_waiting(self, wanted: Collection[Synced]) -> None:
        """Looks what waits of these segments."""
        await asyncio.to_thread(self._note_waiting, wanted)

    def _note_waiting(self, wanted: Collection[Synced]) -> None:
        waiting, since = 0, None
        for segment, begin, end in self.gaps(wanted):
            ended_ms = ended_ms_of(segment, begin, end)
            if ended_ms is not None:
                waiting += end - begin
                since = ended_ms if since is None else min(since, ended_ms)
        self.waiting_bytes, self.waiting_since_ms = waiting, since

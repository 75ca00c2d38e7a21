"""Finds what of this node's segments is to have a second copy and has none yet, and notes what was taken.

Pieces are whole records, as many as the sink wants at once. A segment in which something is wrong holds up no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from raftsched.output.following.follower import Follower, Piece
from raftsched.output.following.sent import Part, Sent
from raftsched.output.following.whole_records import Stretch, next_stretch, waiting_in
from raftsched.output.keeping.segment_table import Synced
from raftsched.output.keeping.store import OutputStore
from raftsched.system import background
from raftsched.system.clock import Clock

BYTES_PER_S = 32 * 2**20

# Returns on how many disks output is to be, and for some owners of segments another number.
Copies = Callable[[Collection[str]], tuple[int, Mapping[str, int]]]


@dataclass(slots=True, kw_only=True)
class Records(Piece):
    """Whole records of a segment. `end`: of what has no copy there. `going`: the part of the segment that ends where
    they begin, at the first target."""

    segment: Synced
    stretch: Stretch
    end: int
    going: Part | None

    def start_at(self, target: str) -> int:
        """Returns where the part begins that they belong to there."""
        return self.stretch.begin if self.going is None or self.going.node != target else self.going.start


class Sink(Protocol):
    """Keeps second copies."""

    name: background.TaskName
    where: str  # as of a follower
    piece_max: int  # bytes of a piece; a single record may have more
    patience_ms: int  # less than that waits so long for more

    async def places(self, wanted: Collection[int]) -> Mapping[str, bytes]:
        """Returns where copies may be, and what tells each from the one that was there before under the same name;
        nothing: nowhere, and so nothing waits. `wanted`: the segments that are to have a copy."""

    def targets(self, segment: int) -> list[str]:
        """Returns who may take the next piece of it, the first at first."""

    async def take(self, piece: Records, target: str) -> Part:
        """Returns what is there now. Raises NotTaken, FileNotFoundError: the segment has been deleted."""


class Copier(Follower[Records]):
    retry_ms = 5_000
    retry_most_ms = 300_000

    def __init__(self, output: OutputStore, sent: Sent, sink: Sink, copies: Copies, clock: Clock) -> None:
        super().__init__(output, sent, clock, where=sink.where)
        self.name, self.bytes_per_s = sink.name, BYTES_PER_S
        self._sent = sent
        self._sink = sink
        self._copies = copies
        self._wanted: list[Synced] = []
        self._gaps = deque[tuple[Synced, int, int]]()  # of this round
        self._since: dict[tuple[int, int], int] = {}  # segment and place -> when something was first seen to wait there
        self._damaged: set[tuple[int, int, int]] = set()  # parts of segments without a whole record

    async def _find(self) -> None:
        segments = await asyncio.to_thread(self._output.synced)  # it may wait for one that is being written
        most, own = await asyncio.to_thread(self._copies, {segment.owner for segment in segments})
        wanted = self._wanted = [segment for segment in segments if own.get(segment.owner, most) > 1]
        places = await self._sink.places({segment.number for segment in wanted})
        self._sent.keep_only({segment.number: segment.size for segment in segments}, places)
        if not places:
            self._wanted = []
        now_ms = self._clock.boot_ms()
        gaps = list(self._missing())
        self._since = {(s.number, at): self._since.get((s.number, at), now_ms) for s, at, _ in gaps}
        if self._where:
            self._backoff.keep_only({segment.number for segment, _, _ in gaps})  # what was not taken may be gone
        # One that was not taken last is behind all others.
        self._gaps = deque(sorted(gaps, key=lambda gap: self._backoff.until(gap[0].number)))

    def _missing(self) -> Iterator[tuple[Synced, int, int]]:
        """Yields what has no copy yet, the segment that was begun first at first."""
        numbers = {segment.number for segment in self._wanted}
        self._damaged = {part for part in self._damaged if part[0] in numbers}
        for segment in self._wanted:
            for begin, end in self._sent.gaps(segment.number, segment.size):
                if (segment.number, begin, end) not in self._damaged:
                    yield segment, begin, end

    async def _next(self) -> Records | None:
        while self._gaps:
            segment, at, end = self._gaps.popleft()
            number = segment.number
            targets = [target for target in self._sink.targets(number) if self._backoff.is_over(target or number)]
            if not targets or not self._is_due(number, at, end):
                continue
            stretch = await asyncio.to_thread(next_stretch, segment, at, end, self._sink.piece_max)
            if stretch is None:
                self._damaged.add((number, at, end))  # it is nothing that waits
                continue
            going = self._sent.behind(number, stretch.begin, targets)
            if going is not None:  # where it is already, it goes on: one file less
                targets.sort(key=lambda target: target != going.node)
            size = stretch.end - stretch.begin
            return Records(targets, number, size, size, segment=segment, stretch=stretch, end=end, going=going)
        return None

    def _is_due(self, number: int, at: int, end: int) -> bool:
        now_ms = self._clock.boot_ms()
        since_ms = self._since.setdefault((number, at), now_ms)
        return end - at >= self._sink.piece_max or now_ms - since_ms >= self._sink.patience_ms

    async def _take(self, piece: Records, target: str) -> Part:
        return await self._sink.take(piece, target)

    def _note(self, piece: Records, taken: Part) -> None:
        self._sent.add(piece.number, taken)
        if taken.end < piece.end:
            self._gaps.appendleft((piece.segment, taken.end, piece.end))

    async def _waiting(self) -> tuple[int, int | None]:
        missing = list(self._missing())
        found = await asyncio.to_thread(waiting_in, missing) if missing else []
        return sum(size for size, _ in found), min((ended_ms for _, ended_ms in found), default=None)

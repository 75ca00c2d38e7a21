"""Puts parts of this node's segments into an object store, where their namespaces or the settings want a second copy.

An object is whole records of one segment, from a place on, and is not changed. Stores bill by request: so one is put
when there is enough for it, or when it has waited for long enough. A node that was killed between a put and its note of
it puts again from the same place on, under the same key, the same or more, unless its disk was damaged in between:
what is flushed is never written anew (worker/found_ends.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from functools import partial

from raftsched.clock import Clock
from raftsched.objectstore.store import ObjectStore, ObjectStoreError
from raftsched.outputs.calls import Calls
from raftsched.outputs.copying import BYTES_PER_S, LOOK_S, RETRY_MOST_MS, RETRY_MS
from raftsched.outputs.objects import key_of
from raftsched.outputs.places import STORE_BYTES, Place
from raftsched.outputs.sent import Part, Sent
from raftsched.outputs.stretches import Stretch, next_stretch
from raftsched.outputs.unsent import Copies, Unsent
from raftsched.worker.output import OutputStore, Synced

OBJECT_BYTES = 8 * 2**20  # so much is put at once; a single record may be more
PATIENCE_MS = 30_000  # less than that waits so long for more
PUT_S = 300.0  # a put that takes longer has failed

_AT_STORE = ""  # in notes of what was sent, where the name of a node would be

log = logging.getLogger(__name__)


class Storer:
    def __init__(
        self,
        node_id: str,
        store_id: bytes,
        output: OutputStore,
        sent: Sent,
        *,
        store: ObjectStore,
        cluster: Callable[[], str],
        copies: Copies,
        clock: Clock,
    ) -> None:
        """`store_id`: eight bytes that name this node's disk. `cluster`: its id; "": it is not formed yet."""
        self._node_id = node_id
        self._store_id = store_id
        self._sent = sent
        self.unsent = Unsent(output, sent, copies)
        self._store = store
        self._place = hashlib.sha256(store.where.encode()).digest()[:STORE_BYTES]
        self._cluster = cluster
        self._clock = clock
        self._calls = Calls(1)
        self._since: dict[tuple[int, int], int] = {}  # segment and place -> when something was first seen to wait there
        self._until_ms = 0  # nothing is put before
        self._pause_ms = 0  # since the last put failed
        # for metrics
        self.sent_bytes = 0
        self.objects = 0
        self.refused = 0  # times that the store did not take something

    @property
    def failing(self) -> bool:
        """True when the last put failed."""
        return self._pause_ms > 0

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception as error:  # one look that failed is made again
                self._note_failed(error)

    async def look(self) -> None:
        """Puts all that is to be put now, if the store takes it."""
        cluster = self._cluster()
        if not cluster:
            return
        wanted = await self.unsent.look({_AT_STORE: self._place})
        await self.unsent.note(wanted)  # the puts may take long
        if self._clock.boot_ms() < self._until_ms:
            return
        gaps = list(self.unsent.gaps(wanted))
        if not gaps:
            self._pause_ms = 0  # what could not be put is gone
        self._since = {(s.number, at): self._first_seen(s.number, at) for s, at, _ in gaps}
        for segment, begin, end in gaps:
            if not await self._put_all(cluster, segment, begin, end):
                return
        await self.unsent.note(wanted)

    def _first_seen(self, number: int, at: int) -> int:
        return self._since.get((number, at), self._clock.boot_ms())

    async def _put_all(self, cluster: str, segment: Synced, at: int, end: int) -> bool:
        """Puts what is due of a part of a segment. False: the store does not take it."""
        while at < end and self._is_due(segment.number, at, end):
            stretch = await asyncio.to_thread(next_stretch, segment, at, end, OBJECT_BYTES)
            if stretch is None:
                self.unsent.leave_out(segment, at, end)
                return True
            if not await self._put(cluster, segment, stretch):
                return False
            at = stretch.end
        return True

    def _is_due(self, number: int, at: int, end: int) -> bool:
        since = self._since.setdefault((number, at), self._clock.boot_ms())
        return end - at >= OBJECT_BYTES or self._clock.boot_ms() - since >= PATIENCE_MS

    async def _put(self, cluster: str, segment: Synced, stretch: Stretch) -> bool:
        loop = asyncio.get_running_loop()
        began = loop.time()
        key = key_of(cluster, Place(self._node_id, self._store_id, segment.number, segment.owner, stretch.begin))
        try:
            await self._calls.make(partial(_put, self._store, key, segment, stretch), PUT_S)
        except FileNotFoundError:
            return True  # it has been deleted meanwhile
        except (ObjectStoreError, TimeoutError) as error:
            self._note_failed(error)
            return False
        if self._pause_ms:
            log.warning("%s takes output again", self._store.where)
        self._pause_ms = 0
        self.objects += 1
        self.sent_bytes += stretch.end - stretch.begin
        self._note_put(segment, stretch)
        await asyncio.to_thread(self._sent.write)
        await asyncio.sleep(max(0.0, (stretch.end - stretch.begin) / BYTES_PER_S - (loop.time() - began)))
        return True

    def _note_put(self, segment: Synced, stretch: Stretch) -> None:
        """Notes it as one part with what is before it: where objects begin and end is for the store to say."""
        before = self._sent.behind(segment.number, stretch.begin, (_AT_STORE,))
        start = stretch.begin if before is None else before.start
        self._sent.add(segment.number, Part(start, stretch.end, _AT_STORE, self._place))

    def _note_failed(self, error: Exception) -> None:
        self.refused += 1
        why = f"no answer within {PUT_S:.0f} s" if isinstance(error, TimeoutError) else error
        if not self._pause_ms:
            log.warning("output has no second copy until %s takes it: %s", self._store.where, why)
        self._pause_ms = min(2 * self._pause_ms, RETRY_MOST_MS) if self._pause_ms else RETRY_MS
        self._until_ms = self._clock.boot_ms() + self._pause_ms


def _put(store: ObjectStore, key: str, segment: Synced, stretch: Stretch) -> None:
    """Blocks. Raises ObjectStoreError, FileNotFoundError: the segment is gone."""
    with segment.path.open("rb") as file:
        store.put(key, _Bounded(file.fileno(), stretch))


class _Bounded:
    """A part of a file, as a source."""

    def __init__(self, fd: int, stretch: Stretch) -> None:
        self._fd = fd
        self._at, self._end = stretch

    def read(self, size: int, /) -> bytes:
        piece = os.pread(self._fd, min(size, self._end - self._at), self._at)
        if not piece and self._at < self._end:
            raise ObjectStoreError(f"a segment of output ends at {self._at} and not at {self._end}")
        self._at += len(piece)
        return piece

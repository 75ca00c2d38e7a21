"""Puts second copies into an object store.

An object is whole records of one segment, from a place on, and is not changed. Stores bill by request: so one is put
when there is enough for it, or when it has waited for long enough. A node that was killed between a put and its note of
it puts again from the same place on, under the same key, the same or more, unless its disk was damaged in between:
what is flushed is never written anew (output/keeping/segment_tails.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Collection, Mapping
from functools import partial

from raftsched.objectstore.store import ObjectStore, ObjectStoreError
from raftsched.output.following.calls import Calls, in_daemon_thread
from raftsched.output.following.copier import Records
from raftsched.output.following.follower import NotTaken
from raftsched.output.following.objects import key_of, mark_key
from raftsched.output.following.places import STORE_BYTES, Place
from raftsched.output.following.sent import Part, Sent
from raftsched.output.following.store_mark import id_of, new_mark, see_mark
from raftsched.output.following.whole_records import Stretch
from raftsched.output.keeping.segment_table import Synced
from raftsched.system import background
from raftsched.system.clock import Clock

OBJECT_BYTES = 8 * 2**20  # so much is put at once; a single record may be more
PATIENCE_MS = 30_000  # less than that waits so long for more
PUT_S = 300.0  # a put that takes longer has failed,
SLOWEST_BYTES_PER_S = 64 * 2**10  # and so much more time has one with more in it: an output may have 256 MiB
MARK_S = 60.0  # that a look for the mark takes at most
MARK_MS = 1_800_000  # how often it is seen whether the store still has what was put,
MARK_AGAIN_MS = 300_000  # and after a time that this could not be seen
CALLS = 2  # puts at one time: one of which nobody knows whether it ends, and the next one

_AT_STORE = ""  # in notes of what was sent, where the name of a node would be

log = logging.getLogger(__name__)


class ToStore:
    name: background.TaskName = "output-store"

    def __init__(
        self, node_id: str, store_id: bytes, sent: Sent, store: ObjectStore, cluster: Callable[[], str], clock: Clock
    ) -> None:
        """`store_id`: eight bytes that name this node's disk. `cluster`: its id; "": it is not formed yet."""
        self._node_id = node_id
        self._store_id = store_id
        self._sent = sent
        self._store = store
        self.where = store.where
        self._cluster = cluster
        self._clock = clock
        self.piece_max = OBJECT_BYTES
        self.patience_ms = PATIENCE_MS
        self._named = hashlib.sha256(store.where.encode()).digest()[:STORE_BYTES]  # the place before its mark was seen
        self._place = sent.store_of(_AT_STORE) or self._named
        self._mark = new_mark()  # if there is none
        self._mark_at_ms = 0  # the mark is looked for then
        self._unseen = False  # it could not be looked for
        self._marks = Calls(1)
        # Puts that take longer than they may, by segment, and what is noted when the store has it: they go on.
        self._late: dict[int, tuple[Part, asyncio.Future[None]]] = {}

    async def places(self, wanted: Collection[int]) -> Mapping[str, bytes]:
        self._late = {number: late for number, late in self._late.items() if number in wanted or not late[1].done()}
        cluster = self._cluster()
        if cluster and wanted and self._clock.boot_ms() >= self._mark_at_ms:
            await self._look_for_mark(cluster)
        return {_AT_STORE: self._place}

    async def _look_for_mark(self, cluster: str) -> None:
        """Finds out whether the store is another one than the notes say: what they have of it does not count."""
        self._mark_at_ms = self._clock.boot_ms() + MARK_AGAIN_MS
        if id_of(self._mark) == self._place:
            self._mark = new_mark()
        key = mark_key(cluster, self._node_id)
        try:
            place = id_of(await self._marks.make(partial(see_mark, self._store, key, self._mark), MARK_S))
        except (ObjectStoreError, TimeoutError) as error:
            why = f"no answer within {MARK_S:.0f} s" if isinstance(error, TimeoutError) else error
            if not self._unseen:
                log.warning("it cannot be seen whether %s still has what was put there: %s", self.where, why)
            self._unseen = True
            return
        self._unseen = False
        self._mark_at_ms = self._clock.boot_ms() + MARK_MS
        if place == self._place:
            return
        self._sent.rename(_AT_STORE, self._named, place)  # of a time when there were no marks, or this one was not seen
        if self._sent.store_of(_AT_STORE) not in (None, place):
            log.warning("%s does not have what was put before: it is put again from the disk", self.where)
        self._place = place

    def targets(self, segment: int) -> list[str]:
        going_on = [number for number, (_, made) in self._late.items() if not made.done()]
        if not self._cluster() or segment in going_on or len(going_on) >= CALLS:
            return []
        return [_AT_STORE]

    async def take(self, piece: Records, target: str) -> Part:
        """Puts it, unless there is what an earlier put brought when nobody waited for it any more: the same is not put
        for ever."""
        segment, stretch = piece.segment, piece.stretch
        part, made = self._late.pop(segment.number, (None, None))
        if part is not None and made is not None and made.exception() is None:
            return part
        place = Place(self._node_id, self._store_id, segment.number, segment.owner, stretch.begin)
        # One part with what is before it: where objects begin and end is for the store to say.
        part = Part(piece.start_at(target), stretch.end, _AT_STORE, self._place)
        limit_s = PUT_S + piece.size / SLOWEST_BYTES_PER_S
        put = partial(_put, self._store, key_of(self._cluster(), place), segment, stretch)
        made = in_daemon_thread(put, self.name)
        made.add_done_callback(asyncio.Future.exception)  # perhaps nobody waits for it any more
        try:
            await asyncio.wait_for(asyncio.shield(made), limit_s)
        except TimeoutError:
            self._late[segment.number] = part, made
            raise NotTaken(f"no answer within {limit_s:.0f} s") from None
        except ObjectStoreError as error:
            raise NotTaken(error) from None
        return part


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

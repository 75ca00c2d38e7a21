"""Puts parts of this node's segments into an object store, where their namespaces or the settings want a second copy.

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
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from raftsched.objectstore.store import ObjectStore, ObjectStoreError
from raftsched.output.following.calls import Calls
from raftsched.output.following.copying import BYTES_PER_S, RETRY_MOST_MS, RETRY_MS
from raftsched.output.following.objects import key_of, mark_key
from raftsched.output.following.places import STORE_BYTES, Place
from raftsched.output.following.sent import Part, Sent
from raftsched.output.following.store_mark import id_of, new_mark, see_mark
from raftsched.output.following.unsent import Copies, Unsent
from raftsched.output.following.whole_records import Stretch, next_stretch
from raftsched.output.keeping.segment_table import Synced
from raftsched.output.keeping.store import OutputStore
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


class _Failed(NamedTuple):
    """A segment of which the last put failed."""

    until_ms: int  # it is not tried again before
    pause_ms: int


class _Put:
    """One put, which may go on when nobody waits for it any more."""

    def __init__(self, store: ObjectStore, key: str, segment: Synced, stretch: Stretch, place: bytes) -> None:
        """`place`: what tells this store from others."""
        self.segment = segment
        self.stretch = stretch
        self.place = place
        self._put = partial(_put, store, key, segment, stretch)
        self.is_there = False  # the store has it
        self.is_over = False

    def __call__(self) -> None:
        """Blocks. Raises ObjectStoreError, FileNotFoundError: the segment is gone."""
        try:
            self._put()
            self.is_there = True
        finally:
            self.is_over = True


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
        self._named = hashlib.sha256(store.where.encode()).digest()[:STORE_BYTES]  # the place before its mark was seen
        self._place = sent.store_of(_AT_STORE) or self._named
        self._mark = new_mark()  # if there is none
        self._mark_at_ms = 0  # the mark is looked for then
        self._unseen = False  # it could not be looked for
        self._marks = Calls(1)
        self._cluster = cluster
        self._clock = clock
        self._calls = Calls(CALLS)
        self._late: list[_Put] = []  # those that took longer than they may
        self._since: dict[tuple[int, int], int] = {}  # segment and place -> when something was first seen to wait there
        self._until_ms = 0  # nothing is put before
        self._pause_ms = 0  # since the last put failed
        self._failed: dict[int, _Failed] = {}  # by segment
        self._unwritten = False  # this node's disk did not take the note of what was put
        # for metrics
        self.sent_bytes = 0
        self.objects = 0
        self.refused = 0  # times that the store did not take something

    @property
    def failing(self) -> bool:
        """Returns whether there is a segment of which the last put failed."""
        return bool(self._failed)

    async def store_once(self) -> None:
        """Puts all that is to be put now, if the store takes it; to be called each LOOK_S."""
        cluster = self._cluster()
        if not cluster:
            return
        self._note_late()
        wanted = await self.unsent.segments_to_copy({_AT_STORE: self._place})
        await self._write_sent()
        await self.unsent.note_waiting(wanted)  # what follows may take long
        if wanted and self._clock.boot_ms() >= self._mark_at_ms and await self._look_for_mark(cluster):
            wanted = await self.unsent.segments_to_copy({_AT_STORE: self._place})
            await self._write_sent()
            await self.unsent.note_waiting(wanted)
        gaps = list(self.unsent.gaps(wanted))
        numbers = {segment.number for segment, _, _ in gaps}
        self._failed = {number: failed for number, failed in self._failed.items() if number in numbers}
        if not self._failed:
            self._pause_ms = self._until_ms = 0  # what could not be put is gone
        if self._clock.boot_ms() < self._until_ms or len(self._late) >= CALLS:
            return
        self._since = {(s.number, at): self._first_seen(s.number, at) for s, at, _ in gaps}
        gaps.sort(key=lambda gap: self._turn(gap[0].number))
        for segment, begin, end in gaps:
            try:
                if self._may_put(segment.number) and not await self._put_all(cluster, segment, begin, end):
                    break  # the others come before this one the next time
            except Exception as error:  # the others' copies are not its fault
                background.note("output-store", error, str(segment.path))
        await self.unsent.note_waiting(wanted)

    async def _look_for_mark(self, cluster: str) -> bool:
        """Returns whether the store is another one than the notes say: what they have of it does not count."""
        self._mark_at_ms = self._clock.boot_ms() + MARK_AGAIN_MS
        if id_of(self._mark) == self._place:
            self._mark = new_mark()
        key = mark_key(cluster, self._node_id)
        try:
            place = id_of(await self._marks.make(partial(see_mark, self._store, key, self._mark), MARK_S))
        except (ObjectStoreError, TimeoutError) as error:
            why = f"no answer within {MARK_S:.0f} s" if isinstance(error, TimeoutError) else error
            if not self._unseen:
                log.warning("it cannot be seen whether %s still has what was put there: %s", self._store.where, why)
            self._unseen = True
            return False
        self._unseen = False
        self._mark_at_ms = self._clock.boot_ms() + MARK_MS
        if place == self._place:
            return False
        self._sent.rename(_AT_STORE, self._named, place)  # of a time when there were no marks, or this one was not seen
        if self._sent.store_of(_AT_STORE) not in (None, place):
            log.warning("%s does not have what was put before: it is put again from the disk", self._store.where)
        self._place = place
        return True

    async def _write_sent(self) -> None:
        """Notes what was put. Where the disk does not take it, it is put again after a restart: nothing that the puts
        wait for, and not the store's fault."""
        try:
            await asyncio.to_thread(self._sent.write)
        except OSError as error:
            if not self._unwritten:
                log.warning("what %s has of output cannot be noted on this node's disk: %s", self._store.where, error)
            self._unwritten = True
        else:
            self._unwritten = False

    def _turn(self, number: int) -> int:
        """Returns which segment comes first: one that the store did not take last is behind all others."""
        return self._failed[number].until_ms if number in self._failed else 0

    def _may_put(self, number: int) -> bool:
        failed = self._failed.get(number)
        waits = failed is not None and self._clock.boot_ms() < failed.until_ms
        return not waits and all(put.segment.number != number for put in self._late)

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
        put = _Put(self._store, key, segment, stretch, self._place)
        size = stretch.end - stretch.begin
        limit_s = PUT_S + size / SLOWEST_BYTES_PER_S
        try:
            await self._calls.make(put, limit_s, to_its_end=True)
        except FileNotFoundError:
            return True  # it has been deleted meanwhile
        except TimeoutError:
            self._late.append(put)
            self._note_failed(segment.number, f"no answer within {limit_s:.0f} s")
            return False
        except ObjectStoreError as error:
            self._note_failed(segment.number, error)
            return False
        self._note_put(put)
        await self._write_sent()
        await asyncio.sleep(max(0.0, size / BYTES_PER_S - (loop.time() - began)))
        return True

    def _note_late(self) -> None:
        """Notes the puts that ended well when nobody waited for them any more: the same is not put for ever."""
        for put in [put for put in self._late if put.is_over]:
            self._late.remove(put)
            if put.is_there:
                self._note_put(put)

    def _note_put(self, put: _Put) -> None:
        """Notes it as one part with what is before it: where objects begin and end is for the store to say."""
        segment, stretch = put.segment, put.stretch
        failed = self._failed.pop(segment.number, None)
        if failed is not None and not self._failed:
            log.warning("%s takes output again", self._store.where)
        self._pause_ms = self._until_ms = 0
        self.objects += 1
        self.sent_bytes += stretch.end - stretch.begin
        before = self._sent.behind(segment.number, stretch.begin, (_AT_STORE,))
        start = stretch.begin if before is None else before.start
        self._sent.add(segment.number, Part(start, stretch.end, _AT_STORE, put.place))

    def _note_failed(self, number: int, why: object) -> None:
        self.refused += 1
        if not self._failed:
            log.warning("output has no second copy until %s takes it: %s", self._store.where, why)
        before = self._failed.get(number)
        now_ms = self._clock.boot_ms()
        pause_ms = _longer(0 if before is None else before.pause_ms)
        self._failed[number] = _Failed(now_ms + pause_ms, pause_ms)
        self._pause_ms = _longer(self._pause_ms)
        self._until_ms = now_ms + self._pause_ms


def _longer(pause_ms: int) -> int:
    return min(2 * pause_ms, RETRY_MOST_MS) if pause_ms else RETRY_MS


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

"""Deletes outputs from an object store by the ages that settings and namespaces say, as this cluster's leader has just
confirmed them.

Each node deletes what it put itself, also from disks that it had before; the leader what nodes put that are no members
any more. Ages count from when an object was put, which is after the end of the runs in it. Keys that do not have the
form of objects.py, and those of other clusters, are left alone.
"""

from __future__ import annotations

import asyncio
import heapq
import io
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from raftsched.errors import RaftschedError
from raftsched.objectstore.store import ObjectStore, ObjectStoreError
from raftsched.output.following.calls import Calls
from raftsched.output.following.objects import place_in, prefix_of, probe_key
from raftsched.output.following.places import Place
from raftsched.system import background
from raftsched.system.clock import Clock

FIRST_S = 60.0  # after the start
EACH_S = 1_800.0  # a list of a thousand objects is a request
AGAIN_S = 60.0  # after one that failed, or that left some
LISTED_MAX = 5_000  # objects that are in memory, of those that are too old, and of the oldest ones
JUDGED = 1_000  # objects of a list whose ages are looked up at once
DELETED_MAX = 1_000  # at once
CALL_S = 300.0

# Returns for how long output is kept (ms), and for some owners of segments another time.
_Ages = Callable[[Collection[str]], tuple[int, Mapping[str, int]]]

log = logging.getLogger(__name__)


class _Object(NamedTuple):
    key: str
    size: int
    put_at_ms: int
    place: Place


class _Oldest:
    """The oldest of the objects that are added, LISTED_MAX of them at most."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str, _Object]] = []  # the newest of them comes first

    def add(self, one: _Object) -> None:
        entry = (-one.put_at_ms, one.key, one)
        if len(self._heap) < LISTED_MAX:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def __iter__(self) -> Iterator[_Object]:
        return iter(sorted((one for _, _, one in self._heap), key=lambda one: one.put_at_ms))


class _Listed:
    """Takes from a list what it is read for: the objects that are too old, the oldest ones, and the bytes of all.
    It does not hold all objects, since there may be millions."""

    def __init__(self, ages: _Ages, now_ms: int, *, for_room: bool) -> None:
        """`ages`: as they are known while the list is read. `for_room`: the oldest are asked for."""
        self._ages = ages
        self._now_ms = now_ms
        self._for_room = for_room
        self._keep_ms, self._own = ages(())
        self._known: set[str] = set()  # owners whose ages were looked up
        self._next: list[_Object] = []
        self.old, self.oldest = _Oldest(), _Oldest()
        self.size = 0

    def add(self, one: _Object) -> None:
        """Blocks."""
        self.size += one.size
        if self._for_room:
            self.oldest.add(one)
        self._next.append(one)
        if len(self._next) >= JUDGED:
            self.judge()

    def judge(self) -> None:
        """Looks which are too old of those that were added last. Blocks."""
        unknown = {one.place.owner for one in self._next if one.place.owner} - self._known
        if unknown:
            self._known |= unknown
            self._own = {**self._own, **self._ages(unknown)[1]}
        for one in self._next:
            if _is_old(one, self._now_ms, self._keep_ms, self._own):
                self.old.add(one)
        self._next = []

    def owners(self) -> set[str]:
        return {one.place.owner for objects in (self.old, self.oldest) for one in objects if one.place.owner}


def _is_old(one: _Object, now_ms: int, keep_ms: int, own: Mapping[str, int]) -> bool:
    return one.put_at_ms < now_ms - own.get(one.place.owner, keep_ms)


class Pruner:
    def __init__(
        self,
        node_id: str,
        *,
        store: ObjectStore,
        cluster: Callable[[], str],
        confirm: Callable[[], Awaitable[None]],
        ages: _Ages,
        members: Callable[[], Collection[str] | None],
        keep_bytes: int | None,
        clock: Clock,
    ) -> None:
        """`confirm`: returns when this node knows all that was decided before; raises RaftschedError without a leader.
        `ages`: what counts is what it says to the thread that applies; others may be told what held before. `members`:
        all of them, when this node leads; None: it does not. `keep_bytes`: of this node's objects; beyond that the
        oldest go."""
        self._node_id = node_id
        self._store = store
        self._cluster = cluster
        self._confirm = confirm
        self._ages = ages
        self._members = members
        self._keep_bytes = keep_bytes
        self._clock = clock
        self._calls = Calls(1)
        # for metrics
        self.failing = False  # the store was not usable when it was looked at last
        self.deleted = 0

    async def run(self) -> None:
        """Prunes again and again, and never ends."""
        pause_s = FIRST_S
        await self._try()
        while True:
            await asyncio.sleep(pause_s)
            pause_s = AGAIN_S
            try:
                if await self._try() and await self._prune():
                    pause_s = EACH_S
            except Exception as error:
                background.note("output-store", error)

    async def _prune(self) -> bool:
        """Returns whether all is deleted that is too old."""
        try:
            return await self.prune_once() < DELETED_MAX
        except (RaftschedError, ObjectStoreError, TimeoutError) as error:
            log.warning("old outputs in %s could not be deleted: %s", self._store.where, _said(error))
        return False

    # ------------------------------------------------------------ whether it can be used

    async def _try(self) -> bool:
        """Returns whether all can be done that has to be: a key that may write alone would be noticed when it is too
        late."""
        cluster = self._cluster()
        try:
            if cluster:
                await self._calls.make(partial(_probe, self._store, probe_key(cluster, self._node_id)), CALL_S)
        except Exception as error:
            if not self.failing:
                log.warning("the store of output cannot be used as it has to be: %s", _said(error))
            self.failing = True
            return False
        self.failing = False
        return bool(cluster)

    # ------------------------------------------------------------ ages

    async def prune_once(self) -> int:
        """Deletes what is older than it is kept, and returns how many objects. Raises RaftschedError, ObjectStoreError,
        TimeoutError."""
        cluster, members = self._cluster(), self._members()
        await self._confirm()  # without a leader there is no need for a list
        listed = [(await self._list(prefix_of(cluster, self._node_id), (), self._keep_bytes), self._keep_bytes)]
        if members is not None:
            listed.append((await self._list(prefix_of(cluster), members, None), None))
        await self._confirm()  # a list takes its time
        old: list[_Object] = []
        for one, keep_bytes in listed:
            # Here and not in a thread: only this one sees all that was applied, and so what was just confirmed.
            keep_ms, own = self._ages(one.owners())
            old += await asyncio.to_thread(self._old, one, keep_bytes, keep_ms, own)
        del old[DELETED_MAX:]
        await self._calls.make(partial(self._delete, old), CALL_S)
        return len(old)

    async def _list(self, prefix: str, without: Collection[str], keep_bytes: int | None) -> _Listed:
        return await self._calls.make(partial(self._listed, prefix, without, keep_bytes), CALL_S)

    def _listed(self, prefix: str, without: Collection[str], keep_bytes: int | None) -> _Listed:
        """Looks through the objects, but for those of the nodes `without`. Blocks."""
        listed = _Listed(self._ages, self._clock.wall_ms(), for_room=keep_bytes is not None)
        cluster = prefix.partition("/")[0]
        for found in self._store.list(prefix):
            place = place_in(cluster, found.key)
            if place is not None and place.node not in without:
                listed.add(_Object(*found, place))
        listed.judge()
        return listed

    def _old(self, listed: _Listed, keep_bytes: int | None, keep_ms: int, own: Mapping[str, int]) -> list[_Object]:
        """Returns those that are too old, or too many, the oldest first."""
        now_ms = self._clock.wall_ms()
        old = [one for one in listed.old if _is_old(one, now_ms, keep_ms, own)]
        beyond = 0 if keep_bytes is None else listed.size - keep_bytes - sum(one.size for one in old)
        keys = {one.key for one in old}
        for one in listed.oldest:
            if beyond > 0 and one.key not in keys:
                old.append(one)
                beyond -= one.size
        return sorted(old, key=lambda one: one.put_at_ms)

    def _delete(self, objects: Iterable[_Object]) -> None:
        for one in objects:
            self._store.delete(one.key)
            self.deleted += 1


def _probe(store: ObjectStore, key: str) -> None:
    """Raises ObjectStoreError where something cannot be done."""
    content = b"raftsched tries whether it can put, read, list and delete here\n"
    store.put(key, io.BytesIO(content))
    whole = b"".join(store.get(key, 1, len(content)))
    if whole != content[1:] or all(found.key != key for found in store.list(key)):
        raise ObjectStoreError(f"{store.where}/{key} is not there as it was put")
    store.delete(key)


def _said(error: Exception) -> object:
    return f"no answer within {CALL_S:.0f} s" if isinstance(error, TimeoutError) else error

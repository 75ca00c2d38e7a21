"""Deletes outputs from an object store by the ages that settings and namespaces say, as this cluster's leader has just
confirmed them.

Each node deletes what it put itself, also from disks that it had before; the leader what nodes put that are no members
any more. Ages count from when an object was put, which is after the end of the runs in it. Keys that do not have the
form of objects.py, and those of other clusters, are left alone.
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from raftsched.clock import Clock
from raftsched.errors import RaftschedError
from raftsched.objectstore.store import ObjectStore, ObjectStoreError
from raftsched.outputs.calls import Calls
from raftsched.outputs.objects import place_in, prefix_of, probe_key
from raftsched.outputs.places import Place

FIRST_S = 60.0  # after the start
EACH_S = 1_800.0  # a list of a thousand objects is a request
AGAIN_S = 60.0  # after one that failed, or that left some
LISTED_MAX = 50_000  # objects that are in memory; the oldest segments of a node come first
DELETED_MAX = 1_000  # at once
CALL_S = 300.0

log = logging.getLogger(__name__)


class _Object(NamedTuple):
    key: str
    size: int
    put_at_ms: int
    place: Place


class _Listed(NamedTuple):
    """The first objects of a list, and the bytes of all of them."""

    objects: list[_Object]
    size: int


class Pruner:
    def __init__(
        self,
        node_id: str,
        *,
        store: ObjectStore,
        cluster: Callable[[], str],
        confirm: Callable[[], Awaitable[None]],
        ages: Callable[[Collection[str]], tuple[int, Mapping[str, int]]],
        members: Callable[[], Collection[str] | None],
        keep_bytes: int | None,
        clock: Clock,
    ) -> None:
        """`confirm`: returns when this node knows all that was decided before; raises RaftschedError without a leader.
        `ages`: for how long output is kept (ms), and for some owners another time. `members`: all of them, when this
        node leads; None: it does not. `keep_bytes`: of this node's objects; beyond that the oldest go."""
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
        """For ever."""
        pause_s = FIRST_S
        await self._try()
        while True:
            await asyncio.sleep(pause_s)
            pause_s = AGAIN_S
            if await self._try() and await self._prune():
                pause_s = EACH_S

    async def _prune(self) -> bool:
        """Returns whether all is deleted that is too old."""
        try:
            return await self.look() < DELETED_MAX
        except (RaftschedError, ObjectStoreError, TimeoutError) as error:
            log.warning("old outputs in %s could not be deleted: %s", self._store.where, _said(error))
        except Exception:
            log.exception("old outputs in %s could not be deleted", self._store.where)
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

    async def look(self) -> int:
        """Deletes what is older than it is kept, and returns how many objects. Raises RaftschedError, ObjectStoreError,
        TimeoutError."""
        cluster, members = self._cluster(), self._members()
        own = await self._calls.make(partial(self._listed, prefix_of(cluster, self._node_id), ()), CALL_S)
        left = _Listed([], 0)
        if members is not None:
            left = await self._calls.make(partial(self._listed, prefix_of(cluster), members), CALL_S)
        await self._confirm()
        old = await asyncio.to_thread(self._old, own, self._keep_bytes)
        old += await asyncio.to_thread(self._old, left, None)
        del old[DELETED_MAX:]
        await self._calls.make(partial(self._delete, old), CALL_S)
        return len(old)

    def _listed(self, prefix: str, without: Collection[str]) -> _Listed:
        """Returns the objects, none of the nodes `without`. Blocks."""
        objects: list[_Object] = []
        size = 0
        cluster = prefix.partition("/")[0]
        for found in self._store.list(prefix):
            place = place_in(cluster, found.key)
            if place is not None and place.node not in without:
                size += found.size
                if len(objects) < LISTED_MAX:
                    objects.append(_Object(*found, place))
        return _Listed(objects, size)

    def _old(self, listed: _Listed, keep_bytes: int | None) -> list[_Object]:
        """Returns those that are too old, or too many, the oldest first."""
        objects, size = listed
        keep_ms, own = self._ages({one.place.owner for one in objects if one.place.owner})
        now_ms = self._clock.wall_ms()
        beyond = 0 if keep_bytes is None else size - keep_bytes
        old = []
        for one in sorted(objects, key=lambda one: one.put_at_ms):
            if beyond > 0 or one.put_at_ms < now_ms - own.get(one.place.owner, keep_ms):
                old.append(one)
                beyond -= one.size
        return old

    def _delete(self, objects: Iterable[_Object]) -> None:
        for one in objects:
            self._store.delete(one.key)
            self.deleted += 1


def _probe(store: ObjectStore, key: str) -> None:
    """Raises ObjectStoreError where something cannot be done."""
    content = b"raftsched tries whether it can put, read, list and delete here\n"
    store.put(key, io.BytesIO(content))
    if b"".join(store.get(key, 1)) != content[1:] or key not in {found.key for found in store.list(key)}:
        raise ObjectStoreError(f"{store.where}/{key} is not there as it was put")
    store.delete(key)


def _said(error: Exception) -> object:
    return f"no answer within {CALL_S:.0f} s" if isinstance(error, TimeoutError) else error

"""Reads outputs from an object store, for who cannot read the first copy.

An output is found by a list of the objects of its segment, fetched by a range into a file without a name, and held
against the digests of the record and of the log. So it is bounded by what the log says of its size, and nothing that
somebody else put there is ever shown.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError
from raftsched.objectstore.store import NoSuchObject, ObjectStore, ObjectStoreError
from raftsched.output.following.calls import Calls
from raftsched.output.following.objects import place_in, prefix_of
from raftsched.output.format.records import HEADER_SIZE, body_size, checked
from raftsched.output.format.spool import HEAD
from raftsched.output.reading.text import Text

READ_S = 60.0  # until all of an output is there
AT_ONCE = 4  # outputs that are fetched
LISTED_MAX = 10_000  # objects of one segment that are looked at
TRIES_MAX = 4  # objects that are said to have it: of a disk that was replaced, or put twice
KEPT_S = 60.0  # for the next reader; so that who reads in parts does not fetch it for each part
ROOM = 128 * 2**20  # bytes that stay free on the disk
KEPT_BYTES = 64 * 2**20  # of all of them, or a single larger one

_Key = tuple[str, OutputRef, int]


class StoredOutputs:
    def __init__(self, store: ObjectStore, cluster: Callable[[], str], directory: Path) -> None:
        """`cluster`: its id. `directory`: where what is read lies meanwhile."""
        self._store = store
        self._cluster = cluster
        self._directory = directory
        self._calls = Calls(AT_ONCE)
        self._kept: dict[_Key, Text] = {}  # the one that was read last is last

    async def open(self, node: str, ref: OutputRef, stream: str | None, token: int) -> Text | None:
        """Returns an output of that node; None: the store does not have it. Raises RaftschedError output-unavailable:
        nobody knows."""
        key = (node, ref, token)
        text = self._kept.pop(key, None)
        if text is None:
            text = await self._fetch(node, ref, token)
            if text is None:
                return None
            asyncio.get_running_loop().call_later(KEPT_S, self._forget, key, weakref.ref(text))
        self._kept[key] = text
        while len(self._kept) > 1 and sum(one.end or 0 for one in self._kept.values()) > KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        return await asyncio.to_thread(text.of, stream)

    def _forget(self, key: _Key, text: weakref.ref[Text]) -> None:
        if self._kept.get(key) is text():
            self._kept.pop(key, None)

    async def _fetch(self, node: str, ref: OutputRef, token: int) -> Text | None:
        try:
            return await self._calls.make(partial(self._look, self._cluster(), node, ref, token), READ_S)
        except TimeoutError:
            why = f"no answer within {READ_S:.0f} s"
        except ObjectStoreError as error:
            why = str(error)
        except OSError as error:
            why = f"this node's disk: {(error.strerror or str(error)).lower()}"
        raise RaftschedError("output-unavailable", f"It cannot be read from the object store: {why}.")

    # ------------------------------------------------------------ in a thread

    def _look(self, cluster: str, node: str, ref: OutputRef, token: int) -> Text | None:
        """Raises ObjectStoreError, OSError."""
        there = []
        for found in islice(self._store.list(prefix_of(cluster, node, ref.segment)), LISTED_MAX):
            place = place_in(cluster, found.key)
            if place is not None and place.start <= ref.offset < place.start + found.size:
                there.append((place.start, found.key))
        for start, key in sorted(there, reverse=True)[:TRIES_MAX]:  # the one that begins nearest has most behind it
            try:
                return self._copy(key, replace(ref, offset=ref.offset - start), token)
            except (RaftschedError, NoSuchObject):
                continue  # damaged, of another disk, or deleted meanwhile
        return None

    def _copy(self, key: str, ref: OutputRef, token: int) -> Text:
        """Raises RaftschedError output-gone, ObjectStoreError, OSError."""
        head = b"".join(self._store.get(key, ref.offset, HEADER_SIZE))
        size = body_size(head)
        if size is None or size > _body_max(ref):
            raise RaftschedError("output-gone")
        if shutil.disk_usage(self._directory).free < size + ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with tempfile.TemporaryFile(dir=self._directory) as file:
            file.write(head)
            for piece in _exactly(self._store.get(key, ref.offset + HEADER_SIZE, size), size):
                file.write(piece)
            file.flush()
            return checked(file.fileno(), replace(ref, offset=0), token)


def _body_max(ref: OutputRef) -> int:
    """Returns the bytes that the frames of an output take at most: a byte of text each, and the note of what was left
    out."""
    return (1 + HEAD.size) * (ref.size + HEAD.size + 8)


def _exactly(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yields no more than so many bytes, whatever the store sends."""
    for piece in pieces:
        yield piece[:size]
        size -= len(piece)
        if size <= 0:
            return

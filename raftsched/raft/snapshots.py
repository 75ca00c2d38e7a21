"""Snapshots: the whole state, copied to a file first, for a follower whose entries are compacted away.

The sender's loop only reads chunks in a side thread and keeps one of them on its way per follower. The receiver writes
to a file of its own, compares size and SHA-256, and loads it in the writer thread between two turns, never over a newer
state. What does not follow the last chunk is dropped: a transfer is never spliced.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from raftsched.clock import Clock
from raftsched.raft.codec import Frame, SnapshotAnswer, SnapshotChunk
from raftsched.raft.guards import Guards
from raftsched.raft.options import RaftOptions
from raftsched.raft.turns import Writer
from raftsched.store.snapshot import SnapshotMeta

log = logging.getLogger(__name__)


class SnapshotStore(Protocol):
    def copy(self, target: Path) -> SnapshotMeta: ...


def clear(directory: Path) -> None:
    """Deletes what an earlier run left."""
    directory.mkdir(parents=True, exist_ok=True)
    for pattern in ("send-*.snap", "receive-*.snap"):
        for path in directory.glob(pattern):
            path.unlink(missing_ok=True)


@dataclass(slots=True)
class _Transfer:
    offset: int  # below it everything is acknowledged
    moved_at: float  # monotonic seconds of the last step


@dataclass(slots=True)
class _Copy:
    path: Path
    meta: SnapshotMeta


class Sender:
    """The leader's side: one copy for all who need one, one chunk at a time for each."""

    def __init__(
        self,
        store: SnapshotStore,
        directory: Path,
        side: Writer,
        clock: Clock,
        options: RaftOptions,
        guards: Guards,
        *,
        send: Callable[[str, Frame], bool],
        failed: Callable[[str], None],
        pin: Callable[[int | None], None],
    ) -> None:
        self._store = store
        self._directory = directory
        self._side = side
        self._clock = clock
        self._options = options
        self._guards = guards
        self._send = send
        self._failed = failed
        self._pin = pin
        self._term = 0
        self._copy: _Copy | None = None
        self._copying = False
        self._number = 0
        self._transfers: dict[str, _Transfer] = {}

    def begin(self, peer: str, term: int, applied_index: int, first_index: int) -> None:
        """`peer` needs entries from below `first_index`."""
        if not self._guards.no_empty_snapshot and (self._copy is None or self._copying):
            self._send(peer, SnapshotChunk(term, applied_index, term, 0, b"", 0, b""))
            self._failed(peer)
        if term != self._term:
            self.cancel()
            self._term = term
        self._transfers[peer] = _Transfer(0, self._clock.monotonic())
        if self._copying:
            return
        if self._copy is not None and self._copy.meta.index >= first_index - 1:
            self._read(peer, 0)
            return
        self._discard()
        self._copying = True
        self._number += 1
        path = self._directory / f"send-{self._number}.snap"
        self._pin(applied_index)
        self._side.submit(lambda: self._store.copy(path), lambda meta, error: self._copied(path, meta, error))

    def _copied(self, path: Path, meta: SnapshotMeta | None, error: BaseException | None) -> None:
        self._copying = False
        if error is not None or meta is None:
            log.warning("a snapshot could not be written to %s: %s", path, error)
            path.unlink(missing_ok=True)
            for peer in list(self._transfers):
                self._give_up(peer)
            return
        self._copy = _Copy(path, meta)
        self._pin(meta.index)
        if not self._transfers:
            self._discard()
        for peer in list(self._transfers):
            self._read(peer, 0)

    def _read(self, peer: str, offset: int) -> None:
        copy = self._copy
        assert copy is not None
        size = self._options.snapshot_chunk_bytes

        def job() -> bytes:
            with copy.path.open("rb") as file:
                file.seek(offset)
                return file.read(size)

        self._side.submit(job, lambda data, error: self._send_chunk(peer, copy, offset, data, error))

    def _send_chunk(self, peer: str, copy: _Copy, offset: int, data: bytes, error: BaseException | None) -> None:
        transfer = self._transfers.get(peer)
        if transfer is None or copy is not self._copy or transfer.offset != offset:
            return
        if error is not None or not data:
            log.warning("the snapshot %s cannot be read: %s", copy.path, error or "it is shorter than it was")
            self._give_up(peer)
            return
        meta = copy.meta
        self._send(peer, SnapshotChunk(self._term, meta.index, meta.term, meta.size, meta.sha256, offset, data))

    def answered(self, peer: str, m: SnapshotAnswer) -> None:
        transfer, copy = self._transfers.get(peer), self._copy
        if transfer is None or copy is None or m.term != self._term:
            return
        if (m.index, m.sha256) != (copy.meta.index, copy.meta.sha256) or m.offset <= transfer.offset:
            return
        transfer.offset = m.offset
        transfer.moved_at = self._clock.monotonic()
        if m.offset < copy.meta.size:
            self._read(peer, m.offset)

    def finished(self, peer: str) -> None:
        """The follower goes on with entries (or is gone): nothing more to send."""
        if self._transfers.pop(peer, None) is not None and not self._transfers and not self._copying:
            self._discard()

    def tick(self) -> None:
        now = self._clock.monotonic()
        for peer, transfer in list(self._transfers.items()):
            waits = self._copying or (self._copy is not None and transfer.offset >= self._copy.meta.size)
            patience = self._options.snapshot_retry_ms / 1000 * (12 if waits else 1)
            if now - transfer.moved_at > patience:
                log.warning("%s does not take the snapshot: starting again", peer)
                self._give_up(peer)

    def _give_up(self, peer: str) -> None:
        self.finished(peer)
        self._failed(peer)

    def cancel(self) -> None:
        """Leadership ended or the node stops."""
        self._transfers.clear()
        if not self._copying:
            self._discard()

    def _discard(self) -> None:
        copy, self._copy = self._copy, None
        self._pin(None)
        if copy is not None:
            copy.path.unlink(missing_ok=True)


class Receiver:
    """The follower's side: one file at a time."""

    def __init__(
        self,
        directory: Path,
        side: Writer,
        guards: Guards,
        *,
        complete: Callable[[str, Path, SnapshotMeta], None],
        send: Callable[[str, Frame], bool],
    ) -> None:
        self._directory = directory
        self._side = side
        self._guards = guards
        self._complete = complete
        self._send = send
        self._number = 0
        self._path: Path | None = None
        self._meta: SnapshotMeta | None = None
        self._offset = 0
        self._digest: Any = None
        self._writing = False

    def chunk(self, peer: str, m: SnapshotChunk) -> None:
        """A chunk of a snapshot that is newer than this node's state."""
        meta = SnapshotMeta(m.index, m.snapshot_term, m.size, m.sha256)
        if self._writing:
            return
        if m.offset == 0 and (meta != self._meta or self._offset or self._path is None):
            self.discard()
            self._number += 1
            self._path = self._directory / f"receive-{self._number}.snap"
            self._meta, self._offset, self._digest = meta, 0, hashlib.sha256()
        elif self._guards.snapshot_verified and (meta != self._meta or m.offset != self._offset):
            return
        if not m.data or self._path is None:
            return
        self._writing = True
        path, digest = self._path, self._digest

        def job() -> None:
            with path.open("r+b" if m.offset else "wb") as file:
                file.seek(m.offset)
                file.write(m.data)
            digest.update(m.data)

        self._side.submit(job, lambda _, error: self._written(peer, m, error))

    def _written(self, peer: str, m: SnapshotChunk, error: BaseException | None) -> None:
        self._writing = False
        if error is not None:
            log.warning("a chunk of a snapshot could not be written: %s", error)
            self.discard()
            return
        meta, path = self._meta, self._path
        if meta is None or path is None:
            return
        self._offset = m.offset + len(m.data)
        if self._offset >= meta.size:
            if self._guards.snapshot_verified and (self._offset != meta.size or self._digest.digest() != meta.sha256):
                log.warning("a snapshot from %s arrived damaged; waiting for another", peer)
                self.discard()
                return
            self._path = None
            self.discard()
            self._complete(peer, path, meta)
        self._send(peer, SnapshotAnswer(m.term, m.index, m.sha256, min(m.offset + len(m.data), meta.size)))

    def discard(self) -> None:
        """Forgets what was received so far."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self._path = self._meta = None
        self._offset = 0

"""The leader's side: one copy of the state for all followers that need one, sent to each as fast as it takes it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol
from zlib import crc32

from raftsched.raft.codec import Frame, SnapshotAnswer, SnapshotChunk, SnapshotOffer
from raftsched.raft.consensus.journal import Journal
from raftsched.raft.guards import Guards
from raftsched.raft.measures import Measures
from raftsched.raft.options import RaftOptions
from raftsched.raft.snapshots import files
from raftsched.raft.writer import Writer
from raftsched.store.snapshot import SnapshotMeta
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)

_PATIENCE = 6  # offers without any progress before a transfer is given up
_LOG_EVERY_S = 1.0  # progress is logged no more often


class CopyStore(Protocol):
    def publish(self) -> None: ...
    def copy(self, target: Path) -> SnapshotMeta: ...
    def size_bytes(self) -> int: ...


@dataclass(slots=True)
class _Copy:
    path: Path
    meta: SnapshotMeta
    used_at: float  # monotonic seconds: somebody was being sent it


@dataclass(slots=True)
class _Transfer:
    """Progress of one follower. Times are monotonic seconds."""

    began_at: float
    moved_at: float  # it had more than before, or said that it has all
    offered_at: float | None = None  # the newest offer
    offer_open: bool = False  # that offer is not answered: nothing else is sent
    first: int | None = None  # bytes it had at the first answer
    acked: int = 0  # it has everything below
    sent: int = 0  # it was sent everything below
    reading: bool = False  # the next chunk is being read
    logged_at: float = 0.0
    logged_tenths: int = 0
    allowed: int = 0  # bytes that may be sent now,
    allowed_at: float = 0.0  # counted up to here


class Sender:
    """Offers, sends, repeats. Idle unless `begin` was called since the last `cancel`."""

    def __init__(
        self,
        store: CopyStore,
        journal: Journal,
        directory: Path,
        side: Writer,
        clock: Clock,
        options: RaftOptions,
        guards: Guards,
        *,
        send: Callable[[str, Frame], bool],
        failed: Callable[[str], None],
        measures: Measures,
    ) -> None:
        self._store = store
        self._journal = journal
        self._directory = directory
        self._side = side
        self._clock = clock
        self._options = options
        self._guards = guards
        self._send = send
        self._failed = failed
        self._measures = measures
        self._term = 0  # term of the leadership that sends; 0: none
        self._copy: _Copy | None = None
        self._copying = False
        self._copy_after = float("-inf")  # monotonic seconds: not tried again before
        self._number = 0
        self._transfers: dict[str, _Transfer] = {}

    @property
    def phase(self) -> str:
        """copying, sending, keeping or idle."""
        if self._copying:
            return "copying"
        if self._transfers:
            return "sending"
        return "idle" if self._copy is None else "keeping"

    @property
    def sends(self) -> bool:
        """A snapshot is being prepared for a follower, or sent to it."""
        return bool(self._transfers)

    # ------------------------------------------------------------ who needs one

    def begin(self, peer: str, term: int) -> None:
        """Starts a transfer to `peer`, which needs entries that the log has no more. `term`: of this node's
        leadership."""
        if not self._guards.no_empty_snapshot and self._copy is None:
            self._send(peer, SnapshotOffer(term, self._journal.applied_index, term, 0, b""))
            self._failed(peer)
        if term != self._term:
            self.cancel()
            self._term = term
        now = self._clock.monotonic()
        self._transfers[peer] = _Transfer(now, now)
        self._provide()

    def finished(self, peer: str) -> None:
        """Ends a transfer: the follower goes on with entries, or its connection is gone. The copy is kept for a while:
        it may come back and take up the transfer where it was."""
        if self._transfers.pop(peer, None) is not None and self._copy is not None:
            self._copy.used_at = self._clock.monotonic()

    def cancel(self) -> None:
        """Ends all transfers, because leadership ended or the node stops."""
        self._transfers.clear()
        self._term = 0
        if not self._copying:
            self._discard()

    def tick(self) -> None:
        """Repeats offers, gives up stuck transfers, and the copy that nobody needed for a while."""
        now, options = self._clock.monotonic(), self._options
        if not self._transfers:
            if self._copy is not None and now - self._copy.used_at > options.snapshot_keep_ms / 1000:
                self._discard()
            return
        self._provide()
        copy = self._copy
        if copy is None:
            return
        copy.used_at = now
        retry = options.snapshot_retry_ms / 1000
        for peer, transfer in list(self._transfers.items()):
            if now - transfer.moved_at > _PATIENCE * retry:
                log.warning(
                    "%s does not take the snapshot of entry %d (it has %d of %d bytes): beginning again",
                    *(peer, copy.meta.index, transfer.acked, copy.meta.size),
                    extra={"peer": peer},
                )
                self.finished(peer)
                self._failed(peer)
            elif transfer.offered_at is not None and now - max(transfer.offered_at, transfer.moved_at) > retry:
                self._offer(peer, transfer, copy)
            else:
                self._fill(peer, transfer, copy)

    # ------------------------------------------------------------ the copy

    def _provide(self) -> None:
        """Offers a copy to the followers that wait: the existing one, as long as the log goes on behind it, or a new
        one."""
        if self._copying:
            return
        now = self._clock.monotonic()
        copy = self._copy
        if copy is not None and copy.meta.index < self._journal.first_index - 1:
            log.info("the snapshot of entry %d is too old: what follows it is compacted away", copy.meta.index)
            self._begin_again()
        elif copy is not None:
            for peer, transfer in self._transfers.items():
                if transfer.offered_at is None:
                    transfer.moved_at = now
                    self._offer(peer, transfer, copy)
        if self._copy is None and self._transfers and now >= self._copy_after:
            self._make_copy()

    def _make_copy(self) -> None:
        self._copying = True
        self._number += 1
        path = files.sent_path(self._directory, self._number)
        size = self._store.size_bytes()
        self._keep_log(self._journal.applied_index, size)
        self._store.publish()

        def job() -> SnapshotMeta:
            files.require_room(self._directory, size, self._options.snapshot_reserve_bytes)
            return self._store.copy(path)

        self._side.submit(job, partial(self._copied, path))

    def _copied(self, path: Path, meta: SnapshotMeta | None, error: BaseException | None) -> None:
        self._copying = False
        now = self._clock.monotonic()
        if meta is None:
            log.warning("the state could not be copied for a snapshot, which is tried again: %s", error)
            self._copy_after = now + self._options.snapshot_retry_ms / 1000
            self._journal.unpin()
            return
        self._copy = _Copy(path, meta, now)
        self._keep_log(meta.index, meta.size)
        if self._term:  # any leadership will do: the state as of an entry is always the same
            self._provide()
        else:
            self._discard()

    def _keep_log(self, index: int, size: int) -> None:
        """Keeps the log behind a copy until it takes more space than the copy does: then a new copy is the
        shorter way."""
        self._journal.pin(index, max(size, self._options.keep_bytes))

    def _begin_again(self) -> None:
        """Begins all transfers again, without the existing copy."""
        self._discard()
        now = self._clock.monotonic()
        for peer in self._transfers:
            self._transfers[peer] = _Transfer(now, now)

    def _discard(self) -> None:
        copy, self._copy = self._copy, None
        self._journal.unpin()
        if copy is not None:
            files.remove(self._side, copy.path)

    # ------------------------------------------------------------ a transfer

    def _offer(self, peer: str, transfer: _Transfer, copy: _Copy) -> None:
        transfer.offer_open = True
        transfer.offered_at = self._clock.monotonic()
        meta = copy.meta
        self._send(peer, SnapshotOffer(self._term, meta.index, meta.term, meta.size, meta.sha256))

    def answered(self, peer: str, m: SnapshotAnswer) -> None:
        """Takes a follower's answer: how much it has."""
        transfer, copy = self._transfers.get(peer), self._copy
        if transfer is None or copy is None or m.term != self._term or transfer.offered_at is None:
            return
        meta = copy.meta
        if (m.index, m.sha256) != (meta.index, meta.sha256) or not 0 <= m.offset <= meta.size:
            return
        if transfer.offer_open:
            if not self._resumes(peer, transfer, copy, m.offset):
                return
        elif m.offset > transfer.acked:
            transfer.acked = m.offset
            transfer.sent = max(transfer.sent, m.offset)
            transfer.moved_at = self._clock.monotonic()
            self._log_progress(peer, transfer, meta)
        self._fill(peer, transfer, copy)

    def _resumes(self, peer: str, transfer: _Transfer, copy: _Copy, offset: int) -> bool:
        """Continues a transfer behind an answered offer; returns False when this copy is to be replaced."""
        now, meta = self._clock.monotonic(), copy.meta
        transfer.offer_open = False
        if transfer.first is None:
            transfer.first, transfer.moved_at = offset, now
            log.info(
                "%s is being sent the snapshot of entry %d: %d bytes, of which it has %d",
                *(peer, meta.index, meta.size, offset),
                extra={"peer": peer},
            )
        elif offset < transfer.acked:
            log.warning(
                "%s could not use %d of %d bytes of the snapshot of entry %d: going on at %d",
                *(peer, transfer.acked, meta.size, meta.index, offset),
                extra={"peer": peer},
            )
            if transfer.acked == meta.size and len(self._transfers) == 1:
                self._begin_again()  # it had all of it: this file may be what is damaged
                return False
        if offset == meta.size:
            transfer.moved_at = now  # it is making use of it
        transfer.acked = transfer.sent = offset
        return True

    def _log_progress(self, peer: str, transfer: _Transfer, meta: SnapshotMeta) -> None:
        now, tenths = transfer.moved_at, transfer.acked * 10 // meta.size
        if transfer.acked == meta.size:
            self._measures.snapshots_sent += 1
            size, seconds = meta.size - (transfer.first or 0), now - transfer.began_at
            log.info(
                "%s has the snapshot of entry %d: %d bytes in %.1f s",
                peer,
                meta.index,
                size,
                seconds,
                extra={"peer": peer},
            )
        elif tenths > transfer.logged_tenths and now - transfer.logged_at >= _LOG_EVERY_S:
            transfer.logged_tenths, transfer.logged_at = tenths, now
            log.info("%s has %d0 %% of the snapshot of entry %d", peer, tenths, meta.index, extra={"peer": peer})

    def _fill(self, peer: str, transfer: _Transfer, copy: _Copy) -> None:
        """Reads the next chunk when the window has room for it and the rate allows it."""
        options = self._options
        offset = transfer.sent
        size = min(options.snapshot_chunk_bytes, copy.meta.size - offset)
        if transfer.offered_at is None or transfer.offer_open or transfer.reading or size <= 0:
            return
        if offset + size - transfer.acked > options.snapshot_window_bytes:
            return
        if not self._may_send(transfer, size):
            return  # the tick comes back to it
        transfer.reading = True

        def job() -> tuple[bytes, int]:
            with copy.path.open("rb") as file:
                file.seek(offset)
                data = file.read(size)
            if len(data) != size:
                raise OSError(f"{copy.path} is shorter than it was")
            return data, crc32(data)

        self._side.submit(job, partial(self._read, peer, transfer, copy, offset))

    def _may_send(self, transfer: _Transfer, size: int) -> bool:
        """Returns whether `size` bytes may be sent by now, and counts them. A follower that catches up is in no
        hurry, and all others wait for the same processors, disks and cables. At most a window of unused allowance
        is saved up."""
        options, now = self._options, self._clock.monotonic()
        if not options.snapshot_bytes_per_s:
            return True
        grown = int((now - transfer.allowed_at) * options.snapshot_bytes_per_s / len(self._transfers))
        if grown > 0:
            transfer.allowed = min(transfer.allowed + grown, options.snapshot_window_bytes)
            transfer.allowed_at = now
        if transfer.allowed < size:
            return False
        transfer.allowed -= size
        return True

    def _read(
        self,
        peer: str,
        transfer: _Transfer,
        copy: _Copy,
        offset: int,
        chunk: tuple[bytes, int] | None,
        error: BaseException | None,
    ) -> None:
        transfer.reading = False
        if self._transfers.get(peer) is not transfer or self._copy is not copy:
            return
        if chunk is None:
            log.warning("a snapshot cannot be read, and another one is made: %s", error)
            self._copy_after = self._clock.monotonic() + self._options.snapshot_retry_ms / 1000
            self._begin_again()
            return
        if not transfer.offer_open and transfer.sent == offset:
            data, checksum = chunk
            transfer.sent += len(data)
            self._send(peer, SnapshotChunk(self._term, copy.meta.index, offset, checksum, data))
        self._fill(peer, transfer, copy)

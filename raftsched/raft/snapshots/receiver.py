"""Receives a snapshot as the follower: one file at a time, written in order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zlib import crc32

from raftsched.raft.codec import Frame, SnapshotAnswer, SnapshotChunk, SnapshotOffer
from raftsched.raft.guards import Guards
from raftsched.raft.options import RaftOptions
from raftsched.raft.snapshots import files
from raftsched.raft.writer import Writer
from raftsched.store.snapshot import SnapshotMeta

log = logging.getLogger(__name__)

_QUEUE_WINDOWS = 4  # windows of chunks that may wait for the disk; a sender keeps to one


@dataclass(slots=True)
class Incoming:
    """A snapshot on its way in."""

    peer: str  # the sender, leader of `term`
    term: int
    meta: SnapshotMeta
    path: Path
    queued: int = 0  # everything below has arrived
    written: int = 0  # everything below is in the file
    answer_due: bool = False  # an offer waits for its answer
    dropped: bool = False  # not wanted any more; jobs for it may be on their way

    @property
    def complete(self) -> bool:
        return self.written >= self.meta.size


class Receiver:
    """Gathers an offered snapshot. A complete file is handed to `complete` and stays until `discard`."""

    def __init__(
        self,
        directory: Path,
        side: Writer,
        options: RaftOptions,
        guards: Guards,
        *,
        send: Callable[[str, Frame], bool],
        complete: Callable[[Incoming], None],
    ) -> None:
        self.incoming: Incoming | None = None
        self._directory = directory
        self._side = side
        self._options = options
        self._guards = guards
        self._send = send
        self._complete = complete
        self._refused: SnapshotMeta | None = None  # logged already

    def offered(self, peer: str, m: SnapshotOffer) -> None:
        """Answers with the offset from which on this snapshot is missing. While a complete one is being installed
        another offer gets no answer: it comes again."""
        meta = SnapshotMeta(m.index, m.snapshot_term, m.size, m.sha256)
        incoming = self.incoming
        if incoming is not None and incoming.meta != meta:
            if incoming.complete:
                return
            if self._guards.snapshot_verified:
                self.discard()
            else:
                incoming.meta = meta
        incoming = self.incoming or self._start(peer, m.term, meta)
        if incoming is None:
            return
        incoming.peer, incoming.term = peer, m.term
        incoming.answer_due = True
        self._answer(incoming)

    def _start(self, peer: str, term: int, meta: SnapshotMeta) -> Incoming | None:
        if meta.size <= 0:
            return None
        try:
            files.require_room(self._directory, meta.size, self._options.snapshot_reserve_bytes)
        except OSError as error:
            if self._refused != meta:
                self._refused = meta
                log.warning(
                    "the snapshot of entry %d from %s is not taken: %s", meta.index, peer, error, extra={"peer": peer}
                )
            return None
        path = files.received_path(self._directory, meta.index, meta.sha256)
        self.incoming = incoming = Incoming(peer, term, meta, path)
        return incoming

    def chunk(self, peer: str, m: SnapshotChunk) -> None:
        """Writes a chunk. One that does not follow exactly is dropped: the next offer's answer tells the sender where
        to go on."""
        incoming = self.incoming
        if incoming is None or incoming.complete or not m.data:
            return
        if self._guards.snapshot_verified and not self._follows(incoming, peer, m):
            return
        incoming.queued = end = m.offset + len(m.data)

        def job() -> None:
            with incoming.path.open("r+b" if m.offset else "wb") as file:
                file.seek(m.offset)
                file.write(m.data)

        self._side.submit(job, partial(self._written, incoming, end))

    def _follows(self, incoming: Incoming, peer: str, m: SnapshotChunk) -> bool:
        if (peer, m.term, m.index, m.offset) != (incoming.peer, incoming.term, incoming.meta.index, incoming.queued):
            return False
        end = m.offset + len(m.data)
        waiting = end - incoming.written
        if end > incoming.meta.size or waiting > _QUEUE_WINDOWS * self._options.snapshot_window_bytes:
            return False
        if crc32(m.data) != m.checksum:
            log.warning("a chunk of a snapshot from %s arrived damaged", peer, extra={"peer": peer})
            return False
        return True

    def _written(self, incoming: Incoming, end: int, _: None, error: BaseException | None) -> None:
        if incoming.dropped:
            return
        if error is not None:
            log.warning(
                "a snapshot from %s could not be written: %s", incoming.peer, error, extra={"peer": incoming.peer}
            )
            self.discard()
            return
        incoming.written = end
        self._answer(incoming)
        if incoming.complete:
            self._complete(incoming)

    def _answer(self, incoming: Incoming) -> None:
        """Answers an offer once everything that came before it is written, so that nothing comes twice."""
        if incoming.answer_due and incoming.written < incoming.queued:
            return
        incoming.answer_due = False
        meta = incoming.meta
        offset = min(incoming.written, meta.size)
        self._send(incoming.peer, SnapshotAnswer(incoming.term, meta.index, meta.sha256, offset))

    def discard(self) -> None:
        """Forgets what was received so far."""
        incoming, self.incoming = self.incoming, None
        if incoming is not None:
            incoming.dropped = True
            files.remove(self._side, incoming.path)

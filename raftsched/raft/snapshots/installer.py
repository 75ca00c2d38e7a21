"""Installs a leader's snapshot as this node's state: received, made ready beside the store, swapped in."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from raftsched.raft.codec import AppendAnswer, Frame, SnapshotChunk, SnapshotOffer
from raftsched.raft.consensus.engine import Engine
from raftsched.raft.consensus.journal import Journal
from raftsched.raft.guards import Guards
from raftsched.raft.options import RaftOptions
from raftsched.raft.snapshots.receiver import Incoming, Receiver
from raftsched.raft.writer import Action, WriteDriver, Writer
from raftsched.store.snapshot import SnapshotMeta

log = logging.getLogger(__name__)


class SwapStore(Protocol):
    def prepare(self, source: Path, meta: SnapshotMeta) -> Any: ...
    def publish(self) -> None: ...
    def swap(self, fresh: Any) -> None: ...
    def discard(self, fresh: Any) -> None: ...


class Installer:
    """The follower's side. Until a file is ready to be swapped in, this node goes on as it is: it votes, and appends
    entries that match. From then until the swap is done `engine.installing` is true and appends are ignored, so that no
    entry is acknowledged that goes with the old state."""

    def __init__(
        self,
        store: SwapStore,
        engine: Engine,
        journal: Journal,
        driver: WriteDriver,
        directory: Path,
        side: Writer,
        options: RaftOptions,
        guards: Guards,
        *,
        send: Callable[[str, Frame], bool],
        hold: Callable[[Action], None],
        wake: Action,
        installed: Action,
    ) -> None:
        self._store = store
        self._engine = engine
        self._journal = journal
        self._driver = driver
        self._side = side
        self._guards = guards
        self._send = send
        self._hold = hold
        self._wake = wake
        self._installed = installed
        self._receiver = Receiver(directory, side, options, guards, send=send, complete=self._received)

    @property
    def incoming(self) -> Incoming | None:
        """The snapshot that is being received or installed."""
        return self._receiver.incoming

    def receive(self, peer: str, m: SnapshotOffer | SnapshotChunk) -> None:
        """Handles a message of `peer`, which leads the term that it names: an older one is told the newer term."""
        engine = self._engine
        if m.term < engine.term:
            self._send(peer, AppendAnswer(engine.term, 0, False, False))
            return
        engine.follow(peer, m.term)
        if engine.installing:
            return
        if isinstance(m, SnapshotChunk):
            self._receiver.chunk(peer, m)
        elif self._has(m.index, m.snapshot_term):
            self._send_next_index(peer)
        else:
            self._receiver.offered(peer, m)

    def tick(self) -> None:
        """Drops a snapshot that entries have made superfluous."""
        incoming = self._receiver.incoming
        if incoming is not None and not self._engine.installing and self._is_superfluous(incoming.meta):
            self._drop(incoming)

    def cancel(self) -> None:
        """Drops what was received: the node stops."""
        self._receiver.discard()

    # ------------------------------------------------------------ never over a newer state

    def _is_superfluous(self, meta: SnapshotMeta) -> bool:
        return self._engine.is_leader or self._has(meta.index, meta.term)

    def _has(self, index: int, term: int) -> bool:
        """Returns whether this node has everything that a snapshot of this entry holds."""
        journal = self._journal
        if not self._guards.snapshot_never_rewinds:
            return False
        if index > journal.commit_index:
            if journal.term(index) != term:
                return False
            self._engine.commit_to(index)  # a snapshot holds what is committed, and here is the same entry
        return True

    def _drop(self, incoming: Incoming) -> None:
        log.info("the snapshot of entry %d is not needed any more", incoming.meta.index)
        self._receiver.discard()
        if not self._engine.is_leader:
            self._send_next_index(self._engine.leader_id or incoming.peer)

    def _send_next_index(self, peer: str) -> None:
        answer = AppendAnswer(self._engine.term, self._journal.commit_index + 1, True, False)
        self._hold(lambda: self._answer(peer, answer))

    def _answer(self, peer: str, answer: AppendAnswer) -> None:
        self._send(peer, answer)

    # ------------------------------------------------------------ from the file to the state

    def _received(self, incoming: Incoming) -> None:
        path, meta = incoming.path, incoming.meta
        log.info(
            "the snapshot of entry %d from %s is complete: %d bytes",
            meta.index,
            incoming.peer,
            meta.size,
            extra={"peer": incoming.peer},
        )
        self._side.submit(lambda: self._store.prepare(path, meta), partial(self._prepared, incoming))

    def _prepared(self, incoming: Incoming, fresh: Any, error: BaseException | None) -> None:
        meta = incoming.meta
        if error is not None:
            log.warning(
                "the snapshot of entry %d from %s is of no use: %s",
                meta.index,
                incoming.peer,
                error,
                extra={"peer": incoming.peer},
            )
            if not incoming.dropped:
                self._receiver.discard()  # the leader's next offer finds nothing here, and it sends it again
            return
        if not incoming.dropped and self._is_superfluous(meta):
            self._drop(incoming)
        if incoming.dropped:
            self._side.submit(lambda: self._store.discard(fresh), self._discarded)
            return
        self._engine.installing = True  # from now on nothing is applied, either
        self._store.publish()
        self._driver.exclusive(lambda: self._store.swap(fresh), lambda _: self._swapped(incoming))
        self._wake()

    def _discarded(self, _: None, error: BaseException | None) -> None:
        if error is not None:
            log.warning("a snapshot that is not needed could not be deleted: %s", error)

    def _swapped(self, incoming: Incoming) -> None:
        engine, meta = self._engine, incoming.meta
        log.info(
            "%s loaded the snapshot of entry %d from %s",
            engine.node_id,
            meta.index,
            incoming.peer,
            extra={"peer": incoming.peer},
        )
        self._receiver.discard()
        self._journal.reset(meta)
        self._installed()
        engine.measures.snapshots_loaded += 1
        engine.installed(engine.leader_id or incoming.peer)
        self._wake()

"""Workers with one rule out, each as a patch for as long as a run lasts: those of nodes and remote ones alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from raftsched.core import commands as c
from raftsched.core.apply import dispatch
from raftsched.core.apply.cluster import membership
from raftsched.core.apply.tx import Tx
from raftsched.core.model import Outcome
from raftsched.remote import polls
from raftsched.worker.session import lease_holder, own_node, worker

ALWAYS_HIGHER = 2**62


@contextmanager
def lease_from_receipt() -> Iterator[None]:
    """A worker counts its lease from when the grant came, not from when it had asked."""
    real = lease_holder.LeaseHolder.grant

    def grant(self: Any, session: int, sent_ms: int, d_ms: int, now: int) -> bool:
        if sent_ms in self._sent and now not in self._sent:
            self._sent.append(now)
        return real(self, session, now, d_ms, now)

    with patch.object(lease_holder.LeaseHolder, "grant", grant):
        yield


@contextmanager
def taken_forgotten() -> Iterator[None]:
    """A worker starts what it is given as often as it is given."""
    real = worker.Worker.given

    def given(self: Any, token: int, what: Any) -> None:
        real(self, token, what)
        self.newest = 0

    with patch.object(worker.Worker, "given", given):
        yield


@contextmanager
def only_notifications() -> Iterator[None]:
    """A node's worker starts what it is told of, and does not look at what the state gives it."""
    with patch.object(own_node.OwnNode, "_take_given", lambda self, view: None):
        yield


@contextmanager
def any_session_adopted() -> Iterator[None]:
    """A node's worker goes on under a session that a process before it has opened."""
    real = own_node.OwnNode._look_at_session

    def look(self: Any) -> None:
        with self._read() as view:
            row = own_node.newest_session(view, self._node_id)[1]
            self._nonce = None if row is None else row.nonce
        real(self)

    with patch.object(own_node.OwnNode, "_look_at_session", look):
        yield


@contextmanager
def lost_goes_on() -> Iterator[None]:
    """A worker whose run was ended for the lease's sake goes on with its session."""
    real = worker.Worker._on_ended

    def ended(self: Any, token: int, end: Any) -> None:
        if end.outcome is not Outcome.LOST:
            real(self, token, end)

    with patch.object(worker.Worker, "_on_ended", ended):
        yield


@contextmanager
def lost_is_reported() -> Iterator[None]:
    """A run that was ended for the lease's sake is told of as one that has failed."""
    real = worker.Worker._on_ended

    def ended(self: Any, token: int, end: Any) -> None:
        failed = end.outcome is Outcome.LOST
        real(self, token, msgspec.structs.replace(end, outcome=Outcome.FAILED) if failed else end)

    with patch.object(worker.Worker, "_on_ended", ended):
        yield


@contextmanager
def dead_supervisor_unnoticed() -> Iterator[None]:
    """A worker whose supervisor is dead keeps its session, and has more of the lease granted."""
    with (
        patch.object(worker.Worker, "_on_died", lambda self: None),
        patch.object(worker.Worker, "may_renew", property(lambda self: True)),
    ):
        yield


@contextmanager
def earlier_ends_untold() -> Iterator[None]:
    """A session is opened before the ends are told that were of the one before."""

    async def nothing(self: Any) -> None: ...

    with (
        patch.object(own_node.OwnNode, "_all_ends", lambda self: []),
        patch.object(polls.Polls, "_say_earlier_ends", nothing),
    ):
        yield


@contextmanager
def kept_ends_untold() -> Iterator[None]:
    """The ends that an earlier process kept on the disk are not told."""
    with (
        patch.object(own_node.OwnNode, "restore", lambda self, ends: None),
        patch.object(polls.Polls, "restore", lambda self, ends: None),
    ):
        yield


@contextmanager
def handed_back_alive() -> Iterator[None]:
    """A worker that stops hands back its runs, and ends them then."""
    real = worker.Worker.stop

    async def stop(self: Any) -> None:
        await self._close()
        if self.session:
            await self._link.close(self.session, tuple(self.runs))
        await real(self)

    with patch.object(worker.Worker, "stop", stop):
        yield


# ---------------------------------------------------------------- openings of remote workers, as apply takes them


def _opens(command: type, handler: Any) -> Any:
    return patch.dict(dispatch.HANDLERS, {command: handler})


@contextmanager
def any_opening_replaces() -> Iterator[None]:
    """An opening ends the session of the same process, though a later one opened it."""

    def opened(tx: Tx, command: c.OpenWorker) -> c.Answer:
        earlier = tx.session(command.replaces) if command.replaces else None
        number = max(command.opening, earlier.opening + 1 if earlier is not None else 0)
        return membership.open_worker(tx, msgspec.structs.replace(command, opening=number))

    with _opens(c.OpenWorker, opened):
        yield


@contextmanager
def any_process_replaces() -> Iterator[None]:
    """An opening ends the session of whoever has the name."""

    def opened(tx: Tx, command: c.OpenWorker) -> c.Answer:
        earlier = tx.session(command.replaces) if command.replaces else None
        if earlier is not None and earlier.boot_id != command.incarnation:
            command = msgspec.structs.replace(command, incarnation=earlier.boot_id, opening=ALWAYS_HIGHER)
        return membership.open_worker(tx, command)

    with _opens(c.OpenWorker, opened):
        yield

"""Remote workers with one rule out, each as a patch for as long as a run lasts; what they share with nodes is in
broken.py."""

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
from raftsched.remote import reports
from tests.sim.jobs import broken

ALWAYS_HIGHER = 2**62


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


@contextmanager
def any_report_counts() -> Iterator[None]:
    """A report ends whatever attempt of its instance is live; nodes pass all on."""

    async def made(self: Any, session: int, since_ms: int, told: Any) -> Any:
        return [(report, self._command(session, since_ms, report, None)) for report in told], []

    with patch.object(reports.Commands, "of", made), broken.reports_of_old_tokens():
        yield

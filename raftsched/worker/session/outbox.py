"""Sends the commands of a worker to the log, many in one proposal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from raftsched.errors import RaftschedError
from raftsched.system.clock import Clock
from raftsched.worker.ports import Raft
from raftsched.worker.session.reports import Reports

FLUSH_S = 0.004  # what arises within this travels together
BATCH_MAX = 500  # commands in one proposal

log = logging.getLogger(__name__)


class Outbox:
    def __init__(self, node_id: str, raft: Raft, reports: Reports, clock: Clock, first: Callable[[], None]) -> None:
        """`first`: done before each proposal."""
        self._node_id = node_id
        self._raft = raft
        self._reports = reports
        self._clock = clock
        self._first = first
        self._commands: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, commands: Sequence[bytes]) -> None:
        if commands:
            self._commands += commands
            self.soon()

    def soon(self) -> None:
        """There is something, here or among the reports."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._first()
        commands = [*self._commands, *self._reports.take_fresh(self._clock.boot_ms())]
        self._commands.clear()
        try:
            for at in range(0, len(commands), BATCH_MAX):
                self._raft.submit(commands[at : at + BATCH_MAX])
        except RaftschedError as exc:  # ends are proposed again by and by
            log.info("%s: reports wait: %s", self._node_id, exc)

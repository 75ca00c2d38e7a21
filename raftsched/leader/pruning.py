"""Proposes the removal of what is past its retention."""

from __future__ import annotations

import logging
from collections.abc import Callable

from raftsched.core.commands import Accepted, Prune, encode
from raftsched.core.tables import Table, from_u64
from raftsched.errors import RaftschedError
from raftsched.leader.raft_port import Host

ROWS = 250  # of one command: the write batch that drops them keeps all others waiting
EVERY_MS = 1_000
ORIGINS_EVERY_MS = 10 * 60_000  # proposers that are idle go with any prune, if only with this one
TIMEOUT_S = 10.0

log = logging.getLogger("raftsched.leader")


class Pruning:
    """The pruning of one leadership. It looks by the boot clock; what is due is a matter of wall time."""

    def __init__(self, host: Host, is_current: Callable[[], bool], since_ms: int) -> None:
        self._host = host
        self._is_current = is_current
        self._next_ms = 0
        self._next_origins_ms = since_ms + ORIGINS_EVERY_MS
        self._running = False

    def tick(self, now_ms: int) -> None:
        boot_ms = self._host.clock.boot_ms()
        if self._running or boot_ms < self._next_ms:
            return
        self._next_ms = boot_ms + EVERY_MS
        if boot_ms < self._next_origins_ms:
            with self._host.read() as view:
                first = next(iter(view.scan(Table.PURGE)), None)
            if first is None or from_u64(first[0][:8]) > now_ms:
                return
        self._next_origins_ms = boot_ms + ORIGINS_EVERY_MS
        self._running = True
        self._host.spawn(self._prune(now_ms))

    async def _prune(self, until_ms: int) -> None:
        """One bounded command after the other, so that other writes get through in between."""
        try:
            while self._is_current():
                done = (await self._host.raft.propose([encode(Prune(until_ms, ROWS))], TIMEOUT_S))[0]
                if not isinstance(done, Accepted) or (done.number or 0) < ROWS:
                    return
        except RaftschedError as error:
            log.warning("retention was interrupted: %s", error)
        finally:
            self._running = False

"""Promotes due times that were far ahead (DUE_LATER) to near ones (DUE), in time for the leader's window.

The next day but one comes near bit by bit, while a whole day is left for it. What is due before that, after an outage
of the whole cluster above all, comes at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from raftsched.core.commands import Accepted, PromoteDue, encode
from raftsched.core.rows import read_meta
from raftsched.core.tables import day_key, due_day
from raftsched.errors import RaftschedError
from raftsched.leader.raft_port import Host

ROWS = 500  # of one command
EVERY_MS = 1_000
AT_ONCE_DAYS = 2  # today and tomorrow, much longer than the leader's window
SOON_DAYS = 3
TIMEOUT_S = 10.0

log = logging.getLogger("raftsched.leader")


class DuePromotion:
    """The far due times of one leadership. It looks by the boot clock; what is far is a matter of wall time."""

    def __init__(self, host: Host, is_current: Callable[[], bool]) -> None:
        self._host = host
        self._is_current = is_current
        self._next_ms = 0
        self._running = False

    def tick(self, now_ms: int) -> None:
        boot_ms = self._host.clock.boot_ms()
        if self._running or boot_ms < self._next_ms:
            return
        self._next_ms = boot_ms + EVERY_MS
        with self._host.read() as view:
            due_boundary = read_meta(view).due_boundary
        today = due_day(max(0, now_ms))
        if due_boundary >= day_key(today + SOON_DAYS):
            return
        at_once = day_key(today + AT_ONCE_DAYS) > due_boundary > b""
        self._running = True
        self._host.spawn(self._promote(today + (AT_ONCE_DAYS if at_once else SOON_DAYS), at_once))

    async def _promote(self, until_day: int, at_once: bool) -> None:
        """One bounded command; at once: one after the other, so that other writes get through in between."""
        try:
            while self._is_current():
                done = (await self._host.raft.propose([encode(PromoteDue(until_day, ROWS))], TIMEOUT_S))[0]
                if not at_once or not isinstance(done, Accepted) or (done.number or 0) < ROWS:
                    return
        except RaftschedError as error:
            log.warning("bringing due times near was interrupted: %s", error)
        finally:
            self._running = False

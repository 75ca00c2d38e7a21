"""A leader whose disk is nearly full hands leadership over to a member that has room: writes go on then.

Where so many disks are full that a majority would be left without one, it stays: nobody could take writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Set
from typing import Any

from raftsched.errors import RaftschedError
from raftsched.leader.liveness.vitals import Vitals
from raftsched.leader.raft_port import RaftFacade

FIRST_MS = 2_000  # after a leadership begins: leaders whose disks are nearly full must not alternate without end
AGAIN_MS = 10_000
TIMEOUT_S = 5.0

log = logging.getLogger("raftsched.leader")


class Handover:
    """The handover of one leadership. Times are boot-clock milliseconds."""

    def __init__(self, raft: RaftFacade, spawn: Callable[[Coroutine[Any, Any, None]], None], since_ms: int) -> None:
        self._raft = raft
        self._spawn = spawn
        self._look_ms = since_ms + FIRST_MS

    def tick(self, vitals: Vitals, voters: Set[str], now_ms: int) -> None:
        if now_ms < self._look_ms:
            return
        to = vitals.has_room(voters, self._raft.node_id, now_ms)
        if to is not None:
            self._look_ms = now_ms + AGAIN_MS
            log.warning("this node's disk is nearly full; leadership is handed over to %s", to)
            self._spawn(self._hand_over(to))

    async def _hand_over(self, to: str) -> None:
        try:
            await self._raft.transfer(to, TIMEOUT_S)
        except RaftschedError as error:
            log.warning("leadership was not handed over to %s: %s", to, error)

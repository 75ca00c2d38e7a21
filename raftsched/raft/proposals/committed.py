"""The leader's commit index, asked by message: how far a node has to apply before it may say that something that was
made elsewhere does not exist.

It costs a message there and one back, and no entry of the log as a barrier does. All calls that come while a question
is on its way share the next one. A leader answers only while it heard of a majority lately, so one that has been cut
off keeps silent. For a moment after it was deposed it may not know, so this is no proof as a barrier is one, and no
promise rests on it.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Protocol

from raftsched.system.clock import Clock

QUESTION, ANSWER = "committed?", "committed"
ANSWER_S = 1.0  # a question without an answer for so long is lost
SILENT_S = 5.0  # a leader that did not answer (it may be of an older version) is not asked again for so long
FRESH_MS = 900  # below RaftOptions.election_min_ms: as long as connections hold nobody else is elected so soon
_PAIR = struct.Struct(">QQ")  # number of the question, index


class Port(Protocol):
    """The methods of raft.facade.Raft that are used here."""

    @property
    def leader_id(self) -> str | None: ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def commit_index(self) -> int: ...

    def quorum_sent_at_ms(self) -> int | None: ...

    def send(self, peer: str, kind: str, payload: bytes) -> bool: ...

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None: ...


class Committed:
    """Asks and answers the question, on every node."""

    def __init__(self, raft: Port, clock: Clock) -> None:
        self._raft = raft
        self._clock = clock
        self._number = 0  # number of the question on its way
        self._waiting: list[asyncio.Future[int | None]] = []  # calls that wait for its answer
        self._next: list[asyncio.Future[int | None]] = []  # calls that came later
        self._silent: tuple[str, float] | None = None  # a leader, until when
        raft.on_message(QUESTION, self._on_question)
        raft.on_message(ANSWER, self._on_answer)

    async def index(self, timeout: float) -> int | None:
        """Returns the leader's commit index, as of this call or later. None: there is no leader, or none that answered
        within `timeout` (seconds)."""
        if self._leader_to_ask() is None:
            return None
        waiter = asyncio.get_running_loop().create_future()
        self._next.append(waiter)
        if not self._waiting:
            self._ask()
        try:
            async with asyncio.timeout(timeout):
                found: int | None = await waiter
                return found
        except TimeoutError:
            return None

    def _leader_to_ask(self) -> str | None:
        leader = self._raft.leader_id
        if self._silent is not None and self._silent[0] == leader and self._clock.monotonic() < self._silent[1]:
            return None
        return leader

    def _ask(self) -> None:
        """Asks the leader, for all calls that wait."""
        self._number += 1
        self._waiting, self._next = self._next, []
        leader = self._leader_to_ask()
        if leader is None or not self._raft.send(leader, QUESTION, _PAIR.pack(self._number, 0)):
            self._resolve(None)
        else:
            asyncio.get_running_loop().call_later(ANSWER_S, self._lost, self._number, leader)

    def _resolve(self, index: int | None) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(index)
        if self._next:
            self._ask()

    def _lost(self, number: int, leader: str) -> None:
        if number == self._number and self._waiting:
            self._silent = (leader, self._clock.monotonic() + SILENT_S)
            self._resolve(None)

    def _on_question(self, peer: str, payload: bytes) -> None:
        number, _ = _PAIR.unpack(payload)
        raft = self._raft
        since = raft.quorum_sent_at_ms() if raft.is_leader else None
        fresh = since is not None and self._clock.boot_ms() - since < FRESH_MS
        raft.send(peer, ANSWER, _PAIR.pack(number, raft.commit_index if fresh else 0))

    def _on_answer(self, peer: str, payload: bytes) -> None:
        number, index = _PAIR.unpack(payload)
        if number == self._number and self._waiting:
            self._resolve(index or None)

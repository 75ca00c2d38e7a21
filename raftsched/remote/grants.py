"""Passes on to the leader what remote workers ask of it: may they hold on? Requests of some 20 ms travel in one
message, and are sent again when the leader changed, or did not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from raftsched.core.subjects.leasing import BEATS_MAX, WorkerBeat, WorkerBeats, decode_grants, encode
from raftsched.system.clock import Clock
from raftsched.worker.ports import Raft

GATHER_S = 0.02
LOOK_S = 0.05  # between two looks at what was not answered, and
REPEAT_MS = 250  # after so long it is sent again

log = logging.getLogger(__name__)


class Request:
    """One request of a worker. `lease_ms`: from when the worker sent it; 0: there is no answer yet."""

    __slots__ = ("beat", "granted", "lease_ms", "sent_at_ms", "sent_to")

    def __init__(self, beat: WorkerBeat, granted: Callable[[], None]) -> None:
        """`granted`: called when there is an answer."""
        self.beat = beat
        self.granted = granted
        self.lease_ms = 0
        self.sent_to: str | None = None
        self.sent_at_ms = 0


class Grants:
    """The requests at hand on this node."""

    def __init__(self, raft: Raft, clock: Clock, first: int = 0) -> None:
        """`first`: where the numbers of requests begin: not where an earlier run of this node began, whose grants may
        still be on their way."""
        self._raft = raft
        self._clock = clock
        self._last = first  # number of a request
        self._open: dict[int, Request] = {}  # by number
        self._fresh: dict[int, Request] = {}  # by session: the newest, which was not sent yet
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._raft.on_message("worker_grants", self._on_grants)

    def stop(self) -> None:
        for timer in (self._timer, self._look):
            if timer is not None:
                timer.cancel()
        self._timer = self._look = None
        self._open.clear()
        self._fresh.clear()

    def ask(self, session: int, pause_ms: int, trouble: str, granted: Callable[[], None]) -> Request:
        """Returns the request, which is sent in a moment. Whoever is not interested any more has to `forget` it."""
        self._last += 1
        request = self._open[self._last] = Request(WorkerBeat(session, self._last, pause_ms, trouble), granted)
        before = self._fresh.get(session)
        if before is not None and before.beat.request in self._open:  # that one waits for an answer of its own
            self._send([before])
        self._fresh[session] = request
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._flush)
        return request

    def hurry(self, request: Request) -> None:
        """Sends it now, and all that wait: somebody can go on as soon as it is answered."""
        if self._fresh.get(request.beat.session) is request:
            self._flush()

    def forget(self, request: Request) -> None:
        """Nobody waits for its answer. The leader hears of it all the same: its worker was there."""
        self._open.pop(request.beat.request, None)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        fresh, self._fresh = list(self._fresh.values()), {}
        self._send(fresh)

    def _send(self, requests: list[Request]) -> None:
        leader, now = self._raft.leader_id, self._clock.boot_ms()
        for request in requests:
            request.sent_to, request.sent_at_ms = leader, now
        if leader is not None:
            for at in range(0, len(requests), BEATS_MAX):
                beats = WorkerBeats(tuple(request.beat for request in requests[at : at + BEATS_MAX]))
                self._raft.send(leader, "worker_beats", encode(beats))
        if self._look is None and self._open:
            self._look = asyncio.get_running_loop().call_later(LOOK_S, self._repeat)

    def _repeat(self) -> None:
        self._look = None
        leader, late = self._raft.leader_id, self._clock.boot_ms() - REPEAT_MS
        again = [
            request
            for request in self._open.values()
            if not request.lease_ms
            and self._fresh.get(request.beat.session) is not request
            and (request.sent_to != leader or request.sent_at_ms <= late)
        ]
        waits = any(not request.lease_ms for request in self._open.values())
        if again and leader is not None:
            self._send(again)
        if waits and self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_S, self._repeat)

    def _on_grants(self, peer: str, payload: bytes) -> None:
        try:
            answer = decode_grants(payload)
        except msgspec.DecodeError:
            log.warning("grants for workers from %s cannot be read", peer, extra={"peer": peer})
            return
        for session, number, lease_ms in answer.grants:
            request = self._open.get(number)
            if request is not None and request.beat.session == session and not request.lease_ms and lease_ms > 0:
                request.lease_ms = lease_ms
                request.granted()

"""One leadership after the other: established when its opening entry is applied, revoked at step-down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from raftsched.core.entry import EntryResult
from raftsched.core.rules.executors import is_worker
from raftsched.core.subjects.leasing import (
    DiskUse,
    Grant,
    WorkerGrants,
    decode_beats,
    decode_finished,
    decode_heartbeat,
)
from raftsched.core.subjects.leasing import encode as encode_message
from raftsched.leader.due.window import COUNT_MAX
from raftsched.leader.raft_port import RaftFacade
from raftsched.leader.state import TICK_MS, LeaderState
from raftsched.store import StoreView
from raftsched.system import background
from raftsched.system.clock import Clock
from raftsched.system.machine import ZoneFiles

if TYPE_CHECKING:
    from raftsched.leader.due.fire_traces import FireTraces

FOLLOWS_MS = 1_000  # between two looks of a node that does not lead; it is told when it does
STALLED_MS = 20 * TICK_MS  # so long the loop never sleeps

log = logging.getLogger("raftsched.leader")


class Leader:
    """The leader's chores on the event loop. `start` and `stop` once per node; leadership comes and goes between."""

    def __init__(
        self,
        raft: RaftFacade,
        read: Callable[[], AbstractContextManager[StoreView]],
        clock: Clock,
        *,
        window_ms: int | None = None,
        window_count: int = COUNT_MAX,
        fire_traces: FireTraces | None = None,
        zones: ZoneFiles | None = None,
    ) -> None:
        """`fire_traces`: None: fires have none. `zones`: the time zone data of this node; None: nobody looks at it."""
        self._raft = raft
        self._read = read
        self._clock = clock
        self._window_ms = window_ms
        self._window_count = window_count
        self._fire_traces = fire_traces
        self._zones = zones
        self._state: LeaderState | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Task[None] | None = None
        self._ticked_ms = 0  # when the loop came by, boot clock
        self._stopped = False
        self._poke = asyncio.Event()

    def start(self) -> None:
        self._ticked_ms = self._clock.boot_ms()
        self._timer = background.start("leader", self._run())

    async def stop(self) -> None:
        self._stopped = True
        self._state = None
        tasks = [t for t in (self._timer, *self._tasks) if t is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def established(self) -> bool:
        return self._state is not None

    def due_soon(self) -> int:
        """Returns how many fire times are in memory; 0 on followers."""
        return 0 if self._state is None else len(self._state.firing.window)

    def loads(self) -> dict[str, tuple[int, int]]:
        """Returns (running, slots) by node id, as this leadership counts; empty on followers."""
        if self._state is None:
            return {}
        return {k: (n.running, n.slots) for k, n in self._state.dispatcher.loads().items()}

    def heartbeat_ages(self) -> dict[str, int]:
        """Returns how long ago each node's newest heartbeat came, in ms, by node id; empty on followers."""
        return {} if self._state is None else self._state.vitals.ages(self._clock.boot_ms())

    def troubles(self) -> dict[str, str]:
        """Returns why nodes start nothing, as they say themselves, by node id; empty on followers."""
        return {} if self._state is None else self._state.vitals.troubles(self._clock.boot_ms())

    def quiet_workers(self) -> dict[str, int]:
        """Returns for how many ms remote workers have had no poll open, by their keys; empty on followers."""
        return {} if self._state is None else self._state.quiet_workers()

    def disks(self) -> dict[str, DiskUse]:
        """Returns what is used and free on the nodes' disks, by node id; empty on followers."""
        return {} if self._state is None else self._state.vitals.disks(self._clock.boot_ms())

    def levels(self) -> dict[str, int]:
        """Returns the newest level that each other node knows (core.levels), by node id; empty on followers."""
        return {} if self._state is None else self._state.vitals.levels(self._clock.boot_ms())

    # ------------------------------------------------------------ events from the raft room

    def on_role(self) -> None:
        """Role, term or leadership changed."""
        if self._raft.leading and not self._stopped:
            if self._state is None or self._state.term != self._raft.term:
                self._establish()
        elif self._state is not None:
            log.info("leadership of term %d revoked", self._state.term, extra={"term": self._state.term})
            self._state = None
            if self._fire_traces is not None:
                self._fire_traces.forget()

    def _establish(self) -> None:
        self._poke.set()  # first: the loop tries again what fails here
        self._state = LeaderState(self, self._raft.term)
        log.info(
            "leadership of term %d established: %d due soon, %d nodes with a session",
            self._state.term,
            len(self._state.firing.window),
            len(self._state.dispatcher.loads()),
            extra={"term": self._state.term},
        )

    def on_applied(self, results: Sequence[EntryResult]) -> None:
        """Follows each committed turn. A leader that could not take up all of it must not lead on with the rest."""
        try:
            self._take_up(results)
        except MemoryError:
            raise  # the node ends by it
        except Exception as error:
            self._give_away("what was applied could not be taken up; leadership is given away", error)

    def _take_up(self, results: Sequence[EntryResult]) -> None:
        self.on_role()
        if self._state is None:
            return
        for result in results:
            if result.actions and result.index > self._state.since:
                self._state.actions(result.actions)
                if self._fire_traces is not None:
                    self._fire_traces.applied(result.actions)
        self._state.assigning.assign()

    def on_heartbeat(self, peer: str, payload: bytes) -> None:
        """Answers a worker's heartbeat (core.subjects.leasing.Heartbeat) with a grant."""
        self._look_after_the_loop()
        state = self._state
        if state is None or not state.is_current() or peer not in state.cluster.members:
            return
        try:
            beat = decode_heartbeat(payload)
        except msgspec.DecodeError:
            log.warning("malformed heartbeat from %s dropped", peer, extra={"peer": peer})
            return
        sent = self._raft.quorum_sent_at_ms()
        now = self._clock.boot_ms()  # after what it is compared with
        grant = state.leases.heartbeat(beat.session, peer, beat.holds, sent, now)
        state.heard(peer, beat, now)
        if grant > 0:
            message = Grant(beat.session, beat.sent_ms, grant, state.short_of_disk)
            self._raft.send(peer, "grant", encode_message(message))
        if beat.holds and state.dispatcher.backlog:
            state.assigning.assign()

    def on_worker_beats(self, peer: str, payload: bytes) -> None:
        """Answers what remote workers asked of a node (core.subjects.leasing.WorkerBeats) with grants."""
        self._look_after_the_loop()
        state = self._state
        if state is None or not state.is_current() or peer not in state.cluster.members:
            return
        try:
            asked = decode_beats(payload)
        except msgspec.DecodeError:
            log.warning("malformed heartbeats of workers from %s dropped", peer, extra={"peer": peer})
            return
        grants = state.worker_grants(peer, asked)
        if grants:
            self._raft.send(peer, "worker_grants", encode_message(WorkerGrants(grants)))
        if state.dispatcher.backlog:
            state.assigning.assign()

    def on_finished(self, peer: str, payload: bytes) -> None:
        """Frees the slots of runs that a worker has ended, before its reports are in the log:
        core.subjects.leasing.AttemptsFinished."""
        state = self._state
        if state is None or not state.is_current():
            return
        try:
            over = decode_finished(payload)
        except msgspec.DecodeError:
            log.warning("malformed news of what is over from %s dropped", peer, extra={"peer": peer})
            return
        executor = state.leases.node(over.session)
        if executor is not None and (executor == peer or is_worker(executor)):
            state.dispatcher.ended(over.session, over.tokens)
            state.assigning.assign()

    # ------------------------------------------------------------ the loop

    def poke(self) -> None:
        self._poke.set()

    async def _run(self) -> None:
        while True:
            try:
                self._ticked_ms = self._clock.boot_ms()
                if self._state is None:
                    self.on_role()  # it may lead still, if giving leadership away failed as well
                await self._wait(self._rest_ms() if self._state is None else self._state.tick())
            except Exception as error:  # whatever it is, without ticks it must not lead
                self._give_away("the leader's tick failed; leadership is given away", error)
                with suppress(Exception):
                    await asyncio.sleep(TICK_MS / 1000)  # others have their turn, and may give memory back

    def _give_away(self, why: str, error: BaseException | None = None) -> None:
        """Gives leadership away. Memory may run out here, too; a leader that cannot give it away tries again."""
        self._state = None
        with suppress(Exception):
            log.error(why)
        if error is not None:
            background.note("leader", error)
        with suppress(Exception):
            self._raft.step_down()

    def _look_after_the_loop(self) -> None:
        """Wakes or restarts the loop, which may have lost its timer, or its life, when memory ran out. Heartbeats,
        which call this, do not depend on it."""
        if self._timer is None or self._stopped:
            return
        if self._timer.done():
            self._give_away("the leader's loop has ended; leadership is given away")
            self.start()
        elif self._clock.boot_ms() - self._ticked_ms > STALLED_MS:
            self._poke.set()

    def _rest_ms(self) -> int:
        """Returns how long to wait without a leadership. A node that leads in spite of that could not give it away."""
        return TICK_MS if self._raft.leading else FOLLOWS_MS

    async def _wait(self, delay_ms: float) -> None:
        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._poke.set)
        try:
            await self._poke.wait()
        finally:
            timer.cancel()
        self._poke.clear()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = background.start("leader-work", work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def current(self) -> LeaderState | None:
        return self._state

    # what a leadership is given (ports.Host)
    @property
    def raft(self) -> RaftFacade:
        return self._raft

    @property
    def read(self) -> Callable[[], AbstractContextManager[StoreView]]:
        return self._read

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def fire_traces(self) -> FireTraces | None:
        return self._fire_traces

    @property
    def zones(self) -> ZoneFiles | None:
        return self._zones

    @property
    def window(self) -> tuple[int | None, int]:
        """(ms ahead that are in memory, or None: as the settings have it; rows at most)"""
        return self._window_ms, self._window_count

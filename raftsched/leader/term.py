"""What one leadership remembers and does: when to fire, whom to give what, whose lease ends, what to prune."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable

from raftsched.core import commands as c
from raftsched.core.actions import (
    Action,
    AttemptAssigned,
    AttemptEnded,
    ClusterPaused,
    ConditionsWanted,
    InstanceReady,
    InstanceTimer,
    JobDue,
    JobUnscheduled,
    MembersChanged,
    NodeRuleChanged,
    OperationStarted,
    QueueChanged,
    SessionChanged,
    SettingsChanged,
)
from raftsched.core.cluster import Member
from raftsched.core.commands import Assign, Command, EndSession, Fire, Prune, Rejected, encode
from raftsched.core.leasing import Heartbeat
from raftsched.core.model import Policy
from raftsched.core.rows import META_KEY, decode_meta, decode_session
from raftsched.core.tables import Table, from_u64, u64
from raftsched.errors import RaftschedError
from raftsched.leader import firing
from raftsched.leader.clockguard import ClockGuard
from raftsched.leader.dispatcher import Dispatcher, count_running
from raftsched.leader.handover import Handover
from raftsched.leader.inquiries import Inquiries
from raftsched.leader.leases import KILL_AHEAD_MS, Leases, may_assign, must_step_down
from raftsched.leader.operations import Operations
from raftsched.leader.ports import Host
from raftsched.leader.vitals import Vitals
from raftsched.leader.window import Window

log = logging.getLogger("raftsched.leader")

CLOCK_LOOK_MS = 20  # while the clock is in doubt
TICK_MS = 100  # leases, and the longest sleep of the wheel: a wall clock may jump
FIRE_BATCH = 250  # fires of one proposal, and runs that they may make: one entry's apply must stay short
RELOAD_AFTER_MS = 500
OWED_MAX = 10_000  # jobs that wait for their next time and are known here
IN_FLIGHT = 2  # batches of fires, of timers, of first times that are on their way: what runs has to get through, too
PRUNE_ROWS = 250  # of one command: the turn that drops them keeps all others waiting
PRUNE_EVERY_MS = 1_000
ORIGINS_EVERY_MS = 10 * 60_000
PROPOSE_TIMEOUT_S = 10.0
PROPOSE_BYTES = 256 * 1024
EXPECTED = ("stale", "cluster-paused")  # of a fire: it was proposed before that was known


class Term:
    """Leader memory: a cache built from the tables after the opening entry was applied."""

    def __init__(self, leader: Host, number: int) -> None:
        self.number = number
        self._leader = leader
        self._raft = leader.raft
        self._read = leader.read
        self._clock = leader.clock
        wall = self._clock.wall_ms()
        self.inquiries = Inquiries(self._read, self._raft.send)
        with self._read() as view:
            self.since = view.applied_index  # what was applied up to here is in what is read now
            meta = decode_meta(view.get(Table.META, META_KEY))
            self._settings = meta.settings
            self._paused = meta.paused
            self._count(meta.members)
            self.dispatcher = Dispatcher(self._read, self._raft.node_id, view)
            self.operations = Operations(view, self._read, self._raft, leader.spawn, lambda: self.is_current)
            sessions = [s for _, raw in view.scan(Table.SESSIONS) if (s := decode_session(raw)).open]
            for session in sessions:
                self.dispatcher.opened(session, count_running(view, session.id))
        # Read after `since`: what is committed in between is in here, and comes once more as an action, which does no
        # harm. The other way round it would be in neither.
        self._window_ms, count = leader.window  # None: as the settings have it
        window_ms = self._window_ms or self._settings.load_ahead_ms
        self.due = Window(Table.DUE, self._read, wall, window_ms=window_ms, count_max=count)
        self.timers = Window(Table.TIMERS, self._read, wall, window_ms=window_ms, count_max=count)
        self._owed: set[int] = set()  # jobs that wait for their next time: those with ids below `_owed_from`
        self._owed_from: int | None = 0  # where to read on in the table; None: all of it is known
        self._due_now: deque[bytes] = deque()  # ids of jobs that are due and not yet proposed to fire
        self._wake_now: deque[tuple[int, bytes]] = deque()  # timers that are due and not yet proposed
        # Batches of each that are proposed and not answered.
        self._in_flight: dict[type, int] = {Fire: 0, c.Wake: 0, c.ScheduleJob: 0}
        self._due_ms = wall  # when they were due, by this node's clock: it may go back meanwhile
        self._reload_ms: int | None = None  # boot clock: when to read the tables again
        self._since_ms = self._clock.boot_ms()
        self._guard = ClockGuard(wall, self._since_ms, meta.settings.clock_limit_ms, self._raft.clock_ahead_ms())
        self.leases = Leases(sessions, self._since_ms)
        self._follower_seen_ms = self._since_ms
        self.vitals = Vitals()
        self._handover = Handover(self._raft, leader.spawn, self._since_ms)
        self._ends_proposed: dict[int, int] = {}
        self._next_prune_ms = 0
        self._next_origins_ms = self._since_ms + ORIGINS_EVERY_MS
        self._pruning = False

    def _count(self, members: tuple[Member, ...]) -> None:
        self.members = {m.node for m in members}
        self._voters = {m.node for m in members if m.voter}
        self._others = len(self._voters - {self._raft.node_id})

    def heard(self, node: str, beat: Heartbeat, now_ms: int) -> None:
        if beat.holds and node in self._voters and node != self._raft.node_id:
            self._follower_seen_ms = now_ms
        self.vitals.heard(node, beat, now_ms)

    @property
    def short_of_disk(self) -> bool:
        """Whether the cluster takes no more writes from clients."""
        return self.vitals.short_of_disk(self._voters, self._raft.node_id)

    @property
    def is_current(self) -> bool:
        return self._leader.current is self and self._raft.leading and self._raft.term == self.number

    # ------------------------------------------------------------ actions after commit

    def actions(self, actions: Iterable[Action]) -> None:
        now = self._clock.wall_ms()
        soon = False
        for action in actions:
            match action:
                case JobDue():
                    self.due.add(u64(action.job_id), action.fire_at_ms, now)
                    soon = True
                case InstanceReady():
                    self.dispatcher.ready(action.instance, action.lane, action.score_ms)
                case AttemptAssigned():
                    self.dispatcher.applied(action.instance, action.session, (action.queue, action.quota), action.token)
                case AttemptEnded():
                    self.dispatcher.attempt_ended(action.session, (action.queue, action.quota), action.token)
                case InstanceTimer():
                    self.timers.add(action.instance, action.at_ms, now)
                    soon = True
                case OperationStarted():
                    self.operations.started(action.operation)
                    soon = True
                case ConditionsWanted():
                    self.inquiries.wanted(action.instance)
                    soon = True
                case JobUnscheduled():
                    if self._owed_from is None or action.job_id < self._owed_from:
                        self._owed.add(action.job_id)
                    soon = True
                case SessionChanged():
                    self._session_changed(action)
                case SettingsChanged():
                    self._settings = action.settings
                    self._guard.limit_ms = action.settings.clock_limit_ms
                    for window in (self.due, self.timers):
                        window.reach(self._window_ms or action.settings.load_ahead_ms)
                case MembersChanged():
                    self._count(action.members)
                case QueueChanged():
                    self.dispatcher.queue_changed(action.name)
                case NodeRuleChanged():
                    self.dispatcher.rule_changed(action.node)
                case ClusterPaused():
                    self._pause(action.paused)
                    soon = True
                case _:
                    pass
        if soon:
            self._leader.poke()

    def _pause(self, paused: bool) -> None:
        """Nothing is fired or assigned. Afterwards the tables say what is due: what was on its way was refused."""
        self._paused = paused
        if not paused:
            self._reload_ms = self._clock.boot_ms()

    def _session_changed(self, action: SessionChanged) -> None:
        if not action.open:
            self.leases.ended(action.session)
            self.dispatcher.closed(action.session)
            self._ends_proposed.pop(action.session, None)
            return
        with self._read() as view:
            raw = view.get(Table.SESSIONS, u64(action.session))
        if raw is not None:
            session = decode_session(raw)
            if session.open:
                self.leases.opened(session, self._clock.boot_ms())
                self.dispatcher.opened(session, 0)

    # ------------------------------------------------------------ the clock

    def tick(self) -> float:
        """Does what is due; returns how many ms to sleep at most."""
        if not self.is_current:
            return TICK_MS
        self._watch_leases()
        self._handover.look(self.vitals, self._voters, self._clock.boot_ms())
        now = self._clock.wall_ms()
        if not self._clock_is_good():
            return CLOCK_LOOK_MS
        if self._reload_ms is not None and self._clock.boot_ms() >= self._reload_ms:
            self._read_again(now)
        more = not self._paused and self._fire(now)
        self._wake(now)
        more = self._schedule_owed(now) or more
        self._prune(now)
        self._look_at_queues(now)
        self.operations.pump(self._clock.boot_ms())
        self.pump()
        more = self._inquire() or more
        if more:
            return 0
        upcoming = now + TICK_MS
        if self._has_room(c.Wake):
            upcoming = min(upcoming, self.timers.next_ms(now))
        if not self._paused:
            opens = self.dispatcher.opens_at_ms
            upcoming = upcoming if opens is None else min(opens, upcoming)
            if self._has_room(Fire):
                upcoming = min(upcoming, self.due.next_ms(now))
        return max(0, min(TICK_MS, upcoming - self._clock.wall_ms()))

    def _has_room(self, kind: type) -> bool:
        """The log keeps up with what is proposed of that kind."""
        return self._in_flight[kind] < IN_FLIGHT

    def _clock_is_good(self) -> bool:
        """False while it is not known whether this node's clock is right; gives leadership away when it is wrong."""
        wall_ms, now = self._clock.wall_ms(), self._clock.boot_ms()
        if self._guard.jumped(wall_ms, now):
            log.warning("this node's clock was set; nothing is fired until it is compared with the others'")
            self._raft.measure_clocks_again()
        offsets = self._raft.clock_offsets_ms()
        if self._guard.off(offsets):
            log.error("this node's clock is off from the majority's (%s ms); leadership is given away", offsets)
            self._raft.step_down()
            return False
        if not self._guard.measured(now, offsets):
            return False
        self._raft.trust_clock()
        return True

    def _watch_leases(self) -> None:
        now = self._clock.boot_ms()
        sent = self._raft.quorum_sent_at_ms()
        ttl = self.leases.shortest_ttl_ms() or self._settings.session_ttl_ms
        # the first round of this leadership may still be on its way
        if must_step_down(now - (self._since_ms if sent is None else sent), ttl):
            log.warning("no majority has answered for too long; leadership is given away")
            self._raft.step_down()
            return
        if self._raft.write_age_ms() >= ttl - KILL_AHEAD_MS:
            log.error("this node's disk does not answer; leadership is given away")
            self._raft.step_down()
            return
        for session in self.leases.over(now):
            if now - self._ends_proposed.get(session, -10_000) >= 1_000:
                self._ends_proposed[session] = now
                log.warning("session %d is over: its worker was not heard of", session)
                self._propose_later([EndSession(session, self.number)])

    def _assignable(self, session: int) -> bool:
        """Not those of a member that catches up: what it is given it would start late, and its disk and network have
        enough to do. Nor those of a node that was removed: its runs would be lost with its lease; or that can start
        nothing, as it says."""
        if session == self.dispatcher.own_session and not self._may_run_here():
            return False
        node = self.leases.node(session)
        if node not in self._voters or self.vitals.pauses(node, self._boot_now):
            return False
        return self.leases.assignable(session, self._boot_now)

    def _may_run_here(self) -> bool:
        """The leader's own node is taken into account when a follower is there to be preferred, or when none has been
        for a TTL; not while the followers' sessions are only just being opened."""
        return (
            self._others == 0
            or self.leases.any_assignable(self._boot_now, self._voters - {self._raft.node_id})
            or self._boot_now - self._follower_seen_ms > self._settings.session_ttl_ms
        )

    def _quorum_fresh(self) -> bool:
        self._boot_now = self._clock.boot_ms()
        sent = self._raft.quorum_sent_at_ms()
        ttl = self.leases.shortest_ttl_ms() or self._settings.session_ttl_ms
        return sent is not None and may_assign(self._boot_now - sent, ttl)

    _boot_now = 0

    # ------------------------------------------------------------ fire and assign

    def _fire(self, now_ms: int) -> bool:
        """Fires a bounded number of what is due, and no more than the log keeps up with: after an outage a million
        may be. True: there is more, and it can go on."""
        if not self._due_now:
            self._due_now.extend(key for _, key in self.due.advance(now_ms))
            self._due_ms = now_ms
        if not self._due_now or not self._has_room(Fire):
            return False
        keys = [self._due_now.popleft() for _ in range(min(FIRE_BATCH, len(self._due_now)))]
        direct = self._quorum_fresh() and not self.dispatcher.backlog
        batch: list[Command] = []
        starts: list[tuple[bytes, Policy, str]] = []  # instances that these fires make ready
        runs = 0
        jobs = firing.due_jobs(self._read, keys, max(now_ms, self._due_ms))
        for position, (job, calendar) in enumerate(jobs):
            command = firing.fire_command(job, now_ms, self._settings.catch_up_max, calendar)
            due = firing.times_due(job, command, now_ms) if isinstance(command, Fire) else 0
            runs += firing.runs_at_most(job, due, self._settings.catch_up_max)
            if runs > FIRE_BATCH and batch:
                self._due_now.extendleft(u64(other.job.id) for other in reversed(jobs[position:]))
                break
            batch.append(command)
            key = firing.startable(job) if direct and due == 1 else None
            if key is not None:
                starts.append((key, job.policy, job.namespace))
        starts.sort(key=lambda start: -start[1].priority)  # of what is due together the more urgent goes first
        batch += self.dispatcher.place(starts, self._assignable, now_ms)
        if batch:
            self._propose_paced(Fire, batch)
        return bool(self._due_now) and self._has_room(Fire)

    def _wake(self, now_ms: int) -> None:
        if not self._wake_now:
            self._wake_now.extend(self.timers.advance(now_ms))
        while self._wake_now and self._has_room(c.Wake):
            due = [self._wake_now.popleft() for _ in range(min(FIRE_BATCH, len(self._wake_now)))]
            self._propose_paced(c.Wake, [firing.wake_command(at_ms, key) for at_ms, key in due])

    def pump(self) -> None:
        """Assigns what waits to who is free."""
        if self._paused or not self.dispatcher.backlog or not self.is_current or not self._quorum_fresh():
            return
        commands = self.dispatcher.pump(self._assignable, self._clock.wall_ms())
        if commands:
            self._propose_later(commands)

    def _look_at_queues(self, now_ms: int) -> None:
        self.dispatcher.open_lanes(now_ms)
        notes = self.dispatcher.notes(now_ms)
        if notes:
            self._propose_later(notes)

    def _inquire(self) -> bool:
        """Asks nodes that are given runs to look at conditions. True: there is more."""
        if not self.inquiries.open or not self._quorum_fresh():
            return False
        nodes = [n for n in self.dispatcher.loads().values() if self._assignable(n.session.id)]
        return self.inquiries.ask(nodes, self._boot_now)

    def _schedule_owed(self, now_ms: int) -> bool:
        """A bounded number of those that are owed their next time. True: there is more, and it can go on."""
        if not self._owed and self._owed_from is not None:
            found = firing.owed(self._read, self._owed_from, OWED_MAX)
            self._owed.update(found)
            self._owed_from = found[-1] + 1 if len(found) >= OWED_MAX else None
        if not self._has_room(c.ScheduleJob):
            return False
        batch: list[Command] = []
        while self._owed and len(batch) < FIRE_BATCH:
            waiting = firing.waiting_job(self._read, self._owed.pop())
            if waiting is not None:
                (job, calendar), since_ms = waiting
                batch.append(firing.schedule_command(job, since_ms, now_ms, calendar))
        if batch:
            self._propose_paced(c.ScheduleJob, batch)
        return bool(self._owed) or self._owed_from is not None

    # ------------------------------------------------------------ proposals

    def _propose_later(self, batch: list[Command]) -> None:
        self._leader.spawn(self._propose(batch))

    def _propose_paced(self, kind: type, batch: list[Command]) -> None:
        self._in_flight[kind] += 1
        self._leader.spawn(self._propose_and_go_on(kind, batch))

    async def _propose_and_go_on(self, kind: type, batch: list[Command]) -> None:
        try:
            await self._propose(batch)
        finally:
            self._in_flight[kind] -= 1
            self._leader.poke()

    async def _propose(self, batch: list[Command]) -> None:
        """In pieces that fit into an entry of the log: a fire that catches up carries many times."""
        raw = [encode(command) for command in batch]
        start = size = 0
        for i, command in enumerate(raw):
            if size + len(command) > PROPOSE_BYTES and i > start:
                await self._propose_piece(batch[start:i], raw[start:i])
                start, size = i, 0
            size += len(command)
        await self._propose_piece(batch[start:], raw[start:])

    async def _propose_piece(self, batch: list[Command], raw: list[bytes]) -> None:
        try:
            answers = await self._raft.propose(raw, PROPOSE_TIMEOUT_S)
        except RaftschedError as error:
            if self.is_current:
                log.warning(
                    "%d commands of the leader were not confirmed (%s); the tables are read again",
                    len(batch),
                    error,
                )
                for command in batch:
                    self.dispatcher.answered(command, None)
                if self._reload_ms is None:  # not at once: many may fail together
                    self._reload_ms = self._clock.boot_ms() + RELOAD_AFTER_MS
            return
        for command, answer in zip(batch, answers, strict=True):
            refused = isinstance(answer, Rejected)
            self.dispatcher.answered(command, not refused)
            if refused and isinstance(command, Assign):
                self._leader.poke()
            if isinstance(answer, Rejected) and isinstance(command, Fire) and answer.code not in EXPECTED:
                log.error("a fire was refused: %s (%s)", answer.code, answer.detail)

    def _read_again(self, now_ms: int) -> None:
        """Nothing is known of some batches: the tables say what is still to be done."""
        self._reload_ms = None
        self._due_now.clear()
        self._wake_now.clear()
        self._owed.clear()
        self._owed_from = 0
        self.due.reload(now_ms)
        self.timers.reload(now_ms)

    # ------------------------------------------------------------ retention

    def _prune(self, now_ms: int) -> None:
        boot_ms = self._clock.boot_ms()  # when to look again; what is due is a matter of wall time
        if self._pruning or boot_ms < self._next_prune_ms:
            return
        self._next_prune_ms = boot_ms + PRUNE_EVERY_MS
        if boot_ms < self._next_origins_ms:
            with self._read() as view:
                first = next(iter(view.scan(Table.PURGE)), None)
            if first is None or from_u64(first[0][:8]) > now_ms:
                return
        self._next_origins_ms = boot_ms + ORIGINS_EVERY_MS
        self._pruning = True
        self._leader.spawn(self._prune_all(now_ms))

    async def _prune_all(self, until_ms: int) -> None:
        """One bounded command after the other, so that others get their turns in between."""
        try:
            while self.is_current:
                answers = await self._raft.propose([encode(Prune(until_ms, PRUNE_ROWS))], PROPOSE_TIMEOUT_S)
                done = answers[0]
                if not isinstance(done, c.Accepted) or (done.number or 0) < PRUNE_ROWS:
                    return
        except RaftschedError as error:
            log.warning("retention was interrupted: %s", error)
        finally:
            self._pruning = False

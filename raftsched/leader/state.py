"""Holds the state of one leadership in memory, and the duties that work on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from raftsched.cluster_settings import Settings
from raftsched.core.actions import (
    Action,
    AttemptAssigned,
    AttemptEnded,
    ClusterPaused,
    ConditionsWanted,
    InstanceFired,
    InstanceReady,
    InstanceStarted,
    InstanceTimer,
    JobDue,
    JobNear,
    JobPaused,
    JobUnscheduled,
    KeyTimer,
    MembersChanged,
    NodeRuleChanged,
    OperationStarted,
    QueueChanged,
    SessionChanged,
    SettingsChanged,
    WatchSet,
    ZonesUsed,
)
from raftsched.core.commands import Command, ResumeJob, Wake, WakeKey, Watch
from raftsched.core.rows import META_KEY, decode_meta, decode_session
from raftsched.core.rules.executors import is_worker
from raftsched.core.subjects.leasing import Heartbeat, WorkerBeats
from raftsched.core.subjects.zones import MoveJob, SettleZones, UseZones
from raftsched.core.tables import Table, u64
from raftsched.leader.bulk_steps import Operations
from raftsched.leader.cluster_view import Cluster
from raftsched.leader.dispatch.assigning import Assigning
from raftsched.leader.dispatch.condition_probes import ConditionProbes
from raftsched.leader.dispatch.dispatcher import Dispatcher, count_running
from raftsched.leader.due.firing import Firing
from raftsched.leader.due.promotion import DuePromotion
from raftsched.leader.due.scheduling import Scheduling
from raftsched.leader.due.time_zones import TimeZones
from raftsched.leader.due.timers import Timers, resume, wake, wake_key, watch
from raftsched.leader.level import Level
from raftsched.leader.liveness.clock_watch import ClockWatch
from raftsched.leader.liveness.disk_notes import DiskNotes
from raftsched.leader.liveness.handover import Handover
from raftsched.leader.liveness.lease_watch import LeaseWatch
from raftsched.leader.liveness.leases import Leases
from raftsched.leader.liveness.quiet import Quiet
from raftsched.leader.liveness.vitals import Vitals
from raftsched.leader.pacing import Proposals
from raftsched.leader.pruning import Pruning
from raftsched.leader.raft_port import Host

CLOCK_LOOK_MS = 20  # while the clock is in doubt
TICK_MS = 100  # leases, and the longest sleep of the loop: a wall clock may jump
RELOAD_AFTER_MS = 500
_UNKNOWN_MS = 2**63  # the loop is at work, or looks at the clock: whatever comes wakes it

# One duty: does what is due at a wall time, and returns when it wants to be called again; None: with the next tick.
Duty = Callable[[int], int | None]


class LeaderState:
    """A cache built from the tables after the opening entry was applied; `actions` keeps it in step with them, `tick`
    lets the duties work, one after the other."""

    def __init__(self, leader: Host, term: int) -> None:
        self.term = term
        self._leader = leader
        self._raft = leader.raft
        self._read = leader.read
        self._clock = leader.clock
        now = self._clock.wall_ms()
        self.probes = ConditionProbes(self._read, self._raft.send)
        with self._read() as view:
            self.since = view.applied_index  # what was applied up to here is in what is read now
            meta = decode_meta(view.get(Table.META, META_KEY))
            self.cluster = Cluster(self._raft.node_id, meta.settings, meta.paused)
            self.cluster.set_members(meta.members)
            self.dispatcher = Dispatcher(self._read, self._raft.node_id, view)
            self.operations = Operations(view, self._read, self._raft, leader.spawn, self.is_current)
            sessions = [s for _, raw in view.scan(Table.SESSIONS) if (s := decode_session(raw)).open]
            for session in sessions:
                self.dispatcher.opened(session, count_running(view, session.id))
        # The windows are read after `since`: what is committed in between is in them, and comes once more as an action,
        # which does no harm. The other way round it would be in neither.
        since_ms = self._clock.boot_ms()
        self.vitals = Vitals()
        self.leases = Leases(sessions, since_ms)
        self.quiet = Quiet()
        self.proposals = Proposals(leader, self.is_current, self._answered, self._unconfirmed)
        self.assigning = Assigning(
            leader,
            self.cluster,
            self.dispatcher,
            self.leases,
            self.vitals,
            self.quiet,
            self.proposals,
            self.is_current,
            since_ms,
        )
        window_ms, count_max = self._window_ms(meta.settings), leader.window[1]
        self.time_zones = TimeZones(leader, self.cluster, self.vitals, self.proposals, since_ms)
        self.firing = Firing(
            leader, self.cluster, self.assigning, self.proposals, now, window_ms, count_max, self.time_zones
        )
        window = leader, self.proposals, now, window_ms, count_max
        self.timers = Timers(Table.TIMERS, Wake, wake, *window)
        self.resumes = Timers(Table.RESUMES, ResumeJob, resume, *window)
        self.watches = Timers(Table.WATCHES, Watch, watch, *window)
        self.key_timers = Timers(Table.KEY_TIMERS, WakeKey, wake_key, *window)
        self.scheduling = Scheduling(leader, self.proposals, self.time_zones)
        self.disk_notes = DiskNotes(self._read, self.cluster, self.vitals, self.proposals)
        self.lease_watch = LeaseWatch(leader, self.cluster, self.leases, self.proposals, term, since_ms)
        self.clock_watch = ClockWatch(leader, now, since_ms, meta.settings.clock_limit_ms)
        self._handover = Handover(self._raft, leader.spawn, since_ms)
        self._reload_at_ms: int | None = None  # boot clock: when to read the tables again
        self._next_ms = _UNKNOWN_MS  # when the loop comes by again by itself
        self._duties: tuple[Duty, ...] = (
            self.time_zones.tick,
            self.firing.tick,
            self.timers.tick,
            self.resumes.tick,
            self.watches.tick,
            self.disk_notes.tick,
            self.key_timers.tick,
            self.scheduling.tick,
            Pruning(leader, self.is_current, since_ms).tick,
            DuePromotion(leader, self.is_current).tick,
            Level(self._read, self.cluster, self.vitals, self.proposals, self._clock).tick,
            self._note_queues,
            self._continue_operations,
            self.assigning.tick,
            self._ask_about_conditions,
        )

    def is_current(self) -> bool:
        """Returns whether this leadership goes on."""
        return self._leader.current is self and self._raft.leading and self._raft.term == self.term

    @property
    def short_of_disk(self) -> bool:
        """Returns whether the cluster takes no more writes from clients."""
        return self.vitals.short_of_disk(self.cluster.voters, self.cluster.leader)

    def heard(self, node: str, beat: Heartbeat, boot_ms: int) -> None:
        """A node's heartbeat came."""
        if beat.holds:
            self.assigning.heard(node, boot_ms)
        self.vitals.heard(node, beat, boot_ms)

    def worker_grants(self, node: str, asked: WorkerBeats) -> tuple[tuple[int, int, int], ...]:
        """Remote workers ask a node to hold on, or ask it no more. Returns (session, request, ms from when the worker
        sent it) of those that may."""
        sent = self._raft.quorum_sent_at_ms()
        now = self._clock.boot_ms()  # after what it is compared with
        granted = []
        for session, silent_ms in asked.left:
            ttl_ms = self.leases.ttl_ms(session)
            if ttl_ms is not None:
                self.quiet.left(session, node, silent_ms, ttl_ms, now)
        for beat in asked.beats:
            worker = self.leases.node(beat.session)
            grant = self.leases.worker_heartbeat(beat.session, sent, now)
            if worker is None:
                continue
            self.quiet.polled(beat.session, node, now)
            if grant <= 0:
                continue
            self.vitals.heard_worker(worker, beat.pause_ms, beat.trouble, now)
            granted.append((beat.session, beat.request, grant))
        return tuple(granted)

    def quiet_workers(self) -> dict[str, int]:
        """Returns for how many ms remote workers have had no poll open, by their keys."""
        ages = self.quiet.ages(self._clock.boot_ms())
        return {key: ms for session, ms in ages.items() if (key := self.leases.node(session)) is not None}

    # ------------------------------------------------------------ actions after commit

    def actions(self, actions: Iterable[Action]) -> None:
        """Follows what applied entries have brought about. The loop is woken for what is due before it comes by."""
        now = self._clock.wall_ms()
        soon = False
        for action in actions:
            match action:
                case JobDue() | JobNear():
                    self.firing.window.add(u64(action.job_id), action.fire_at_ms, now)
                    soon = soon or action.fire_at_ms < self._next_ms
                case InstanceReady():
                    self.dispatcher.ready(action.instance, action.lane, action.score_ms)
                case AttemptAssigned():
                    self.dispatcher.applied(action.instance, action.session, (action.queue, action.quota), action.token)
                case AttemptEnded():
                    self.dispatcher.attempt_ended(action.session, (action.queue, action.quota), action.token)
                case InstanceFired() | InstanceStarted():
                    pass  # nothing to do; before the rarer ones, for each run has both
                case InstanceTimer():
                    self.timers.window.add(action.instance, action.at_ms, now)
                    soon = soon or action.at_ms < self._next_ms
                case JobPaused():
                    self.resumes.window.add(u64(action.job_id), action.resume_at_ms, now)
                case KeyTimer():
                    self.key_timers.window.add(action.key, action.at_ms, now)
                    soon = soon or action.at_ms < self._next_ms
                case WatchSet():
                    self.watches.window.add(action.about, action.at_ms, now)
                    soon = soon or action.at_ms < self._next_ms
                case OperationStarted():
                    self.operations.started(action.operation)
                    soon = True
                case ConditionsWanted():
                    self.probes.wanted(action.instance)
                    soon = True
                case JobUnscheduled():
                    self.scheduling.add(action.job_id)
                    soon = True
                case SessionChanged():
                    self._session_changed(action)
                case ZonesUsed():
                    self.time_zones.reload()
                    self._reload_at_ms = self._clock.boot_ms()  # what was on its way was refused
                    soon = True
                case SettingsChanged():
                    self._settings_changed(action.settings)
                case MembersChanged():
                    self.cluster.set_members(action.members)
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
        """Afterwards the tables say what is due: what was on its way was refused."""
        self.cluster.paused = paused
        if not paused:
            self._reload_at_ms = self._clock.boot_ms()

    def _session_changed(self, action: SessionChanged) -> None:
        if not action.open:
            self.lease_watch.closed(action.session)
            if is_worker(action.node):
                self.vitals.forget(action.node)
                self.quiet.forget(action.session)
            self.dispatcher.closed(action.session)
            return
        with self._read() as view:
            raw = view.get(Table.SESSIONS, u64(action.session))
        if raw is not None:
            session = decode_session(raw)
            if session.open:
                self.leases.opened(session, self._clock.boot_ms())
                self.dispatcher.opened(session, 0)

    def _settings_changed(self, settings: Settings) -> None:
        self.cluster.settings = settings
        self.clock_watch.set_limit(settings.clock_limit_ms)
        timers = (self.timers, self.resumes, self.watches, self.key_timers)
        for window in (self.firing.window, *(one.window for one in timers)):
            window.reach(self._window_ms(settings))

    def _window_ms(self, settings: Settings) -> int:
        return self._leader.window[0] or settings.load_ahead_ms

    # ------------------------------------------------------------ the loop's work

    def tick(self) -> float:
        """Does what is due; returns how many ms to sleep at most."""
        self._next_ms = _UNKNOWN_MS
        if not self.is_current():
            return TICK_MS
        self.lease_watch.tick()
        self._handover.tick(self.vitals, self.cluster.voters, self._clock.boot_ms())
        now, boot_ms = self._clock.wall_ms(), self._clock.boot_ms()
        if not self.clock_watch.is_trusted(now, boot_ms):
            return CLOCK_LOOK_MS
        if self._reload_at_ms is not None and self._clock.boot_ms() >= self._reload_at_ms:
            self._reload(now)
        next_ms = now + TICK_MS
        for duty in self._duties:
            wanted_ms = duty(now)
            if wanted_ms is not None and wanted_ms < next_ms:
                next_ms = wanted_ms
        self._next_ms = next_ms
        return 0 if next_ms <= now else max(0, min(TICK_MS, next_ms - self._clock.wall_ms()))

    def _note_queues(self, now_ms: int) -> None:
        self.dispatcher.unblock_lanes(now_ms)
        notes = self.dispatcher.notes(now_ms)
        if notes:
            self.proposals.send(notes)

    def _continue_operations(self, now_ms: int) -> None:
        self.operations.pump(self._clock.boot_ms())

    def _ask_about_conditions(self, now_ms: int) -> int | None:
        """Asks nodes to probe the conditions of waiting instances. Returns `now_ms` when there is more."""
        if not self.probes.open or not self.assigning.quorum_is_fresh():
            return None
        nodes = [n for n in self.assigning.assignable_nodes() if not is_worker(n.node)]  # workers look at nothing
        more = self.probes.ask(nodes, self._clock.boot_ms())
        return now_ms if more else None

    # ------------------------------------------------------------ when it is not known what became of a proposal

    def _answered(self, command: Command, accepted: bool | None) -> None:
        if isinstance(command, (MoveJob, UseZones, SettleZones)):
            self.time_zones.answered(command, accepted)
        else:
            self.dispatcher.answered(command, accepted)

    def _unconfirmed(self) -> None:
        if self._reload_at_ms is None:  # not at once: many may fail together
            self._reload_at_ms = self._clock.boot_ms() + RELOAD_AFTER_MS

    def _reload(self, now_ms: int) -> None:
        self._reload_at_ms = None
        self.firing.reload(now_ms)
        self.timers.reload(now_ms)
        self.resumes.reload(now_ms)
        self.watches.reload(now_ms)
        self.disk_notes.reload()
        self.key_timers.reload(now_ms)
        self.scheduling.reload()
        self.time_zones.reload()

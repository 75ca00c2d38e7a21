"""The worker: opens sessions, keeps the lease alive, starts what the applied state gives to its session, reports ends.

It is level-triggered. What it starts is what the ASSIGNED table holds for its session; notifications only say where to
look. The order that keeps two runs apart: fence (nothing of the old session is left), open, heartbeat, grant, start.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

import msgspec

from raftsched.core.actions import (
    AttemptAssigned,
    AttemptEnded,
    JobDue,
    KillAsked,
    NamespaceChanged,
    SessionChanged,
    SettingsChanged,
)
from raftsched.core.commands import CloseSession, Ended, LoseAttempt, OpenSession, SelfReport, Started, encode
from raftsched.core.levels import newest_level
from raftsched.core.model import Outcome
from raftsched.core.rows import decode_instance, job_of, newest_session
from raftsched.core.rules.allowed import Allowed, is_closed
from raftsched.core.subjects.cluster import NoPython
from raftsched.core.subjects.leasing import AttemptsFinished, DiskUse, Heartbeat, decode_grant
from raftsched.core.subjects.leasing import encode as encode_message
from raftsched.core.tables import ReadView, Table, after, from_u64, u64
from raftsched.errors import RaftschedError
from raftsched.handlers import KINDS
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.security.sealing import Sealer
from raftsched.system import background
from raftsched.system.clock import Clock
from raftsched.version import __version__
from raftsched.worker.ports import Applied, Raft, Runs
from raftsched.worker.processes.run_as import RunAs
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.processes.wire import NODE_STOPPED
from raftsched.worker.session.grace import GracePeriod
from raftsched.worker.session.lease_holder import HEARTBEAT_MS, LeaseHolder
from raftsched.worker.session.outbox import Outbox
from raftsched.worker.session.reports import Reports, report_of
from raftsched.worker.session.self_reports import SelfReports
from raftsched.worker.session.shortage import Pause
from raftsched.worker.session.unsent_reports import UnsentReports
from raftsched.worker.tasks.permits import prepared
from raftsched.worker.tasks.tasks import NODES_OWN, BadJob

TICK_S = 0.1
RETRY_MS = 500  # between attempts to open a session
UNRESPONSIVE_MS = 1_500  # a supervisor that is silent for so long gets no more of the lease
STOPS = "It stops."  # why it is given nothing
STOP_PAUSE_MS = 60_000  # for so long; its next session comes first
HAND_BACK_S = 1.0  # for the last word, when the node stops
KEEP_AFTER_MS = 1_000  # an end that waits so long for the log is brought to the disk
SHORT_FRESH_MS = 3_000  # how long the leader's word about the disks holds

__all__ = ["Applied", "Raft", "Runs", "Worker"]

log = logging.getLogger(__name__)


class Worker:
    def __init__(
        self,
        *,
        node_id: str,
        raft: Raft,
        read: Callable[[], AbstractContextManager[ReadView]],
        clock: Clock,
        runner: Runs,
        boot_id: str,
        slots: int,
        weight: int = 1,
        rng: random.Random,
        labels: Iterable[tuple[str, str]] = (),
        handlers: Collection[str] = KINDS,
        calls: Mapping[str, str] | None = None,
        http: str = "",
        store_moves: Callable[[], bool] = lambda: True,
        short_of_disk: Callable[[], bool] = lambda: False,
        disk_use: Callable[[], DiskUse | None] = lambda: None,
        limits_whole_runs: bool = False,
        run_as: RunAs = NODES_OWN,
        sealer: Sealer | None = None,
        waits_for: Callable[[], str] = str,
        grace_ms: int = 0,
        allowed: Allowed | None = None,
        output_rules: OutputRules | None = None,
        kept_ends: UnsentReports | None = None,
        zones: str = "",
        no_python: NoPython = (),
    ) -> None:
        """`boot_id` names this boot of this machine. `calls`: handlers by name, as "package.module:function". `http`:
        the advertised address of this node's API. `store_moves`: False while store turns do not get through; no
        heartbeats then. `disk_use`: what it tells the leader of its disk. `waits_for`: what keeps the runner from being
        started, in words. `grace_ms`: what runs have to come to an end when the node stops. `run_as`: as whom jobs run
        here. `allowed`: what jobs may name here; None: anything. `output_rules`: how much is kept of what they print;
        None: as the runner has it. `kept_ends`: where ends wait that the log does not take; None: nowhere. `zones`:
        what time zone data the node has. `no_python`: whose jobs cannot run functions here."""
        self._node_id = node_id
        self._raft, self._read, self._clock = raft, read, clock
        self._runner = runner
        self._boot_id = boot_id
        self._calls = dict(calls or {})
        self._opening = partial(
            OpenSession,
            node_id,
            slots=slots,
            labels=tuple(labels),
            handlers=(*handlers, *(f"call:{name}" for name in sorted(self._calls))),
            http=http,
            version=__version__,
            limits_whole_runs=limits_whole_runs,
            users=run_as.announced,
            allowed=allowed,
            weight=weight,
            no_python=no_python,
        )
        self._allowed, self._run_as = allowed, run_as.of
        self._closed = is_closed(allowed, handlers)
        self._output_rules = output_rules
        self._kept_ends = kept_ends
        self._zones = zones
        self._kept: frozenset[int] = frozenset()  # tokens of the ends that are kept there
        self._keeping: asyncio.Task[None] | None = None
        self._rng = rng
        self._store_moves = store_moves
        self._short_of_disk, self._disk_use = short_of_disk, disk_use
        self._sealer = sealer
        self.pause = Pause(waits_for)
        self._tell_at = 0  # without a session: when the leader is told why
        self._self_reports = SelfReports()
        self._hidden: dict[int, tuple[str, ...]] = {}  # token -> values of secrets that its run was given
        self._cluster_short = (False, 0)  # as the leader last said, and when (boot clock)
        self._lease = LeaseHolder()
        self._reports = Reports()
        self._todo: dict[int, bytes] = {}  # token -> instance key: given to this session, not started yet
        self._started: dict[int, int] = {}  # token -> session: never started again, gone when the state shows the end
        self._nonce: bytes | None = None  # of the opening that is under way
        self._last_index = 0
        self._outbox = Outbox(node_id, raft, self._reports, clock, self._send_finished)
        self._tick_timer: asyncio.TimerHandle | None = None
        self._opener: asyncio.Task[None] | None = None
        self._retry_at = 0
        self._stopping = False
        self._grace = GracePeriod(grace_ms)

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Starts the runner, which waits until nothing of an earlier run of this node is left: until then no session is
        opened. The rest goes on by itself. Raises StartupError."""
        self._loop = asyncio.get_running_loop()
        self._nudge = asyncio.Event()
        self._runner.on_started = self._on_started
        self._runner.on_ended = self._on_ended
        self._runner.on_self_report = self._on_self_report
        self._runner.on_died = self._on_died
        self._raft.on_message("grant", self._on_grant)
        self._raft.subscribe(self._on_applied)
        if self._kept_ends is not None:
            self._reports.restore(await asyncio.to_thread(self._kept_ends.read))
            self._kept = frozenset(self._reports.fresh)
            self._outbox.soon()  # before a session is opened, which would end the one that they are of
        self._tick_timer = self._loop.call_later(TICK_S, self._on_timer)
        await self._runner.start()
        self._opener = background.start("worker", self._keep_session())

    async def wind_down(self) -> None:
        """Takes nothing new, and gives what runs the grace period to come to an end; the lease is renewed meanwhile.
        Returns when nothing runs any more, or the grace period is over, or the session."""
        await self._close()
        if not self._grace.grace_ms or not self.session:
            return
        self._renew_lease()  # which says that it takes nothing: before anything is handed back
        self._start_given()
        if self._runs_on():
            log.info("%s stops; what runs has %g s to come to an end", self._node_id, self._grace.grace_ms / 1000)
            self._runner.wind_down(self._grace.grace_ms)
        await self._grace.wait(self._runs_on)

    def take_grace(self, grace_ms: int) -> None:
        """Gives runs so long when the node stops."""
        self._grace.grace_ms = grace_ms

    def hurry(self) -> None:
        """Ends the waiting of `wind_down`."""
        self._grace.hurry()

    def _runs_on(self) -> bool:
        return self.session != 0 and any(token not in self._reports for token in self._started)

    async def _close(self) -> None:
        """From here on it takes nothing new."""
        self._stopping = True
        if self._opener is not None and not self._opener.done():
            self._opener.cancel()
            await asyncio.wait([self._opener])

    async def stop(self) -> None:
        """Ends everything that runs here; returns when nothing is left. What ended by itself is reported, the rest is
        handed back: others may run it at once, and it does not count as lost."""
        await self._close()
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        session = self.session
        self._nonce = None  # an opening that is on its way is not ours any more
        self._lease.lapse()
        self._todo.clear()
        await self._runner.stop()
        self._outbox.flush()
        if session:
            await self._hand_back(session)
        if self._kept_ends is not None and self._tick_timer is not None:  # else they were not even read
            if self._keeping is not None:
                await asyncio.wait([self._keeping])
            await asyncio.to_thread(self._kept_ends.write, self._reports.all())

    async def _hand_back(self, session: int) -> None:
        """Nothing of the session is left, and nothing of it will start. Where this does not get through, the session
        ends when its lease has run out for certain, and its runs count as lost."""
        ran = tuple(token for token, under in self._started.items() if under == session)
        commands = [*self._reports.take_all(self._clock.boot_ms()), encode(CloseSession(session, ran))]
        try:
            await self._raft.propose(commands, HAND_BACK_S)
        except RaftschedError as exc:
            log.info("%s: session %d ends by time: %s", self._node_id, session, exc, extra={"session": session})

    @property
    def session(self) -> int:
        """The session it works under; 0 when there is none."""
        return 0 if self._lease.lapsed else self._lease.session

    @property
    def holds_lease(self) -> bool:
        return self._lease.holds(self._clock.boot_ms())

    @property
    def trouble(self) -> str:
        """The reason why this node starts nothing, or did not a moment ago; empty: it starts what it is given."""
        return STOPS if self._stopping else self.pause.trouble(self._clock.boot_ms())

    @property
    def running(self) -> int:
        """Attempts started here whose end is not in the replicated state yet."""
        return len(self._started)

    # ------------------------------------------------------------ time

    def _on_timer(self) -> None:
        self._tick_timer = self._loop.call_later(TICK_S, self._on_timer)
        background.guarded("worker", self.tick)()

    def tick(self) -> None:
        """Whatever is due by the clock; called every TICK_S."""
        now = self._clock.boot_ms()
        if self._lease.over(now):
            self._lapse("its lease ran out")
        elif self._lease.heartbeat_due(now):
            self._renew_lease()
        if self.session:
            self._outbox.add(self._self_reports.reports_due(now, self.session, self._hidden))
        if self._reports.repeat_due(now):
            with self._read() as view:
                again = self._reports.take_repeated(view, now)
            self._outbox.add(again)
        self._keep_ends(now)
        if self._lease.lapsed and now >= self._tell_at:
            self._tell_at = now + HEARTBEAT_MS
            if self.trouble:
                self._send_heartbeat(0, False, now)
        if self._lease.lapsed and now >= self._retry_at:
            self._nudge.set()

    def _keep_ends(self, now: int) -> None:
        """Brings the ends to the disk that the log does not take: this process may be killed before it does."""
        if self._kept_ends is None or (not self._kept and not len(self._reports)):
            return
        if self._keeping is None or self._keeping.done():
            late = self._reports.waiting(now, KEEP_AFTER_MS)
            if late.keys() != self._kept:
                self._kept = frozenset(late)
                ends = list(late.values())
                self._keeping = background.start("worker", asyncio.to_thread(self._kept_ends.write, ends))

    def _send_heartbeat(self, session: int, holds: bool, now: int) -> None:
        if (leader := self._raft.leader_id) is not None:
            pause_ms = STOP_PAUSE_MS if self._stopping else self.pause.left_ms(now)
            wall_ms, short, disk = self._clock.wall_ms(), self._short_of_disk(), self._disk_use()
            beat = Heartbeat(
                session, holds, now, wall_ms, short, pause_ms, self.trouble, disk, newest_level(), self._zones
            )
            self._raft.send(leader, "heartbeat", encode_message(beat))

    def _renew_lease(self) -> None:
        self._runner.ping()
        if self._raft.leader_id is None or not self._runner.moves(UNRESPONSIVE_MS) or not self._store_moves():
            return
        now = self._clock.boot_ms()  # as late as possible: the lease counts from here
        self._lease.heartbeat(now)
        self._send_heartbeat(self._lease.session, self._lease.holds(now), now)

    def _on_grant(self, peer: str, payload: bytes) -> None:
        try:
            grant = decode_grant(payload)
        except msgspec.DecodeError:
            log.warning("a grant from %s cannot be read", peer, extra={"peer": peer})
            return
        now = self._clock.boot_ms()
        if self._lease.over(now):
            self._lapse("its lease ran out")
        elif self._lease.grant(grant.session, grant.sent_ms, grant.d_ms, now):
            self._runner.set_lease(grant.session, self._lease.until_ms or 0)
            self._start_given()
        if grant.session == self._lease.session:
            self._cluster_short = (grant.short_of_disk, now)

    @property
    def cluster_short_of_disk(self) -> bool:
        """Returns whether the leader said lately that the cluster has no room for more."""
        short, at_ms = self._cluster_short
        return short and self._clock.boot_ms() - at_ms < SHORT_FRESH_MS

    # ------------------------------------------------------------ the session

    async def _keep_session(self) -> None:
        last_error = ""
        while not self._stopping:
            if self._lease.lapsed:
                try:
                    await self._open()
                except RaftschedError as exc:
                    if str(exc) != last_error:  # a node that waits to be let in would say so for ever
                        last_error = str(exc)
                        log.warning("%s: no session yet: %s", self._node_id, exc)
                except Exception as exc:  # a node that takes part and runs nothing, for ever, would be worse
                    if str(exc) != last_error:
                        last_error = str(exc)
                        log.exception("%s: no session yet", self._node_id)
                else:
                    last_error = ""
            await self._pause()

    async def _pause(self) -> None:
        """Waits until something about the session changed, or it is time to try again."""
        self._nudge.clear()
        self._retry_at = self._clock.boot_ms() + RETRY_MS + self._rng.randrange(RETRY_MS)
        await self._nudge.wait()

    async def _open(self) -> None:
        """One attempt to open a session. Whether it worked is read from the state, by the nonce."""
        self._nonce = None
        await self._runner.fence()
        with self._read() as view:
            newest, row = newest_session(view, self._node_id)
        if row is not None and row.open and row.boot_id != self._boot_id:
            return  # another boot of this node holds it: only the leader can tell when it is over
        self._nonce = self._rng.randbytes(16)
        opening = self._opening(replaces=newest, boot_id=self._boot_id, nonce=self._nonce)
        # Ends go first: with the opening, attempts of the old session that have no end yet are lost.
        commands = [*self._reports.take_all(self._clock.boot_ms()), encode(opening)]
        await self._raft.propose(commands)
        self._look_at_session()

    def _look_at_session(self) -> None:
        """Adopts the session that was opened with our nonce; lapses when ours is not the open one any more."""
        with self._read() as view:
            newest, row = newest_session(view, self._node_id)
            if self._lease.lapsed:
                if row is None or not row.open or self._nonce is None or row.nonce != self._nonce:
                    self._nudge.set()
                    return
                self._nonce = None
                self._lease.adopt(newest, row.ttl_ms, self._clock.boot_ms())
                self._started.clear()
                self._hidden.clear()
                self._self_reports.clear()
                self._take_given(view)
                log.info("%s: session %d", self._node_id, newest, extra={"session": newest})
            elif newest != self._lease.session or row is None or not row.open:
                self._lapse("it was ended")
                return
        self._renew_lease()

    def _lapse(self, why: str) -> None:
        if self._lease.lapsed:
            return
        log.warning(
            "%s: session %d lapsed: %s", self._node_id, self._lease.session, why, extra={"session": self._lease.session}
        )
        self._lease.lapse()
        self._runner.set_lease(0, 0)
        self._todo.clear()
        self._nudge.set()
        self._grace.recheck()

    def _on_died(self) -> None:
        if self._stopping:
            self.hurry()
        else:
            self._lapse("its supervisor process died")

    # ------------------------------------------------------------ what the state gives

    def _on_applied(self, results: Sequence[Applied]) -> None:
        if not results:
            return
        gap = results[0].index != self._last_index + 1
        self._last_index = results[-1].index
        session = self._lease.session
        look = False
        for result in results:
            for action in result.actions:
                if type(action) is JobDue:  # as most are where many jobs are made
                    continue
                if isinstance(action, AttemptAssigned):
                    if action.session == session and action.token not in self._started:
                        self._todo[action.token] = action.instance
                elif isinstance(action, AttemptEnded):
                    if action.node == self._node_id:
                        self._forget(action.token)
                elif isinstance(action, KillAsked):
                    if action.session == session and action.token in self._started:
                        self._runner.kill(action.token, "killed on request")
                elif isinstance(action, SessionChanged):
                    look = look or action.node == self._node_id
                elif isinstance(action, (SettingsChanged, NamespaceChanged)):
                    self._forget_output_rules()
        if gap:
            self.rescan()
        elif look:
            self._look_at_session()
        self._start_given()

    def rescan(self) -> None:
        """Looks at all that concerns this node: the state came by another way than entry by entry (a snapshot)."""
        self._forget_output_rules()
        self._look_at_session()
        if self._lease.lapsed:
            return
        with self._read() as view:
            self._take_given(view)

    def _forget_output_rules(self) -> None:
        if self._output_rules is not None:
            self._output_rules.forget()

    def _take_given(self, view: ReadView) -> None:
        """`_todo` and `_started` as the ASSIGNED table has it; asks those to end that have been asked meanwhile."""
        prefix = u64(self._lease.session)
        given = {from_u64(key[8:]): instance for key, instance in view.scan(Table.ASSIGNED, prefix, after(prefix))}
        for token in [t for t in self._started if t not in given]:
            self._forget(token)
        self._todo = {t: key for t, key in given.items() if t not in self._started}
        for token in self._started:
            row = view.get(Table.INSTANCES, given[token])
            if row is not None and decode_instance(row).kill_asked:
                self._runner.kill(token, "killed on request")

    def _forget(self, token: int) -> None:
        self._reports.shown(token)
        if self._started.pop(token, None) is not None:
            self._grace.recheck()
        self._hidden.pop(token, None)
        self._self_reports.forget(token)
        self._todo.pop(token, None)

    def _start_given(self) -> None:
        """Level-triggered: after each turn and each renewal."""
        if not self._todo:
            return
        if self._stopping:
            self._give_back()
            return
        if not self._lease.may_start(self._clock.boot_ms()):
            return
        todo, self._todo = self._todo, {}
        with self._read() as view:
            for token, key in todo.items():
                self._start(view, token, key)

    def _give_back(self) -> None:
        """Hands back what was assigned before the leader heard that this node stops, for others to take."""
        todo, self._todo = self._todo, {}
        for token in todo:
            self._started[token] = self._lease.session
            self._report_unstarted(token, Outcome.KILLED, NODE_STOPPED, begun=False)

    def _start(self, view: ReadView, token: int, key: bytes) -> None:
        session = self._lease.session
        raw = view.get(Table.INSTANCES, key)
        instance = decode_instance(raw) if raw is not None else None
        attempt = instance.live if instance is not None else None
        if instance is None or attempt is None or attempt.token != token or attempt.session != session:
            return  # it ended meanwhile
        self._started[token] = session
        if instance.kill_asked:
            self._report_unstarted(token, Outcome.KILLED, "killed before it was started")
            return
        job = job_of(view, instance)
        if job is None:
            self._report_unstarted(token, Outcome.FAILED, "the job's definition is gone")
            return
        output_max = 0 if self._output_rules is None else self._output_rules.max_of(view, job.namespace)
        about = (self._clock, self._calls, self._sealer, self._allowed, self._run_as)
        try:
            spec = prepared(view, job, instance, attempt, *about, output_max, closed=self._closed)
        except BadJob as exc:
            self._report_unstarted(token, Outcome.FAILED, str(exc))
            return
        if spec.task.hidden:
            self._hidden[token] = spec.task.hidden
        self._runner.launch(spec)

    # ------------------------------------------------------------ reports

    def _on_started(self, token: int, started_at_ms: int) -> None:
        self.pause.began(self._clock.boot_ms())
        session = self._started.get(token)
        if session is not None:
            self._outbox.add([encode(Started(session, token, started_at_ms))])

    def _on_ended(self, token: int, end: RunEnd) -> None:
        session = self._started.get(token)
        if session is None:
            return
        if end.outcome is Outcome.LOST and not end.alone:
            # Ended for the lease's sake, so this lease is not what we took it for. No report: only the session's end,
            # which the next opening brings, can give the attempt to somebody else.
            if session == self.session:
                self._lapse("a run was stopped for the sake of the lease")
            return
        self._note_start(end)
        self._report(report_of(session, token, self._self_reports.completed(token, end), self._hidden.get(token, ())))

    def _on_self_report(self, token: int, said: SelfReport) -> None:
        if token in self._started and token not in self._reports:
            self._self_reports.add(token, said)

    def _note_start(self, end: RunEnd) -> None:
        """The leader hears that this node can start nothing before it hears what is handed back."""
        now = self._clock.boot_ms()
        if end.begun:
            self.pause.began(now)
        elif self.pause.failed(end.error or "", now):
            log.warning("%s takes no runs for %d ms: %s", self._node_id, self.pause.left_ms(now), end.error)
            self._renew_lease()

    def _report_unstarted(self, token: int, outcome: Outcome, error: str, *, begun: bool = True) -> None:
        now_ms = self._clock.wall_ms()
        self._report(Ended(self._lease.session, token, outcome, None, now_ms, error=error, begun=begun))

    def _report(self, ended: Ended | LoseAttempt) -> None:
        self._reports.add(ended)
        self._grace.recheck()
        self._outbox.soon()

    def _send_finished(self) -> None:
        """The leader can give away the slots of what has ended while the reports are on their way through the log."""
        session, leader = self.session, self._raft.leader_id
        tokens = tuple(token for token in self._reports.fresh if self._started.get(token) == session)
        if tokens and leader is not None:
            self._raft.send(leader, "over", encode_message(AttemptsFinished(session, tokens)))

"""The worker: opens sessions, keeps the lease alive, starts what it is given, reports ends.

It is the only one of its kind. A node's own worker and a remote one differ in how they reach the cluster, and that is
behind `Link`: a node reads its tables (own_node.py), a remote worker asks nodes (remote/polls.py). The order that keeps
two runs apart is the same: fence (nothing of the old session is left), open, be granted, start. docs/guarantees.md has
the rules and what each is for.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from math import ceil
from typing import Any, NamedTuple

from raftsched.core.commands import Ended, LoseAttempt, SelfReport
from raftsched.core.model import Outcome, OutputRef
from raftsched.system import background
from raftsched.system.clock import Clock
from raftsched.worker.ports import Runs
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.processes.wire import NODE_STOPPED
from raftsched.worker.session.grace import GracePeriod
from raftsched.worker.session.kept_ends import KeptEnds
from raftsched.worker.session.lease_holder import HEARTBEAT_MS, LeaseHolder
from raftsched.worker.session.link import Link, Unstarted
from raftsched.worker.session.reports import Report, report_of, shown
from raftsched.worker.session.self_reports import SelfReports
from raftsched.worker.session.shortage import Pause

TICK_S = 0.1  # while it has anything to do but to hold its lease
FLUSH_S = 0.004  # what is to be said within this travels together
UNRESPONSIVE_MS = 1_500  # a supervisor that is silent for so long gets no more of the lease
STOPS = "It stops."  # why it is given nothing
STOP_PAUSE_MS = 60_000  # for so long; its next session comes first
FINISH_S = 3.0  # for outputs to be where others can read them, when the worker stops
KEEP_AFTER_MS = 1_000  # an end that waits so long for the log is brought to the disk
ERRORS_MAX = 64  # texts that are said once each while there is no session
KILLS_MAX = 10_000  # tokens of one session that are remembered as killed

log = logging.getLogger(__name__)


class _Finishing(NamedTuple):
    """An end that waits for its output. `without`: what is said where that cannot be sent."""

    task: asyncio.Task[None]
    without: Report[Any]


class Worker:
    def __init__(
        self,
        *,
        name: str,
        link: Link,
        runner: Runs,
        clock: Clock,
        grace_ms: int = 0,
        kept_ends: KeptEnds | None = None,
    ) -> None:
        """`link`: the way to its cluster. `grace_ms`: what runs have to come to an end when the worker stops.
        `kept_ends`: where ends wait that the log does not take; None: nowhere."""
        self.name = name
        self._link, self._runner, self.clock = link, runner, clock
        self._kept_ends = kept_ends
        self._kept: dict[int, Report[Any]] = {}  # by token: the ends that are kept there
        self._writing: asyncio.Task[None] | None = None
        self.lease = LeaseHolder()
        self.pause = Pause(link.waits_for)
        self._self_reports = SelfReports()
        self.newest = 0  # the highest token that the session was given
        self._todo: dict[int, Any] = {}  # given, not started yet; in the link's own terms
        self.runs: dict[int, int] = {}  # token -> session: taken up, and not settled
        self._hidden: dict[int, tuple[str, ...]] = {}  # token -> values of secrets that its run was given
        self.killing: dict[int, None] = {}  # tokens that the session was asked to end
        self._finishing: dict[int, _Finishing] = {}  # by token
        self._ping_at = 0
        self._flush_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._rests = False  # the next tick waits until the lease wants it
        self._opener: asyncio.Task[None] | None = None
        self._stopping = self._ending = False
        self._grace = GracePeriod(grace_ms)
        self._errors: set[str] = set()  # why there was no session, said once each
        link.attach(self)

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Starts the runner, which waits until nothing of an earlier run of this worker is left: until then no session
        is opened. The rest goes on by itself. Raises StartupError."""
        self._loop = asyncio.get_running_loop()
        self._nudge = asyncio.Event()
        self._runner.on_started = self._on_started
        self._runner.on_ended = self._on_ended
        self._runner.on_self_report = self._on_self_report
        self._runner.on_died = self._on_died
        self._link.start()
        if self._kept_ends is not None:
            self._link.restore(await asyncio.to_thread(self._kept_ends.read))
            self._kept = {end.token: end for end in self._link.reports.ends()}
            self.say_soon()  # before a session is opened, which would end the one that they are of
        self._tick_after(1)
        await self._runner.start()
        self._opener = background.start("worker", self._keep_session())

    async def wind_down(self) -> None:
        """Takes nothing new, and gives what runs the grace period to come to an end; the lease is renewed meanwhile.
        Returns when nothing runs any more, or the grace period is over, or the session."""
        await self._close()
        if not self.session:
            return
        self._link.tell()  # that it takes nothing: before anything is handed back
        self.start_given()
        if not self._grace.grace_ms:
            return
        if self._runs_on():
            log.info("%s stops; what runs has %g s to come to an end", self.name, self._grace.grace_ms / 1000)
            self._runner.wind_down(self._grace.grace_ms)
        await self._grace.wait(self._runs_on)

    def take_grace(self, grace_ms: int) -> None:
        """Gives runs so long when the worker stops."""
        self._grace.grace_ms = grace_ms

    def hurry(self) -> None:
        """Ends the waiting of `wind_down`."""
        self._grace.hurry()

    def _runs_on(self) -> bool:
        return self.session != 0 and any(token not in self._link.reports for token in self.runs)

    async def _close(self) -> None:
        """From here on it takes nothing new; an opening that is on its way is not this worker's any more."""
        self._stopping = True
        await background.end(self._opener)
        self._link.forget_opening()

    async def stop(self) -> None:
        """Ends everything that runs here; returns when nothing is left. What ended by itself is reported, the rest is
        handed back: others may run it at once, and it does not count as lost."""
        await self._close()
        self._ending = True
        session = self.session
        self._todo.clear()
        await self._runner.stop()  # the lease is renewed meanwhile, for ends to be reported under it
        if self._finishing:
            await asyncio.wait([one.task for one in self._finishing.values()], timeout=FINISH_S)
            await self._give_up_outputs()
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._link.say()
        if session:
            await self._link.close(session, tuple(token for token, under in self.runs.items() if under == session))
        self.lease.lapse()
        self._link.lapsed()
        if self._tick_timer is None:  # it was not even started
            return
        self._tick_timer.cancel()
        self._rests = False  # nothing sets it again
        if self._kept_ends is not None:
            if self._writing is not None:
                await asyncio.wait([self._writing])
            ends = [self._link.kept(end) for end in self._link.reports.ends()]
            await asyncio.to_thread(self._kept_ends.write, ends)

    # ------------------------------------------------------------ what it is

    @property
    def session(self) -> int:
        """The number of the session it works under; 0 when there is none."""
        return 0 if self.lease.lapsed else self.lease.session

    @property
    def holds_lease(self) -> bool:
        return self.lease.holds(self.clock.boot_ms())

    @property
    def trouble(self) -> str:
        """The reason why this worker starts nothing, or did not a moment ago; empty: it starts what it is given."""
        return STOPS if self._stopping else self.pause.trouble(self.clock.boot_ms())

    @property
    def pause_ms(self) -> int:
        """Returns for how long it is to be given nothing; 0: it takes runs."""
        return STOP_PAUSE_MS if self._stopping else self.pause.left_ms(self.clock.boot_ms())

    @property
    def running(self) -> int:
        """Runs taken up here whose end is not settled yet."""
        return len(self.runs)

    @property
    def may_renew(self) -> bool:
        """Returns whether more of the lease may be asked for: not while nobody could end what runs when it is over."""
        return self._ending or self._runner.moves(UNRESPONSIVE_MS)

    # ------------------------------------------------------------ time

    def _on_timer(self) -> None:
        self._tick_after(1)
        background.guarded("worker", self.tick)()
        rest_s = (min(self._ping_at, self.lease.due_at) - self.clock.boot_ms()) / 1000
        if rest_s > TICK_S and not (self.runs or self._todo or self._kept or len(self._link.reports)):
            self._tick_after(ceil(rest_s / TICK_S))

    def _tick_after(self, ticks: int) -> None:
        """Ticks next after so many times TICK_S."""
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self._tick_timer, self._rests = self._loop.call_later(ticks * TICK_S, self._on_timer), ticks > 1

    def _end_rest(self) -> None:
        """There is more to do than to hold the lease."""
        if self._rests:
            self._tick_after(1)

    def tick(self) -> None:
        """Whatever is due by the clock; called every TICK_S while anything may be."""
        now = self.clock.boot_ms()
        self.check_lease(now)
        if now >= self._ping_at:
            self._ping_at = now + HEARTBEAT_MS
            self._runner.ping()
        self._link.tick(now)
        self._say_self_reports(now)
        self._keep_ends(now)

    def check_lease(self, now: int) -> None:
        """Lapses when the lease has run out."""
        if self.lease.over(now):
            why = self._link.unrenewed
            self.lapse(f"its lease ran out, because {why}" if why else "its lease ran out")

    def _keep_ends(self, now: int) -> None:
        """Brings the ends to the disk that the log does not take: this process may be killed before it does."""
        if self._kept_ends is None or not (self._kept or self._finishing or len(self._link.reports)):
            return
        if self._writing is None or self._writing.done():
            before, kept = now - KEEP_AFTER_MS, self._kept
            ends = [*(one.without for one in self._finishing.values()), *self._link.reports.ends()]
            late = {end.token: end for end in ends if end.added_at <= before or end.token in kept}
            if late != kept:
                self._kept = late
                data = [self._link.kept(end) for end in late.values()]
                self._writing = background.start("worker", asyncio.to_thread(self._kept_ends.write, data))

    # ------------------------------------------------------------ the session

    async def _keep_session(self) -> None:
        while not self._stopping:
            pause_s = 0.0
            if self.lease.lapsed:
                try:
                    self._link.forget_opening()
                    await self._runner.fence()
                    await self._give_up_outputs()
                    pause_s = await self._link.open()
                except Exception as error:  # a worker that is there and runs nothing, for ever, would be worse
                    pause_s = self._no_session(error)
            self._nudge.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s if self.lease.lapsed else None):
                    await self._nudge.wait()

    def _no_session(self, error: Exception) -> float:
        """Returns how many seconds to wait before the next attempt to open one."""
        words, pause_s, known = self._link.no_session(error)
        if words not in self._errors:  # a worker that waits to be let in would say so for ever
            if len(self._errors) >= ERRORS_MAX:
                self._errors.clear()
            self._errors.add(words)
            log.warning("%s: %s", self.name, words, exc_info=None if known else error)
        return pause_s

    def look_again(self) -> None:
        """There may be something new about its session: one that could not be opened is asked for at once."""
        self._nudge.set()

    def adopt(self, session: int, ttl_ms: int) -> None:
        """Takes the session that was opened for it, after the fence, and of which nothing has been started."""
        self.lease.adopt(session, ttl_ms, self.clock.boot_ms())
        for one in self._finishing.values():
            one.task.cancel()
        self._finishing.clear()
        for token in list(self.runs):
            self.settled(token)
        self.newest = 0
        self._todo.clear()
        self.killing.clear()
        self._errors.clear()
        log.info("%s: session %d", self.name, session, extra={"session": session})

    def granted(self, session: int, sent_ms: int, lease_ms: int) -> bool:
        """Takes a grant of so much from when a heartbeat was sent. Returns whether the lease was prolonged."""
        now = self.clock.boot_ms()
        self.check_lease(now)
        if not self.lease.grant(session, sent_ms, lease_ms, now):
            return False
        if not self._ending:
            self._runner.set_lease(session, self.lease.until_ms or 0)
            self.start_given()
        return True

    def lapse(self, why: str) -> None:
        """The session is over: all that runs under it is ended, and nothing more is started. Ends that came by
        themselves are reported before the next session is opened."""
        if self.lease.lapsed:
            return
        after = "The worker stops." if self._stopping else "A new session is asked for."
        log.warning(
            "%s: session %d lapsed: %s. What ran under it is ended, and others may run it. %s",
            self.name,
            self.lease.session,
            why,
            after,
            extra={"session": self.lease.session},
        )
        self.lease.lapse()
        self._end_rest()
        if not self._ending:
            self._runner.set_lease(0, 0)
        self._todo.clear()
        self._link.lapsed()
        self._nudge.set()
        self._grace.recheck()

    def _on_died(self) -> None:
        if self._stopping:
            self.hurry()
        else:
            self.lapse("its supervisor process died")

    # ------------------------------------------------------------ what the session is given

    def given(self, token: int, what: Any) -> None:
        """Notes a run that the session was given. Each is taken up once: tokens only grow, and are told in order."""
        if token > self.newest:
            self.newest = token
            self._todo[token] = what

    def kill(self, token: int) -> None:
        """The run is to be ended, and is not started if it was not."""
        if token in self.killing:
            return
        if len(self.killing) < KILLS_MAX:
            self.killing[token] = None
        if token in self.runs and token not in self._link.reports and token not in self._finishing:
            self._runner.kill(token, "killed on request")

    def disown(self, token: int, why: str) -> None:
        """The run is not this worker's any more, and is ended if its end does not wait to be told."""
        if token in self.runs and token not in self._link.reports:
            log.warning("%s: attempt %d is ended: %s", self.name, token, why)
            self._runner.kill(token, why)

    def settled(self, token: int) -> None:
        """Nothing more is to be said of the run: the log has its end, or never will."""
        if self.runs.pop(token, None) is not None:
            self._hidden.pop(token, None)
            self._self_reports.forget(token)
            self._link.forget(token)
            self._grace.recheck()
        self.killing.pop(token, None)
        self._todo.pop(token, None)

    def start_given(self) -> None:
        """Starts what it may start; level-triggered: after whatever may have changed that."""
        if not self._todo or not (self._stopping or self.lease.may_start(self.clock.boot_ms())):
            return
        self._end_rest()
        todo, self._todo = self._todo, {}
        session = self.lease.session
        if self._stopping:  # it was given before the leader heard that this worker stops: others may take it
            for token in todo:
                self.runs[token] = session
                self._report_unstarted(token, Unstarted(Outcome.KILLED, NODE_STOPPED, begun=False))
            return
        for token, spec in self._link.specs(session, todo):
            self.runs[token] = session
            if token in self.killing:
                self._report_unstarted(token, Unstarted(Outcome.KILLED, "killed before it was started"))
            elif isinstance(spec, Unstarted):
                self._report_unstarted(token, spec)
            else:
                if spec.task.hidden:
                    self._hidden[token] = spec.task.hidden
                self._runner.launch(spec)

    # ------------------------------------------------------------ what is said of runs

    def say_soon(self) -> None:
        """There is something to be said."""
        if self._flush_timer is None:
            self._flush_timer = self._loop.call_later(FLUSH_S, self._say)

    def _say(self) -> None:
        self._flush_timer = None
        self._link.say()

    def _on_started(self, token: int, started_at_ms: int) -> None:
        self.pause.began(self.clock.boot_ms())
        session = self.runs.get(token)
        if session is not None and token not in self._link.reports:  # else its end is told, which says it, too
            self._link.say_started(session, token, started_at_ms)
            self.say_soon()

    def _on_self_report(self, token: int, said: SelfReport) -> None:
        if token in self.runs and token not in self._link.reports and token not in self._finishing:
            self._self_reports.add(token, said)

    def _say_self_reports(self, now: int) -> None:
        """Says what runs say of themselves, where no other word about them waits."""
        if not self.session:
            return
        for token, said in self._self_reports.take_due(now):
            if self._link.reports.waits_of(token):
                self._self_reports.add(token, said)
            else:
                self._link.say_progress(self.runs[token], token, shown(said, self._hidden.get(token, ())))
                self.say_soon()

    def _on_ended(self, token: int, end: RunEnd) -> None:
        session = self.runs.get(token)
        if session is None:
            return
        if end.outcome is Outcome.LOST and not end.alone:
            # Ended for the lease's sake, so this lease is not what we took it for. No report: only the session's end,
            # which the next opening brings, can give the attempt to somebody else.
            if session == self.session and not self._ending:  # `stop` ends what runs, and hands it back
                self.lapse("a run was ended for the sake of the lease")
            return
        self._note_start(end)
        end = self._self_reports.completed(token, end)
        report = report_of(session, token, end, self._hidden.get(token, ()))
        if end.output is not None and self._link.sends_output:
            task = background.start("worker", self._finish(report, end.output))
            self._finishing[token] = _Finishing(task, self._link.end_of(report, self._link.lost_output))
        else:
            self._report(self._link.end_of(report))

    async def _finish(self, report: Ended | LoseAttempt, output: OutputRef) -> None:
        """Reports the end of a run once its output is where others can read it."""
        place = await self._link.send_output(report.session, report.token, output)
        if self._finishing.pop(report.token, None) is not None:
            self._report(self._link.end_of(report, place))

    async def _give_up_outputs(self) -> None:
        """Reports the ends of runs whose output is still on its way: they have ended, and are not to run again."""
        finishing, self._finishing = self._finishing, {}
        for one in finishing.values():
            await background.end(one.task)
            self._report(one.without)

    def _note_start(self, end: RunEnd) -> None:
        """The leader hears that this worker can start nothing before it hears what is handed back."""
        now = self.clock.boot_ms()
        if end.begun:
            self.pause.began(now)
        elif self.pause.failed(end.error or "", now):
            log.warning("%s takes no runs for %d ms: %s", self.name, self.pause.left_ms(now), end.error)
            self._link.tell()

    def _report_unstarted(self, token: int, why: Unstarted) -> None:
        session, now_ms = self.runs[token], self.clock.wall_ms()
        end = Ended(session, token, why.outcome, None, now_ms, error=why.error, begun=why.begun)
        self._report(self._link.end_of(end))

    def _report(self, end: Report[Any]) -> None:
        self._link.reports.add(end)
        self._grace.recheck()
        self.say_soon()

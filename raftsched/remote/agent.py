"""The worker's side: opens sessions, keeps the lease alive, starts what it is given, reports ends.

It is the node's worker (worker/session/worker.py) without Raft and tables: what that one reads from the applied state,
this one is told by whichever node it asks. The order that keeps two runs apart is the same: fence (nothing of the old
session is left), open, be granted, start. docs/guarantees.md has the rules and what each is for.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from raftsched.bounds import POLL_MAX_MS
from raftsched.core.commands import SelfReport
from raftsched.core.model import Outcome, OutputRef
from raftsched.core.rules.allowed import Allowed
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.errors import RaftschedError
from raftsched.remote import log_texts
from raftsched.remote.closing import close_session, end_of
from raftsched.remote.outbox import Outbox
from raftsched.remote.server_port import NoAnswer, Outputs, Refused, Server, SessionOver
from raftsched.remote.server_rotation import Turns
from raftsched.remote.tasks import WORKER_STOPPED, ended_report, self_report_of, spec_of
from raftsched.surface.worker_sessions import (
    REPORTS_MAX,
    RUNS_MAX,
    CloseIn,
    OutputPlace,
    PollAnswer,
    PollIn,
    Printed,
    RefusedReport,
    Report,
    Run,
    WorkerSessionIn,
    WorkerSessionOut,
)
from raftsched.surface.worker_sessions import Outcome as ReportedOutcome
from raftsched.system import background
from raftsched.system.clock import Clock
from raftsched.worker.ports import Runs
from raftsched.worker.processes.run_as import RunAs
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.session.grace import GracePeriod
from raftsched.worker.session.lease_holder import HEARTBEAT_MS, LeaseHolder
from raftsched.worker.session.outbox import FLUSH_S
from raftsched.worker.session.self_reports import SelfReports
from raftsched.worker.session.shortage import Pause
from raftsched.worker.session.worker import STOP_PAUSE_MS, STOPS, TICK_S, UNRESPONSIVE_MS
from raftsched.worker.tasks.tasks import NODES_OWN, BadJob

OPEN_PATIENCE_S = 5.0  # for the answer of one node
REFUSED_S = 2.0  # before a refused request is sent again, unless its answer names a time
REFUSED_MAX_S = 30.0
ERRORS_MAX = 64  # texts that are said once each while there is no session
TAKEN_S = 3.0  # another has the name: it may be free at any moment
LOOK_WAIT_MS = 250  # of a poll after one that failed: long enough to be granted a lease
EMPTY_S = 0.05  # before the next poll, when one was answered at once and there was nothing
HAND_BACK_S = 3.0  # for the last words, when the worker stops
TOKENS_MAX = 10 * REPORTS_MAX  # of one request
_NOT_READABLE = frozenset({400, 413, 422})

log = logging.getLogger(__name__)


class Agent:
    def __init__(
        self,
        *,
        servers: Sequence[Server],
        opening: WorkerSessionIn,
        runner: Runs,
        outputs: Outputs,
        clock: Clock,
        rng: random.Random,
        calls: Mapping[str, str] | None = None,
        allowed: Allowed | None = None,
        closed: bool = False,
        run_as: RunAs = NODES_OWN,
        grace_ms: int = 0,
        token_from: str = "token=",
        output_max: int | None = None,
    ) -> None:
        """`opening`: what it says of itself. Its `incarnation` names this boot of this machine and what nobody else has
        (a data directory): only so can nothing be left of an earlier session after `Runs.fence`. `calls`: handlers by
        name, as "package.module:function". `allowed`: what jobs may name here; None: anything. `closed`: see
        run_error. `grace_ms`: what runs have to come to an end when the worker stops. `token_from`: how its user says a
        token, for who is refused. `output_max`: bytes of what a run prints that are kept here at most; None: as many as
        nodes keep."""
        self.name = opening.name
        self._opening, self._turns = opening, Turns(servers, rng)
        self._asked = self._turns.first  # for a session
        self._token_from = token_from
        self._errors: set[str] = set()  # said since there was a session
        self._refused_s = REFUSED_S
        self._runner = runner
        self._outputs = outputs
        self._clock = clock
        self._rng = rng
        self._calls = dict(calls or {})
        self._allowed, self._run_as, self._closed = allowed, run_as.of, closed
        self._output_max = output_max
        self.pause = Pause()
        self._lease = LeaseHolder()
        self._unrenewed = ""  # why the newest poll did not renew it, in words; empty: it did
        self._session = ""  # the text that nodes know it by
        self._poll_ms = 0
        self._early_ms = 0  # so much sooner than the lease says the session wants its runs to be ended
        self._after = 0  # the highest token that was taken
        self._todo: dict[int, Run] = {}  # given, not started yet
        self._runs: dict[int, tuple[str, ...]] = {}  # taken up and not settled; with the values of secrets it was given
        self._killing: dict[int, None] = {}
        self._outbox = Outbox()
        self._self_reports = SelfReports()
        self._finishing: dict[int, asyncio.Task[None]] = {}  # ends that wait for their output
        self._urgent = False  # something is to be said at once, beside reports
        self._flush_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._ping_at = 0
        self._stopping = self._ending = False
        self._grace = GracePeriod(grace_ms)

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Starts the runner, which waits until nothing of an earlier run of this worker is left: until then no session
        is opened. The rest goes on by itself. Raises StartupError."""
        self._loop = asyncio.get_running_loop()
        self._runner.on_started = self._on_started
        self._runner.on_ended = self._on_ended
        self._runner.on_self_report = self._on_self_report
        self._runner.on_died = self._on_died
        await self._runner.start()
        self._tick_timer = self._loop.call_later(TICK_S, self._on_timer)
        self._keeping = background.start("worker", self._keep_session())

    async def wind_down(self) -> None:
        """Takes nothing new, and gives what runs the grace period to come to an end; the lease is renewed meanwhile.
        Returns when nothing runs any more, or the grace period is over, or the session."""
        self._stopping = True
        if not self.session:
            return
        self._report_now()
        self._start_given()
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
        return self.session != 0 and any(token not in self._outbox for token in self._runs)

    async def stop(self) -> None:
        """Ends everything that runs here; returns when nothing is left. What ended by itself is reported, the rest is
        handed back: others may run it at once, and it does not count as lost."""
        self._stopping = self._ending = True
        if not self.session:  # an opening that is on its way is not ours any more
            await end_of(self._keeping)
        self._todo.clear()
        await self._runner.stop()  # the lease is renewed meanwhile, for ends to be reported under it
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        if self._finishing and self.session:
            await asyncio.wait(self._finishing.values(), timeout=HAND_BACK_S)
        for task in (self._keeping, self._polling, self._reporting, *self._finishing.values()):
            await end_of(task)
        if self.session:
            with suppress(TimeoutError):
                async with asyncio.timeout(HAND_BACK_S):
                    while self._outbox.waits and self.session:
                        await self._poll(0, 0)
        if self.session:
            ran = [t for t in self._runs if self._outbox.outcome(t) != "not_begun"]
            await close_session(self.name, self._turns, self._session, CloseIn(ran=ran[:TOKENS_MAX]), HAND_BACK_S)
        self._lease.lapse()

    @property
    def session(self) -> int:
        """The number of the session it works under; 0 when there is none."""
        return 0 if self._lease.lapsed else self._lease.session

    @property
    def session_text(self) -> str:
        """The text that nodes know the session by; empty: there is none."""
        return "" if self._lease.lapsed else self._session

    @property
    def asks(self) -> str:
        """The address of the node that is asked next."""
        return self._turns.first.name

    @property
    def holds_lease(self) -> bool:
        return self._lease.holds(self._clock.boot_ms())

    @property
    def trouble(self) -> str:
        """The reason why this worker starts nothing, or did not a moment ago; empty: it starts what it is given."""
        return STOPS if self._stopping else self.pause.trouble(self._clock.boot_ms())

    @property
    def running(self) -> int:
        """Runs taken up here whose end no node has confirmed yet."""
        return len(self._runs)

    # ------------------------------------------------------------ time

    def _on_timer(self) -> None:
        self._tick_timer = self._loop.call_later(TICK_S, self._on_timer)
        background.guarded("worker", self.tick)()

    def tick(self) -> None:
        """Whatever is due by the clock; called every TICK_S."""
        now = self._clock.boot_ms()
        if self._lease.over(now):
            self._run_out()
        if now >= self._ping_at:
            self._ping_at = now + HEARTBEAT_MS
            self._runner.ping()

    # ------------------------------------------------------------ the session

    async def _keep_session(self) -> None:
        while not self._stopping:
            pause = 0.0
            try:
                await self._runner.fence()
                await self._open()
            except Exception as exc:  # a worker that is there and runs nothing, for ever, would be worse
                pause = self._no_session(exc)
            else:
                self._errors.clear()
                self._refused_s = REFUSED_S
                self._polling = background.start("worker", self._poll_on())
                await asyncio.wait([self._polling])
            await asyncio.sleep(pause)

    def _no_session(self, why: Exception) -> float:
        """Returns how many seconds to wait before the next attempt."""
        if str(why) not in self._errors:  # else it would say so for ever
            if len(self._errors) >= ERRORS_MAX:
                self._errors.clear()
            self._errors.add(str(why))
            known = isinstance(why, RaftschedError | NoAnswer | Refused)
            said = log_texts.without_session(self._asked.name, why, self._token_from)
            log.warning("%s: %s", self.name, said, exc_info=None if known else why)
        if isinstance(why, NoAnswer):
            return self._turns.failed(self._asked)
        pause, self._refused_s = self._refused_s, min(REFUSED_MAX_S, 2 * self._refused_s)
        if isinstance(why, Refused) and why.after_s is not None:
            pause = min(why.after_s, TAKEN_S if why.code == "name-taken" else REFUSED_MAX_S)
        return pause * (0.75 + 0.25 * self._rng.random())

    async def _open(self) -> None:
        """Asks one node to open a session, and adopts it. Raises NoAnswer, Refused."""
        server = self._asked = self._turns.first
        sent = self._clock.boot_ms()
        # Each request has its own number: one that comes late, after a later one, must not end what that one opened.
        self._opening = replace(self._opening, opening=max(self._opening.opening + 1, sent))
        try:
            async with asyncio.timeout(OPEN_PATIENCE_S):
                out = await server.open(self._opening)
        except TimeoutError:
            raise NoAnswer(f"{server.name} did not answer within {OPEN_PATIENCE_S:g} s") from None
        except NoAnswer as exc:
            raise NoAnswer(f"{server.name}: {exc}") from None
        self._turns.answered(server)
        self._adopt(out, sent)

    def _adopt(self, out: WorkerSessionOut, sent: int) -> None:
        now = self._clock.boot_ms()
        number = int(out.session.partition("-")[0])
        self._session, self._poll_ms = out.session, min(out.poll_ms, POLL_MAX_MS)
        # Keepers begin to kill KILL_BEFORE_MS before the lease ends, a constant of this version. A node of another
        # version may count on more: the lease is taken as so much shorter, so that nothing runs behind its end.
        self._early_ms = max(0, out.kill_before_ms - KILL_BEFORE_MS)
        self._after, self._unrenewed = 0, ""
        self._lease.adopt(number, out.ttl_ms, now)
        self._lease.heartbeat(sent)
        if not self._lease.grant(number, sent, out.lease_ms - self._early_ms, now):
            self._lease.lapse()
            raise NoAnswer("the session was over before its answer came")
        self._runner.set_lease(number, self._lease.until_ms or 0)
        log.info("%s: session %d", self.name, number)

    def _lapse(self, why: str) -> None:
        if self._lease.lapsed:
            return
        log.warning("%s: %s", self.name, log_texts.lapsed(self._lease.session, why, stopping=self._stopping))
        self._lease.lapse()
        if not self._ending:
            self._runner.set_lease(0, 0)
        for token in list(self._runs):
            self._forget(token)
        for task in (self._polling, self._reporting, *self._finishing.values()):
            if task is not None:
                task.cancel()
        self._finishing.clear()
        self._self_reports.clear()
        self._outbox.clear()  # nobody takes them any more
        self._todo.clear()
        self._killing.clear()
        self._grace.recheck()

    def _run_out(self) -> None:
        self._lapse(log_texts.because("its lease ran out", self._unrenewed))

    def _on_died(self) -> None:
        if self._stopping:
            self.hurry()
        else:
            self._lapse("its supervisor process died")

    # ------------------------------------------------------------ polls

    async def _poll_on(self) -> None:
        """One poll after the other, as long as the session lasts."""
        while not self._lease.lapsed:
            wait_ms = LOOK_WAIT_MS if self._turns.failures else self._poll_ms
            await self._poll(wait_ms, RUNS_MAX)

    def _report_now(self) -> None:
        self._urgent = True
        self._flush_soon()

    def _flush_soon(self) -> None:
        """There is something to be said: a poll beside the one that waits."""
        if self._flush_timer is None and self._reporting is None and not self._lease.lapsed:
            self._flush_timer = self._loop.call_later(FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        if self._reporting is None and not self._lease.lapsed and (self._outbox.waits or self._urgent):
            self._reporting = background.start("worker", self._report_on())

    async def _report_on(self) -> None:
        try:
            while not self._lease.lapsed and (self._outbox.waits or self._urgent):
                await self._poll(0, 0)
        finally:
            self._reporting = None
            if self._outbox.waits:
                self._flush_soon()

    async def _poll(self, wait_ms: int, max_runs: int) -> None:
        """Sends one, and returns when it is time for the next."""
        try:
            pause = await self._ask(wait_ms, max_runs)
        except Exception as error:  # a worker that holds on to its session and does nothing would be worse
            background.note("worker", error, f"a poll of {self.name}")
            pause = REFUSED_S
        await asyncio.sleep(pause)

    async def _ask(self, wait_ms: int, max_runs: int) -> float:
        """Sends one poll and takes its answer. Returns how many seconds to wait before the next."""
        if not (self._ending or self._runner.moves(UNRESPONSIVE_MS)):  # it gets no more of the lease
            return TICK_S
        server, number = self._turns.first, self._lease.session
        sent = self._clock.boot_ms()  # as late as possible: the lease counts from here
        if self._lease.over(sent):
            self._run_out()
            return 0.0
        self._take_self_reports()
        batch, urgent, self._urgent = self._outbox.take(), self._urgent, False
        left_ms = (self._lease.until_ms or 0) - sent
        # The answer renews the lease, and may come as late as it was allowed to wait. With a quarter of what is left
        # three quarters remain to ask the other nodes (patience_ms) before keepers begin to kill. It never makes two
        # of a run: a lease that is not renewed ends sooner.
        wait_ms = min(wait_ms, max(0, left_ms // 4))
        self._lease.heartbeat(sent)
        request = PollIn(
            after=self._after,
            wait_ms=wait_ms,
            max_runs=max_runs,
            reports=batch,
            killing=list(self._killing),
            pause_ms=STOP_PAUSE_MS if self._stopping else self.pause.left_ms(sent),
            trouble=self.trouble[:512],
        )
        try:
            async with asyncio.timeout(self._turns.patience_ms(wait_ms, left_ms) / 1000):
                out = await server.poll(self._session, request)
        except SessionOver:
            self._lapse(f"{server.name} says that it is over")
            return 0.0
        except Refused as exc:
            self._urgent = self._urgent or urgent
            return self._refused(server, exc, batch)
        except (NoAnswer, TimeoutError) as exc:
            self._urgent = self._urgent or urgent
            return self._unanswered(server, exc)
        else:
            pause = self._taken(number, sent, request, out)
            if out.lease_ms <= 0 and pause:  # it has no leader, or does not hear of it
                self._unrenewed = f"{server.name} hears of no leader"
                return self._turns.failed(server)
            self._turns.answered(server)
            return pause
        finally:
            self._outbox.give_back(batch)

    def _unanswered(self, server: Server, why: Exception) -> float:
        self._unrenewed = log_texts.unanswered(server.name, why)
        pause = self._turns.failed(server)
        left_ms = (self._lease.until_ms or 0) - self._clock.boot_ms()
        log.info("%s: %s", self.name, log_texts.goes_on(self._unrenewed, self._turns.first.name, left_ms))
        return pause

    def _refused(self, server: Server, why: Refused, batch: Sequence[Report]) -> float:
        if why.status in _NOT_READABLE and batch:
            for report in self._outbox.not_readable(batch, why.detail):
                log.warning("%s: the end of attempt %d cannot be reported: %s", self.name, report.token, why.detail)
                self._settle(report)
            return EMPTY_S
        self._unrenewed = log_texts.refused(server.name, why)
        left_ms = (self._lease.until_ms or 0) - self._clock.boot_ms()
        log.warning("%s: %s", self.name, log_texts.goes_on(self._unrenewed, self._turns.first.name, left_ms))
        return min(why.after_s or REFUSED_S, REFUSED_S) * (0.75 + 0.25 * self._rng.random())

    def _taken(self, number: int, sent: int, request: PollIn, out: PollAnswer) -> float:
        now = self._clock.boot_ms()
        if self._lease.over(now):
            self._run_out()
        if self._lease.lapsed or number != self._lease.session:
            return 0.0
        if self._lease.grant(number, sent, out.lease_ms - self._early_ms, now):
            self._unrenewed = ""
            if not self._ending:
                self._runner.set_lease(number, self._lease.until_ms or 0)
        refused = {report.token: report for report in out.refused}
        for report in self._outbox.answered(request.reports):
            self._settle(report, refused.get(report.token))
        for token in out.kill:
            self._kill(token)
        for run in sorted(out.runs, key=lambda run: run.token):
            if run.token > self._after:  # else it was taken before
                self._after = run.token
                self._todo[run.token] = run
        self._start_given()
        if out.lease_ms <= 0 and not out.runs and not request.reports:
            return EMPTY_S
        said = out.runs or request.reports or any(token not in request.killing for token in out.kill)
        return 0.0 if said or now - sent >= min(request.wait_ms, EMPTY_S * 1000) else EMPTY_S

    def _settle(self, report: Report, refused: RefusedReport | None = None) -> None:
        """The log has it, or never will."""
        if refused is not None and refused.code == "invalid":
            log.warning("%s: a report of attempt %d was refused: %s", self.name, report.token, refused.detail)
            if self._outbox.refused(report, refused.detail):
                return
            refused = None
        if report.outcome is not None:
            self._forget(report.token)
        elif refused is not None and report.token in self._runs and report.token not in self._outbox:
            log.warning("%s: attempt %d is ended: %s", self.name, report.token, refused.detail)
            self._runner.kill(report.token, refused.detail)  # it is not ours any more

    def _forget(self, token: int) -> None:
        if self._runs.pop(token, None) is not None:
            self._self_reports.forget(token)
            self._outputs.forget(token)
            self._grace.recheck()
        self._killing.pop(token, None)
        self._todo.pop(token, None)

    # ------------------------------------------------------------ runs

    def _kill(self, token: int) -> None:
        if token in self._killing:
            return
        if len(self._killing) < TOKENS_MAX:
            self._killing[token] = None
        if token in self._runs and token not in self._outbox and token not in self._finishing:
            self._runner.kill(token, "killed on request")

    def _start_given(self) -> None:
        """Level-triggered: after each answer."""
        if not (self._todo and (self._stopping or self._lease.may_start(self._clock.boot_ms()))):
            return
        todo, self._todo = self._todo, {}
        for token, run in todo.items():
            self._runs[token] = ()
            if self._stopping:  # it was given before the leader heard that this worker stops: others may take it
                self._report_unstarted(token, "not_begun", WORKER_STOPPED)
            elif token in self._killing:
                self._report_unstarted(token, "killed", "killed before it was started")
            else:
                self._start(run)

    def _start(self, run: Run) -> None:
        try:
            rules = (self._calls, self._allowed, self._run_as, self._output_max, self._closed)
            spec = spec_of(run, self._lease.session, *rules)
        except BadJob as exc:
            self._report_unstarted(run.token, "failed", str(exc))
            return
        self._runs[run.token] = tuple(run.secrets)
        self._runner.launch(spec)

    # ------------------------------------------------------------ reports

    def _on_started(self, token: int, started_at_ms: int) -> None:
        self.pause.began(self._clock.boot_ms())
        if token in self._runs:
            self._outputs.begin(self._session, token)
            if token not in self._outbox:  # else its end is, which must not be forgotten
                self._report(Report(token=token, started_at_ms=started_at_ms))

    def _on_self_report(self, token: int, said: SelfReport) -> None:
        if token in self._runs and token not in self._outbox and token not in self._finishing:
            self._self_reports.add(token, said)
            self._take_self_reports()

    def _take_self_reports(self) -> None:
        """Adds what runs say of themselves to the reports, where no other word about them waits."""
        for token, said in self._self_reports.take_due(self._clock.boot_ms()):
            if self._outbox.waits_of(token):
                self._self_reports.add(token, said)
            else:
                self._report(self_report_of(token, said, self._runs.get(token, ())))

    def _on_ended(self, token: int, end: RunEnd) -> None:
        if token not in self._runs:
            return
        if end.outcome is Outcome.LOST and not end.alone:
            if self._ending:  # `stop` ends what runs: it is handed back when the session is closed
                return
            # Ended for the lease's sake, so this lease is not what we took it for. No report: only the session's end,
            # which the next opening brings, can give the attempt to somebody else.
            self._lapse(log_texts.because("a run was ended for the sake of the lease", self._unrenewed))
            return
        self._note_start(end)
        end = self._self_reports.completed(token, end)
        if end.output is None:
            self._report(ended_report(token, end, self._runs[token], None))
        else:
            self._finishing[token] = background.start("worker", self._finish(token, end))

    async def _finish(self, token: int, end: RunEnd) -> None:
        """Reports the end of a run once its output is where others can read it."""
        assert end.output is not None
        try:
            place = await self._finished_output(token, end.output)
            self._report(ended_report(token, end, self._runs[token], place))
        finally:
            self._finishing.pop(token, None)

    async def _finished_output(self, token: int, output: OutputRef) -> OutputPlace | str | list[Printed] | None:
        """Returns what the report carries of it: the run has ended, whatever becomes of its output."""
        try:
            return await self._outputs.finish(self._session, token, output)
        except Exception as error:
            background.note("worker", error, f"output of attempt {token}")
            return [Printed(stream="stderr", text=f"raftsched: the output could not be sent: {error}\n")]

    def _note_start(self, end: RunEnd) -> None:
        now = self._clock.boot_ms()
        if end.begun:
            self.pause.began(now)
        elif self.pause.failed(end.error or "", now):
            log.warning("%s takes no runs for %d ms: %s", self.name, self.pause.left_ms(now), end.error)

    def _report_unstarted(self, token: int, outcome: ReportedOutcome, error: str) -> None:
        self._report(Report(token=token, outcome=outcome, ended_at_ms=self._clock.wall_ms(), error=error))

    def _report(self, report: Report) -> None:
        self._outbox.add(report)
        self._grace.recheck()
        self._flush_soon()

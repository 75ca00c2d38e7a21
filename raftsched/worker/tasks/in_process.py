"""Runs inside the node's own process, for programs that carry a node and ask for it: coroutines in its event loop.

They see the program's objects, and nothing stands between them and it: what blocks the event loop blocks the node, and
what does not end when it is cancelled goes on. So they are outside of "never two at once": at a timeout, a kill, or
half a second before the lease ends, a run is cancelled; one that is not over after the grace period is reported as
ended, or lost, all the same. What it prints is the program's, and not kept.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from raftsched import handlers
from raftsched.core.commands import SelfReport
from raftsched.core.model import GRACE_MS, Outcome, Verdict
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.errors import StartupError
from raftsched.run import Teller, Word, in_context
from raftsched.system import background
from raftsched.system.clock import Clock
from raftsched.worker.executors.parameters import builder_of
from raftsched.worker.executors.raised import error_of
from raftsched.worker.executors.returned import NotRun, check_run, encode_result
from raftsched.worker.ports import Runs
from raftsched.worker.processes import wire
from raftsched.worker.processes.runner import RunEnd, RunSpec
from raftsched.worker.processes.tree import asked_error

log = logging.getLogger(__name__)

PREFIX = "in-process:"  # of where such a handler is; no module has this name

Handler = Callable[..., Coroutine[Any, Any, Any]]


def with_in_process_handlers(calls: Mapping[str, str], inside: Mapping[str, Handler]) -> dict[str, str]:
    """Returns all handlers of a node by name, with their places. Raises StartupError for a name that means two
    handlers, or too many."""
    for name in inside:
        if name in calls:
            raise StartupError(f"handler {name!r} is {calls[name]} as well; give one of them another name")
    found = {**calls, **{name: f"{PREFIX}{name}" for name in inside}}
    if len(found) > handlers.HANDLERS_MAX:
        raise StartupError(f"handlers: a node has {len(found)}; {handlers.HANDLERS_MAX} is the limit")
    return found


def inside_alone(calls: Mapping[str, str]) -> dict[str, str]:
    """Returns those of a node's handlers that need no process: they run in its own."""
    return {name: where for name, where in calls.items() if where.startswith(PREFIX)}


@dataclass(slots=True, eq=False)
class _Run:
    spec: RunSpec
    started_at_ms: int
    began: float  # by the monotonic clock, seconds
    teller: Teller
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    asked: Outcome | None = None  # to end, as this
    why: str = ""


class InProcessRunner:
    """A runner for these handlers, which leaves all other runs to another one."""

    def __init__(self, others: Runs, functions: Mapping[str, Handler], clock: Clock, grace_ms: int = GRACE_MS) -> None:
        self._others = others
        self._functions = functions
        self._builders = {name: builder_of(function) for name, function in functions.items()}
        self._clock = clock
        self._grace_s = grace_ms / 1000
        self.on_started: Callable[[int, int], None] = lambda token, started_at_ms: None
        self.on_ended: Callable[[int, RunEnd], None] = lambda token, end: None
        self.on_self_report: Callable[[int, SelfReport], None] = lambda token, said: None
        self.on_died: Callable[[], None] = lambda: None
        self._runs: dict[int, _Run] = {}  # by token
        self._lease = (0, 0)  # session, until when (boot ms)
        self._watch: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ as Runs has it

    async def start(self) -> None:
        self._others.on_started, self._others.on_ended = self.on_started, self.on_ended
        self._others.on_self_report, self._others.on_died = self.on_self_report, self.on_died
        await self._others.start()

    async def stop(self) -> None:
        await self._end_all("the node stops")
        await self._others.stop()

    async def fence(self) -> None:
        await self._end_all("its session is over")
        await self._others.fence()

    def moves(self, within_ms: int) -> bool:
        return self._others.moves(within_ms)

    def ping(self) -> None:
        self._others.ping()

    def launch(self, spec: RunSpec) -> None:
        if isinstance(spec.task, wire.Python) and spec.task.function.startswith(PREFIX):
            self._begin(spec, spec.task)
        else:
            self._others.launch(spec)

    def kill(self, token: int, reason: str = "") -> None:
        if token in self._runs:
            self._end(token, Outcome.KILLED, reason)
        else:
            self._others.kill(token, reason)

    def wind_down(self, grace_ms: int) -> None:
        self._others.wind_down(grace_ms)
        loop = asyncio.get_running_loop()
        for token, run in self._runs.items():
            allowed_ms = grace_ms if run.spec.stop_ms is None else min(grace_ms, run.spec.stop_ms)
            loop.call_later(allowed_ms / 1000, self._end, token, Outcome.KILLED, wire.NODE_STOPPED)

    def set_lease(self, session: int, deadline_boot_ms: int) -> None:
        self._lease = (session, deadline_boot_ms)
        self._others.set_lease(session, deadline_boot_ms)
        self._look()

    # ------------------------------------------------------------ runs

    def _begin(self, spec: RunSpec, task: wire.Python) -> None:
        loop = asyncio.get_running_loop()
        teller = Teller(lambda *said: self.on_self_report(spec.token, SelfReport(*said)))
        run = self._runs[spec.token] = _Run(spec, self._clock.wall_ms(), self._clock.monotonic(), teller)
        context = copy_context()
        context.run(handlers.variables.set, dict(task.env))
        context.run(in_context.set, run.teller)
        name = task.function.removeprefix(PREFIX)
        run.task = background.start("handlers", self._run(run, name, task), context)
        run.task.add_done_callback(lambda _: self._over(run))
        why = asked_error(wire.TIMED_OUT, spec.timeout_ms)
        run.timer = loop.call_later(spec.timeout_ms / 1000, self._end, spec.token, Outcome.TIMED_OUT, why)
        self.on_started(spec.token, run.started_at_ms)
        self._look()

    async def _run(self, run: _Run, name: str, task: wire.Python) -> None:
        outcome, error, result = Outcome.SUCCEEDED, None, None
        said: Word | None = None
        try:
            if task.cwd is not None or task.limits is not None or task.fresh:
                raise ValueError(
                    f'the handler "{name}" runs in the program itself: a run of it has no cwd, no limits, and no fresh'
                    " process"
                )
            params = json.loads(task.params) if task.params else {}
            build = self._builders[name]
            value = await self._functions[name](**(params if build is None else build(params)))
            check_run(value)
            result, error = encode_result(value)
        except asyncio.CancelledError:
            outcome, error = Outcome.FAILED, "the handler was cancelled by something in its program"
        except Word as exc:
            outcome, error, said = Outcome.FAILED, str(exc), exc
        except NotRun as exc:
            outcome, error = Outcome.FAILED, str(exc)
        except (Exception, SystemExit) as exc:
            outcome, error = Outcome.FAILED, error_of(exc, task.hidden)
        self._time(run)
        if run.asked is not None:
            outcome, error, result = run.asked, run.why or error, None
        self._tell(run, outcome, error, result, said)

    def _time(self, run: _Run) -> None:
        """Notes that a run which comes to its end is past its timeout, if nobody could tell it: what blocks the event
        loop keeps the timer from it, too."""
        took_s, timeout_ms = self._clock.monotonic() - run.began, run.spec.timeout_ms
        if run.asked is None and took_s > timeout_ms / 1000:
            run.asked = Outcome.TIMED_OUT
            late = f"it blocked the event loop, and was over after {took_s:.3f} s"
            run.why = f"{asked_error(wire.TIMED_OUT, timeout_ms)}: {late}"

    def _over(self, run: _Run) -> None:
        """Reports the end, also of a run that was asked to end before it had begun."""
        self._tell(run, run.asked or Outcome.FAILED, run.why or "the handler was interrupted", None)

    def _end(self, token: int, outcome: Outcome, why: str) -> None:
        run = self._runs.get(token)
        if run is None or run.asked is not None or run.task is None:
            return
        run.asked, run.why = outcome, why
        if run.timer is not None:
            run.timer.cancel()
        run.timer = asyncio.get_running_loop().call_later(self._grace_of(run.spec), self._give_up, run)
        run.task.cancel()

    def _grace_of(self, spec: RunSpec) -> float:
        """Returns how long the run has to end, in seconds."""
        return self._grace_s if spec.stop_ms is None else spec.grace_ms / 1000

    def _give_up(self, run: _Run) -> None:
        log.warning(
            "the handler of attempt %d does not end when it is cancelled; it may go on",
            run.spec.token,
            extra={"attempt": run.spec.token},
        )
        assert run.asked is not None
        why = f"{run.why}\n" if run.why else ""
        self._tell(run, run.asked, f"{why}it did not end when it was cancelled, and may still be at work", None)

    def _tell(
        self, run: _Run, outcome: Outcome, error: str | None, result: bytes | None, said: Word | None = None
    ) -> None:
        """Reports the end of a run, once."""
        if self._runs.pop(run.spec.token, None) is None:
            return
        if run.timer is not None:
            run.timer.cancel()
        ended = max(run.started_at_ms, self._clock.wall_ms())
        end = RunEnd(
            outcome=outcome,
            started_at_ms=run.started_at_ms,
            ended_at_ms=ended,
            error=wire.shorten(error) if error else None,
            result=result,
            verdict=None if said is None else Verdict(said.verdict),
            delay_ms=None if said is None else said.delay_ms,
            said=SelfReport(run.teller.percent, run.teller.text, run.teller.kept) if run.teller.said else None,
        )
        self.on_ended(run.spec.token, end)

    # ------------------------------------------------------------ the lease

    def _look(self) -> None:
        """Ends what has no lease any more, and comes back when the next one is about to."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        session, until = self._lease
        left_ms = until - KILL_BEFORE_MS - self._clock.boot_ms()
        for token, run in list(self._runs.items()):
            if run.spec.session != session or left_ms <= 0:
                self._end(token, Outcome.LOST, "")
        if self._runs and left_ms > 0:
            self._watch = asyncio.get_running_loop().call_later(left_ms / 1000, self._look)

    async def _end_all(self, why: str) -> None:
        """Returns when they have ended, or are given up."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for token in list(self._runs):
            self._end(token, Outcome.LOST, why)
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace_s)

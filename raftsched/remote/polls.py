"""The way of a remote worker to its cluster: it asks whichever node answers.

A poll renews the lease, carries reports, and brings what the session is given. One waits for runs; one beside it goes
out when there is something to be said.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from raftsched.bounds import ERROR_MAX, POLL_MAX_MS
from raftsched.core.commands import Ended, LoseAttempt, SelfReport
from raftsched.core.model import Outcome, OutputRef
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.errors import RaftschedError
from raftsched.remote.server_port import Failed, NoAnswer, Outputs, Refused, Server, SessionOver
from raftsched.remote.server_rotation import Turns
from raftsched.remote.tasks import Kept, report_of, self_report_of, spec_of
from raftsched.remote.worker_token import UNAUTHORIZED
from raftsched.surface.worker_sessions import (
    REPORTS_MAX,
    RUNS_MAX,
    CloseIn,
    PollAnswer,
    PollIn,
    Printed,
    RefusedReport,
    Run,
    WorkerSessionIn,
    WorkerSessionOut,
)
from raftsched.surface.worker_sessions import Report as Said
from raftsched.system import background
from raftsched.system.clock import Clock
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.session.link import Link, Unstarted, not_made
from raftsched.worker.session.reports import Report, Reports
from raftsched.worker.session.worker import STOP_PAUSE_MS, TICK_S
from raftsched.worker.tasks.permits import Permits
from raftsched.worker.tasks.tasks import BadJob

OPEN_PATIENCE_S = 5.0  # for the answer of one node
TELL_MS = 60_000  # after nodes refused ends of an earlier session so long, one is opened without: they may be why
REFUSED_S = 2.0  # before a refused request is sent again, unless its answer names a time
REFUSED_MAX_S = 30.0
TAKEN_S = 3.0  # another has the name: it may be free at any moment
LOOK_WAIT_MS = 250  # of a poll after one that failed: long enough to be granted a lease
EMPTY_S = 0.05  # before the next poll, when one was answered at once and there was nothing
HAND_BACK_S = 3.0  # for the last words, when the worker stops
TOKENS_MAX = 10 * REPORTS_MAX  # of one request
BATCH_BYTES = 256 * 1024  # of JSON in one poll, and one report more
_REFUSED = "Its report was refused: "
_NOT_READABLE = frozenset({400, 413, 422})

T = TypeVar("T")
log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class _KeptEnd(msgspec.Struct):
    """An end as it is kept on the disk. `session`: the text by which nodes know it."""

    session: str
    report: Said


_decode_kept = msgspec.json.Decoder(_KeptEnd).decode


class Polls(Link):
    """A worker's `Link` to nodes that it asks."""

    sends_output = True
    lost_output = (Printed(stream="stderr", text="raftsched: the output could not be sent in time\n"),)

    def __init__(
        self,
        *,
        servers: Sequence[Server],
        opening: WorkerSessionIn,
        outputs: Outputs,
        clock: Clock,
        rng: random.Random,
        permits: Permits,
        token_from: str = "token=",
        output_max: int | None = None,
    ) -> None:
        """`opening`: what it says of itself. Its `incarnation` names this boot of this machine and what nobody else has
        (a data directory): only so can nothing be left of an earlier session after `Runs.fence`. `permits`: what jobs
        may do here. `token_from`: how its user says a token, for who is refused. `output_max`: bytes of what a run
        prints that are kept here at most; None: as many as nodes keep."""
        self._name = opening.name
        self._opening, self._turns = opening, Turns(servers, rng)
        self._asked = self._turns.first  # for a session
        self._token_from = token_from
        self._refused_s = REFUSED_S
        self._outputs, self._clock, self._rng = outputs, clock, rng
        self._permits, self._output_max = permits, output_max
        self.reports: Reports[Said] = Reports()
        self._texts: dict[int, str] = {}  # session -> the text that nodes know it by; of those that reports are about
        self._poll_ms = 0
        self._early_ms = 0  # so much sooner than the lease says the session wants its runs to be ended
        self._tell_until: int | None = None  # see TELL_MS
        self._most = REPORTS_MAX  # reports of one poll
        self._urgent = False  # something is to be said at once, beside reports
        self._polling: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None

    @property
    def session_text(self) -> str:
        """The text that nodes know the session by, or that of the last one, whose ends are told yet; empty: there was
        none."""
        return next(reversed(self._texts.values()), "")

    @property
    def asks(self) -> str:
        """The address of the node that is asked next."""
        return self._turns.first.name

    # ------------------------------------------------------------ the session

    async def open(self) -> float:
        """Asks one node to open a session, and adopts it. Raises NoAnswer, Refused."""
        self._asked = self._turns.first
        await self._say_earlier_ends()
        server, sent = self._asked, self._clock.boot_ms()
        # Each request has its own number: one that comes late, after a later one, must not end what that one opened.
        self._opening = replace(self._opening, opening=max(self._opening.opening + 1, sent))
        out = await _answer_of(server, server.open(self._opening))
        self._turns.answered(server)
        self._adopt(out, sent)
        return 0.0

    async def _say_earlier_ends(self) -> None:
        """Tells the ends of a session that may be open still: with the opening, its attempts without an end are lost.
        Nothing of it is left, and nothing else is said of it: the leader takes each poll for a sign that it goes on.
        Raises NoAnswer, Refused."""
        self.reports.keep(self.reports.ends())
        if self._tell_until is not None and self._clock.boot_ms() >= self._tell_until:
            self._tell_until = None
            return
        server = self._asked
        while batch := self._take():
            request = PollIn(max_runs=0, reports=[report.data for report in batch], pause_ms=STOP_PAUSE_MS)
            try:
                self._settled(batch, await _answer_of(server, server.poll(self._texts[batch[0].session], request)))
            except SessionOver:
                self.reports.settle(batch)
            except Refused as error:
                if error.status not in _NOT_READABLE:
                    raise
                self._not_readable(batch, error.detail)
            finally:
                self.reports.give_back(batch)

    def no_session(self, error: Exception) -> tuple[str, float, bool]:
        said = str(error).rstrip(".")
        if isinstance(error, Refused):
            said = f"{self._asked.name}: {said}"
            if error.status == UNAUTHORIZED:
                said += f". Say a token of the role worker with {self._token_from}"
        words = f"no session yet, so nothing runs here: {said}. The worker asks again."
        if self._tell_until is None and isinstance(error, Refused | Failed):
            self._tell_until = self._clock.boot_ms() + TELL_MS
        if isinstance(error, NoAnswer):
            return words, self._turns.failed(self._asked), True
        pause, self._refused_s = self._refused_s, min(REFUSED_MAX_S, 2 * self._refused_s)
        if isinstance(error, Refused) and error.after_s is not None:
            pause = min(error.after_s, TAKEN_S if error.code == "name-taken" else REFUSED_MAX_S)
        return words, pause * (0.75 + 0.25 * self._rng.random()), isinstance(error, RaftschedError | Refused)

    def _adopt(self, out: WorkerSessionOut, sent: int) -> None:
        number = int(out.session.partition("-")[0])
        self._poll_ms, self._refused_s, self.unrenewed = min(out.poll_ms, POLL_MAX_MS), REFUSED_S, ""
        # Keepers begin to kill KILL_BEFORE_MS before the lease ends, a constant of this version. A node of another
        # version may count on more: the lease is taken as so much shorter, so that nothing runs behind its end.
        self._early_ms = max(0, out.kill_before_ms - KILL_BEFORE_MS)
        self.reports.keep(())
        self._texts, self._tell_until = {number: out.session}, None
        self._worker.adopt(number, out.ttl_ms)
        self._lease.heartbeat(sent)
        if not self._worker.granted(number, sent, out.lease_ms - self._early_ms):
            self._lease.lapse()
            raise NoAnswer("the session was over before its answer came")
        self._polling = background.start("worker", self._poll_on())

    def lapsed(self) -> None:
        for task in (self._polling, self._reporting):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._polling = self._reporting = None

    def tell(self) -> None:
        self._urgent = True
        self._worker.say_soon()

    async def close(self, session: int, ran: Sequence[int]) -> None:
        text = self._texts.get(session, "")
        tasks, self._polling, self._reporting = (self._polling, self._reporting), None, None
        for task in tasks:
            await background.end(task)
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_BACK_S):
                while self.reports.unsent and self._worker.session == session:
                    await self._poll(0, 0)
        if self._worker.session != session:
            return
        unsaid = {report.token for report in self.reports.ends() if report.data.outcome == "not_begun"}
        left = [token for token in ran if token in self._worker.runs and token not in unsaid]
        await self._close(text, CloseIn(ran=left[:TOKENS_MAX]))

    async def _close(self, text: str, request: CloseIn) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_BACK_S):
                while True:
                    server = self._turns.first
                    try:
                        async with asyncio.timeout(HAND_BACK_S / (self._turns.number + 1)):
                            await server.close(text, request)
                        return
                    except SessionOver:
                        return
                    except (NoAnswer, Refused, TimeoutError) as error:
                        pause = self._turns.failed(server)
                        why = f"{server.name} did not close the session: {str(error) or 'no answer'}"
                        log.info("%s: %s; %s is asked next", self._name, why, self._turns.first.name)
                        await asyncio.sleep(pause)
        words = "%s: no node closed its session, which ends when its lease has; what it had counts as lost then"
        log.warning(words, self._name)

    # ------------------------------------------------------------ polls

    async def _poll_on(self) -> None:
        """One poll after the other, as long as the session lasts."""
        session = self._lease.session
        while self._worker.session == session:
            wait_ms = LOOK_WAIT_MS if self._turns.failures else self._poll_ms
            await self._poll(wait_ms, RUNS_MAX)

    def say(self) -> None:
        """A poll beside the one that waits."""
        if self._reporting is None and self._more():
            self._reporting = background.start("worker", self._report_on())

    def _more(self) -> bool:
        return not self._lease.lapsed and self._polling is not None and bool(self.reports.unsent or self._urgent)

    async def _report_on(self) -> None:
        try:
            while self._more():
                await self._poll(0, 0)
        finally:
            if self._reporting is asyncio.current_task():
                self._reporting = None
                if self._more():
                    self._worker.say_soon()

    async def _poll(self, wait_ms: int, max_runs: int) -> None:
        """Sends one, and returns when it is time for the next."""
        try:
            pause = await self._ask(wait_ms, max_runs)
        except Exception as error:  # a worker that holds on to its session and does nothing would be worse
            background.note("worker", error, f"a poll of {self._name}")
            pause = REFUSED_S
        await asyncio.sleep(pause)

    async def _ask(self, wait_ms: int, max_runs: int) -> float:
        """Sends one poll and takes its answer. Returns how many seconds to wait before the next."""
        worker = self._worker
        if not worker.may_renew:
            return TICK_S
        server, number = self._turns.first, self._lease.session
        sent = self._clock.boot_ms()  # as late as possible: the lease counts from here
        worker.check_lease(sent)
        if self._lease.lapsed:
            return 0.0
        batch, urgent, self._urgent = self._take(), self._urgent, False
        left_ms = (self._lease.until_ms or 0) - sent
        # The answer renews the lease, and may come as late as it was allowed to wait. With a quarter of what is left
        # three quarters remain to ask the other nodes (patience_ms) before keepers begin to kill. It never makes two
        # of a run: a lease that is not renewed ends sooner.
        wait_ms = min(wait_ms, max(0, left_ms // 4))
        self._lease.heartbeat(sent)
        request = PollIn(
            after=worker.newest,
            wait_ms=wait_ms,
            max_runs=max_runs,
            reports=[report.data for report in batch],
            killing=list(worker.killing),
            pause_ms=worker.pause_ms,
            trouble=worker.trouble[:512],
        )
        try:
            async with asyncio.timeout(self._turns.patience_ms(wait_ms, left_ms) / 1000):
                out = await server.poll(self._texts[number], request)
        except SessionOver:
            worker.lapse(f"{server.name} says that it is over")
            return 0.0
        except Refused as error:
            self._urgent = self._urgent or urgent
            return self._refused(server, error, batch)
        except (NoAnswer, TimeoutError) as error:
            self._urgent = self._urgent or urgent
            self.unrenewed = f"{server.name} did not answer: {str(error).rstrip('.') or 'it takes too long'}"
            pause = self._turns.failed(server)
            self._note_unrenewed(logging.INFO)
            return pause
        else:
            pause = self._taken(number, sent, request, out, batch)
            if out.lease_ms <= 0 and pause:  # it has no leader, or does not hear of it
                self.unrenewed = f"{server.name} hears of no leader"
                return self._turns.failed(server)
            self._turns.answered(server)
            return pause
        finally:
            self.reports.give_back(batch)

    def _note_unrenewed(self, level: int) -> None:
        left_s = max(0, (self._lease.until_ms or 0) - self._clock.boot_ms()) / 1000
        words = "%s: %s. %s is asked next; what runs goes on for %.1f s."
        log.log(level, words, self._name, self.unrenewed, self._turns.first.name, left_s)

    def _taken(self, number: int, sent: int, request: PollIn, out: PollAnswer, batch: Sequence[Report[Said]]) -> float:
        worker = self._worker
        if number != worker.session:
            return 0.0
        if worker.granted(number, sent, out.lease_ms - self._early_ms):
            self.unrenewed = ""
        if number != worker.session:  # it ran out before the answer came
            return 0.0
        self._settled(batch, out)
        for token in out.kill:
            worker.kill(token)
        for run in sorted(out.runs, key=lambda run: run.token):
            worker.given(run.token, run)
        worker.start_given()
        if out.lease_ms <= 0 and not out.runs and not batch:
            return EMPTY_S
        said = out.runs or batch or any(token not in request.killing for token in out.kill)
        waited_ms = self._clock.boot_ms() - sent
        return 0.0 if said or waited_ms >= min(request.wait_ms, EMPTY_S * 1000) else EMPTY_S

    # ------------------------------------------------------------ runs

    def specs(self, session: int, todo: Mapping[int, Run]) -> Iterator[tuple[int, RunSpec | Unstarted]]:
        for token, run in todo.items():
            try:
                yield token, spec_of(run, session, self._permits, self._output_max)
            except BadJob as error:
                yield token, Unstarted(Outcome.FAILED, str(error))
            except Exception as error:
                yield token, not_made(token, error)

    def say_started(self, session: int, token: int, started_at_ms: int) -> None:
        self._outputs.begin(self._texts[session], token)
        self._add(session, Said(token=token, started_at_ms=started_at_ms))

    def say_progress(self, session: int, token: int, said: SelfReport) -> None:
        self._add(session, self_report_of(token, said))

    def end_of(self, end: Ended | LoseAttempt, output: Kept = None) -> Report[Said]:
        return self._report_of(end.session, report_of(end, output))

    def _add(self, session: int, said: Said) -> None:
        self.reports.add(self._report_of(session, said))

    def _report_of(self, session: int, said: Said) -> Report[Said]:
        try:
            size = len(_encode(said))
        except (ValueError, TypeError, RecursionError) as error:  # a poll with it could not be sent at all
            said = _as_failed(said, f"it is not JSON: {error}") or Said(token=said.token)
            size = len(_encode(said))
        ends = said.outcome is not None
        return Report(session, said.token, said, size, self._clock.boot_ms(), ends=ends)

    def _take(self) -> list[Report[Said]]:
        return self.reports.take(self._clock.boot_ms(), self._most, BATCH_BYTES)

    async def send_output(self, session: int, token: int, output: OutputRef) -> Kept:
        try:
            return await self._outputs.finish(self._texts[session], token, output)
        except Exception as error:
            background.note("worker", error, f"output of attempt {token}")
            return [Printed(stream="stderr", text=f"raftsched: the output could not be sent: {error}\n")]

    def forget(self, token: int) -> None:
        self._outputs.forget(token)

    def _settled(self, batch: Sequence[Report[Said]], out: PollAnswer) -> None:
        """They were taken, or refused one by one."""
        refused = {report.token: report for report in out.refused}
        for report in self.reports.settle(batch):
            self._settle(report, refused.get(report.token))
        if batch:
            self._most = min(REPORTS_MAX, 2 * self._most)

    def _settle(self, report: Report[Said], refused: RefusedReport | None) -> None:
        """The log has it, or never will."""
        if refused is not None and refused.code == "invalid":
            log.warning("%s: a report of attempt %d was refused: %s", self._name, report.token, refused.detail)
            failed = _as_failed(report.data, refused.detail)
            if failed is not None and not self.reports.waits_of(report.token):
                self._add(report.session, failed)
            if self.reports.waits_of(report.token):
                return
            refused = None
        if report.ends:
            self._worker.settled(report.token)
        elif refused is not None:
            self._worker.disown(report.token, refused.detail)

    def _refused(self, server: Server, why: Refused, batch: Sequence[Report[Said]]) -> float:
        if why.status in _NOT_READABLE and batch:
            self._not_readable(batch, why.detail)
            return EMPTY_S
        self.unrenewed = f"{server.name} refused a poll: {why.detail.rstrip('.')}"
        self._note_unrenewed(logging.WARNING)
        return min(why.after_s or REFUSED_S, REFUSED_S) * (0.75 + 0.25 * self._rng.random())

    def _not_readable(self, batch: Sequence[Report[Said]], why: str) -> None:
        """The poll was refused as a whole, for what it carried. Less is carried then, until it is one; that goes
        without what may be wrong with it, or is dropped, because even so it is refused."""
        if len(batch) > 1:
            self._most = len(batch) // 2
            return
        for report in self.reports.settle(batch):
            failed = _as_failed(report.data, why)
            if failed is not None:
                self._add(report.session, failed)
                continue
            log.warning("%s: the end of attempt %d cannot be reported: %s", self._name, report.token, why)
            if report.ends:
                self._worker.settled(report.token)

    # ------------------------------------------------------------ ends over a restart

    def kept(self, report: Report[Said]) -> bytes:
        return _encode(_KeptEnd(self._texts[report.session], report.data))

    def restore(self, ends: Sequence[bytes]) -> None:
        for raw in ends:
            with suppress(msgspec.DecodeError, ValueError):
                kept = _decode_kept(raw)
                session = int(kept.session.partition("-")[0])
                self._texts[session] = kept.session
                self._add(session, kept.report)


async def _answer_of(server: Server, answer: Awaitable[T]) -> T:
    """Waits for it. Raises Refused, SessionOver, and NoAnswer with the name of the node."""
    try:
        async with asyncio.timeout(OPEN_PATIENCE_S):
            return await answer
    except TimeoutError:
        raise NoAnswer(f"{server.name} did not answer within {OPEN_PATIENCE_S:g} s") from None
    except NoAnswer as error:
        raise type(error)(f"{server.name}: {error}") from None


def _as_failed(report: Said, why: str) -> Said | None:
    """Returns the report of a run's end that could not be taken as it was: one that succeeded has failed by that. None:
    it is no end, or has been made so already."""
    if report.outcome is None or (report.error or "").startswith(_REFUSED):
        return None
    return Said(
        token=report.token,
        outcome="failed" if report.outcome == "succeeded" else report.outcome,
        started_at_ms=report.started_at_ms,
        ended_at_ms=report.ended_at_ms,
        error=f"{_REFUSED}{why}"[:ERROR_MAX],
    )

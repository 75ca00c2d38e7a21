"""Makes commands of what remote workers report. Their times are theirs: a clock that is wrong must not make a run start
before its session, or end in the future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from raftsched.bounds import ERROR_MAX
from raftsched.core.commands import Ended, LoseAttempt, ReportProgress, SelfReport, Started, encode
from raftsched.core.limits import RESULT_MAX, STATE_MAX
from raftsched.core.model import Outcome, OutputRef, Verdict
from raftsched.core.rows import read_meta
from raftsched.core.rules.results import DROPPED
from raftsched.core.tables import ReadView, Table, assigned_key
from raftsched.errors import RaftschedError
from raftsched.output.keeping.owner_record import OutputOwner, owner_of_run
from raftsched.surface.worker_sessions import OutputPlace, Printed, RefusedReport, Report
from raftsched.system.clock import Clock
from raftsched.system.nesting import DEPTH_MAX, nests_deeper
from raftsched.worker.session.reports import with_self_report

STALE = "The attempt is over already, or is not one of this session."
TOO_LARGE = f"{DROPPED}: it has more than {RESULT_MAX:,} bytes of JSON"
TOO_DEEP = f"{DROPPED}: it nests deeper than {DEPTH_MAX} levels"
BATCH_MAX = 500  # commands in one proposal,
BATCH_BYTES = 256 * 1024  # and so many bytes, and one command more: see RaftOptions.entry_max_bytes
_OUTCOMES = {outcome.name.lower(): outcome for outcome in Outcome}
_VERDICTS = {verdict.name.lower(): verdict for verdict in Verdict}

_json = msgspec.json.Encoder().encode


class Judged(NamedTuple):
    """The JSON of a result or a state as it is kept; None: it is not, and why, in words about a result. A report may
    carry it in place of the value."""

    kept: bytes | None
    why: str = ""


class ReportedOutputs(Protocol):
    """The outputs that reports carry, or refer to; see outputs.Outputs."""

    async def store(
        self, token: int, run: OutputOwner | None, ended_at_ms: int, output: str | Sequence[Printed]
    ) -> OutputRef | None: ...

    def verify(self, place: OutputPlace) -> tuple[str, OutputRef]: ...


class Commands:
    """Makes commands of reports."""

    def __init__(
        self, node_id: str, read: Callable[[], AbstractContextManager[ReadView]], clock: Clock, outputs: ReportedOutputs
    ) -> None:
        self._node_id = node_id
        self._read = read
        self._clock = clock
        self._outputs = outputs

    async def of(
        self, session: int, since_ms: int, reports: Sequence[Report]
    ) -> tuple[list[tuple[Report, bytes]], list[RefusedReport]]:
        """Returns the commands of reports about live runs, and the refusals of the others, which cost the log nothing.
        `since_ms`: when the session was opened. Raises RaftschedError disk-full."""
        with self._read() as view:
            live = [report for report in reports if view.get(Table.ASSIGNED, assigned_key(session, report.token))]
        known = {report.token for report in live}
        refused = [stale(report.token) for report in reports if report.token not in known]
        stored = [report for report in live if report.output and not isinstance(report.output, OutputPlace)]
        kept = await asyncio.gather(*(self._kept(session, since_ms, report) for report in stored))  # with one flush
        refs = {report.token: ref for report, ref in zip(stored, kept, strict=True)}
        given: list[tuple[Report, bytes]] = []
        for report in live:
            try:
                ref = refs.get(report.token)
                if isinstance(ref, RaftschedError):
                    raise ref
                given.append((report, self._command(session, since_ms, report, ref)))
            except RaftschedError as error:
                if error.code != "invalid-body":
                    raise
                refused.append(not_valid(report.token, error.detail))
        return given, refused

    def may_be_behind(self, reports: Sequence[Report]) -> bool:
        """Returns whether there are reports about runs of which this node has not heard. Tokens only grow: a lower one
        that has no row here is over."""
        if not reports:
            return False
        with self._read() as view:
            last = read_meta(view).last_token
        return any(report.token > last for report in reports)

    async def _kept(self, session: int, since_ms: int, report: Report) -> OutputRef | RaftschedError | None:
        output = report.output
        assert output is not None
        assert not isinstance(output, OutputPlace)
        _, ended = self._times(since_ms, report)
        with self._read() as view:
            run = owner_of_run(view, session, report.token)
        try:
            return await self._outputs.store(report.token, run, ended, output)
        except RaftschedError as error:
            return error

    def _times(self, since_ms: int, report: Report) -> tuple[int | None, int]:
        """Returns when the run started, if that is said, and when it ended."""
        now = self._clock.wall_ms()
        started = None if report.started_at_ms is None else _between(since_ms, report.started_at_ms, now)
        ended = _between(since_ms, now if report.ended_at_ms is None else report.ended_at_ms, now)
        return started, max(started or 0, ended)

    def _command(self, session: int, since_ms: int, report: Report, ref: OutputRef | None) -> bytes:
        """`ref`: of an output that came with the report."""
        token = report.token
        started, ended = self._times(since_ms, report)
        said = _said(report)
        if report.outcome is None and said is not None:
            return encode(ReportProgress(session, token, said))
        if report.outcome is None:
            return encode(Started(session, token, self._clock.wall_ms() if started is None else started))
        error = None if report.error is None else report.error[:ERROR_MAX]
        if report.outcome == "not_begun":
            return encode(Ended(session, token, Outcome.KILLED, None, ended, error=error, begun=False))
        node = "" if ref is None else self._node_id
        if isinstance(report.output, OutputPlace):
            node, ref = self._outputs.verify(report.output)
        if report.outcome == "lost":
            return encode(LoseAttempt(session, token, ended, started, error, ref, node))
        result, unkept = judge(report.result, RESULT_MAX)
        if unkept:
            error = (f"{error}; " if error else "")[: ERROR_MAX // 2] + unkept
        outcome = _OUTCOMES[report.outcome]
        command = Ended(session, token, outcome, started, ended, report.exit_code, error, result, ref, output_node=node)
        if report.verdict is not None or report.delay_ms is not None or said is not None:
            verdict = None if report.verdict is None else _VERDICTS[report.verdict]
            command = with_self_report(command, verdict, report.delay_ms, said)
        return encode(command)


def _said(report: Report) -> SelfReport | None:
    """Returns what the run says of itself; None: nothing. A state that is too large, or nests too deeply, is left as it
    was."""
    if not report.says:
        return None
    return SelfReport(report.progress, report.text, judge(report.state, STATE_MAX).kept)


def judge(value: Any, most: int) -> Judged:
    """Returns a value as it is kept, of `most` bytes, or why it is not."""
    if value is None or isinstance(value, Judged):
        return value or Judged(None)
    if nests_deeper(value):  # before it is encoded, which may want more stack than there is
        return Judged(None, TOO_DEEP)
    kept = _json(value)
    return Judged(None, TOO_LARGE) if len(kept) > most else Judged(kept)


def batches(given: Sequence[tuple[Report, bytes]]) -> list[list[tuple[Report, bytes]]]:
    """Returns them in parts, each of which fits an entry of the log."""
    batches: list[list[tuple[Report, bytes]]] = []
    size = 0
    for one in given:
        if not batches or len(batches[-1]) >= BATCH_MAX or size >= BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(one)
        size += len(one[1])
    return batches


def not_valid(token: int, why: str) -> RefusedReport:
    """Returns the refusal of a report that is not as it must be."""
    return RefusedReport(token=token, code="invalid", detail=why[:ERROR_MAX])


def stale(token: int) -> RefusedReport:
    """Returns the refusal of a report that comes too late, or is not of its session."""
    return RefusedReport(token=token, code="stale", detail=STALE)


def _between(least: int, value: int, most: int) -> int:
    return max(least, min(value, most))

"""Makes commands of what remote workers report. Their times are theirs: a clock that is wrong must not make a run start
before its session, or end in the future."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from raftsched.clock import Clock
from raftsched.core.commands import Ended, LoseAttempt, Started, encode
from raftsched.core.limits import ERROR_MAX, RESULT_MAX
from raftsched.core.model import Outcome, OutputRef
from raftsched.core.rows import INSTANCES, JOBS
from raftsched.core.tables import ReadView, Table, assigned_key
from raftsched.errors import RaftschedError
from raftsched.remote.protocol import OutputPlace, Printed, RefusedReport, Report

STALE = "The attempt is over already, or is not one of this session."
RESULT_TOO_LARGE = f"its result has more than {RESULT_MAX:,} bytes, and was not kept"
_OUTCOMES = {
    "succeeded": Outcome.SUCCEEDED,
    "failed": Outcome.FAILED,
    "timed_out": Outcome.TIMED_OUT,
    "killed": Outcome.KILLED,
    "not_begun": Outcome.KILLED,
}
_EXIT_MAX = 2**31

_json = msgspec.json.Encoder().encode


class ReportedOutputs(Protocol):
    """The outputs that reports carry, or refer to; see outputs.Outputs."""

    async def store(
        self, token: int, namespace: str, ended_at_ms: int, output: str | Sequence[Printed]
    ) -> OutputRef | None: ...

    def verify(self, place: OutputPlace) -> tuple[str, OutputRef]: ...


class NoOutputs:
    """Keeps nothing, for a node without a store of outputs."""

    async def store(
        self, token: int, namespace: str, ended_at_ms: int, output: str | Sequence[Printed]
    ) -> OutputRef | None:
        return None

    def verify(self, place: OutputPlace) -> tuple[str, OutputRef]:
        raise RaftschedError("invalid-body", "this node has no outputs")


class Commands:
    """Makes commands of reports."""

    def __init__(
        self,
        node_id: str,
        read: Callable[[], AbstractContextManager[ReadView]],
        clock: Clock,
        outputs: ReportedOutputs,
    ) -> None:
        self._node_id = node_id
        self._read = read
        self._clock = clock
        self._outputs = outputs

    async def of(self, session: int, since_ms: int, report: Report) -> bytes | RefusedReport:
        """Returns the command. `since_ms`: when the session was opened. Raises RaftschedError invalid-body,
        disk-full."""
        now = self._clock.wall_ms()
        started = None if report.started_at_ms is None else _between(since_ms, report.started_at_ms, now)
        token = report.token
        if report.outcome is None:
            return encode(Started(session, token, now if started is None else started))
        ended = max(started or 0, _between(since_ms, now if report.ended_at_ms is None else report.ended_at_ms, now))
        error = None if report.error is None else report.error[:ERROR_MAX]
        if report.outcome == "not_begun":
            return encode(Ended(session, token, Outcome.KILLED, None, ended, error=error, begun=False))
        node, ref = "", None
        if report.output:
            namespace = self._namespace_of(session, token)
            if namespace is None:  # nothing is kept for what is not this session's
                return RefusedReport(token=token, code="stale", detail=STALE)
            if isinstance(report.output, OutputPlace):
                node, ref = self._outputs.verify(report.output)
            else:
                ref = await self._outputs.store(token, namespace, ended, report.output)
                node = "" if ref is None else self._node_id
        if report.outcome == "lost":
            return encode(LoseAttempt(session, token, ended, started, error, ref, node))
        result = None if report.result is None else _json(report.result)
        if result is not None and len(result) > RESULT_MAX:
            result, error = None, (f"{error}; " if error else "")[: ERROR_MAX // 2] + RESULT_TOO_LARGE
        exit_code = None if report.exit_code is None else max(-_EXIT_MAX, min(report.exit_code, _EXIT_MAX))
        outcome = _OUTCOMES[report.outcome]
        return encode(Ended(session, token, outcome, started, ended, exit_code, error, result, ref, output_node=node))

    def needs_rows(self, session: int, reports: Sequence[Report]) -> bool:
        """Returns whether reports with output are among them about runs that this node does not know: it may be
        behind."""
        return any(
            report.outcome is not None and report.output and self._namespace_of(session, report.token) is None
            for report in reports
        )

    def _namespace_of(self, session: int, token: int) -> str | None:
        """Returns the namespace of a live run of this session; None: it has no such run."""
        with self._read() as view:
            key = view.get(Table.ASSIGNED, assigned_key(session, token))
            instance = None if key is None else INSTANCES.get(view, key)
            if instance is None:
                return None
            job = JOBS.get(view, instance.job_id)
        return "" if job is None else job.namespace


def _between(least: int, value: int, most: int) -> int:
    return max(least, min(value, most))

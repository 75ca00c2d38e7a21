"""Makes of a run that a node gave something that starts, and of its end a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from raftsched.core.commands import EndedWithReport, LoseAttempt, SelfReport
from raftsched.core.model import Outcome, Verdict
from raftsched.core.rules.allowed import Allowed
from raftsched.surface.worker_sessions import Outcome as ReportedOutcome
from raftsched.surface.worker_sessions import OutputPlace, Printed, Report, Run
from raftsched.surface.worker_sessions import Verdict as Judged
from raftsched.worker.processes.run_as import UnknownUser
from raftsched.worker.processes.runner import RunEnd, RunSpec
from raftsched.worker.processes.wire import NODE_STOPPED
from raftsched.worker.session.reports import report_of, shown
from raftsched.worker.tasks.permits import permitted
from raftsched.worker.tasks.tasks import BadJob, Resolved, task_of

WORKER_STOPPED = "Its worker stopped, and handed it back."
_encode = msgspec.json.Encoder().encode

_OUTCOME_NAMES: Mapping[Outcome, ReportedOutcome] = {
    Outcome.SUCCEEDED: "succeeded",
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "timed_out",
    Outcome.KILLED: "killed",
}
_VERDICTS: Mapping[Verdict, Judged] = {
    Verdict.SUCCEED: "succeed",
    Verdict.RETRY: "retry",
    Verdict.FAIL: "fail",
    Verdict.CANCEL: "cancel",
    Verdict.SNOOZE: "snooze",
}


def spec_of(
    run: Run,
    session: int,
    calls: Mapping[str, str],
    allowed: Allowed | None,
    run_as: Callable[[str, str], str],
    output_max: int | None = None,
    closed: bool = False,
) -> RunSpec:
    """Makes the run, and holds it against `allowed`. `calls`: this worker's handlers by name. `run_as`: the user, from
    the job's namespace and what it asks for. `output_max`: bytes of what it prints that this worker keeps at most;
    None: as many as nodes do. `closed`: see run_error. Raises BadJob."""
    try:
        user = run_as(run.namespace, run.user)
    except UnknownUser as exc:
        raise BadJob(str(exc)) from None
    found = Resolved(_encode(run.handler), _encode(run.params), run.env, tuple(run.secrets), run.user)
    spec = RunSpec(
        token=run.token,
        session=session,
        task=task_of(found, calls),
        timeout_ms=run.timeout_ms,
        grace_ms=run.grace_ms,
        stop_ms=run.grace_ms if run.own_grace else None,
        namespace=run.namespace,
        user=user,
        output_max=run.output_max_bytes if output_max is None else min(run.output_max_bytes, output_max),
        run_env=run.env,
        trace=(run.traceparent or "", run.tracestate or ""),
    )
    return permitted(spec, allowed, closed)


Kept = OutputPlace | str | list[Printed] | None


def ended_report(token: int, end: RunEnd, hidden: tuple[str, ...], output: Kept) -> Report:
    """Makes the report of a run's end. `hidden`: values that must not be shown."""
    ended = report_of(0, token, end, hidden)
    if isinstance(ended, LoseAttempt):
        return Report(
            token=token,
            outcome="lost",
            started_at_ms=ended.started_at_ms,
            ended_at_ms=ended.ended_at_ms,
            error=ended.error,
            output=output,
        )
    return Report(
        token=token,
        outcome=_OUTCOME_NAMES[ended.outcome] if ended.begun else "not_begun",
        started_at_ms=ended.started_at_ms,
        ended_at_ms=ended.ended_at_ms,
        exit_code=ended.exit_code,
        error=WORKER_STOPPED if ended.error == NODE_STOPPED else ended.error,
        result=msgspec.json.decode(ended.result) if ended.result else None,
        output=output,
        verdict=None if end.verdict is None else _VERDICTS[end.verdict],
        delay_ms=end.delay_ms,
        **_fields_of(ended.said if isinstance(ended, EndedWithReport) else None),
    )


def self_report_of(token: int, said: SelfReport, hidden: tuple[str, ...]) -> Report:
    """Makes the report of what a run says while it goes on. `hidden`: values that must not be shown."""
    return Report(token=token, **_fields_of(shown(said, hidden)))


def _fields_of(said: SelfReport | None) -> dict[str, Any]:
    if said is None:
        return {}
    kept = None if said.kept is None else msgspec.json.decode(said.kept)
    return {"progress": said.percent, "text": said.text, "state": kept}

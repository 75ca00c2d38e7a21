"""Makes of a run that a node gave something that starts, and of its end a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from raftsched.core.commands import Ended, EndedWithReport, LoseAttempt, SelfReport
from raftsched.core.model import Outcome, Verdict
from raftsched.surface.worker_sessions import OutputPlace, Printed, Report, Run
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.processes.wire import NODE_STOPPED
from raftsched.worker.tasks.permits import Permits
from raftsched.worker.tasks.tasks import BadJob, Resolved

WORKER_STOPPED = "Its worker stopped, and handed it back."
_encode = msgspec.json.Encoder().encode

_OUTCOMES: Mapping[Outcome, Any] = {outcome: outcome.name.lower() for outcome in Outcome}
_VERDICTS: Mapping[Verdict | None, Any] = {None: None} | {verdict: verdict.name.lower() for verdict in Verdict}


def spec_of(run: Run, session: int, permits: Permits, output_max: int | None = None) -> RunSpec:
    """Makes the run, and holds it against what this worker permits. `output_max`: bytes of what it prints that this
    worker keeps at most; None: as many as nodes do. Raises BadJob."""
    if run.error is not None:
        raise BadJob(run.error)
    return permits.spec(
        Resolved(_encode(run.handler), _encode(run.params), run.env, tuple(run.secrets), run.user),
        token=run.token,
        session=session,
        namespace=run.namespace,
        timeout_ms=run.timeout_ms,
        grace_ms=run.grace_ms,
        stop_ms=run.grace_ms if run.own_grace else None,
        output_max=run.output_max_bytes if output_max is None else min(run.output_max_bytes, output_max),
        trace=(run.traceparent or "", run.tracestate or ""),
    )


Kept = OutputPlace | str | list[Printed] | None


def report_of(ended: Ended | LoseAttempt, output: Kept) -> Report:
    """Makes the report of a run's end, as a node takes it, of the command that a node's own worker would propose."""
    if isinstance(ended, LoseAttempt):
        return Report(
            token=ended.token,
            outcome="lost",
            started_at_ms=ended.started_at_ms,
            ended_at_ms=ended.ended_at_ms,
            error=ended.error,
            output=output,
        )
    more = ended if isinstance(ended, EndedWithReport) else None
    return Report(
        token=ended.token,
        outcome=_OUTCOMES[ended.outcome] if ended.begun else "not_begun",
        started_at_ms=ended.started_at_ms,
        ended_at_ms=ended.ended_at_ms,
        exit_code=ended.exit_code,
        error=WORKER_STOPPED if ended.error == NODE_STOPPED else ended.error,
        result=msgspec.Raw(ended.result) if ended.result else None,
        output=output,
        verdict=None if more is None else _VERDICTS[more.verdict],
        delay_ms=None if more is None else more.delay_ms,
        **_fields_of(None if more is None else more.said),
    )


def self_report_of(token: int, said: SelfReport) -> Report:
    """Makes the report of what a run says while it goes on."""
    return Report(token=token, **_fields_of(said))


def _fields_of(said: SelfReport | None) -> dict[str, Any]:
    if said is None:
        return {}
    kept = None if said.kept is None else msgspec.Raw(said.kept)
    return {"progress": said.percent, "text": said.text, "state": kept}

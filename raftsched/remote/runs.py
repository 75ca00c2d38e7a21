"""A run as a remote worker gets it: out of the rows, with secrets in place of references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec

from raftsched.bounds import OUTPUT_MAX
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import GRACE_MS, Attempt, Instance, Job
from raftsched.core.rows import INSTANCES, job_of
from raftsched.core.rules.references import find_secret
from raftsched.core.tables import ReadView, Table, after, assigned_key, from_u64, u64
from raftsched.security.sealing import Sealer
from raftsched.surface.worker_sessions import Run
from raftsched.worker.tasks.tasks import BadJob, names_trace, resolved

ANSWER_BYTES = 4 * 1024 * 1024  # of runs in one answer, and one run more
_RUN_BYTES = 1_024  # of a run, beside its handler and params

_json = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def _as_ever(view: ReadView, namespace: str) -> int:
    return OUTPUT_MAX


def given_runs(
    view: ReadView,
    session: int,
    above: int,
    most: int,
    sealer: Sealer | None,
    output_max: Callable[[ReadView, str], int] = _as_ever,
    trace: Callable[[Instance], Mapping[str, str]] | None = None,
) -> Iterator[Run]:
    """Yields the runs that a session was given with tokens above this one, the lowest first: at most so many, and no
    more than one answer holds. `output_max`: how many bytes are kept of what a run of a namespace prints. `trace`:
    returns the headers that carry the context of an instance's trace; None: there are no traces."""
    size = count = 0
    for key, instance_key in view.scan(Table.ASSIGNED, assigned_key(session, above + 1), after(u64(session))):
        if count >= most or size >= ANSWER_BYTES:
            return
        instance = INSTANCES.get(view, instance_key)
        attempt = None if instance is None else instance.live
        if instance is None or attempt is None or attempt.token != from_u64(key[8:]):
            continue
        run, weight = _run_of(view, job_of(view, instance), instance, attempt, sealer)
        run.output_max_bytes = output_max(view, run.namespace)
        if trace is not None:
            _carry(run, trace(instance))
        count += 1
        size += weight
        yield run


def asked_to_end(view: ReadView, session: int) -> Iterator[int]:
    """Yields the tokens of the runs of a session that are asked to end."""
    prefix = u64(session)
    for key, instance_key in view.scan(Table.ASSIGNED, prefix, after(prefix)):
        instance = INSTANCES.get(view, instance_key)
        if instance is not None and instance.kill_asked:
            yield from_u64(key[8:])


def _run_of(
    view: ReadView, job: Job | None, instance: Instance, attempt: Attempt, sealer: Sealer | None
) -> tuple[Run, int]:
    """Returns the run, and about how many bytes it has. What cannot be run is handed out with what is wrong with it:
    another node may have handed it out already, so only the worker can say that it does not run."""
    if job is None:
        return _broken(instance, attempt, "the job's definition is gone"), _RUN_BYTES
    policy = job.policy
    if instance.notice is not None:  # given by a leader of an earlier version
        return _broken(instance, attempt, "events are delivered by nodes, not by remote workers"), _RUN_BYTES
    run = msgspec.structs.replace(
        _broken(instance, attempt, None),
        job_name=job.name,
        namespace=job.namespace,
        queue=policy.queue,
        timeout_ms=policy.timeout_ms,
        grace_ms=GRACE_MS if policy.grace_ms is None else policy.grace_ms,
        own_grace=policy.grace_ms is not None,
    )
    try:
        found = resolved(job, instance, attempt, partial(find_secret, view), sealer)
        handler, params = _json(found.handler), _json(found.params)
        run.handler, run.params = handler, params
    except BadJob as why:
        run.error = str(why)
        return run, _RUN_BYTES
    run.env, run.user, run.secrets = found.env, found.user, list(found.hidden)
    run.scheduled_at = found.env["RAFTSCHED_SCHEDULED_AT"]
    return run, _RUN_BYTES + len(found.handler) + len(found.params)


def _carry(run: Run, context: Mapping[str, str]) -> None:
    """Puts the context of its trace into a run, for the worker, and for the program where the job names none itself."""
    run.traceparent, run.tracestate = context.get("traceparent"), context.get("tracestate")
    if run.error is None and not names_trace(_encode(run.handler)):
        run.env = {**run.env, **{name.upper(): value for name, value in context.items()}}


def _broken(instance: Instance, attempt: Attempt, error: str | None) -> Run:
    return Run(
        token=attempt.token,
        instance=instance_text(instance.key),
        job=job_text(instance.job_id),
        job_name=None,
        namespace="",
        queue="",
        priority=instance.priority,
        attempt=attempt.number,
        scheduled_at="",
        handler={},
        params={},
        timeout_ms=1,
        grace_ms=0,
        env={},
        error=error,
    )

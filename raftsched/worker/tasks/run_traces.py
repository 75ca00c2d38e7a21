"""The spans of runs: from when a worker gave a run to its runner until nothing of it is left.

`TracedRuns` stands before the runner, on nodes and remote workers alike, and gives each run the context of its span:
TRACEPARENT in its environment, `traceparent` among the headers of its request. Errors of runs are in no span, since
they quote what a run printed; the outcome is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode

from raftsched.core.commands import SelfReport
from raftsched.core.ids import parse_instance
from raftsched.core.model import Outcome
from raftsched.tracing.tracer import Tracer, carried, carrier
from raftsched.worker.ports import Runs
from raftsched.worker.processes.runner import RunEnd, RunSpec
from raftsched.worker.processes.wire import Exec, Http, Mail, Python, Task
from raftsched.worker.tasks.tasks import TRACEPARENT, TRACESTATE

_NS_IN_MS = 1_000_000
HANDED_BACK = "handed_back"  # the outcome of what could not be started, or was ended because the node stops
# What a run is told of itself -> the attribute that says it.
_ATTRIBUTES = {
    "RAFTSCHED_JOB_ID": "raftsched.job.id",
    "RAFTSCHED_JOB_NAME": "raftsched.job.name",
    "RAFTSCHED_INSTANCE_ID": "raftsched.instance.id",
    "RAFTSCHED_SCHEDULED_AT": "raftsched.scheduled_at",
    "RAFTSCHED_TRIGGER_ID": "raftsched.trigger.id",
    "RAFTSCHED_PARENT_INSTANCE_ID": "raftsched.parent.instance.id",
    "RAFTSCHED_CAUSE_INSTANCE_ID": "raftsched.cause.instance.id",
    "RAFTSCHED_WORKER": "raftsched.worker",
}


class TracedRuns:
    """A runner whose runs have spans. All that it does is the other runner's."""

    def __init__(self, others: Runs, tracer: Tracer) -> None:
        self._others = others
        self._tracer = tracer
        self._open: dict[int, Span] = {}  # by token
        self.on_started: Callable[[int, int], None] = lambda token, started_at_ms: None
        self.on_ended: Callable[[int, RunEnd], None] = lambda token, end: None
        self.on_self_report: Callable[[int, SelfReport], None] = lambda token, said: None
        self.on_died: Callable[[], None] = lambda: None

    # ------------------------------------------------------------ as Runs has it

    async def start(self) -> None:
        self._others.on_started, self._others.on_ended = self.on_started, self._ended
        self._others.on_self_report, self._others.on_died = self.on_self_report, self._died
        await self._others.start()

    async def stop(self) -> None:
        await self._others.stop()
        self._end_all(HANDED_BACK)

    async def fence(self) -> None:
        await self._others.fence()

    def moves(self, within_ms: int) -> bool:
        return self._others.moves(within_ms)

    def ping(self) -> None:
        self._others.ping()

    def launch(self, spec: RunSpec) -> None:
        span = self._begin(spec)
        self._open[spec.token] = span
        task = with_context(spec.task, carrier(span.get_span_context()), spec.trace[0])
        self._others.launch(spec if task is spec.task else replace(spec, task=task))

    def kill(self, token: int, reason: str = "") -> None:
        span = self._open.get(token)
        if span is not None:
            span.add_event("kill", {"raftsched.reason": reason}, self._tracer.now_ns())
        self._others.kill(token, reason)

    def wind_down(self, grace_ms: int) -> None:
        self._others.wind_down(grace_ms)

    def set_lease(self, session: int, deadline_boot_ms: int) -> None:
        self._others.set_lease(session, deadline_boot_ms)

    # ------------------------------------------------------------ spans

    def _begin(self, spec: RunSpec) -> Span:
        run_env = spec.run_env
        name = run_env.get("RAFTSCHED_JOB_NAME") or ""
        attributes: dict[str, Any] = {
            name: run_env[variable] for variable, name in _ATTRIBUTES.items() if run_env.get(variable)
        }
        attributes["raftsched.namespace"] = spec.namespace
        attributes["raftsched.attempt"] = int(run_env.get("RAFTSCHED_ATTEMPT", "0"))
        attributes["raftsched.fencing_token"] = spec.token
        attributes["raftsched.handler"] = str(spec.task.__struct_config__.tag)
        return self._tracer.start(
            f"run {name}" if name else "run",
            SpanKind.CONSUMER,
            parent=self._parent(spec),
            links=[] if spec.trace[0] else self._causes(run_env),
            attributes=attributes,
        )

    def _parent(self, spec: RunSpec) -> SpanContext | None:
        """Returns the context of the run's fire: as the node said that gave it to this worker, or as a node derives
        it."""
        if spec.trace[0]:
            return carried(dict(zip(("traceparent", "tracestate"), spec.trace, strict=True)))
        run_env = spec.run_env
        key = parse_instance(run_env.get("RAFTSCHED_INSTANCE_ID", ""))
        if key is None or not self._tracer.cluster_id():
            return None
        return self._tracer.fire_context(key, parse_instance(run_env.get("RAFTSCHED_PARENT_INSTANCE_ID", "")))

    def _causes(self, run_env: Mapping[str, str]) -> list[SpanContext]:
        """Returns the context of the run by whose end this one was started: another trace, since it may go on for
        days."""
        key = parse_instance(run_env.get("RAFTSCHED_CAUSE_INSTANCE_ID", ""))
        return [] if key is None or not self._tracer.cluster_id() else [self._tracer.fire_context(key)]

    def _ended(self, token: int, end: RunEnd) -> None:
        span = self._open.pop(token, None)
        if span is not None:
            self._end(span, end)
        self.on_ended(token, end)

    def _end(self, span: Span, end: RunEnd) -> None:
        outcome = end.outcome.name.lower() if end.begun else HANDED_BACK
        span.set_attribute("raftsched.outcome", outcome)
        if end.started_at_ms is not None:  # of a process: what came before is the way to it
            span.add_event("started", None, end.started_at_ms * _NS_IN_MS)
        if end.verdict is not None:
            span.set_attribute("raftsched.verdict", end.verdict.name.lower())
        if end.exit_code is not None:
            span.set_attribute("process.exit.code", end.exit_code)
        if end.outcome not in (Outcome.SUCCEEDED, Outcome.KILLED) and end.begun:
            span.set_attribute("error.type", outcome)
            span.set_status(Status(StatusCode.ERROR, outcome))
        span.end(self._tracer.now_ns())

    def _died(self) -> None:
        self._end_all(Outcome.LOST.name.lower())
        self.on_died()

    def _end_all(self, outcome: str) -> None:
        spans, self._open = self._open, {}
        for span in spans.values():
            span.set_attribute("raftsched.outcome", outcome)
            span.end(self._tracer.now_ns())


def with_context(task: Task, context: Mapping[str, str], replaces: str = "") -> Task:
    """Returns the task with a context that it passes on: in its environment, or in the headers of its request. One that
    the job itself names stays. `replaces`: a traceparent that is not the job's: a node gave it to this worker."""
    if isinstance(task, Mail):
        return task
    if isinstance(task, Http):
        own = next((value for name, value in task.headers.items() if name.lower() == "traceparent"), replaces)
        if own != replaces:
            return task
        kept = {k: v for k, v in task.headers.items() if k.lower() not in ("traceparent", "tracestate")}
        return replace(task, headers={**kept, **context})
    return _in_environment(task, context, replaces)


def _in_environment(task: Exec | Python, context: Mapping[str, str], replaces: str) -> Task:
    if task.env.get(TRACEPARENT, replaces) != replaces:
        return task
    kept = {name: value for name, value in task.env.items() if name not in (TRACEPARENT, TRACESTATE)}
    return replace(task, env={**kept, **{name.upper(): value for name, value in context.items()}})

"""The spans of runs, and the context that each run gets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from raftsched.core.ids import instance_key, instance_text
from raftsched.core.model import Outcome, Verdict
from raftsched.worker.processes.runner import RunEnd, RunSpec
from raftsched.worker.processes.wire import Exec, Http, Mail, Python, Task
from raftsched.worker.tasks.run_traces import TracedRuns, with_context
from tests.support.clock import ManualClock
from tests.support.traces import CALLER, CALLER_SPAN, CALLER_TRACE, Kept, attributes, ids, parent
from tests.unit.worker.world import FakeRunner

KEY = instance_key(1_000, 7)
RUN_ENV = {
    "RAFTSCHED_JOB_ID": "0000000000007",
    "RAFTSCHED_JOB_NAME": "report",
    "RAFTSCHED_INSTANCE_ID": instance_text(KEY),
    "RAFTSCHED_ATTEMPT": "2",
    "RAFTSCHED_WORKER": "n1",
}
CONTEXT = {"traceparent": "00-new", "tracestate": "a=1"}


class Bed:
    """A traced runner around one that only takes notes."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.clock = ManualClock()
        self.kept = kept or Kept(self.clock)
        self.inner = FakeRunner()
        self.runs = TracedRuns(self.inner, self.kept.tracer)
        self.ended: list[tuple[int, RunEnd]] = []
        self.died = 0
        self.runs.on_ended = lambda token, end: self.ended.append((token, end))
        self.runs.on_died = self._die
        asyncio.run(self.runs.start())

    def _die(self) -> None:
        self.died += 1

    def launch(self, task: Task | None = None, run_env: Mapping[str, str] = RUN_ENV, **fields: Any) -> Task:
        """Returns what the runner was given to start."""
        task = task or Exec(("true",), {})
        spec = RunSpec(token=5, session=1, task=task, timeout_ms=1_000, namespace="default", run_env=run_env, **fields)
        self.runs.launch(spec)
        return self.inner.launched[5].task

    def end(self, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> None:
        end = RunEnd(outcome=outcome, started_at_ms=self.clock.wall, ended_at_ms=self.clock.wall, **fields)
        self.inner.on_ended(5, end)
        assert self.ended[-1] == (5, end), "it is told on"


def test_a_run_is_below_its_fire_and_knows_its_span() -> None:
    bed = Bed()
    task = bed.launch()
    bed.clock.forward(40)
    bed.end(exit_code=0)
    (span,) = bed.kept.spans
    fire = bed.kept.tracer.fire_context(KEY)
    assert ids(span)[0] == f"{fire.trace_id:032x}"
    assert parent(span) == f"{fire.span_id:016x}"
    assert isinstance(task, Exec)
    assert task.env == {"TRACEPARENT": f"00-{ids(span)[0]}-{ids(span)[1]}-01"}
    assert span.name == "run report"
    assert attributes(span) == {
        "raftsched.job.id": "0000000000007",
        "raftsched.job.name": "report",
        "raftsched.instance.id": instance_text(KEY),
        "raftsched.worker": "n1",
        "raftsched.namespace": "default",
        "raftsched.attempt": 2,
        "raftsched.fencing_token": 5,
        "raftsched.handler": "exec",
        "raftsched.outcome": "succeeded",
        "process.exit.code": 0,
    }
    assert [event.name for event in span.events] == ["started"]
    assert span.end_time is not None
    assert span.start_time is not None
    assert span.end_time - span.start_time == 40_000_000


def test_a_part_is_in_the_trace_of_its_run() -> None:
    bed = Bed()
    part = instance_key(1_000, 7, 99)
    ours = {"RAFTSCHED_INSTANCE_ID": instance_text(part), "RAFTSCHED_PARENT_INSTANCE_ID": instance_text(KEY)}
    bed.launch(run_env={**RUN_ENV, **ours})
    bed.end()
    assert ids(bed.kept.spans[0])[0] == f"{bed.kept.tracer.fire_context(KEY).trace_id:032x}"
    assert parent(bed.kept.spans[0]) == f"{bed.kept.tracer.fire_context(part, KEY).span_id:016x}"


def test_a_run_that_follows_links_to_its_cause() -> None:
    bed = Bed()
    cause = instance_key(900, 6)
    bed.launch(run_env={**RUN_ENV, "RAFTSCHED_CAUSE_INSTANCE_ID": instance_text(cause)})
    bed.end()
    (link,) = bed.kept.spans[0].links
    assert link.context.trace_id == bed.kept.tracer.fire_context(cause).trace_id


@pytest.mark.parametrize(
    ("outcome", "fields", "said", "error"),
    [
        (Outcome.FAILED, {"exit_code": 3, "error": "a secret"}, "failed", True),
        (Outcome.TIMED_OUT, {}, "timed_out", True),
        (Outcome.KILLED, {}, "killed", False),
        (Outcome.LOST, {"alone": True}, "lost", True),
        (Outcome.KILLED, {"begun": False}, "handed_back", False),
    ],
)
def test_how_a_run_ended(outcome: Outcome, fields: dict[str, Any], said: str, error: bool) -> None:
    bed = Bed()
    bed.launch()
    bed.end(outcome, **fields)
    span = bed.kept.spans[0]
    assert attributes(span)["raftsched.outcome"] == said
    assert (span.status.status_code is StatusCode.ERROR) == error
    assert "secret" not in span.to_json()


def test_what_a_run_says_and_that_it_was_killed() -> None:
    bed = Bed()
    bed.launch()
    bed.runs.kill(5, "killed on request")
    bed.runs.kill(6, "of this no span is known")
    bed.end(Outcome.FAILED, verdict=Verdict.SNOOZE)
    span = bed.kept.spans[0]
    assert [event.name for event in span.events] == ["kill", "started"]
    assert attributes(span)["raftsched.verdict"] == "snooze"
    assert bed.inner.killed == [5, 6]


def test_no_span_is_left_open() -> None:
    died, stopped = Bed(), Bed()
    died.launch()
    died.inner.on_died()
    assert (attributes(died.kept.spans[0])["raftsched.outcome"], died.died) == ("lost", 1)
    died.end(Outcome.LOST)
    assert len(died.kept.spans) == 1
    stopped.launch()
    asyncio.run(stopped.runs.stop())
    assert attributes(stopped.kept.spans[0])["raftsched.outcome"] == "handed_back"


def test_a_worker_goes_on_with_what_its_node_said() -> None:
    bed = Bed(Kept(cluster=b""))
    task = bed.launch(Exec(("true",), {"TRACEPARENT": CALLER}), trace=(CALLER, "v=1"))
    bed.end()
    span = bed.kept.spans[0]
    assert (ids(span)[0], parent(span)) == (CALLER_TRACE, CALLER_SPAN)
    assert isinstance(task, Exec)
    assert task.env == {"TRACEPARENT": f"00-{CALLER_TRACE}-{ids(span)[1]}-01", "TRACESTATE": "v=1"}


def test_a_worker_of_a_node_that_does_not_trace_begins_a_trace() -> None:
    bed = Bed(Kept(cluster=b""))
    bed.launch()
    bed.end()
    assert parent(bed.kept.spans[0]) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"TRACEPARENT": "00-new", "TRACESTATE": "a=1"}),
        ({"A": "b", "TRACESTATE": "old"}, {"A": "b", "TRACEPARENT": "00-new", "TRACESTATE": "a=1"}),
        ({"TRACEPARENT": "own", "TRACESTATE": "old"}, {"TRACEPARENT": "own", "TRACESTATE": "old"}),
        ({"TRACEPARENT": "the node's"}, {"TRACEPARENT": "00-new", "TRACESTATE": "a=1"}),
    ],
)
def test_what_a_job_names_itself_stays(before: dict[str, str], after: dict[str, str]) -> None:
    for task in (Exec(("true",), before), Python("m:f", b"{}", before)):
        given = with_context(task, CONTEXT, "the node's")
        assert isinstance(given, Exec | Python)
        assert given.env == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, CONTEXT),
        ({"X": "y"}, {"X": "y", **CONTEXT}),
        ({"TraceParent": "own", "tracestate": "s"}, {"TraceParent": "own", "tracestate": "s"}),
        ({"Traceparent": "the node's", "Tracestate": "s"}, CONTEXT),
    ],
)
def test_headers_of_requests(before: dict[str, str], after: dict[str, str]) -> None:
    given = with_context(Http("GET", "http://h/", before, b"", ()), CONTEXT, "the node's")
    assert isinstance(given, Http)
    assert given.headers == after


def test_a_mail_carries_nothing() -> None:
    mail = Mail("h", 25, 1, "a@b", ("c@d",), b"x")
    assert with_context(mail, CONTEXT) is mail

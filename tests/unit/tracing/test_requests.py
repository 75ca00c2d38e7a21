"""The spans of a request, without a server."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import StatusCode

from raftsched.core.commands import Accepted, Rejected
from raftsched.core.ids import instance_key
from raftsched.errors import NoLeader
from raftsched.tracing.current import here
from raftsched.tracing.requests import LINKS_MAX, TEXT_MAX, RequestTrace, RequestTraces
from tests.support.memory_view import World, after, every
from tests.support.traces import CALLER, CALLER_SPAN, CALLER_TRACE, UNSAMPLED, Kept, attributes, ids, parent


def begun(kept: Kept, **about: str) -> RequestTrace:
    return RequestTraces(kept.tracer).begin("POST", "/v1/jobs", "jobs_create", path="/v1/jobs", scheme="http", **about)


def position() -> tuple[str | None, int, int]:
    return "n2", 3, 17


def test_what_a_span_says() -> None:
    kept = Kept()
    begun(kept, query="x=" + "y" * 1_000, address="10.0.0.1", agent="curl").end(201)
    span = kept.named("POST /v1/jobs")
    said = attributes(span)
    assert len(said.pop("url.query")) == TEXT_MAX
    assert said == {
        "http.request.method": "POST",
        "http.route": "/v1/jobs",
        "http.response.status_code": 201,
        "url.path": "/v1/jobs",
        "url.scheme": "http",
        "client.address": "10.0.0.1",
        "user_agent.original": "curl",
        "raftsched.operation": "jobs_create",
    }
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("status", "error"), [(200, None), (404, None), (429, None), (503, "503"), (None, "no_answer")]
)
def test_only_the_fault_of_a_server_is_an_error(status: int | None, error: str | None) -> None:
    kept = Kept()
    begun(kept).end(status)
    span = kept.spans[0]
    assert attributes(span).get("error.type") == error
    assert (span.status.status_code is StatusCode.ERROR) == (status == 503)


def test_who_was_let_in_is_joined() -> None:
    kept = Kept()
    trace = begun(kept)
    trace.join({"traceparent": CALLER})
    trace.note()
    onward = trace.onward()
    trace.end(200)
    span = kept.spans[0]
    assert (ids(span)[0], parent(span)) == (CALLER_TRACE, CALLER_SPAN)
    assert onward == {"traceparent": f"00-{CALLER_TRACE}-{ids(span)[1]}-01"}
    noted = here.get()
    assert noted is not None
    assert tuple(noted) == ids(span)
    here.set(None)


def test_who_was_not_let_in_is_not() -> None:
    kept = Kept(sampler=ParentBased(ALWAYS_OFF))
    begun(kept).end(401)
    assert kept.spans == (), "a stranger has nothing recorded that the settings would not"
    trace = begun(kept)
    trace.join({"traceparent": CALLER})
    trace.end(200)
    assert len(kept.spans) == 1, "who is let in decides, where the sampler goes by the parent"
    trace = begun(kept := Kept())
    trace.join({"traceparent": UNSAMPLED})
    trace.end(200)
    assert kept.spans == ()


def test_the_way_through_the_log() -> None:
    kept = Kept()
    trace = begun(kept)
    trace.log_entry(3, position)([Rejected("not-found")], None)
    trace.log_entry(1, position)(None, NoLeader())
    trace.end(503)
    good, bad, request = kept.spans
    assert [parent(good), parent(bad)] == [ids(request)[1]] * 2
    assert attributes(good) == {
        "raftsched.log.commands": 3,
        "raftsched.log.leader": "n2",
        "raftsched.log.term": 3,
        "raftsched.log.index": 17,
    }
    assert attributes(bad)["error.type"] == "no-leader"
    assert bad.status.status_code is StatusCode.ERROR


def test_links_lead_to_the_runs_that_were_asked_for() -> None:
    world = World()
    once, again = world.create(after(60_000)), world.create(every(60_000))
    asked = instance_key(world.now, again.id, 5)
    kept = Kept()
    trace = begun(kept)
    answers = [Accepted(job=once, created=True), Accepted(job=again), Accepted(job=again, instance=asked)]
    trace.log_entry(3, position)(list(answers), None)
    trace.end(201)
    due = instance_key(once.nominal_at_ms or 0, once.id)
    links = [(link.context.trace_id, link.context.span_id) for link in kept.named("POST /v1/jobs").links]
    contexts = [kept.tracer.fire_context(key) for key in (due, asked)]
    assert links == [(context.trace_id, context.span_id) for context in contexts]


def test_links_are_few_and_lead_to_what_is_recorded() -> None:
    world = World()
    jobs = [world.create(after(60_000)) for _ in range(LINKS_MAX + 1)]
    answers: list[Accepted | Rejected] = [Accepted(job=job) for job in jobs]
    for ratio, most in ((1.0, LINKS_MAX), (0.0, 0)):
        kept = Kept(sampler=ParentBased(TraceIdRatioBased(ratio)))
        trace = begun(kept)
        trace.join({"traceparent": CALLER})
        trace.log_entry(len(jobs), position)(list(answers), None)
        trace.end(201)
        assert len(kept.named("POST /v1/jobs").links) == most

"""Ids that every node derives alike, times, and contexts as they travel."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, DEFAULT_ON, ParentBased, Sampler, TraceIdRatioBased

from raftsched.core.ids import instance_key
from raftsched.tracing.ids import trace_ids
from raftsched.tracing.tracer import carried, carrier
from tests.support.clock import ManualClock
from tests.support.traces import CALLER, CALLER_SPAN, CALLER_TRACE, CLUSTER_ID, UNSAMPLED, Kept, ids, parent

KEYS = [instance_key(1_000 + n, 7) for n in range(400)]


def test_nodes_of_all_versions_derive_these_ids() -> None:
    """Nodes of two versions work together during an upgrade: what is derived must never change."""
    assert trace_ids(CLUSTER_ID, KEYS[0]) == (0x4264721BD1D407C2E9EA484F480D385F, 0xA25F35C507A8AF2D)


def test_what_the_ids_depend_on() -> None:
    whole, part = instance_key(1_000, 7), instance_key(1_000, 7, 99)
    of_whole, of_part = trace_ids(CLUSTER_ID, whole), trace_ids(CLUSTER_ID, part, whole)
    assert of_part[0] == of_whole[0], "parts share the trace of their run"
    assert of_part[1] != of_whole[1]
    others = [trace_ids(b"other", whole), trace_ids(CLUSTER_ID, instance_key(1_001, 7)), trace_ids(CLUSTER_ID, part)]
    assert len({ids[0] for ids in (of_whole, *others)}) == 4


def test_the_span_of_a_fire_is_where_all_look_for_it() -> None:
    here, elsewhere = Kept(), Kept()
    here.tracer.start_fire(KEYS[0], None, {}, here.tracer.now_ns()).end()
    context = elsewhere.tracer.fire_context(KEYS[0])
    assert ids(here.named("fire")) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert parent(here.named("fire")) == ""
    other = here.tracer.start("other")
    assert other.get_span_context().span_id != context.span_id, "ids are given to one span only"


@pytest.mark.parametrize("sampler", [ParentBased(TraceIdRatioBased(0.5)), TraceIdRatioBased(0.5)])
def test_nodes_decide_alike_which_runs_are_sampled(sampler: Sampler) -> None:
    here, elsewhere = Kept(sampler=sampler), Kept(sampler=sampler)
    sampled = [key for key in KEYS if here.tracer.fire_context(key).trace_flags.sampled]
    assert 100 < len(sampled) < 300
    assert [key for key in KEYS if elsewhere.tracer.fire_context(key).trace_flags.sampled] == sampled
    for key in KEYS:
        here.tracer.start_fire(key, None, {}, 1).end()
        elsewhere.tracer.start("run", parent=elsewhere.tracer.fire_context(key)).end()
    assert len(here.spans) == len(elsewhere.spans) == len(sampled)


def test_a_sampler_that_wants_nothing_still_has_contexts() -> None:
    kept = Kept(sampler=ParentBased(ALWAYS_OFF))
    assert carrier(kept.tracer.fire_context(KEYS[0]))["traceparent"].endswith("-00")


def test_contexts_go_out_as_they_came() -> None:
    for text in (CALLER, UNSAMPLED):
        headers = {"traceparent": text, "tracestate": "vendor=1", "authorization": "secret"}
        context = carried(headers)
        assert context is not None
        assert (f"{context.trace_id:032x}", f"{context.span_id:016x}") == (CALLER_TRACE, CALLER_SPAN)
        assert carrier(context) == {"traceparent": text, "tracestate": "vendor=1"}


@pytest.mark.parametrize(
    "text", ["", "x", CALLER + "-1", CALLER.replace("00-", "ff-", 1), f"00-{'0' * 32}-{'1' * 16}-01", CALLER[:-3]]
)
def test_what_is_no_context(text: str) -> None:
    assert carried({"traceparent": text, "tracestate": "a=b"}) is None
    assert carried({}) is None


def test_a_span_of_the_program_around_is_no_parent() -> None:
    from opentelemetry.sdk.trace import TracerProvider

    kept = Kept(sampler=DEFAULT_ON)
    with TracerProvider(shutdown_on_exit=False).get_tracer("program").start_as_current_span("its own"):
        kept.tracer.start("ours").end()
    assert parent(kept.named("ours")) == ""


class Fine(ManualClock):
    """A clock whose monotonic part is finer than a millisecond."""

    micros = 0

    def monotonic(self) -> float:
        return self.boot / 1000 + self.micros / 1_000_000


def test_times_are_finer_than_the_wall_clock() -> None:
    clock = Fine()
    tracer = Kept(clock).tracer
    began = tracer.now_ns()
    clock.micros += 250
    assert 249_000 <= tracer.now_ns() - began <= 251_000


def test_a_wall_clock_that_jumps_is_followed() -> None:
    clock = Fine()
    tracer = Kept(clock).tracer
    clock.forward(1_000)
    assert abs(tracer.now_ns() - clock.wall * 1_000_000) < 1_000
    for jump in (3_600_000, -7_200_000):
        clock.wall += jump
        assert tracer.now_ns() == clock.wall * 1_000_000

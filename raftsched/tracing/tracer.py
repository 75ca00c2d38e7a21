"""The tracer of one node or remote worker: makes spans, with ids that are derived where a run's trace needs them.

Every span has its times by the node's clock, so that those of one trace fit each other. Its methods belong to the event
loop; what a span costs there is a few objects and an append to a queue (exporting.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from raftsched.core.model import Instance
from raftsched.system.clock import Clock
from raftsched.tracing.ids import trace_ids
from raftsched.version import __version__

FIRE = "fire"
DRIFT_NS = 20_000_000  # by so much the wall clock may differ from what was counted since it was last read
_NS_IN_MS = 1_000_000

Attributes = Mapping[str, AttributeValue]

_propagator = TraceContextTextMapPropagator()
_ROOT = Context()  # without a parent, whatever span the program around a node is at


class _Ids(RandomIdGenerator):
    """Random ids, but for spans whose ids are given."""

    def __init__(self) -> None:
        self.given: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.given is None else self.given[0]

    def generate_span_id(self) -> int:
        return super().generate_span_id() if self.given is None else self.given[1]

    def is_trace_id_random(self) -> bool:
        return self.given is None


class Tracer:
    """Makes the spans of one process."""

    def __init__(
        self,
        clock: Clock,
        resource: Resource,
        processor: SpanProcessor,
        *,
        sampler: Sampler | None = None,
    ) -> None:
        """`sampler`; None: as OTEL_TRACES_SAMPLER says."""
        self._clock = clock
        self._ids = _Ids()
        provider = TracerProvider(
            sampler=sampler, resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )  # never the process's own: a program around a node has its own
        provider.add_span_processor(processor)
        self._sampler = provider.sampler
        self._tracer = provider.get_tracer("raftsched", __version__)
        # Of the cluster that this is a node of. A remote worker is told the contexts of its runs, and needs none.
        self.cluster_id: Callable[[], bytes] = bytes
        self._wall_ns, self._monotonic = clock.wall_ms() * _NS_IN_MS, clock.monotonic()

    def now_ns(self) -> int:
        """Returns the wall clock in nanoseconds, as fine as the monotonic clock counts."""
        wall_ns, monotonic = self._clock.wall_ms() * _NS_IN_MS, self._clock.monotonic()
        counted = self._wall_ns + round((monotonic - self._monotonic) * 1e9)
        if abs(counted - wall_ns) <= DRIFT_NS:
            return counted
        self._wall_ns, self._monotonic = wall_ns, monotonic
        return wall_ns

    def start(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        parent: SpanContext | None = None,
        links: Sequence[SpanContext] = (),
        attributes: Attributes | None = None,
        start_ns: int | None = None,
    ) -> Span:
        """Returns a span that has begun. It is recorded where the sampler says so: see `Span.is_recording`."""
        return self._tracer.start_span(
            name,
            _ROOT if parent is None else set_span_in_context(NonRecordingSpan(parent), _ROOT),
            kind,
            attributes,
            [Link(context) for context in links],
            self.now_ns() if start_ns is None else start_ns,
        )

    def log_entry(self, parent: SpanContext, commands: int, start_ns: int | None = None) -> Span:
        """Returns the span of so many commands on their way through the log."""
        return self.start(
            "log entry", parent=parent, attributes={"raftsched.log.commands": commands}, start_ns=start_ns
        )

    def fire_context(self, instance: bytes, whole: bytes | None = None) -> SpanContext:
        """Returns the context of the span of an instance's fire (by its row key), whoever recorded that: also whether
        it is sampled, which nodes with the same settings decide alike. `whole`: as in `trace_ids`."""
        trace_id, span_id = trace_ids(self.cluster_id(), instance, whole)
        verdict = self._sampler.should_sample(_ROOT, trace_id, FIRE, SpanKind.PRODUCER)
        flags = TraceFlags.SAMPLED if verdict.decision.is_sampled() else TraceFlags.DEFAULT
        return SpanContext(trace_id, span_id, True, TraceFlags(flags), verdict.trace_state)

    def headers_of(self, instance: Instance) -> dict[str, str]:
        """Returns the headers that carry the context of an instance's fire."""
        return carrier(self.fire_context(instance.key, instance.parent))

    def start_fire(self, instance: bytes, whole: bytes | None, attributes: Attributes, start_ns: int) -> Span:
        """Returns the span of an instance's fire, with the ids of its `fire_context`."""
        self._ids.given = trace_ids(self.cluster_id(), instance, whole)
        try:
            return self.start(FIRE, SpanKind.PRODUCER, attributes=attributes, start_ns=start_ns)
        finally:
            self._ids.given = None


def carrier(context: SpanContext) -> dict[str, str]:
    """Returns the headers that carry a context (W3C Trace Context): traceparent, and tracestate where there is one."""
    headers: dict[str, str] = {}
    _propagator.inject(headers, set_span_in_context(NonRecordingSpan(context), _ROOT))
    return headers


def carried(headers: Mapping[str, str]) -> SpanContext | None:
    """Returns the context that headers carry; None: there is none, or it cannot be read."""
    given = {name: headers[name] for name in ("traceparent", "tracestate") if headers.get(name)}
    context = get_current_span(_propagator.extract(given, _ROOT)).get_span_context()
    return context if context.is_valid else None

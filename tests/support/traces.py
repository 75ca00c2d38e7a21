"""A tracer that keeps its spans, for tests."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Sampler

from raftsched.system.clock import Clock
from raftsched.tracing.tracer import Tracer
from tests.support.clock import ManualClock

CLUSTER_ID = b"\1" * 16
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"  # a caller's traceparent, and what is in it
CALLER_TRACE, CALLER_SPAN = CALLER.split("-")[1:3]
UNSAMPLED = CALLER[:-1] + "0"


class Kept:
    """`tracer` and what it recorded."""

    def __init__(self, clock: Clock | None = None, sampler: Sampler = DEFAULT_ON, cluster: bytes = CLUSTER_ID) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracer = Tracer(
            clock or ManualClock(), Resource.create({}), SimpleSpanProcessor(self._exporter), sampler=sampler
        )
        self.tracer.cluster_id = lambda: cluster

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """All that have ended, in that order."""
        return self._exporter.get_finished_spans()

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found


def ids(span: ReadableSpan) -> tuple[str, str]:
    """Returns the ids of trace and span, as they are written."""
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def parent(span: ReadableSpan) -> str:
    """Returns the id of the parent span; empty: it is a root."""
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})

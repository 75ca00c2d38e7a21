"""A collector of spans on a free port: OTLP over HTTP, as OpenTelemetry's exporters send it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.patience import PATIENCE_S, patient


@dataclass(frozen=True)
class Got:
    """A span as it came."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str  # empty: it is a root
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: tuple[str, ...]
    links: tuple[tuple[str, str], ...]  # trace and span


@dataclass
class Collector:
    url: str = ""
    spans: list[Got] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, wanted: Callable[[list[Got]], list[Got]]) -> list[Got]:
        """Returns what `wanted` finds among the spans, as soon as there is any."""
        with self.changed:
            assert self.changed.wait_for(lambda: bool(wanted(self.spans)), patient(PATIENCE_S)), sorted(
                s.name for s in self.spans
            )
            return wanted(self.spans)

    def named(self, name: str, **attributes: Any) -> Got:
        """Returns the span of that name with these attributes (dots as underscores), once it is there."""

        def fits(span: Got) -> bool:
            known = {key.replace(".", "_"): value for key, value in span.attributes.items()}
            return span.name == name and attributes.items() <= known.items()

        return self.wait_for(lambda spans: [span for span in spans if fits(span)])[0]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with collector.changed:
                collector.spans += _spans(body)
                collector.changed.notify_all()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _spans(body: bytes) -> list[Got]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        Got(
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            attributes=_values(span.attributes),
            resource=_values(resource.resource.attributes),
            events=tuple(event.name for event in span.events),
            links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}

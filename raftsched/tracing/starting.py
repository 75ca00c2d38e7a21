"""Starts tracing as the settings of a node or worker say, and OpenTelemetry's own: the OTEL_ variables of its
environment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from raftsched.errors import StartupError
from raftsched.system.clock import Clock
from raftsched.version import __version__

if TYPE_CHECKING:
    from raftsched.tracing.tracer import Tracer

EXPORTERS = ("otlp", "console", "none")  # OTEL_TRACES_EXPORTER
PROTOCOL = "http/protobuf"
# Of the package: what makes the session that sends spans, which is then whoever's named it.
_PROVIDERS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)
DEFAULT_ENDPOINT = "http://localhost:4318"

Stop = Callable[[], Awaitable[None]]


def start_tracing(instance: str, clock: Clock, environ: Mapping[str, str]) -> tuple[Tracer, Stop] | None:
    """Returns the tracer, and what sends the last spans and ends it; None where OTEL_SDK_DISABLED or
    OTEL_TRACES_EXPORTER turn it off. `instance`: the node's id or the worker's name. Raises StartupError."""
    kind = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if kind not in EXPORTERS:
        raise StartupError(f"OTEL_TRACES_EXPORTER is {kind[:80]!r}; {' or '.join(EXPORTERS)} can be used here.")
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if kind == "otlp" and protocol and protocol.strip().lower() != PROTOCOL:
        raise StartupError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol[:80]!r}; spans are sent by {PROTOCOL} alone, to the collector's "
            "port 4318, not 4317."
        )
    if kind == "none" or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter

        from raftsched.tracing.collector_answers import bounded_session
        from raftsched.tracing.exporting import Exporting
        from raftsched.tracing.tracer import Tracer
    except ImportError as error:
        raise StartupError(
            f"--tracing needs OpenTelemetry, which is not installed ({error.name}): pip install 'raftsched[otel]', or "
            "leave --tracing out."
        ) from None
    said = OTELResourceDetector().detect().attributes  # OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
    own = {"service.name": "raftsched", "service.version": __version__, "service.instance.id": instance}
    try:
        session = None if any(map(environ.get, _PROVIDERS)) else bounded_session()
        exporter: SpanExporter = ConsoleSpanExporter() if kind == "console" else OTLPSpanExporter(session=session)
        processor = Exporting(exporter, "stdout" if kind == "console" else endpoint_of(environ))
        tracer = Tracer(clock, Resource.create({**own, **said}), processor)
    except (ValueError, OSError) as error:
        raise StartupError(f"Tracing cannot start; look at the variables OTEL_...: {error}.") from None
    return tracer, processor.stop


def endpoint_of(environ: Mapping[str, str]) -> str:
    """Returns where spans are sent, without a password that is in the address."""
    url = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    scheme, slashes, rest = (url or DEFAULT_ENDPOINT).partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{place.rpartition('@')[2]}{slash}{path}".partition("?")[0]

"""The spans of a request to the API: the server's span, and one for each time that something of it goes into the log.

A caller's traceparent counts from when the caller is let in: a stranger who is refused joins no trace, and forces none
to be recorded. Whose spans are recorded then is the sampler's decision (OTEL_TRACES_SAMPLER).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import Token
from itertools import chain

from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode

from raftsched.core.commands import Accepted, Answer
from raftsched.core.ids import instance_key, instance_text, job_text
from raftsched.errors import RaftschedError
from raftsched.tracing.current import Here, here
from raftsched.tracing.tracer import Tracer, carried, carrier

LINKS_MAX = 32  # of the runs that one request asked for
TEXT_MAX = 256  # characters of what callers say in a span

Reply = Callable[[list[Answer] | None, RaftschedError | None], None]


class RequestTraces:
    """Begins the traces of a node's requests."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def begin(
        self,
        method: str,
        route: str,
        operation: str,
        *,
        path: str,
        scheme: str,
        query: str = "",
        address: str = "",
        agent: str = "",
    ) -> RequestTrace:
        """`route`: the template of the address. `address`: of the caller. `agent`: what they say that they are."""
        about = {
            "http.request.method": method,
            "http.route": route,
            "url.path": path[:TEXT_MAX],
            "url.scheme": scheme,
            "raftsched.operation": operation,
        }
        for name, value in (("url.query", query), ("client.address", address), ("user_agent.original", agent)):
            if value:
                about[name] = value[:TEXT_MAX]
        return RequestTrace(self._tracer, f"{method} {route}", about)


class RequestTrace:
    """The trace of one request, as far as this node makes it."""

    __slots__ = ("_attributes", "_began_ns", "_links", "_name", "_span", "_tracer")

    def __init__(self, tracer: Tracer, name: str, attributes: Mapping[str, str]) -> None:
        self._tracer = tracer
        self._name = name
        self._attributes = attributes
        self._began_ns = tracer.now_ns()
        self._span: Span | None = None
        self._links = 0

    def join(self, headers: Mapping[str, str]) -> None:
        """Joins the trace that the caller names, who was let in."""
        self._begun(carried(headers))

    def note(self) -> Token[Here | None]:
        """Lines of the log name the span from here on, in this task, until `here.reset`."""
        context = self._begun().get_span_context()
        return here.set(Here(f"{context.trace_id:032x}", f"{context.span_id:016x}"))

    def _begun(self, parent: SpanContext | None = None) -> Span:
        if self._span is None:
            self._span = self._tracer.start(
                self._name, SpanKind.SERVER, parent=parent, attributes=self._attributes, start_ns=self._began_ns
            )
        return self._span

    def onward(self) -> dict[str, str]:
        """Returns the headers for a request to another node that this one takes."""
        return carrier(self._begun().get_span_context())

    def end(self, status: int | None) -> None:
        """Ends it with the status of its answer; None: there is none, because the caller has gone. Of what a server is
        asked only 5xx is an error (OpenTelemetry, semantic conventions for HTTP spans)."""
        span = self._begun()
        if status is None:
            span.set_attribute("error.type", "no_answer")
        else:
            span.set_attribute("http.response.status_code", status)
        if status is not None and status >= 500:
            span.set_attribute("error.type", str(status))
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._tracer.now_ns())

    # ------------------------------------------------------------ the log

    def log_entry(self, commands: int, position: Callable[[], tuple[str | None, int, int]]) -> Reply:
        """Begins the span of so many commands: from here until their entry is applied on this node. It ends when what
        is returned gets the answers, or what went wrong. `position`: the leader, its term, and the newest index that is
        applied here."""
        span = self._tracer.log_entry(self._begun().get_span_context(), commands)

        def ended(answers: list[Answer] | None, error: RaftschedError | None) -> None:
            leader, term, index = position()
            span.set_attributes({"raftsched.log.leader": leader or "", "raftsched.log.term": term})
            if error is not None:
                span.set_attribute("error.type", error.code)
                span.set_status(Status(StatusCode.ERROR))
            elif answers is not None:
                span.set_attribute("raftsched.log.index", index)
                self._link(answers)
            span.end(self._tracer.now_ns())

        return ended

    def _link(self, answers: Sequence[Answer]) -> None:
        """Links to the runs that were asked for: their traces begin when they are due, which may be in a year."""
        span = self._begun()
        if not span.is_recording():
            return
        for answer in chain.from_iterable((getattr(answer, "each", ()) or (answer,)) for answer in answers):
            if not isinstance(answer, Accepted) or answer.job is None:
                continue
            if self._links >= LINKS_MAX:
                return
            self._links += 1
            if self._links == 1:
                span.set_attribute("raftsched.job.id", job_text(answer.job.id))
            instance = _asked_for(answer)
            if instance is None:
                continue
            context = self._tracer.fire_context(instance)
            if context.trace_flags.sampled:
                span.add_link(context, {"raftsched.instance.id": instance_text(instance)})


def _asked_for(answer: Accepted) -> bytes | None:
    """Returns the instance that an answer is about; None: there is none, or there are any number of them."""
    job = answer.job
    if answer.instance is not None or job is None:
        return answer.instance
    if not job.policy.trigger.once or job.nominal_at_ms is None:
        return None
    return instance_key(job.nominal_at_ms, job.id)

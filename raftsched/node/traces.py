"""Makes what makes spans of fires and of requests, where a node traces: most nodes start without."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raftsched.leader.due.fire_traces import FireTraces
    from raftsched.store import Store
    from raftsched.tracing.requests import RequestTraces
    from raftsched.tracing.tracer import Tracer


def fire_traces(tracer: Tracer | None, store: Store) -> FireTraces | None:
    """Returns None where there are no traces."""
    if tracer is None:
        return None
    from raftsched.leader.due.fire_traces import FireTraces

    return FireTraces(tracer, store.read)


def request_traces(tracer: Tracer | None) -> RequestTraces | None:
    """Returns None where there are no traces."""
    if tracer is None:
        return None
    from raftsched.tracing.requests import RequestTraces

    return RequestTraces(tracer)

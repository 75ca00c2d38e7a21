"""The route table: every operation of the API with its handler, in the order of /openapi.json."""

from __future__ import annotations

# The import of the modules with handlers fills SERVED.
from raftsched.api.auth import audit, oidc, tokens, whoami  # noqa: F401
from raftsched.api.cluster import doctor, health, log_segments, members, overview, snapshot, terms  # noqa: F401
from raftsched.api.jobs import (  # noqa: F401  # noqa: F401
    actions,
    backfill,
    batch,
    bulk,
    checking,
    compare,
    crontabs,
    endpoints,
    explain_job,
    forecast,
    graph,
    listing,
    revisions,
    schedules,
)
from raftsched.api.openapi import documents  # noqa: F401
from raftsched.api.resources import (  # noqa: F401
    calendars,
    kept,
    namespaces,
    nodes,
    queues,
    run_keys,
    secrets,
    settings,
    webhook_endpoints,
)
from raftsched.api.runs import (  # noqa: F401
    changes,
    dead_letters,
    events,
    explain,
    instances,
    kills,
    minutes,
    now,
    output,
    output_copies,
    recent,
    searching,
    stats,
    workflows,
)
from raftsched.api.serving import SERVED, Route
from raftsched.api.workers import run_output, sessions, workers  # noqa: F401
from raftsched.surface.order import ORDER


def joined() -> list[Route]:
    """Returns the routes. Raises LookupError unless each operation is served."""
    if SERVED.keys() != set(ORDER):
        raise LookupError(f"not served, or not in surface.order: {sorted(SERVED.keys() ^ set(ORDER))}")
    return [SERVED[id] for id in ORDER]


ROUTES = joined()

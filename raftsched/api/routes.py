"""The route table: every operation of the API with its handler, in the order of /openapi.json."""

from __future__ import annotations

from raftsched.api.auth import audit, oidc, tokens, whoami
from raftsched.api.cluster import doctor, health, log_segments, members, overview, snapshot, terms
from raftsched.api.jobs import (
    actions,
    backfill,
    batch,
    bulk,
    checking,
    compare,
    crontabs,
    explain_job,
    forecast,
    graph,
    revisions,
    schedules,
)
from raftsched.api.jobs import endpoints as jobs
from raftsched.api.jobs import listing as jobs_list
from raftsched.api.openapi import documents
from raftsched.api.resources import (
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
from raftsched.api.runs import (
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
from raftsched.api.workers import run_output as worker_output
from raftsched.api.workers import sessions, workers
from raftsched.surface.order import ORDER

SERVING = (  # the modules with handlers: their import is what fills SERVED
    audit,
    oidc,
    tokens,
    whoami,
    doctor,
    health,
    log_segments,
    members,
    overview,
    snapshot,
    terms,
    actions,
    backfill,
    batch,
    bulk,
    checking,
    compare,
    crontabs,
    forecast,
    graph,
    revisions,
    schedules,
    jobs,
    explain_job,
    jobs_list,
    documents,
    calendars,
    kept,
    namespaces,
    nodes,
    queues,
    run_keys,
    secrets,
    settings,
    webhook_endpoints,
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
    worker_output,
    sessions,
    workers,
)


def joined() -> list[Route]:
    """Returns the routes. Raises LookupError unless each operation is served."""
    if SERVED.keys() != set(ORDER):
        raise LookupError(f"not served, or not in surface.order: {sorted(SERVED.keys() ^ set(ORDER))}")
    return [SERVED[id] for id in ORDER]


ROUTES = joined()

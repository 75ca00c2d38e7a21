"""The route table: every address of the API, in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from raftsched.api.auth import audit, oidc, tokens, whoami
from raftsched.api.cluster import cluster, health, members, snapshot
from raftsched.api.context import ApiContext
from raftsched.api.jobs import actions, backfill, batch, compare, operations, revisions, schedules
from raftsched.api.jobs import endpoints as jobs
from raftsched.api.jobs import listing as jobs_list
from raftsched.api.openapi import documents
from raftsched.api.resources import calendars, kept, namespaces, nodes, queues, secrets, settings, webhooks
from raftsched.api.runs import dead_letters, events, explain, instances, kills, output, stats

Handler = Callable[[ApiContext, web.Request], Awaitable[web.StreamResponse]]


class Route(NamedTuple):
    method: str
    path: str
    handler: Handler


def _of_job(path: str) -> list[Route]:
    """What a job answers to, under its id and under its name alike."""
    return [
        Route("GET", path, jobs.get),
        Route("PATCH", path, jobs.patch),
        Route("DELETE", path, jobs.delete),
        Route("POST", f"{path}/pause", actions.pause),
        Route("POST", f"{path}/resume", actions.resume),
        Route("POST", f"{path}/run", actions.run),
        Route("POST", f"{path}/expire", actions.expire),
        Route("POST", f"{path}/skip-next", actions.skip_next),
        Route("POST", f"{path}/backfill", backfill.backfill),
        Route("GET", f"{path}/state", actions.get_state),
        Route("PUT", f"{path}/state", actions.put_state),
        Route("DELETE", f"{path}/state", actions.delete_state),
        Route("GET", f"{path}/next", schedules.next_of_job),
        Route("GET", f"{path}/instances", instances.list_of_job),
        Route("GET", f"{path}/revisions", revisions.list_all),
        Route("GET", f"{path}/stats", stats.of_job),
    ]


_BY_ID = "/v1/jobs/{id}"
_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}"

ROUTES: list[Route] = [
    Route("POST", "/v1/jobs", jobs.create),
    Route("GET", "/v1/jobs", jobs_list.list_jobs),
    Route("DELETE", "/v1/jobs", operations.delete_matching),
    Route("POST", "/v1/jobs:batch", batch.create_batch),
    Route("POST", "/v1/jobs:actions", operations.act),
    *_of_job(_BY_ID),
    Route("PUT", _BY_ID, jobs.put),
    *_of_job(_BY_NAME),
    Route("PUT", _BY_NAME, jobs.put_named),
    Route("POST", f"{_BY_NAME}/compare", compare.compare_named),
    Route("GET", "/v1/stats", stats.of_all),
    Route("GET", "/v1/operations", operations.list_all),
    Route("GET", "/v1/operations/{id}", operations.get),
    Route("POST", "/v1/operations/{id}/cancel", operations.cancel),
    Route("GET", "/v1/instances", instances.list_all),
    Route("POST", "/v1/instances:kill", kills.kill_matching),
    Route("GET", "/v1/instances/{id}", instances.get),
    Route("DELETE", "/v1/instances/{id}", instances.cancel),
    Route("GET", "/v1/instances/{id}/explain", explain.get),
    Route("GET", "/v1/instances/{id}/output", output.get),
    Route("POST", "/v1/instances/{id}/kill", instances.kill),
    Route("POST", "/v1/instances/{id}/rerun", instances.rerun),
    Route("GET", "/v1/dead-letters", dead_letters.list_all),
    Route("POST", "/v1/dead-letters/requeue", dead_letters.requeue),
    Route("DELETE", "/v1/dead-letters", dead_letters.discard),
    Route("GET", "/v1/events", events.get),
    Route("POST", "/v1/schedules/preview", schedules.preview),
    Route("GET", "/v1/cluster", cluster.get),
    Route("GET", "/v1/cluster/members", members.list_all),
    Route("POST", "/v1/cluster/members", members.add),
    Route("DELETE", "/v1/cluster/members/{id}", members.remove),
    Route("POST", "/v1/cluster/leader", members.transfer),
    Route("GET", "/v1/cluster/snapshot", snapshot.get),
    Route("GET", "/v1/cluster/settings", settings.get),
    Route("PATCH", "/v1/cluster/settings", settings.patch),
    Route("POST", "/v1/cluster/pause", settings.pause),
    Route("POST", "/v1/cluster/resume", settings.resume),
    Route("GET", "/v1/nodes", nodes.list_all),
    Route("GET", "/v1/nodes/{id}", nodes.get),
    Route("PATCH", "/v1/nodes/{id}", nodes.patch),
    Route("POST", "/v1/nodes/{id}/drain", nodes.drain),
    Route("POST", "/v1/nodes/{id}/undrain", nodes.undrain),
    Route("GET", "/v1/namespaces", namespaces.list_all),
    Route("GET", "/v1/namespaces/{ns}", namespaces.get),
    Route("PUT", "/v1/namespaces/{ns}", namespaces.put),
    Route("PATCH", "/v1/namespaces/{ns}", namespaces.patch),
    Route("DELETE", "/v1/namespaces/{ns}", namespaces.delete),
    Route("GET", "/v1/secrets", secrets.list_all),
    Route("POST", "/v1/secrets:reseal", kept.reseal),
    Route("GET", "/v1/namespaces/{ns}/secrets/{name}", secrets.get),
    Route("PUT", "/v1/namespaces/{ns}/secrets/{name}", secrets.put),
    Route("DELETE", "/v1/namespaces/{ns}/secrets/{name}", secrets.delete),
    Route("GET", "/v1/queues", queues.list_all),
    Route("GET", "/v1/queues/{name}", queues.get),
    Route("PUT", "/v1/queues/{name}", queues.put),
    Route("PATCH", "/v1/queues/{name}", queues.patch),
    Route("DELETE", "/v1/queues/{name}", queues.delete),
    Route("GET", "/v1/tokens", tokens.list_all),
    Route("POST", "/v1/tokens", tokens.create),
    Route("GET", "/v1/tokens/{id}", tokens.get),
    Route("DELETE", "/v1/tokens/{id}", tokens.delete),
    Route("GET", "/v1/cluster/access", tokens.get_access),
    Route("PUT", "/v1/cluster/access", tokens.put_access),
    Route("GET", "/v1/cluster/oidc", oidc.get),
    Route("PUT", "/v1/cluster/oidc", oidc.put),
    Route("DELETE", "/v1/cluster/oidc", oidc.delete),
    Route("GET", "/v1/whoami", whoami.get),
    Route("GET", "/v1/audit", audit.list_all),
    Route("GET", "/v1/audit/chain", audit.chain),
    Route("GET", "/v1/audit/refusals", audit.refusals),
    Route("GET", "/v1/webhooks", webhooks.list_all),
    Route("POST", "/v1/webhooks", webhooks.create),
    Route("GET", "/v1/webhooks/{name}", webhooks.get),
    Route("PUT", "/v1/webhooks/{name}", webhooks.put),
    Route("PATCH", "/v1/webhooks/{name}", webhooks.patch),
    Route("DELETE", "/v1/webhooks/{name}", webhooks.delete),
    Route("POST", "/v1/webhooks/{name}/test", webhooks.test),
    Route("POST", "/v1/webhooks/{name}/rotate", webhooks.rotate),
    Route("GET", "/v1/calendars", calendars.list_all),
    Route("GET", "/v1/calendars/{name}", calendars.get),
    Route("PUT", "/v1/calendars/{name}", calendars.put),
    Route("PATCH", "/v1/calendars/{name}", calendars.patch),
    Route("DELETE", "/v1/calendars/{name}", calendars.delete),
    Route("GET", "/openapi.json", documents.openapi),
    Route("GET", "/docs", documents.page),
    Route("GET", "/livez", health.livez),
    Route("GET", "/readyz", health.readyz),
    Route("GET", "/metrics", health.metrics),
]

"""The route table: every address of the API, in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web

from raftsched.api.auth import audit, oidc, tokens, whoami
from raftsched.api.cluster import doctor, health, log_segments, members, overview, snapshot, terms
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.jobs import (
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
)
from raftsched.api.jobs import endpoints as jobs
from raftsched.api.jobs import explain as explain_job
from raftsched.api.jobs import listing as jobs_list
from raftsched.api.openapi import documents
from raftsched.api.resources import calendars, kept, namespaces, nodes, queues, run_keys, secrets, settings, webhooks
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
from raftsched.api.workers import output as worker_output
from raftsched.api.workers import sessions, workers

Handler = Callable[[ApiContext, Call[Any]], Awaitable[web.StreamResponse]]


class Route(NamedTuple):
    method: str
    path: str
    handler: Handler
    operation_id: str  # public, and noted in the audit: it does not follow the module in which the handler lies


def _of_job(path: str, by: str = "") -> list[Route]:
    """Routes that a job has under its id and under its name alike. `by` ends their operation ids."""
    return [
        Route("GET", path, jobs.get, f"jobs_get{by}"),
        Route("PATCH", path, jobs.patch, f"jobs_patch{by}"),
        Route("DELETE", path, jobs.delete, f"jobs_delete{by}"),
        Route("POST", f"{path}/check", checking.check_change, f"checking_check_change{by}"),
        Route("POST", f"{path}/pause", actions.pause, f"actions_pause{by}"),
        Route("POST", f"{path}/resume", actions.resume, f"actions_resume{by}"),
        Route("POST", f"{path}/run", actions.run, f"actions_run{by}"),
        Route("POST", f"{path}/expire", actions.expire, f"actions_expire{by}"),
        Route("POST", f"{path}/skip-next", actions.skip_next, f"actions_skip_next{by}"),
        Route("POST", f"{path}/backfill", backfill.backfill, f"backfill_backfill{by}"),
        Route("GET", f"{path}/state", actions.get_state, f"actions_get_state{by}"),
        Route("PUT", f"{path}/state", actions.put_state, f"actions_put_state{by}"),
        Route("DELETE", f"{path}/state", actions.delete_state, f"actions_delete_state{by}"),
        Route("GET", f"{path}/next", schedules.next_of_job, f"schedules_next_of_job{by}"),
        Route("GET", f"{path}/explain", explain_job.get, f"jobs_explain{by}"),
        Route("GET", f"{path}/instances", instances.list_of_job, f"instances_list_of_job{by}"),
        Route("GET", f"{path}/revisions", revisions.list_all, f"revisions_list_all{by}"),
        Route("GET", f"{path}/stats", stats.of_job, f"stats_of_job{by}"),
    ]


_BY_ID = "/v1/jobs/{id}"
_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}"

ROUTES: list[Route] = [
    Route("POST", "/v1/jobs", jobs.create, "jobs_create"),
    Route("GET", "/v1/jobs", jobs_list.list_jobs, "jobs_list_list_jobs"),
    Route("DELETE", "/v1/jobs", bulk.delete_matching, "operations_delete_matching"),
    Route("POST", "/v1/jobs:batch", batch.create_batch, "batch_create_batch"),
    Route("POST", "/v1/jobs:compare", compare.compare_all, "compare_compare_all"),
    Route("POST", "/v1/jobs:check", checking.check_new, "checking_check_new"),
    Route("POST", "/v1/jobs:actions", bulk.act, "operations_act"),
    Route("GET", "/v1/jobs:graph", graph.get, "jobs_graph"),
    *_of_job(_BY_ID),
    Route("PUT", _BY_ID, jobs.put, "jobs_put"),
    *_of_job(_BY_NAME, "_by_name"),
    Route("PUT", _BY_NAME, jobs.put_named, "jobs_put_named"),
    Route("POST", f"{_BY_NAME}/compare", compare.compare_named, "compare_compare_named"),
    Route("GET", "/v1/stats", stats.of_all, "stats_of_all"),
    Route("GET", "/v1/stats/now", now.get, "now_get"),
    Route("GET", "/v1/stats/minutes", minutes.get, "minutes_get"),
    Route("GET", "/v1/forecast", forecast.get, "forecast_get"),
    Route("GET", "/v1/operations", bulk.list_all, "operations_list_all"),
    Route("GET", "/v1/operations/{id}", bulk.get, "operations_get"),
    Route("POST", "/v1/operations/{id}/cancel", bulk.cancel, "operations_cancel"),
    Route("GET", "/v1/instances", instances.list_all, "instances_list_all"),
    Route("GET", "/v1/instances:recent", recent.get, "recent_get"),
    Route("GET", "/v1/instances:search", searching.get, "instances_search"),
    Route("POST", "/v1/instances:kill", kills.kill_matching, "kills_kill_matching"),
    Route("GET", "/v1/instances/{id}", instances.get, "instances_get"),
    Route("DELETE", "/v1/instances/{id}", instances.cancel, "instances_cancel"),
    Route("GET", "/v1/instances/{id}/explain", explain.get, "explain_get"),
    Route("GET", "/v1/instances/{id}/output", output.get, "output_get"),
    Route("POST", "/v1/instances/{id}/kill", instances.kill, "instances_kill"),
    Route("POST", "/v1/instances/{id}/rerun", instances.rerun, "instances_rerun"),
    Route("GET", "/v1/workflows", workflows.list_all, "workflows_list_all"),
    Route("GET", "/v1/workflows/{id}", workflows.get, "workflows_get"),
    Route("POST", "/v1/workflows/{id}/kill", workflows.kill, "workflows_kill"),
    Route("GET", "/v1/dead-letters", dead_letters.list_all, "dead_letters_list_all"),
    Route("POST", "/v1/dead-letters/requeue", dead_letters.requeue, "dead_letters_requeue"),
    Route("DELETE", "/v1/dead-letters", dead_letters.discard, "dead_letters_discard"),
    Route("GET", "/v1/events", events.get, "events_get"),
    Route("GET", "/v1/changes", changes.get, "changes_get"),
    Route("POST", "/v1/schedules/crontab", crontabs.convert, "crontabs_convert"),
    Route("POST", "/v1/schedules/preview", schedules.preview, "schedules_preview"),
    Route("GET", "/v1/cluster", overview.get, "cluster_get"),
    Route("GET", "/v1/cluster/doctor", doctor.get, "doctor_get"),
    Route("GET", "/v1/cluster/members", members.list_all, "members_list_all"),
    Route("POST", "/v1/cluster/members", members.add, "members_add"),
    Route("DELETE", "/v1/cluster/members/{id}", members.remove, "members_remove"),
    Route("POST", "/v1/cluster/leader", members.transfer, "members_transfer"),
    Route("GET", "/v1/cluster/terms", terms.list_all, "terms_list_all"),
    Route("GET", "/v1/cluster/snapshot", snapshot.get, "snapshot_get"),
    Route("GET", "/v1/cluster/log", log_segments.get, "log_segments_get"),
    Route("GET", "/v1/cluster/settings", settings.get, "settings_get"),
    Route("PATCH", "/v1/cluster/settings", settings.patch, "settings_patch"),
    Route("POST", "/v1/cluster/pause", settings.pause, "settings_pause"),
    Route("POST", "/v1/cluster/resume", settings.resume, "settings_resume"),
    Route("GET", "/v1/nodes", nodes.list_all, "nodes_list_all"),
    Route("GET", "/v1/nodes/{id}", nodes.get, "nodes_get"),
    Route("PATCH", "/v1/nodes/{id}", nodes.patch, "nodes_patch"),
    Route("POST", "/v1/nodes/{id}/drain", nodes.drain, "nodes_drain"),
    Route("POST", "/v1/nodes/{id}/undrain", nodes.undrain, "nodes_undrain"),
    Route("PUT", "/v1/nodes/{id}/output-copies", output_copies.put, "output_copies_put"),
    Route("PUT", "/v1/worker-sessions/{session}/runs/{token}/output", worker_output.put, "worker_output_put"),
    Route("GET", "/v1/workers", workers.list_all, "workers_list_all"),
    Route("GET", "/v1/workers/{name}", workers.get, "workers_get"),
    *map(Route._make, namespaces.ENDPOINTS),
    Route("GET", "/v1/namespaces/{ns}/keys", run_keys.list_all, "run_keys_list_all"),
    Route("GET", "/v1/secrets", secrets.list_all, "secrets_list_all"),
    Route("POST", "/v1/secrets:reseal", kept.reseal, "kept_reseal"),
    *map(Route._make, secrets.ENDPOINTS),
    *map(Route._make, queues.ENDPOINTS),
    Route("GET", "/v1/tokens", tokens.list_all, "tokens_list_all"),
    Route("POST", "/v1/tokens", tokens.create, "tokens_create"),
    Route("GET", "/v1/tokens/{id}", tokens.get, "tokens_get"),
    Route("DELETE", "/v1/tokens/{id}", tokens.delete, "tokens_delete"),
    Route("GET", "/v1/cluster/access", tokens.get_access, "tokens_get_access"),
    Route("PUT", "/v1/cluster/access", tokens.put_access, "tokens_put_access"),
    Route("GET", "/v1/cluster/oidc", oidc.get, "oidc_get"),
    Route("PUT", "/v1/cluster/oidc", oidc.put, "oidc_put"),
    Route("DELETE", "/v1/cluster/oidc", oidc.delete, "oidc_delete"),
    Route("GET", "/v1/whoami", whoami.get, "whoami_get"),
    Route("GET", "/v1/audit", audit.list_all, "audit_list_all"),
    Route("GET", "/v1/audit/chain", audit.chain, "audit_chain"),
    Route("GET", "/v1/audit/refusals", audit.refusals, "audit_refusals"),
    Route("POST", "/v1/webhooks", webhooks.create, "webhooks_create"),
    *map(Route._make, webhooks.ENDPOINTS),
    Route("POST", "/v1/webhooks/{name}/test", webhooks.test, "webhooks_test"),
    Route("POST", "/v1/webhooks/{name}/rotate", webhooks.rotate, "webhooks_rotate"),
    *map(Route._make, calendars.ENDPOINTS),
    Route("POST", "/v1/worker-sessions", sessions.open_session, "worker_sessions_open"),
    Route("POST", "/v1/worker-sessions/{session}/poll", sessions.poll, "worker_sessions_poll"),
    Route("POST", "/v1/worker-sessions/{session}/token", sessions.bind, "worker_sessions_bind"),
    Route("POST", "/v1/worker-sessions/{session}/close", sessions.close, "worker_sessions_close"),
    Route("GET", "/openapi.json", documents.openapi, "documents_openapi"),
    Route("GET", "/docs", documents.page, "documents_page"),
    Route("GET", "/livez", health.livez, "health_livez"),
    Route("GET", "/readyz", health.readyz, "health_readyz"),
    Route("GET", "/metrics", health.metrics, "health_metrics"),
]

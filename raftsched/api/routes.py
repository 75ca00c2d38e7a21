"""The route table: which handler serves which operation of the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

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
from raftsched.api.serving import OPERATIONS, SERVED, Route
from raftsched.api.workers import output as worker_output
from raftsched.api.workers import sessions, workers
from raftsched.surface.order import ORDER

# (method, path, handler, operation id) of what is not in raftsched.surface yet; what is, counts for nothing here
_Row = tuple[str, str, Callable[..., Any], str]


def _of_job(path: str, by: str = "") -> list[_Row]:
    """Routes that a job has under its id and under its name alike. `by` ends their operation ids."""
    return [
        ("GET", path, jobs.get, f"jobs_get{by}"),
        ("PATCH", path, jobs.patch, f"jobs_patch{by}"),
        ("DELETE", path, jobs.delete, f"jobs_delete{by}"),
        ("POST", f"{path}/check", checking.check_change, f"checking_check_change{by}"),
        ("POST", f"{path}/pause", actions.pause, f"actions_pause{by}"),
        ("POST", f"{path}/resume", actions.resume, f"actions_resume{by}"),
        ("POST", f"{path}/run", actions.run, f"actions_run{by}"),
        ("POST", f"{path}/expire", actions.expire, f"actions_expire{by}"),
        ("POST", f"{path}/skip-next", actions.skip_next, f"actions_skip_next{by}"),
        ("POST", f"{path}/backfill", backfill.backfill, f"backfill_backfill{by}"),
        ("GET", f"{path}/state", actions.get_state, f"actions_get_state{by}"),
        ("PUT", f"{path}/state", actions.put_state, f"actions_put_state{by}"),
        ("DELETE", f"{path}/state", actions.delete_state, f"actions_delete_state{by}"),
        ("GET", f"{path}/next", schedules.next_of_job, f"schedules_next_of_job{by}"),
        ("GET", f"{path}/explain", explain_job.get, f"jobs_explain{by}"),
        ("GET", f"{path}/instances", instances.list_of_job, f"instances_list_of_job{by}"),
        ("GET", f"{path}/revisions", revisions.list_all, f"revisions_list_all{by}"),
        ("GET", f"{path}/stats", stats.of_job, f"stats_of_job{by}"),
    ]


_BY_ID = "/v1/jobs/{id}"
_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}"

_ALL_SERVED = (calendars, namespaces, queues)  # modules that are imported for what they serve
_ROWS: list[_Row] = [
    ("POST", "/v1/jobs", jobs.create, "jobs_create"),
    ("GET", "/v1/jobs", jobs_list.list_jobs, "jobs_list_list_jobs"),
    ("DELETE", "/v1/jobs", bulk.delete_matching, "operations_delete_matching"),
    ("POST", "/v1/jobs:batch", batch.create_batch, "batch_create_batch"),
    ("POST", "/v1/jobs:compare", compare.compare_all, "compare_compare_all"),
    ("POST", "/v1/jobs:check", checking.check_new, "checking_check_new"),
    ("POST", "/v1/jobs:actions", bulk.act, "operations_act"),
    ("GET", "/v1/jobs:graph", graph.get, "jobs_graph"),
    *_of_job(_BY_ID),
    ("PUT", _BY_ID, jobs.put, "jobs_put"),
    *_of_job(_BY_NAME, "_by_name"),
    ("PUT", _BY_NAME, jobs.put_named, "jobs_put_named"),
    ("POST", f"{_BY_NAME}/compare", compare.compare_named, "compare_compare_named"),
    ("GET", "/v1/stats", stats.of_all, "stats_of_all"),
    ("GET", "/v1/stats/now", now.get, "now_get"),
    ("GET", "/v1/stats/minutes", minutes.get, "minutes_get"),
    ("GET", "/v1/forecast", forecast.get, "forecast_get"),
    ("GET", "/v1/operations", bulk.list_all, "operations_list_all"),
    ("GET", "/v1/operations/{id}", bulk.get, "operations_get"),
    ("POST", "/v1/operations/{id}/cancel", bulk.cancel, "operations_cancel"),
    ("GET", "/v1/instances", instances.list_all, "instances_list_all"),
    ("GET", "/v1/instances:recent", recent.get, "recent_get"),
    ("GET", "/v1/instances:search", searching.get, "instances_search"),
    ("POST", "/v1/instances:kill", kills.kill_matching, "kills_kill_matching"),
    ("GET", "/v1/instances/{id}", instances.get, "instances_get"),
    ("DELETE", "/v1/instances/{id}", instances.cancel, "instances_cancel"),
    ("GET", "/v1/instances/{id}/explain", explain.get, "explain_get"),
    ("GET", "/v1/instances/{id}/output", output.get, "output_get"),
    ("POST", "/v1/instances/{id}/kill", instances.kill, "instances_kill"),
    ("POST", "/v1/instances/{id}/rerun", instances.rerun, "instances_rerun"),
    ("GET", "/v1/workflows", workflows.list_all, "workflows_list_all"),
    ("GET", "/v1/workflows/{id}", workflows.get, "workflows_get"),
    ("POST", "/v1/workflows/{id}/kill", workflows.kill, "workflows_kill"),
    ("GET", "/v1/dead-letters", dead_letters.list_all, "dead_letters_list_all"),
    ("POST", "/v1/dead-letters/requeue", dead_letters.requeue, "dead_letters_requeue"),
    ("DELETE", "/v1/dead-letters", dead_letters.discard, "dead_letters_discard"),
    ("GET", "/v1/events", events.get, "events_get"),
    ("GET", "/v1/changes", changes.get, "changes_get"),
    ("POST", "/v1/schedules/crontab", crontabs.convert, "crontabs_convert"),
    ("POST", "/v1/schedules/preview", schedules.preview, "schedules_preview"),
    ("GET", "/v1/cluster", overview.get, "cluster_get"),
    ("GET", "/v1/cluster/doctor", doctor.get, "doctor_get"),
    ("GET", "/v1/cluster/members", members.list_all, "members_list_all"),
    ("POST", "/v1/cluster/members", members.add, "members_add"),
    ("DELETE", "/v1/cluster/members/{id}", members.remove, "members_remove"),
    ("POST", "/v1/cluster/leader", members.transfer, "members_transfer"),
    ("GET", "/v1/cluster/terms", terms.list_all, "terms_list_all"),
    ("GET", "/v1/cluster/snapshot", snapshot.get, "snapshot_get"),
    ("GET", "/v1/cluster/log", log_segments.get, "log_segments_get"),
    ("GET", "/v1/cluster/settings", settings.get, "settings_get"),
    ("PATCH", "/v1/cluster/settings", settings.patch, "settings_patch"),
    ("POST", "/v1/cluster/pause", settings.pause, "settings_pause"),
    ("POST", "/v1/cluster/resume", settings.resume, "settings_resume"),
    ("GET", "/v1/nodes", nodes.list_all, "nodes_list_all"),
    ("GET", "/v1/nodes/{id}", nodes.get, "nodes_get"),
    ("PATCH", "/v1/nodes/{id}", nodes.patch, "nodes_patch"),
    ("POST", "/v1/nodes/{id}/drain", nodes.drain, "nodes_drain"),
    ("POST", "/v1/nodes/{id}/undrain", nodes.undrain, "nodes_undrain"),
    ("PUT", "/v1/nodes/{id}/output-copies", output_copies.put, "output_copies_put"),
    ("PUT", "/v1/worker-sessions/{session}/runs/{token}/output", worker_output.put, "worker_output_put"),
    ("GET", "/v1/workers", workers.list_all, "workers_list_all"),
    ("GET", "/v1/workers/{name}", workers.get, "workers_get"),
    ("GET", "/v1/namespaces/{ns}/keys", run_keys.list_all, "run_keys_list_all"),
    ("GET", "/v1/secrets", secrets.list_all, "secrets_list_all"),
    ("POST", "/v1/secrets:reseal", kept.reseal, "kept_reseal"),
    ("GET", "/v1/tokens", tokens.list_all, "tokens_list_all"),
    ("POST", "/v1/tokens", tokens.create, "tokens_create"),
    ("GET", "/v1/tokens/{id}", tokens.get, "tokens_get"),
    ("DELETE", "/v1/tokens/{id}", tokens.delete, "tokens_delete"),
    ("GET", "/v1/cluster/access", tokens.get_access, "tokens_get_access"),
    ("PUT", "/v1/cluster/access", tokens.put_access, "tokens_put_access"),
    ("GET", "/v1/cluster/oidc", oidc.get, "oidc_get"),
    ("PUT", "/v1/cluster/oidc", oidc.put, "oidc_put"),
    ("DELETE", "/v1/cluster/oidc", oidc.delete, "oidc_delete"),
    ("GET", "/v1/whoami", whoami.get, "whoami_get"),
    ("GET", "/v1/audit", audit.list_all, "audit_list_all"),
    ("GET", "/v1/audit/chain", audit.chain, "audit_chain"),
    ("GET", "/v1/audit/refusals", audit.refusals, "audit_refusals"),
    ("POST", "/v1/webhooks", webhooks.create, "webhooks_create"),
    ("POST", "/v1/webhooks/{name}/test", webhooks.test, "webhooks_test"),
    ("POST", "/v1/webhooks/{name}/rotate", webhooks.rotate, "webhooks_rotate"),
    ("POST", "/v1/worker-sessions", sessions.open_session, "worker_sessions_open"),
    ("POST", "/v1/worker-sessions/{session}/poll", sessions.poll, "worker_sessions_poll"),
    ("POST", "/v1/worker-sessions/{session}/token", sessions.bind, "worker_sessions_bind"),
    ("POST", "/v1/worker-sessions/{session}/close", sessions.close, "worker_sessions_close"),
    ("GET", "/openapi.json", documents.openapi, "documents_openapi"),
    ("GET", "/docs", documents.page, "documents_page"),
    ("GET", "/livez", health.livez, "health_livez"),
    ("GET", "/readyz", health.readyz, "health_readyz"),
    ("GET", "/metrics", health.metrics, "health_metrics"),
]


def joined(rows: Iterable[_Row] = _ROWS) -> list[Route]:
    """Returns the routes in the order of /openapi.json. Raises LookupError unless each operation is served."""
    found = {
        id: Route(replace(OPERATIONS[handler], id=id, method=method, path=path), handler)  # type: ignore[arg-type]
        for method, path, handler, id in rows
    }
    found |= SERVED
    if found.keys() != set(ORDER):
        raise LookupError(f"not served, or not in surface.order: {sorted(found.keys() ^ set(ORDER))}")
    return [found[id] for id in ORDER]


ROUTES = joined()

"""The route table: every address of the API, in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from raftsched.api import actions, batch, cluster, health, instances, jobs, output, schedules
from raftsched.api.context import ApiContext

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
        Route("GET", f"{path}/state", actions.get_state),
        Route("PUT", f"{path}/state", actions.put_state),
        Route("DELETE", f"{path}/state", actions.delete_state),
        Route("GET", f"{path}/next", schedules.next_of_job),
        Route("GET", f"{path}/instances", instances.list_of_job),
    ]


_BY_ID = "/v1/jobs/{id}"
_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}"

ROUTES: list[Route] = [
    Route("POST", "/v1/jobs", jobs.create),
    Route("GET", "/v1/jobs", jobs.list_jobs),
    Route("POST", "/v1/jobs:batch", batch.create_batch),
    *_of_job(_BY_ID),
    Route("PUT", _BY_ID, jobs.put),
    *_of_job(_BY_NAME),
    Route("PUT", _BY_NAME, jobs.put_named),
    Route("GET", "/v1/instances", instances.list_all),
    Route("GET", "/v1/instances/{id}", instances.get),
    Route("GET", "/v1/instances/{id}/output", output.get),
    Route("POST", "/v1/instances/{id}/kill", instances.kill),
    Route("POST", "/v1/instances/{id}/rerun", instances.rerun),
    Route("POST", "/v1/schedules/preview", schedules.preview),
    Route("GET", "/v1/cluster", cluster.get),
    Route("GET", "/livez", health.livez),
    Route("GET", "/readyz", health.readyz),
    Route("GET", "/metrics", health.metrics),
]

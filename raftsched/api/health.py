"""For those who watch the node: /livez, /readyz, /metrics."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from raftsched.api.context import ApiContext
from raftsched.api.replies import reply_value
from raftsched.api.requests import Query

LAG_MAX = 10_000  # entries behind the commit index beyond which a node should get no reads


async def livez(ctx: ApiContext, request: web.Request) -> web.Response:
    """200 as long as the process answers."""
    Query(request)
    return reply_value({"alive": True})


async def readyz(ctx: ApiContext, request: web.Request) -> web.Response:
    """200 when requests can be served: the cluster is formed, has a leader, and this node is not far behind."""
    Query(request)
    status = ctx.status()
    checks = {
        "formed": status.formed,
        "leader": status.leader is not None,
        "caught_up": status.commit_index - status.applied_index <= LAG_MAX,
    }
    ready = all(checks.values())
    headers = None if ready else {"Retry-After": "1"}
    return reply_value({"ready": ready, "checks": checks}, 200 if ready else 503, headers)


async def metrics(ctx: ApiContext, request: web.Request) -> web.Response:
    Query(request)
    return web.Response(body=generate_latest(ctx.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

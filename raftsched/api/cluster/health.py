"""Answers those who watch the node: /livez, /readyz, /metrics."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.replies import reply_fields
from raftsched.api.serving import serves
from raftsched.surface import health

SCRAPE_S = 1.0
LAG_MAX = 10_000  # entries behind the commit index beyond which a node should get no reads


@serves(health.LIVEZ)
async def livez(ctx: ApiContext, call: Call[None]) -> web.Response:
    return reply_fields({"alive": True})


@serves(health.READYZ)
async def readyz(ctx: ApiContext, call: Call[None]) -> web.Response:
    status = ctx.cluster.status()
    checks = {
        "formed": status.formed,
        "leader": status.leader is not None,
        "caught_up": status.commit_index - status.applied_index <= LAG_MAX,
    }
    trouble = ctx.cluster.troubles().get(status.node_id)
    if all(checks.values()):
        return reply_fields({"ready": True, "checks": checks, "trouble": trouble})
    behind = f"{status.commit_index - status.applied_index} entries are committed and not applied here yet."
    waits_for = status.waits_for or (behind if status.formed else "Nothing of the cluster's log has come yet.")
    out = {"ready": False, "checks": checks, "waits_for": waits_for, "trouble": trouble}
    return reply_fields(out, 503, {"Retry-After": "1"})


class Scrapes:
    """The text of /metrics, made once for all who ask within SCRAPE_S. It takes as long as many requests do, and a few
    readers that ask for it again and again would hold up everybody else."""

    def __init__(self) -> None:
        self._text = b""
        self._until = -1.0

    def text(self, ctx: ApiContext) -> bytes:
        now = ctx.clock.monotonic()
        if not now < self._until <= now + SCRAPE_S:
            self._text = generate_latest(ctx.registry)
            self._until = now + SCRAPE_S
        return self._text


SCRAPES: web.AppKey[Scrapes] = web.AppKey("scrapes", Scrapes)


@serves(health.METRICS)
async def metrics(ctx: ApiContext, call: Call[None]) -> web.Response:
    return web.Response(body=call.request.app[SCRAPES].text(ctx), headers={"Content-Type": CONTENT_TYPE_LATEST})

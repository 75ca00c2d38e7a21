"""GET /v1/cluster/doctor: what is wrong with the cluster or soon will be, and what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
from aiohttp import web

from raftsched.api.auth.access import peer_header
from raftsched.api.auth.peers import trust, url_of
from raftsched.api.cluster.health import SCRAPES
from raftsched.api.cluster.overview import seen
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.peers import CLIENT
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.serving import serves
from raftsched.surface import health
from raftsched.surface.cluster import DOCTOR, DoctorOut, FindingOut, NodeOut

ASK_S = 1.0  # how long the nodes have to tell their metrics, and
FRESH_S = 2.0  # how long it counts for all who ask this node
METRICS_BYTES_MAX = 8 << 20
PIECE = 64 << 10  # bytes

Told = dict[str, dict[str, float]]  # samples by node


@serves(DOCTOR)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    # The checks, which a node starts without: it takes a few ms to import them.
    from raftsched.api.cluster.doctor_facts import facts_of
    from raftsched.doctor import examine, joined, worst, worst_first

    cluster = await seen(ctx, call.request)
    told, silent = await call.request.app[METRICS].of(ctx, call.request, cluster.nodes)
    facts = await facts_of(ctx, call.request, cluster, told, silent)
    found = worst_first(joined(examine(facts)))
    items = [FindingOut(f.check, f.state, f.detail, f.do or None, list(f.nodes), f.why, f.see) for f in found]
    return reply_value(DoctorOut(worst(found), ctx.node_id, items))


class NodeMetrics:
    """The metrics of all nodes, asked for once for all who want them within FRESH_S."""

    def __init__(self) -> None:
        self._asking = asyncio.Lock()
        self._until = -1.0
        self._told: Told = {}
        self._silent: dict[str, str] = {}

    async def of(self, ctx: ApiContext, request: web.Request, nodes: list[NodeOut]) -> tuple[Told, Mapping[str, str]]:
        """Returns the samples of the nodes that answer, and the addresses of those that do not."""
        async with self._asking:
            now = ctx.clock.monotonic()
            if not now < self._until <= now + FRESH_S:
                answers = await asyncio.gather(*(_ask(ctx, request, node) for node in nodes))
                told = {node.id: answer for node, answer in zip(nodes, answers, strict=True)}
                self._told = {name: answer for name, answer in told.items() if answer is not None}
                self._silent = {node.id: node.http or "" for node in nodes if told[node.id] is None}
                self._until = ctx.clock.monotonic() + FRESH_S
            return self._told, self._silent


METRICS: web.AppKey[NodeMetrics] = web.AppKey("node_metrics", NodeMetrics)


async def _ask(ctx: ApiContext, request: web.Request, node: NodeOut) -> dict[str, float] | None:
    """Returns what the node tells, nothing when it answers without its metrics; None: it does not answer."""
    from raftsched.doctor import samples_of  # as in `get`

    if node.id == ctx.node_id:
        return samples_of(request.app[SCRAPES].text(ctx).decode())
    if not node.http:
        return None
    try:
        async with request.app[CLIENT].get(
            url_of(node.http, health.METRICS.path),
            headers={"Accept-Encoding": "identity", **peer_header(ctx, node.id, health.METRICS.path)},
            timeout=aiohttp.ClientTimeout(total=ASK_S),
            allow_redirects=False,
            ssl=await trust(ctx, node.http),
        ) as answer:
            text = bytearray()
            async for piece in answer.content.iter_chunked(PIECE):
                text += piece
                if len(text) > METRICS_BYTES_MAX:
                    return {}
            return samples_of(text.decode("utf-8", "replace")) if answer.status == 200 else {}
    except (aiohttp.ClientError, Problem, TimeoutError, OSError):
        return None

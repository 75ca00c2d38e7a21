"""/v1/cluster/terms: who led, and since when."""

from __future__ import annotations

from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.replies import reply_value
from raftsched.api.serving import serves
from raftsched.core.rows import TERMS
from raftsched.core.tables import Table, from_u64
from raftsched.surface import cluster


@serves(cluster.TERMS)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    with ctx.read() as view:
        rows = [(from_u64(key), TERMS.decode(raw)) for key, raw in view.scan(Table.TERMS, reverse=True)]
    items = [cluster.TermOut(term, row.leader, format_time(row.at_ms), row.index) for term, row in rows]
    return reply_value({"items": items, "next": None})

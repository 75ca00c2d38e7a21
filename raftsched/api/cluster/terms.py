"""/v1/cluster/terms: who led, and since when."""

from __future__ import annotations

import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import READ
from raftsched.api.openapi.operation import PageOf, operation
from raftsched.core.rows import TERMS
from raftsched.core.tables import Table, from_u64
from raftsched.surface.scalars import Time


class TermOut(msgspec.Struct):
    """A leadership. It began `at` by its leader's clock, with the entry of this `index` in the log, and lasted until
    the next one began, or less long."""

    term: int
    leader: str
    at: Time
    index: int


@operation("List the newest leaderships", {200: PageOf(TermOut)}, query=READ, role="viewer", scope="shared")
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    """The newest first, 200 of them at most. Terms in which nobody came to lead are left out."""
    with ctx.read() as view:
        rows = [(from_u64(key), TERMS.decode(raw)) for key, raw in view.scan(Table.TERMS, reverse=True)]
    items = [TermOut(term, row.leader, format_time(row.at_ms), row.index) for term, row in rows]
    return reply_value({"items": items, "next": None})

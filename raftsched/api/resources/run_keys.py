"""GET /v1/namespaces/{ns}/keys: the keys of runs that are in use."""

from __future__ import annotations

from aiohttp import web

from raftsched import names
from raftsched.api.auth.callers import check_permitted
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time_or_none
from raftsched.api.http.requests import NAMESPACE_HELP, bad_parameter
from raftsched.api.resources.named import list_page
from raftsched.api.serving import serves
from raftsched.core.ids import instance_text
from raftsched.core.rows import decode_run_key
from raftsched.core.rules.run_keys import RunKey, from_run_key, run_key
from raftsched.core.tables import ReadView, Table
from raftsched.surface import namespaces
from raftsched.surface.namespaces import RunKeyOut


def _taken(view: ReadView, key: bytes, raw: bytes) -> tuple[str, RunKey]:
    return from_run_key(key)[1], decode_run_key(raw)


def _shown(_: ReadView, found: tuple[str, RunKey], of: int) -> RunKeyOut:
    key, row = found
    return RunKeyOut(
        key,
        row.running,
        row.waiting,
        [instance_text(holder) for holder in row.holders],
        format_time_or_none(row.wake_at_ms if row.waiting else None),
    )


@serves(namespaces.KEYS)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    namespace = call.path["ns"]
    if not names.NAMESPACE.allows(namespace):
        raise bad_parameter("ns", NAMESPACE_HELP)
    check_permitted(namespace)
    return await list_page(ctx, call, "keys", Table.RUN_KEYS, _taken, _shown, prefix=run_key(namespace, ""))

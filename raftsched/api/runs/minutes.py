"""/v1/stats/minutes: what runs came to, minute by minute, over the last day, as apply has counted it
(core.subjects.minutes)."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import bad_parameter, check_namespace
from raftsched.api.http.slices import Slices
from raftsched.api.serving import serves
from raftsched.bounds import DAY_MS, MINUTE_MS
from raftsched.core.rows import MINUTES, OPEN_MINUTE
from raftsched.core.subjects.minutes import ALL, OPEN_KEY, Minute, add_up
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import ReadView
from raftsched.surface import statistics as surface
from raftsched.surface.statistics import MinutesOut

STEPS = {"1m": MINUTE_MS, "5m": 5 * MINUTE_MS, "15m": 15 * MINUTE_MS, "1h": 60 * MINUTE_MS}
SPAN_MAX_MS = DAY_MS
LOOK_MS = 60 * MINUTE_MS  # looked at between two turns of the event loop


@serves(surface.MINUTES)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    step_ms = STEPS[query.choice("step", *STEPS) or "1m"]
    low_ms, high_ms = query.time("from"), query.time("to")
    if high_ms is None:
        high_ms = max(ctx.now_ms() + 1, low_ms or 0)
    if low_ms is None:
        low_ms = max(0, high_ms - SPAN_MAX_MS)
    if low_ms > high_ms:
        raise bad_parameter("from", 'is after "to"; it must not be', "inconsistent")
    low_ms = max(low_ms, high_ms - SPAN_MAX_MS)
    low_ms -= low_ms % step_ms
    high_ms += -high_ms % step_ms
    namespace = query.text("namespace")
    check_namespace(namespace)
    slices = Slices()
    steps = [Minute() for _ in range(low_ms, high_ms, step_ms)]
    for from_ms in range(low_ms, high_ms, LOOK_MS):
        with ctx.read() as view:
            for at_ms, row in _rows(view, from_ms, min(from_ms + LOOK_MS, high_ms), namespace):
                add_up(steps[(at_ms - low_ms) // step_ms], row)
        await slices.turn()
    counts = {name: [getattr(step, name) for step in steps] for name in Minute.__struct_fields__}
    step = query.text("step") or "1m"
    return reply_value(MinutesOut(format_time(low_ms), format_time(high_ms), step, **counts))


def _rows(view: ReadView, low_ms: int, high_ms: int, namespace: str | None) -> Iterator[tuple[int, Minute]]:
    """Yields the minutes with what was counted in a namespace; None: in all."""
    for at_ms in range(low_ms, high_ms, MINUTE_MS):
        row = MINUTES.get(view, at_ms, ALL if namespace is None else namespace)
        if row is not None:
            yield at_ms, row
    going = OPEN_MINUTE.get(view, OPEN_KEY)
    if going is not None and low_ms <= going.at_ms < high_ms:
        for name, row in going.rows.items():
            if name == namespace or (namespace is None and name != SYSTEM_NAMESPACE):
                yield going.at_ms, row

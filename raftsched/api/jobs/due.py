"""Pages of jobs in the order of their next fire times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from raftsched.api.context import ApiContext
from raftsched.api.http.slices import Slices
from raftsched.api.rows import SCAN_MAX, page
from raftsched.core.rules.due_times import FarFirst
from raftsched.core.rules.selection import Walk
from raftsched.core.tables import ReadView

LOOK_ROWS = 1_000  # rows of FAR that are looked at between two looks at the time

T = TypeVar("T")


async def due_page(
    ctx: ApiContext,
    way: Walk,
    last: bytes | None,
    limit: int,
    take: Callable[[ReadView, bytes], T | None],
    *,
    reverse: bool = False,
) -> tuple[list[T], bytes | None]:
    """Returns what `take` makes of the jobs with these keys of DUE, in their order, and the key of the last row looked
    at when there may be more. Days far ahead have to be sorted, and are looked into when nothing else fills the
    page."""
    far = FarFirst(way, last, reverse=reverse, count=SCAN_MAX)
    with ctx.read() as view:
        before = far.walk_before(view)
        near = way if before is None else before
        found = page(near.rows(view, last, reverse=reverse), limit, lambda key, _: take(view, key))
    if before is None or found[1] is not None:
        return found
    done = False
    slices = Slices()
    while not done:
        await slices.turn()
        with ctx.read() as view:
            done = far.look(view, LOOK_ROWS)
    with ctx.read() as view:
        keys, end = far.rows(view)
        items, last = page(((key, b"") for key in keys), limit, lambda key, _: take(view, key))
    return items, end if last is None else last

"""What the shop does later. These functions run in supervised processes beside the node, not in the web server: one
that hangs is killed after its timeout, and one whose machine dies runs again on another."""

from __future__ import annotations

import os

import raftsched
from webshop import orders


@raftsched.handler("cancel-unpaid")
def cancel_unpaid(database: str, order: int) -> dict[str, bool]:
    """Runs at least once, so it must not matter how often."""
    cancelled = orders.change(database, order, "open", "cancelled")
    print(f"order {order}:", "cancelled, nobody paid" if cancelled else "nothing to do")
    return {"cancelled": cancelled}


@raftsched.handler("sales-report")
def sales_report(database: str) -> dict[str, int]:
    return {"paid": orders.report(database, os.environ["RAFTSCHED_SCHEDULED_AT"])}

"""Applies PromoteDue: due times that were far ahead come near, a bounded number of rows per command.

A due time is a row of DUE, by the millisecond, or of DUE_LATER, by the day and in the order of creation. Which of the
two follows from `Meta.due_boundary`, a key of DUE_LATER that never goes back: what is stored from there on is stored in
DUE_LATER. Nothing in DUE_LATER lies below it, so all that lies below it is in DUE, where the leader looks. Rows from
the time before the first PromoteDue stay in DUE, however far ahead: that is where the leader looks anyway.
"""

from __future__ import annotations

from itertools import islice

from raftsched.core.apply.indexes import promote
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Accepted, Answer, PromoteDue
from raftsched.core.tables import DUE_LATER, day_key

ROWS_MAX = 10_000  # of one command


def promote_due(tx: Tx, c: PromoteDue) -> Answer:
    until = day_key(c.until_day)
    if until <= tx.meta.due_boundary:
        return Accepted(number=0)
    limit = max(1, min(c.limit, ROWS_MAX))
    rows = list(islice(tx.view.scan(DUE_LATER, b"", until), limit))
    for key, value in rows:
        promote(tx, key, value)
    # Behind the last row that was moved, for there may be more; else all of these days are near.
    tx.meta.due_boundary = rows[-1][0] + b"\0" if len(rows) == limit else until
    return Accepted(number=len(rows))

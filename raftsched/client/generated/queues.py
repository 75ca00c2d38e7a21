"""Made from surface/queues.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """So many starts in each period."""

    count: int
    per: str


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with limits. `waiting`: instances that could start but for these and the nodes' slots, counted up to a
    bound: there are more unless `waiting_exact`. `shut`: why nothing more may start now, "paused", "full" or "rate".
    `revision`: of its limits."""

    name: str
    max_running: int | None
    rate: Rate | None
    paused: bool
    running: int
    waiting: int
    waiting_exact: bool
    shut: str | None
    revision: int = 0
    created_at: datetime
    modified_at: datetime

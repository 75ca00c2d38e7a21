"""Made from surface/namespaces.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class NamespaceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """None: no limit. A limit below what there is already lets nothing more in. `max_running`: runs at one time, of all
    its jobs; others wait. `max_starts_per_minute`: attempts that start. `output_bytes`: of what they print, so much is
    kept on each node, and the oldest goes first. `output_max_bytes`, `output_keep`, `output_copies`: in place of the
    settings of these names, how much is kept of what an attempt prints, how long, and on how many nodes."""

    max_jobs: int | None
    max_running: int | None = None
    max_starts_per_minute: int | None = None
    output_bytes: int | None = None
    output_max_bytes: int | None = None
    output_keep: str | None = None
    output_copies: int | None = None


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace. `declared`: something is said about it; else it has only jobs or secrets, and its revision is 0."""

    name: str
    declared: bool
    description: str | None
    owner: str | None
    defaults: dict[str, Any]
    limits: NamespaceLimits
    jobs: int
    secrets: int
    revision: int
    created_at: datetime | None
    modified_at: datetime | None


class RunKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of runs that is in use. `running`: runs that have a permit, whether they run already or wait for a worker;
    `runs`: some of them, ten at most. `waiting`: runs that wait for a permit. `next_at`: when the line is looked at
    again because of a rate."""

    key: str
    running: int
    waiting: int
    runs: list[str]
    next_at: datetime | None

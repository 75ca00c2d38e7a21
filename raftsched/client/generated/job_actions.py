"""Made from surface/job_actions.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A manual run that was accepted; `id` is that of its instance."""

    id: str
    job_id: str


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    """`count` runs were made; in a dry run, would be, for these nominal times."""

    job_id: str
    count: int
    times: list[datetime] = []

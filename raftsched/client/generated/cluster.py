"""Made from surface/cluster.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A leadership. It began `at` by its leader's clock, with the entry of this `index` in the log, and lasted until
    the next one began, or less long."""

    term: int
    leader: str
    at: datetime
    index: int

"""Made from surface/dead_letters.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime

from raftsched.client.generated.runs import Instance


class DeadLetter(Instance, frozen=True, kw_only=True):
    """An instance, and since when it is a dead letter."""

    dead_since: datetime

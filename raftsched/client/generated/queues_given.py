"""Made from surface/queues.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import TypedDict

from raftsched.client.generated.content import Rate


class QueueLimits(TypedDict, total=False):
    """Limits of a queue; one that is left out, or None, does not limit."""

    max_running: int | None
    rate: Rate | None
    paused: bool | None

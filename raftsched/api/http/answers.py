"""The JSON of small answers, for OpenAPI; the larger ones are where they are made."""

from __future__ import annotations

import msgspec

from raftsched.surface.runs import InstanceOut
from raftsched.surface.scalars import Time


class Refused(msgspec.Struct):
    id: str
    code: str
    detail: str


class Requeued(msgspec.Struct):
    """`next`: the cursor of the request that goes on, null when all was looked at."""

    matched: int
    requeued: int
    refused: list[Refused]
    dry_run: bool
    next: str | None


class Discarded(msgspec.Struct):
    """`next`: the cursor of the request that goes on, null when all was looked at."""

    matched: int
    discarded: int
    refused: list[Refused]
    dry_run: bool
    next: str | None


class DeadLetter(InstanceOut, kw_only=True):
    """An instance, and since when it is a dead letter."""

    dead_since: Time

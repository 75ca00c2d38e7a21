"""The JSON of small answers, for OpenAPI; the larger ones are where they are made."""

from __future__ import annotations

from typing import Literal

import msgspec

from raftsched.api.cluster.overview import NodeOut, WaitingOut
from raftsched.surface.runs import InstanceOut
from raftsched.surface.scalars import Time


class Checks(msgspec.Struct):
    formed: bool
    leader: bool
    caught_up: bool


class Alive(msgspec.Struct):
    alive: bool


class Ready(msgspec.Struct):
    """`trouble`: why this node starts no runs, while it takes requests."""

    ready: Literal[True]
    checks: Checks
    trouble: str | None = None


class NotReady(msgspec.Struct):
    ready: Literal[False]
    checks: Checks
    waits_for: str
    trouble: str | None = None


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


class Paused(msgspec.Struct):
    paused: bool


class Transferred(msgspec.Struct):
    leader: str | None
    term: int


class MemberList(msgspec.Struct):
    """The members, and the nodes that ask to be let in."""

    items: list[NodeOut]
    waiting: list[WaitingOut]
    next: None


class MemberLetIn(msgspec.Struct):
    """More of it follows as in GET /v1/cluster, once this node knows it."""

    id: str
    voter: bool

"""The refusals of this node: kept in memory, equal ones within one minute as one note.

They are no part of the replicated state: strangers must not be able to fill that, or the log.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from raftsched.security.shown import path_without_secrets

log = logging.getLogger(__name__)

LINES = 60  # of the log in one minute
KEPT = 1_000  # notes; the oldest go
SPAN_MS = 60_000
STATUSES = frozenset({401, 403, 429})
_TEXT_MAX = 200


@dataclass(slots=True)
class Refusal:
    first_ms: int
    last_ms: int
    status: int
    method: str
    resource: str
    actor: str  # name of the token; empty: none was taken
    remote: str
    count: int = 1


class Refusals:
    """The newest refusals of one node."""

    def __init__(self) -> None:
        self._notes: OrderedDict[tuple[int, str, str, str, int], Refusal] = OrderedDict()
        self._lines = (0, 0)  # which minute, and how many lines of the log it had

    def note(self, status: int, method: str, resource: str, actor: str, remote: str, now_ms: int) -> bool:
        """Notes a refusal. Returns whether it is the first of its kind in this minute, so that the log may have it.

        Of callers without a name the address that they asked for is not told apart: they may make up any number."""
        resource = resource[:_TEXT_MAX]
        key = (status, remote, actor, resource if actor else "", now_ms // SPAN_MS)
        found = self._notes.get(key)
        if found is not None:
            found.count += 1
            found.last_ms = now_ms
            return False
        self._notes[key] = Refusal(now_ms, now_ms, status, method, resource, actor, remote)
        if len(self._notes) > KEPT:
            self._notes.popitem(last=False)
        minute, lines = self._lines
        if minute != now_ms // SPAN_MS:
            minute, lines = now_ms // SPAN_MS, 0
        self._lines = (minute, lines + 1)
        return lines < LINES

    def newest_first(self) -> list[Refusal]:
        return list(reversed(self._notes.values()))


class Noting(Protocol):
    """The parts of an ApiContext that notes of refusals need."""

    @property
    def refusals(self) -> Refusals: ...

    def now_ms(self) -> int: ...


def note_refusal(ctx: Noting, status: int, method: str, resource: str, actor: str, remote: str) -> None:
    """Notes a request that was answered with one of STATUSES, and tells the log of the first of its kind."""
    resource = path_without_secrets(resource)
    if ctx.refusals.note(status, method, resource, actor, remote, ctx.now_ms()):
        who = f'the token "{actor}"' if actor else "nobody known"
        log.warning(
            "refused with %d: %s %s by %s from %s",
            status,
            method,
            resource[:_TEXT_MAX],
            who,
            remote,
            extra={"actor": actor, "remote": remote},
        )

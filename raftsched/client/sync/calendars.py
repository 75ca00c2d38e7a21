"""Made from client/calendars.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from raftsched.client.models_cluster import Calendar
from raftsched.client.spec import CalendarDays
from raftsched.client.sync.bridge import Bridge


class Calendars:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def get(self, name: str) -> Calendar:
        """NotFoundError: there is none."""
        return self._bridge.run(lambda c: c.calendars.get(name))

    def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **days: Unpack[CalendarDays]
    ) -> Calendar:
        """All of it anew. With `only_new` there must be none yet, else ConflictError "exists". `if_match`: only while
        it is this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.calendars.put(name, only_new=only_new, if_match=if_match, **days))

    def patch(self, name: str, *, if_match: int | None = None, **days: Unpack[CalendarDays]) -> Calendar:
        """What is given replaces what there is of it; None takes it out. NotFoundError: there is none. `if_match` as in
        `put`."""
        return self._bridge.run(lambda c: c.calendars.patch(name, if_match=if_match, **days))

    def delete(self, name: str, *, if_match: int | None = None) -> None:
        """ConflictError "in-use": a job uses it. `if_match` as in `put`."""
        self._bridge.run(lambda c: c.calendars.delete(name, if_match=if_match))

    def list(self, *, most: int | None = None) -> Iterator[Calendar]:
        """By name; `most` of them (None: all)."""
        return self._bridge.each(lambda c: c.calendars.list(most=most))

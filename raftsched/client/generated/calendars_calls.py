"""Made from surface/calendars.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.encoding import encode
from raftsched.client.generated.calendars import Calendar
from raftsched.client.generated.calendars_given import CalendarDays
from raftsched.client.pages import each_of
from raftsched.client.transport import Transport
from raftsched.client.wire import condition, conditions, segment


class CalendarsCalls:
    """Methods that make one call."""

    _transport: Transport

    def list(self, *, most: int | None = None) -> AsyncIterator[Calendar]:
        """Yields the calendars by name, at most `most` (None: all)."""
        return each_of(self._transport, Calendar, "/v1/calendars", {}, most)

    async def get(self, name: str) -> Calendar:
        """Returns the calendar. Raises NotFoundError: there is none."""
        return await self._transport.get(Calendar, f"/v1/calendars/{segment(name)}")

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **days: Unpack[CalendarDays]
    ) -> Calendar:
        """Creates the calendar, or replaces all of it. With `only_new` it must not be there yet, else ConflictError
        "exists". `if_match`: only while it is at this revision, else ConflictError "stale-revision"."""
        return (
            await self._transport.send(
                "PUT",
                f"/v1/calendars/{segment(name)}",
                body=encode(days),
                headers=conditions(only_new, if_match),
                repeatable=not only_new,
            )
        ).decoded(Calendar)

    async def patch(self, name: str, *, if_match: int | None = None, **days: Unpack[CalendarDays]) -> Calendar:
        """Replaces the fields that are given; None removes one. Raises NotFoundError: there is none. `if_match` as in
        `put`."""
        return (
            await self._transport.send(
                "PATCH", f"/v1/calendars/{segment(name)}", body=encode(days), headers=condition(if_match)
            )
        ).decoded(Calendar)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Deletes the calendar. Raises ConflictError "in-use": a job uses it. `if_match` as in `put`."""
        await self._transport.send("DELETE", f"/v1/calendars/{segment(name)}", headers=condition(if_match))

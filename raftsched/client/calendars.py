"""Calendars: named days on which nothing is due, for any trigger that names them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.models_cluster import Calendar
from raftsched.client.pages import pages
from raftsched.client.spec import CalendarDays
from raftsched.client.transport import Transport, encode
from raftsched.client.wire import condition, segment


class Calendars:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, name: str) -> Calendar:
        """NotFoundError: there is none."""
        return await self._transport.get(Calendar, _path(name))

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **days: Unpack[CalendarDays]
    ) -> Calendar:
        """All of it anew. With `only_new` there must be none yet, else ConflictError "exists". `if_match`: only while
        it is this revision, else ConflictError "stale-revision"."""
        headers = {"If-None-Match": "*"} if only_new else condition(if_match)
        answer = await self._transport.send(
            "PUT", _path(name), body=encode(days), headers=headers, repeatable=not only_new
        )
        return answer.decoded(Calendar)

    async def patch(self, name: str, *, if_match: int | None = None, **days: Unpack[CalendarDays]) -> Calendar:
        """What is given replaces what there is of it; None takes it out. NotFoundError: there is none. `if_match` as in
        `put`."""
        answer = await self._transport.send("PATCH", _path(name), body=encode(days), headers=condition(if_match))
        return answer.decoded(Calendar)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """ConflictError "in-use": a job uses it. `if_match` as in `put`."""
        await self._transport.send("DELETE", _path(name), headers=condition(if_match))

    async def list(self, *, most: int | None = None) -> AsyncIterator[Calendar]:
        """By name; `most` of them (None: all)."""
        async for page in pages(self._transport, Calendar, "/v1/calendars", {}, most):
            for calendar in page:
                yield calendar


def _path(name: str) -> str:
    return f"/v1/calendars/{segment(name)}"

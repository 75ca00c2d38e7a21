"""The named things of a cluster: queues, calendars, namespaces and webhooks.

What is done with each of them alike is `NamedResource`. The classes keep signatures of their own, so that an editor
and a type checker know the fields of each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, TypeVar, Unpack

from raftsched.client.models import Instance
from raftsched.client.models_cluster import Calendar, Namespace, Queue, RunKey
from raftsched.client.models_webhooks import Webhook, WebhookFields
from raftsched.client.moments import Duration
from raftsched.client.pages import pages
from raftsched.client.spec import CalendarDays, NamespaceSpec, QueueLimits
from raftsched.client.transport import Transport, encode
from raftsched.client.wire import condition, segment

_T = TypeVar("_T")


class NamedResource(Generic[_T]):
    """Reads and writes things of one kind, which lie under `path` by their names."""

    def __init__(self, transport: Transport, model: type[_T], path: str) -> None:
        self._transport = transport
        self._model = model
        self._path = path

    def path_of(self, name: str) -> str:
        return f"{self._path}/{segment(name)}"

    async def get(self, name: str) -> _T:
        return await self._transport.get(self._model, self.path_of(name))

    async def put(self, name: str, only_new: bool, if_match: int | None, fields: Mapping[str, Any]) -> _T:
        headers = {"If-None-Match": "*"} if only_new else condition(if_match)
        path, body = self.path_of(name), encode(fields)
        answer = await self._transport.send("PUT", path, body=body, headers=headers, repeatable=not only_new)
        return answer.decoded(self._model)

    async def patch(self, name: str, if_match: int | None, fields: Mapping[str, Any]) -> _T:
        path, headers = self.path_of(name), condition(if_match)
        return (await self._transport.send("PATCH", path, body=encode(fields), headers=headers)).decoded(self._model)

    async def delete(self, name: str, if_match: int | None) -> None:
        await self._transport.send("DELETE", self.path_of(name), headers=condition(if_match))

    async def list(self, most: int | None) -> AsyncIterator[_T]:
        async for page in pages(self._transport, self._model, self._path, {}, most):
            for one in page:
                yield one


class Queues:
    """Queues with limits. Jobs may name any queue; one that is not here has no limits."""

    def __init__(self, transport: Transport) -> None:
        self._named = NamedResource(transport, Queue, "/v1/queues")

    async def get(self, name: str) -> Queue:
        """Returns the queue. Raises NotFoundError: it has no limits."""
        return await self._named.get(name)

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **limits: Unpack[QueueLimits]
    ) -> Queue:
        """Replaces all its limits: what is left out does not limit. With `only_new` it must have none yet, else
        ConflictError "exists". `if_match`: only while it is at this revision, else ConflictError "stale-revision"."""
        return await self._named.put(name, only_new, if_match, limits)

    async def patch(self, name: str, *, if_match: int | None = None, **limits: Unpack[QueueLimits]) -> Queue:
        """Changes the limits that are given; None removes one. Raises NotFoundError: it has none. `if_match` as in
        `put`."""
        return await self._named.patch(name, if_match, limits)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Removes its limits; what waits in it goes on without. `if_match` as in `put`."""
        await self._named.delete(name, if_match)

    def list(self, *, most: int | None = None) -> AsyncIterator[Queue]:
        """Yields the queues with limits by name, at most `most` (None: all)."""
        return self._named.list(most)


class Calendars:
    """Named days and hours in which nothing is due, for any trigger that names them."""

    def __init__(self, transport: Transport) -> None:
        self._named = NamedResource(transport, Calendar, "/v1/calendars")

    async def get(self, name: str) -> Calendar:
        """Returns the calendar. Raises NotFoundError: there is none."""
        return await self._named.get(name)

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **days: Unpack[CalendarDays]
    ) -> Calendar:
        """Creates the calendar, or replaces all of it. With `only_new` there must be none yet, else ConflictError
        "exists". `if_match`: only while it is at this revision, else ConflictError "stale-revision"."""
        return await self._named.put(name, only_new, if_match, days)

    async def patch(self, name: str, *, if_match: int | None = None, **days: Unpack[CalendarDays]) -> Calendar:
        """Replaces the fields that are given; None removes one. Raises NotFoundError: there is none. `if_match` as in
        `put`."""
        return await self._named.patch(name, if_match, days)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Deletes the calendar. Raises ConflictError "in-use": a job uses it. `if_match` as in `put`."""
        await self._named.delete(name, if_match)

    def list(self, *, most: int | None = None) -> AsyncIterator[Calendar]:
        """Yields the calendars by name, at most `most` (None: all)."""
        return self._named.list(most)


class Namespaces:
    """Owners, defaults and limits of namespaces. Jobs may name any namespace; one need not be declared."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._named = NamedResource(transport, Namespace, "/v1/namespaces")

    async def get(self, name: str) -> Namespace:
        """Returns the namespace. Raises NotFoundError: it is not declared, and has neither jobs nor secrets."""
        return await self._named.get(name)

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **said: Unpack[NamespaceSpec]
    ) -> Namespace:
        """Declares the namespace, or replaces all that is declared. Jobs that are written from then on get its
        defaults. With `only_new` it must not be declared, else ConflictError "exists". `if_match`: only while it is at
        this revision, else ConflictError "stale-revision"."""
        return await self._named.put(name, only_new, if_match, said)

    async def patch(self, name: str, *, if_match: int | None = None, **said: Unpack[NamespaceSpec]) -> Namespace:
        """Changes the fields that are given; None removes one. Raises NotFoundError: it is not declared. `if_match` as
        in `put`."""
        return await self._named.patch(name, if_match, said)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Deletes the declaration. Raises ConflictError while it has jobs. `if_match` as in `put`."""
        await self._named.delete(name, if_match)

    def list(self, *, most: int | None = None) -> AsyncIterator[Namespace]:
        """Yields, by name, the namespaces that are declared and those that merely have jobs or secrets, at most `most`
        (None: all)."""
        return self._named.list(most)

    async def keys(self, name: str, *, most: int | None = None) -> AsyncIterator[RunKey]:
        """Yields the keys of runs that are in use in a namespace, at most `most` (None: all)."""
        async for page in pages(self._transport, RunKey, f"{self._named.path_of(name)}/keys", {}, most):
            for one in page:
                yield one


class Webhooks:
    """Addresses to which the outcomes of runs are sent; receivers check these with `raftsched.webhooks.verify`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._named = NamedResource(transport, Webhook, "/v1/webhooks")

    async def get(self, name: str) -> Webhook:
        """Returns the webhook. Raises NotFoundError: there is none."""
        return await self._named.get(name)

    async def create(self, name: str, **fields: Unpack[WebhookFields]) -> Webhook:
        """Creates a webhook. A `secret` that was generated is in this answer only. Raises ConflictError: there is
        another one of this name."""
        return await self._transport.post(Webhook, "/v1/webhooks", {"name": name, **fields})

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **fields: Unpack[WebhookFields]
    ) -> Webhook:
        """Creates the webhook, or replaces all of it but its secret. With `only_new` it must not exist, else
        ConflictError "exists". `if_match`: only while it is at this revision, else ConflictError "stale-revision"."""
        return await self._named.put(name, only_new, if_match, fields)

    async def patch(self, name: str, *, if_match: int | None = None, **fields: Unpack[WebhookFields]) -> Webhook:
        """Changes the fields that are given; None stands for the default. `if_match` as in `put`."""
        return await self._named.patch(name, if_match, fields)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Deletes the webhook; what waits to be sent is not sent. Raises ConflictError: jobs name it. `if_match` as in
        `put`."""
        await self._named.delete(name, if_match)

    async def rotate(self, name: str, *, secret: str | None = None, overlap: Duration = "24h") -> Webhook:
        """Gives the webhook another secret; for the time of `overlap` both sign. One that was generated is in this
        answer only."""
        body: dict[str, Any] = {"overlap": overlap} if secret is None else {"overlap": overlap, "secret": secret}
        return await self._transport.post(Webhook, f"{self._named.path_of(name)}/rotate", body)

    async def test(self, name: str) -> Instance:
        """Sends a test event and returns the instance that delivers it."""
        return await self._transport.post(Instance, f"{self._named.path_of(name)}/test")

    def list(self, *, most: int | None = None) -> AsyncIterator[Webhook]:
        """Yields the webhooks by name, at most `most` (None: all)."""
        return self._named.list(most)

    async def deliveries(self, name: str, *, most: int | None = None) -> AsyncIterator[Instance]:
        """Yields the deliveries to it, the newest first."""
        path = f"/v1/namespaces/_system/jobs/{segment(name)}/instances"
        async for page in pages(self._transport, Instance, path, {}, most):
            for instance in page:
                yield instance

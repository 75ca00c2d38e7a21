"""Webhooks: addresses that are told what became of runs. `raftsched.webhooks.verify` is for who receives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Unpack

from raftsched.client.models import Instance
from raftsched.client.models_webhooks import Webhook, WebhookFields
from raftsched.client.pages import pages
from raftsched.client.spec import Duration
from raftsched.client.transport import Transport, encode
from raftsched.client.wire import condition, segment


class Webhooks:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, name: str) -> Webhook:
        """NotFoundError: there is none."""
        return await self._transport.get(Webhook, _path(name))

    async def create(self, name: str, **fields: Unpack[WebhookFields]) -> Webhook:
        """Its `secret`, when one was made, is in this answer only. ConflictError: there is another one of this name."""
        return await self._transport.post(Webhook, "/v1/webhooks", {"name": name, **fields})

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **fields: Unpack[WebhookFields]
    ) -> Webhook:
        """All that is said about it anew; its secret stays. With `only_new` it must not be there, else ConflictError
        "exists". `if_match`: only while it is this revision, else ConflictError "stale-revision"."""
        headers = {"If-None-Match": "*"} if only_new else condition(if_match)
        answer = await self._transport.send(
            "PUT", _path(name), body=encode(fields), headers=headers, repeatable=not only_new
        )
        return answer.decoded(Webhook)

    async def patch(self, name: str, *, if_match: int | None = None, **fields: Unpack[WebhookFields]) -> Webhook:
        """What is given is changed; None is the default. `if_match` as in `put`."""
        answer = await self._transport.send("PATCH", _path(name), body=encode(fields), headers=condition(if_match))
        return answer.decoded(Webhook)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """What waits to be sent is not sent. ConflictError: jobs name it. `if_match` as in `put`."""
        await self._transport.send("DELETE", _path(name), headers=condition(if_match))

    async def rotate(self, name: str, *, secret: str | None = None, overlap: Duration = "24h") -> Webhook:
        """Another secret; so long both sign. One that was made is in this answer only."""
        body: dict[str, Any] = {"overlap": overlap} if secret is None else {"overlap": overlap, "secret": secret}
        return await self._transport.post(Webhook, f"{_path(name)}/rotate", body)

    async def test(self, name: str) -> Instance:
        """Sends an event that is about nothing; the instance that delivers it."""
        return await self._transport.post(Instance, f"{_path(name)}/test")

    async def list(self, *, most: int | None = None) -> AsyncIterator[Webhook]:
        """By name; `most` of them (None: all)."""
        async for page in pages(self._transport, Webhook, "/v1/webhooks", {}, most):
            for webhook in page:
                yield webhook

    async def deliveries(self, name: str, *, most: int | None = None) -> AsyncIterator[Instance]:
        """What was sent to it, the newest first."""
        path = f"/v1/namespaces/_system/jobs/{segment(name)}/instances"
        async for page in pages(self._transport, Instance, path, {}, most):
            for instance in page:
                yield instance


def _path(name: str) -> str:
    return f"/v1/webhooks/{segment(name)}"

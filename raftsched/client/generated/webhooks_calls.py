"""Made from surface/webhooks.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.encoding import encode
from raftsched.client.generated.runs import Instance
from raftsched.client.generated.webhooks import Webhook, WebhookFields
from raftsched.client.moments import Duration
from raftsched.client.pages import each_of
from raftsched.client.transport import Transport
from raftsched.client.wire import condition, conditions, said, segment


class WebhooksCalls:
    """Methods that make one call."""

    _transport: Transport

    async def create(self, name: str, **fields: Unpack[WebhookFields]) -> Webhook:
        """Creates a webhook. A `secret` that was generated is in this answer only. Raises ConflictError: there is
        another one of this name."""
        return await self._transport.post(Webhook, "/v1/webhooks", {"name": name, **fields})

    def list(self, *, most: int | None = None) -> AsyncIterator[Webhook]:
        """Yields the webhooks by name, at most `most` (None: all)."""
        return each_of(self._transport, Webhook, "/v1/webhooks", {}, most)

    async def get(self, name: str) -> Webhook:
        """Returns the webhook. Raises NotFoundError: there is none."""
        return await self._transport.get(Webhook, f"/v1/webhooks/{segment(name)}")

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **fields: Unpack[WebhookFields]
    ) -> Webhook:
        """Creates the webhook, or replaces all of it but its secret. With `only_new` it must not be there yet, else
        ConflictError "exists". `if_match`: only while it is at this revision, else ConflictError "stale-revision"."""
        return (
            await self._transport.send(
                "PUT",
                f"/v1/webhooks/{segment(name)}",
                body=encode(fields),
                headers=conditions(only_new, if_match),
                repeatable=not only_new,
            )
        ).decoded(Webhook)

    async def patch(self, name: str, *, if_match: int | None = None, **fields: Unpack[WebhookFields]) -> Webhook:
        """Changes the fields that are given; None stands for the default. `if_match` as in `put`."""
        return (
            await self._transport.send(
                "PATCH", f"/v1/webhooks/{segment(name)}", body=encode(fields), headers=condition(if_match)
            )
        ).decoded(Webhook)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Deletes the webhook; what waits to be sent is not sent. Raises ConflictError: jobs name it. `if_match` as in
        `put`."""
        await self._transport.send("DELETE", f"/v1/webhooks/{segment(name)}", headers=condition(if_match))

    async def test(self, name: str) -> Instance:
        """Sends a test event and returns the instance that delivers it."""
        return await self._transport.post(Instance, f"/v1/webhooks/{segment(name)}/test")

    async def rotate(self, name: str, *, secret: str | None = None, overlap: Duration = "24h") -> Webhook:
        """Gives the webhook another secret; for the time of `overlap` both sign. One that was generated is in this
        answer only."""
        return await self._transport.post(
            Webhook, f"/v1/webhooks/{segment(name)}/rotate", said({"secret": secret, "overlap": overlap})
        )

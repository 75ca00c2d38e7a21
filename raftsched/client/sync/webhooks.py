"""Made from client/webhooks.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from raftsched.client.models import Instance
from raftsched.client.models_webhooks import Webhook, WebhookFields
from raftsched.client.spec import Duration
from raftsched.client.sync.bridge import Bridge


class Webhooks:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def get(self, name: str) -> Webhook:
        """NotFoundError: there is none."""
        return self._bridge.run(lambda c: c.webhooks.get(name))

    def create(self, name: str, **fields: Unpack[WebhookFields]) -> Webhook:
        """Its `secret`, when one was made, is in this answer only. ConflictError: there is another one of this name."""
        return self._bridge.run(lambda c: c.webhooks.create(name, **fields))

    def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **fields: Unpack[WebhookFields]
    ) -> Webhook:
        """All that is said about it anew; its secret stays. With `only_new` it must not be there, else ConflictError
        "exists". `if_match`: only while it is this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.webhooks.put(name, only_new=only_new, if_match=if_match, **fields))

    def patch(self, name: str, *, if_match: int | None = None, **fields: Unpack[WebhookFields]) -> Webhook:
        """What is given is changed; None is the default. `if_match` as in `put`."""
        return self._bridge.run(lambda c: c.webhooks.patch(name, if_match=if_match, **fields))

    def delete(self, name: str, *, if_match: int | None = None) -> None:
        """What waits to be sent is not sent. ConflictError: jobs name it. `if_match` as in `put`."""
        self._bridge.run(lambda c: c.webhooks.delete(name, if_match=if_match))

    def rotate(self, name: str, *, secret: str | None = None, overlap: Duration = "24h") -> Webhook:
        """Another secret; so long both sign. One that was made is in this answer only."""
        return self._bridge.run(lambda c: c.webhooks.rotate(name, secret=secret, overlap=overlap))

    def test(self, name: str) -> Instance:
        """Sends an event that is about nothing; the instance that delivers it."""
        return self._bridge.run(lambda c: c.webhooks.test(name))

    def list(self, *, most: int | None = None) -> Iterator[Webhook]:
        """By name; `most` of them (None: all)."""
        return self._bridge.each(lambda c: c.webhooks.list(most=most))

    def deliveries(self, name: str, *, most: int | None = None) -> Iterator[Instance]:
        """What was sent to it, the newest first."""
        return self._bridge.each(lambda c: c.webhooks.deliveries(name, most=most))

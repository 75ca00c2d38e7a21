"""Made from client/resources.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from raftsched.client.generated.calendars import Calendar
from raftsched.client.generated.calendars_given import CalendarDays
from raftsched.client.generated.namespaces import Namespace, RunKey
from raftsched.client.generated.namespaces_given import NamespaceSpec
from raftsched.client.generated.queues import Queue
from raftsched.client.generated.queues_given import QueueLimits
from raftsched.client.generated.runs import Instance
from raftsched.client.generated.webhooks import Webhook, WebhookFields
from raftsched.client.moments import Duration
from raftsched.client.sync.bridge import Bridge


class Queues:
    """Queues with limits. Jobs may name any queue; one that is not here has no limits."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def list(self, *, most: int | None = None) -> Iterator[Queue]:
        """Yields the queues with limits by name, at most `most` (None: all)."""
        return self._bridge.each(lambda c: c.queues.list(most=most))

    def get(self, name: str) -> Queue:
        """Returns the queue. Raises NotFoundError: it has no limits."""
        return self._bridge.run(lambda c: c.queues.get(name))

    def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **limits: Unpack[QueueLimits]
    ) -> Queue:
        """Replaces all its limits: what is left out does not limit. With `only_new` it must not be there yet, else
        ConflictError "exists". `if_match`: only while it is at this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.queues.put(name, only_new=only_new, if_match=if_match, **limits))

    def patch(self, name: str, *, if_match: int | None = None, **limits: Unpack[QueueLimits]) -> Queue:
        """Changes the limits that are given; None removes one. Raises NotFoundError: it has none. `if_match` as in
        `put`."""
        return self._bridge.run(lambda c: c.queues.patch(name, if_match=if_match, **limits))

    def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Removes its limits; what waits in it goes on without. `if_match` as in `put`."""
        self._bridge.run(lambda c: c.queues.delete(name, if_match=if_match))


class Calendars:
    """Named days and hours in which nothing is due, for any trigger that names them."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def list(self, *, most: int | None = None) -> Iterator[Calendar]:
        """Yields the calendars by name, at most `most` (None: all)."""
        return self._bridge.each(lambda c: c.calendars.list(most=most))

    def get(self, name: str) -> Calendar:
        """Returns the calendar. Raises NotFoundError: there is none."""
        return self._bridge.run(lambda c: c.calendars.get(name))

    def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **days: Unpack[CalendarDays]
    ) -> Calendar:
        """Creates the calendar, or replaces all of it. With `only_new` it must not be there yet, else ConflictError
        "exists". `if_match`: only while it is at this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.calendars.put(name, only_new=only_new, if_match=if_match, **days))

    def patch(self, name: str, *, if_match: int | None = None, **days: Unpack[CalendarDays]) -> Calendar:
        """Replaces the fields that are given; None removes one. Raises NotFoundError: there is none. `if_match` as in
        `put`."""
        return self._bridge.run(lambda c: c.calendars.patch(name, if_match=if_match, **days))

    def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Deletes the calendar. Raises ConflictError "in-use": a job uses it. `if_match` as in `put`."""
        self._bridge.run(lambda c: c.calendars.delete(name, if_match=if_match))


class Namespaces:
    """Owners, defaults and limits of namespaces. Jobs may name any namespace; one need not be declared."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def list(self, *, most: int | None = None) -> Iterator[Namespace]:
        """Yields, by name, the namespaces that are declared and those that merely have jobs or secrets, at most `most`
        (None: all)."""
        return self._bridge.each(lambda c: c.namespaces.list(most=most))

    def get(self, name: str) -> Namespace:
        """Returns the namespace. Raises NotFoundError: it is not declared, and has neither jobs nor secrets."""
        return self._bridge.run(lambda c: c.namespaces.get(name))

    def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **said: Unpack[NamespaceSpec]
    ) -> Namespace:
        """Declares the namespace, or replaces all that is declared. Jobs that are written from then on get its
        defaults. With `only_new` it must not be there yet, else ConflictError "exists". `if_match`: only while it is at
        this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.namespaces.put(name, only_new=only_new, if_match=if_match, **said))

    def patch(self, name: str, *, if_match: int | None = None, **said: Unpack[NamespaceSpec]) -> Namespace:
        """Changes the fields that are given; None removes one. Raises NotFoundError: it is not declared. `if_match` as
        in `put`."""
        return self._bridge.run(lambda c: c.namespaces.patch(name, if_match=if_match, **said))

    def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Deletes the declaration. Raises ConflictError while it has jobs or secrets. `if_match` as in `put`."""
        self._bridge.run(lambda c: c.namespaces.delete(name, if_match=if_match))

    def keys(self, name: str, *, most: int | None = None) -> Iterator[RunKey]:
        """Yields the keys of runs that are in use in a namespace, at most `most` (None: all)."""
        return self._bridge.each(lambda c: c.namespaces.keys(name, most=most))


class Webhooks:
    """Addresses to which the outcomes of runs are sent; receivers check these with `raftsched.webhooks.verify`."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def deliveries(self, name: str, *, most: int | None = None) -> Iterator[Instance]:
        """Yields the deliveries to it, the newest first."""
        return self._bridge.each(lambda c: c.webhooks.deliveries(name, most=most))

    def create(self, name: str, **fields: Unpack[WebhookFields]) -> Webhook:
        """Creates a webhook. A `secret` that was generated is in this answer only. Raises ConflictError: there is
        another one of this name."""
        return self._bridge.run(lambda c: c.webhooks.create(name, **fields))

    def list(self, *, most: int | None = None) -> Iterator[Webhook]:
        """Yields the webhooks by name, at most `most` (None: all)."""
        return self._bridge.each(lambda c: c.webhooks.list(most=most))

    def get(self, name: str) -> Webhook:
        """Returns the webhook. Raises NotFoundError: there is none."""
        return self._bridge.run(lambda c: c.webhooks.get(name))

    def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **fields: Unpack[WebhookFields]
    ) -> Webhook:
        """Creates the webhook, or replaces all of it but its secret. With `only_new` it must not be there yet, else
        ConflictError "exists". `if_match`: only while it is at this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.webhooks.put(name, only_new=only_new, if_match=if_match, **fields))

    def patch(self, name: str, *, if_match: int | None = None, **fields: Unpack[WebhookFields]) -> Webhook:
        """Changes the fields that are given; None stands for the default. `if_match` as in `put`."""
        return self._bridge.run(lambda c: c.webhooks.patch(name, if_match=if_match, **fields))

    def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Deletes the webhook; what waits to be sent is not sent. Raises ConflictError: jobs name it. `if_match` as in
        `put`."""
        self._bridge.run(lambda c: c.webhooks.delete(name, if_match=if_match))

    def test(self, name: str) -> Instance:
        """Sends a test event and returns the instance that delivers it."""
        return self._bridge.run(lambda c: c.webhooks.test(name))

    def rotate(self, name: str, *, secret: str | None = None, overlap: Duration = "24h") -> Webhook:
        """Gives the webhook another secret; for the time of `overlap` both sign. One that was generated is in this
        answer only."""
        return self._bridge.run(lambda c: c.webhooks.rotate(name, secret=secret, overlap=overlap))

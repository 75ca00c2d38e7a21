"""The named things of a cluster: queues, calendars, namespaces and webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator

from raftsched.client.generated.calendars_calls import CalendarsCalls
from raftsched.client.generated.namespaces_calls import NamespacesCalls
from raftsched.client.generated.queues_calls import QueuesCalls
from raftsched.client.generated.runs import Instance
from raftsched.client.generated.webhooks_calls import WebhooksCalls
from raftsched.client.pages import each_of
from raftsched.client.transport import Transport
from raftsched.client.wire import at
from raftsched.surface.plain import runs


class Queues(QueuesCalls):
    """Queues with limits. Jobs may name any queue; one that is not here has no limits."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class Calendars(CalendarsCalls):
    """Named days and hours in which nothing is due, for any trigger that names them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class Namespaces(NamespacesCalls):
    """Owners, defaults and limits of namespaces. Jobs may name any namespace; one need not be declared."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class Webhooks(WebhooksCalls):
    """Addresses to which the outcomes of runs are sent; receivers check these with `raftsched.webhooks.verify`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def deliveries(self, name: str, *, most: int | None = None) -> AsyncIterator[Instance]:
        """Yields the deliveries to it, the newest first."""
        path = at(runs.OF_JOB_BY_NAME, ns="_system", name=name)
        return each_of(self._transport, Instance, path, {}, most)

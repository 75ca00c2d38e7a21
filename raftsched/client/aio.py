"""raftsched.AsyncClient: a cluster, for asyncio programs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Unpack

from raftsched.client.instances import DeadLetters, Instances
from raftsched.client.jobs import Jobs
from raftsched.client.models import ClusterView, Event, Preview
from raftsched.client.nodes import Nodes
from raftsched.client.servers import parse_servers
from raftsched.client.spec import EventFilter, Moment, Trigger
from raftsched.client.transport import TIMEOUT_S, Connector, Transport
from raftsched.client.watching import watch

DEFAULT = "http://127.0.0.1:7401"


class AsyncClient:
    """For one event loop, and any number of its tasks.

    async with AsyncClient("http://10.0.0.1:7401,http://10.0.0.2:7401") as client:
        job = await client.jobs.create(trigger={"in": "5m"}, handler={"call": "send-invoice"}, params={"number": 7})
    """

    def __init__(
        self,
        servers: str | Iterable[str] = DEFAULT,
        *,
        timeout: float = TIMEOUT_S,
        discover: bool = True,
        connector: Connector | None = None,
    ) -> None:
        """`servers`: addresses of some nodes, as `http://host:port` or `host:port`, several with commas or as a list.
        `timeout`: seconds for one request with all its repeats. `discover`: ask the nodes for the others' addresses,
        and prefer the leader for what changes something. `connector`: how they are reached, when not by TCP (an
        embedded node reaches itself without a socket). Raises ValueError for what is no address."""
        given = parse_servers(servers if isinstance(servers, str) else ",".join(servers))
        self.transport = Transport(Nodes(given, discover=discover), timeout=timeout, connector=connector)
        self.jobs = Jobs(self.transport)
        self.instances = Instances(self.transport)
        self.dead_letters = DeadLetters(self.transport)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Creates that are under way are answered first."""
        await self.jobs.close()
        await self.transport.close()

    async def cluster(self) -> ClusterView:
        """As the node that answers sees it."""
        return await self.transport.get(ClusterView, "/v1/cluster", own=False)

    def events(
        self, *, after: str | None = None, follow: bool = True, **filters: Unpack[EventFilter]
    ) -> AsyncIterator[Event]:
        """What changes, as it comes; goes on at another node when one goes away. `after`: the id of the last event that
        was dealt with, or "oldest" for all that is kept; None: from now on. With `follow=False` it ends with what there
        is. NotFoundError "events-gone" when what comes after that id is not kept any more."""
        return watch(self.transport, after, follow, filters)

    async def preview(self, trigger: Trigger, *, start: Moment | None = None, count: int = 10) -> Preview:
        """A trigger in words and its next times; nothing is saved."""
        body: dict[str, Any] = {"trigger": trigger, "count": count}
        if start is not None:
            body["from"] = start
        return await self.transport.post(Preview, "/v1/schedules/preview", body)

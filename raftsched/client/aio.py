"""raftsched.AsyncClient: a cluster, for asyncio programs."""

from __future__ import annotations

import copy
import os
from collections.abc import AsyncIterator, Iterable
from os import PathLike, fspath
from types import TracebackType
from typing import Unpack

from raftsched.client.cluster import Cluster, ClusterNodes, Workers
from raftsched.client.contexts import usual
from raftsched.client.creates import Creates
from raftsched.client.generated import schedules_calls, statistics_calls
from raftsched.client.generated.events import Changes
from raftsched.client.instances import DeadLetters, Instances
from raftsched.client.jobs import Jobs
from raftsched.client.models import Event
from raftsched.client.operations import Operations
from raftsched.client.resources import Calendars, Namespaces, Queues, Webhooks
from raftsched.client.server_order import Nodes
from raftsched.client.servers import parse_servers
from raftsched.client.spec import EventFilter
from raftsched.client.token_file import TokenFile, of_environment
from raftsched.client.token_file import token_file as found_in
from raftsched.client.transport import TIMEOUT_S, Connector, Transport
from raftsched.client.trust import Trust, from_environment
from raftsched.client.watching import watch
from raftsched.client.workflow_runs import Workflows


class AsyncClient(schedules_calls.AsyncClientCalls, statistics_calls.AsyncClientCalls):
    """A client of one cluster, for one event loop and any number of its tasks.

    async with AsyncClient("https://10.0.0.1:7401,https://10.0.0.2:7401") as client:
        job = await client.jobs.create(trigger={"in": "5m"}, handler={"call": "send-invoice"}, params={"number": 7})
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        *,
        timeout: float = TIMEOUT_S,
        discover: bool = True,
        connector: Connector | None = None,
        token: str | None = None,
        token_file: str | PathLike[str] | None = None,
        ca_file: str | PathLike[str] | None = None,
        client_cert: str | PathLike[str] | None = None,
        client_key: str | PathLike[str] | None = None,
        insecure: bool = False,
    ) -> None:
        """`servers`: addresses of some nodes, as `http://host:port` or `host:port`, several with commas or as a list.
        None: as for the command line, those of RAFTSCHED_SERVER, else of the context that RAFTSCHED_CONTEXT names or
        that is in use, else this machine's ports 7401 to 7403. `timeout`: seconds for one request with all its repeats.
        `discover`: ask the nodes for the others' addresses, and prefer the leader for what changes something.
        `connector`: how they are reached, when not by TCP (an embedded node reaches itself without a socket). `token`:
        sent with each request; None: what is in `token_file`, which is read again when it changes and when its token is
        refused, else RAFTSCHED_TOKEN, RAFTSCHED_TOKEN_FILE, else that of the context that the servers are from.

        For https: `ca_file` holds the authorities whose certificates are taken (None: RAFTSCHED_CA_FILE, that of the
        context, else those of the system); `client_cert` and `client_key` are shown to nodes that ask for a certificate
        (RAFTSCHED_CLIENT_CERT, RAFTSCHED_CLIENT_KEY). All are files, in PEM, read again when they change.

        A token goes to other machines by https only: else ClientError "insecure" before anything is sent, unless
        `insecure` (RAFTSCHED_INSECURE=1) says that it is meant. Raises ValueError for what is no address, LookupError
        for a context that is not there."""
        shown: str | TokenFile | None = token or (None if token_file is None else found_in(fspath(token_file)))
        shown = shown or of_environment(os.environ)
        files = [None if file is None else fspath(file) for file in (ca_file, client_cert, client_key)]
        trust = Trust(files[0], files[1], files[2], insecure).over(from_environment(os.environ))
        if servers is None:
            context = usual()
            servers, shown, trust = context.server, shown or context.token, trust.over(context.trust)
        given = parse_servers(servers if isinstance(servers, str) else ",".join(servers))
        nodes = Nodes(given, discover=discover)
        transport = Transport(nodes, timeout=timeout, connector=connector, token=shown, trust=trust)
        self._speak(transport, Creates(transport))

    def _speak(self, transport: Transport, creates: Creates) -> None:
        self.transport = self._transport = transport
        self._creates = creates
        self.jobs = Jobs(transport, creates)
        self.instances = Instances(transport)
        self.workflows = Workflows(transport)
        self.dead_letters = DeadLetters(transport)
        self.operations = Operations(transport)
        self.queues = Queues(transport)
        self.webhooks = Webhooks(transport)
        self.calendars = Calendars(transport)
        self.namespaces = Namespaces(transport)
        self.nodes = ClusterNodes(transport)
        self.workers = Workers(transport)
        self.cluster = Cluster(transport)

    def within(self, seconds: float) -> AsyncClient:
        """Returns the same client with another time for each request and its repeats, as in `await
        client.within(2).jobs.get("default/nightly")`. It shares everything with this one, and is not closed by itself.
        """
        other = copy.copy(self)
        other._speak(self.transport.within(seconds), self._creates)
        return other

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. Creates that are under way are answered first."""
        await self._creates.close()
        await self.transport.close()

    def events(
        self, *, after: str | None = None, follow: bool = True, **filters: Unpack[EventFilter]
    ) -> AsyncIterator[Event]:
        """Gives each change of the cluster as it happens, and continues at another node when one goes away. `after`:
        the id of the last event that was handled, or "oldest" for all that are kept; None: from now on. With
        `follow=False` it ends with the last event that there is. Raises NotFoundError "events-gone" when the events
        after that id are no longer kept."""
        return watch(self.transport, Event, after, follow, filters)

    def changes(self, *, after: str | None = None, follow: bool = True) -> AsyncIterator[Changes]:
        """Gives digests of what changed, at most four a second whatever happens, and continues at another node when one
        goes away: for what shows jobs and runs, and reads them again when they changed. `after`: the id of the last
        digest; None: from now on. With `follow=False`: what changed since, and the end."""
        return watch(self.transport, Changes, after, follow, {})

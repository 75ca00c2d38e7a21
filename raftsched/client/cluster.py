"""The cluster itself: who leads, its settings, its members, and its nodes as they run jobs."""

from __future__ import annotations

from raftsched.client.encoding import encode
from raftsched.client.generated import cluster_calls, oidc_calls, settings_calls, whoami_calls
from raftsched.client.generated.cluster import Leadership
from raftsched.client.generated.nodes_calls import ClusterNodesCalls
from raftsched.client.generated.workers_calls import WorkersCalls
from raftsched.client.transport import Transport
from raftsched.client.wire import own_key
from raftsched.surface.plain import cluster as addresses


class Cluster(
    cluster_calls.ClusterCalls, settings_calls.ClusterCalls, whoami_calls.ClusterCalls, oidc_calls.ClusterCalls
):
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def transfer(self, to: str | None = None) -> Leadership:
        """Hands leadership over, to this voting member, or to the one that has most of the log."""
        raw, headers = encode({} if to is None else {"to": to}), own_key()
        answer = await self._transport.send(
            "POST", addresses.TRANSFER, body=raw, headers=headers, repeatable=to is not None
        )
        return answer.decoded(Leadership)


class ClusterNodes(ClusterNodesCalls):
    """The members as they run jobs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class Workers(WorkersCalls):
    """Remote workers: machines that work without voting."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

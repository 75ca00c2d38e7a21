"""The cluster itself: who leads, its settings, its members, and its nodes as they run jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raftsched.client.generated.cluster import Leadership
from raftsched.client.generated.cluster_calls import ClusterCalls
from raftsched.client.generated.nodes_calls import ClusterNodesCalls
from raftsched.client.generated.workers_calls import WorkersCalls
from raftsched.client.models_cluster import Who
from raftsched.client.transport import Transport, encode
from raftsched.client.wire import own_key
from raftsched.surface.plain import cluster as addresses


class Cluster(ClusterCalls):
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def settings(self) -> dict[str, Any]:
        """Returns all limits and defaults that hold on every node alike; durations as text."""
        return await self._transport.get(dict[str, Any], "/v1/cluster/settings")

    async def set_settings(self, **changes: Any) -> dict[str, Any]:
        """Changes the given settings, None to the default, and returns all of them. InvalidError names each value out
        of bounds."""
        answer = await self._transport.send("PATCH", "/v1/cluster/settings", body=encode(changes))
        return answer.decoded(dict[str, Any])

    async def whoami(self) -> Who:
        """Returns the caller as the cluster knows them: name, roles, and until when. Raises AuthError when a token is
        missing or not valid."""
        return await self._transport.get(Who, "/v1/whoami")

    async def oidc(self) -> dict[str, Any]:
        """The issuer whose tokens are taken, and the rules by which they give roles. NotFoundError: none are."""
        return await self._transport.get(dict[str, Any], "/v1/cluster/oidc")

    async def set_oidc(
        self,
        issuer: str,
        audience: str,
        rules: Sequence[Mapping[str, Any]],
        *,
        client_id: str | None = None,
        username_claim: str | None = None,
        algorithms: Sequence[str] = ("RS256", "ES256"),
    ) -> dict[str, Any]:
        """Says all of it anew. Each rule: {"claim", "value", "role"} and, for a role in some of them only,
        "namespaces". InvalidError names what is wrong."""
        body = {
            "issuer": issuer,
            "audience": audience,
            "rules": list(rules),
            "client_id": client_id,
            "username_claim": username_claim,
            "algorithms": list(algorithms),
        }
        answer = await self._transport.send("PUT", "/v1/cluster/oidc", body=encode(body))
        return answer.decoded(dict[str, Any])

    async def forget_oidc(self) -> None:
        """Tokens of an issuer are not taken any more."""
        await self._transport.send("DELETE", "/v1/cluster/oidc")

    async def pause(self) -> None:
        """Nothing is fired or started any more; what runs goes on."""
        await self._transport.post(dict[str, Any], "/v1/cluster/pause")

    async def resume(self) -> None:
        """Lets jobs start again. Each job's misfire policy says what happens to times that were missed."""
        await self._transport.post(dict[str, Any], "/v1/cluster/resume")

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

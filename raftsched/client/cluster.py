"""The cluster itself: who leads, its settings, its members, and its nodes as they run jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from raftsched.client.generated.cluster_calls import ClusterCalls
from raftsched.client.models import Page
from raftsched.client.models_cluster import (
    ClusterView,
    Doctor,
    Leadership,
    Members,
    NodeDetail,
    Who,
    Worker,
    WorkerDetail,
)
from raftsched.client.pages import pages
from raftsched.client.transport import Transport, encode, items
from raftsched.client.wire import condition, own_key, segment


class Cluster(ClusterCalls):
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def status(self) -> ClusterView:
        """Returns the cluster as the answering node sees it, also when there is no leader."""
        return await self._transport.get(ClusterView, "/v1/cluster", own=False)

    async def doctor(self) -> Doctor:
        """Returns what is wrong with the cluster, or soon will be, and what would make it right, also when there is no
        leader."""
        return await self._transport.get(Doctor, "/v1/cluster/doctor", own=False)

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

    async def members(self) -> Members:
        """Returns the members of the cluster, and the nodes that ask to join."""
        return await self._transport.get(Members, "/v1/cluster/members")

    async def add_member(self, id: str, *, store: str | None = None, replace: bool = False) -> None:
        """Lets a node in that asks for it. It gets everything first, and votes by itself when it has caught up.
        `store`: only the one with this disk, as `members` shows it. `replace`: in place of the member of its name,
        whose disk is lost. ConflictError "not-waiting" when it does not ask, "membership-busy" while another change is
        under way."""
        body = {"id": id, "replace": replace, **({} if store is None else {"store": store})}
        await self._transport.post(dict[str, Any], "/v1/cluster/members", body)

    async def remove_member(self, id: str) -> None:
        """Removes a member. If it leads, leadership is handed over first."""
        await self._transport.send("DELETE", f"/v1/cluster/members/{segment(id)}")

    async def transfer(self, to: str | None = None) -> Leadership:
        """Hands leadership over, to this voting member, or to the one that has most of the log."""
        path, raw = "/v1/cluster/leader", encode({} if to is None else {"to": to})
        answer = await self._transport.send("POST", path, body=raw, headers=own_key(), repeatable=to is not None)
        return answer.decoded(Leadership)


class ClusterNodes:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, id: str) -> NodeDetail:
        """NotFoundError: there is no such member."""
        return await self._transport.get(NodeDetail, _path(id))

    async def drain(self, id: str) -> NodeDetail:
        """Gives no new runs to the node; runs that are there go on. Works also while the node is down."""
        return await self._transport.post(NodeDetail, f"{_path(id)}/drain")

    async def undrain(self, id: str) -> NodeDetail:
        """Gives runs to the node again."""
        return await self._transport.post(NodeDetail, f"{_path(id)}/undrain")

    async def set_labels(
        self, id: str, labels: Mapping[str, str | None] | None, *, if_match: int | None = None
    ) -> NodeDetail:
        """Added to those that hold; a value of None takes one out, None for all: those the node was started with.
        `if_match`: only while what is said about it is this revision, else ConflictError "stale-revision"."""
        return await self._patch(id, {"labels": labels}, if_match)

    async def set_slots(self, id: str, slots: int | None, *, if_match: int | None = None) -> NodeDetail:
        """Attempts at one time; None: as many as the node was started with. `if_match` as in `set_labels`."""
        return await self._patch(id, {"slots": slots}, if_match)

    async def list(self) -> Sequence[NodeDetail]:
        """Returns all members."""
        return items(NodeDetail, await self._transport.get(Page, "/v1/nodes"))

    async def _patch(self, id: str, change: Mapping[str, Any], if_match: int | None) -> NodeDetail:
        headers = condition(if_match)
        return (await self._transport.send("PATCH", _path(id), body=encode(change), headers=headers)).decoded(
            NodeDetail
        )


class Workers:
    """Remote workers: machines that work without voting."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, name: str) -> WorkerDetail:
        """NotFoundError: there is no worker of this name with an open session."""
        return await self._transport.get(WorkerDetail, f"/v1/workers/{segment(name)}")

    async def list(self, *, most: int | None = None) -> AsyncIterator[Worker]:
        """By name; `most` of them (None: all)."""
        async for page in pages(self._transport, Worker, "/v1/workers", {}, most):
            for worker in page:
                yield worker


def _path(id: str) -> str:
    return f"/v1/nodes/{segment(id)}"

"""Made from surface/nodes.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raftsched.client.encoding import encode
from raftsched.client.generated.nodes import NodeDetail
from raftsched.client.models import Page
from raftsched.client.transport import Transport, items
from raftsched.client.wire import condition, segment


class ClusterNodesCalls:
    """Methods that make one call."""

    _transport: Transport

    async def list(self) -> Sequence[NodeDetail]:
        """Returns all members."""
        return items(NodeDetail, await self._transport.get(Page, "/v1/nodes"))

    async def get(self, id: str) -> NodeDetail:
        """Returns the member. NotFoundError: there is none of this name."""
        return await self._transport.get(NodeDetail, f"/v1/nodes/{segment(id)}")

    async def set_labels(
        self, id: str, labels: Mapping[str, str | None] | None, *, if_match: int | None = None
    ) -> NodeDetail:
        """Adds to the labels that hold; a value of None takes one out, None for all: those the node was started with.
        `if_match`: only while what is said about it is this revision, else ConflictError "stale-revision"."""
        return (
            await self._transport.send(
                "PATCH", f"/v1/nodes/{segment(id)}", body=encode({"labels": labels}), headers=condition(if_match)
            )
        ).decoded(NodeDetail)

    async def set_slots(self, id: str, slots: int | None, *, if_match: int | None = None) -> NodeDetail:
        """Sets its attempts at one time; None: as many as the node was started with. `if_match`: only while what is
        said about it is this revision, else ConflictError "stale-revision"."""
        return (
            await self._transport.send(
                "PATCH", f"/v1/nodes/{segment(id)}", body=encode({"slots": slots}), headers=condition(if_match)
            )
        ).decoded(NodeDetail)

    async def drain(self, id: str) -> NodeDetail:
        """It takes nothing new; what runs there ends as it would. Also while the node is down."""
        return await self._transport.post(NodeDetail, f"/v1/nodes/{segment(id)}/drain")

    async def undrain(self, id: str) -> NodeDetail:
        """Gives runs to the node again."""
        return await self._transport.post(NodeDetail, f"/v1/nodes/{segment(id)}/undrain")

"""Made from surface/cluster.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import Sequence

from raftsched.client.encoding import encode
from raftsched.client.generated.cluster import ClusterView, Doctor, Members, Term
from raftsched.client.models import Page
from raftsched.client.transport import Transport, items
from raftsched.client.wire import own_key, said, segment


class ClusterCalls:
    """Methods that make one call."""

    _transport: Transport

    async def status(self) -> ClusterView:
        """Returns the cluster as the answering node sees it, also when there is no leader."""
        return await self._transport.get(ClusterView, "/v1/cluster", own=False)

    async def doctor(self) -> Doctor:
        """Returns what is wrong with the cluster, or soon will be, and what would make it right, also when there is no
        leader."""
        return await self._transport.get(Doctor, "/v1/cluster/doctor", own=False)

    async def terms(self) -> Sequence[Term]:
        """The newest 200 leaderships, the newest first. Terms in which nobody came to lead are left out."""
        return items(Term, await self._transport.get(Page, "/v1/cluster/terms"))

    async def members(self) -> Members:
        """Returns the members of the cluster, and the nodes that ask to join."""
        return await self._transport.get(Members, "/v1/cluster/members")

    async def add_member(self, id: str, *, store: str | None = None, replace: bool = False) -> None:
        """Adds a node that is waiting to join, as a member without a vote: it first receives all data, and gets its
        vote when it has caught up. With "replace" it takes the place of the member of the same name, whose disk is
        lost. `store`: only the one with this disk, as `members` shows it. ConflictError "not-waiting" when it does not
        ask, "membership-busy" while another change is under way."""
        await self._transport.send(
            "POST",
            "/v1/cluster/members",
            body=encode(said({"id": id, "store": store, "replace": replace})),
            headers=own_key(),
            repeatable=True,
        )

    async def remove_member(self, id: str) -> None:
        """Removes a member. If it leads, leadership is transferred first."""
        await self._transport.send("DELETE", f"/v1/cluster/members/{segment(id)}")

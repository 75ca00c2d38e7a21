"""Made from surface/cluster.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import Sequence

from raftsched.client.generated.cluster import Term
from raftsched.client.models import Page
from raftsched.client.transport import Transport, items


class ClusterCalls:
    """Methods that make one call."""

    _transport: Transport

    async def terms(self) -> Sequence[Term]:
        """List the newest leaderships. The newest first, 200 of them at most. Terms in which nobody came to lead are
        left out."""
        return items(Term, await self._transport.get(Page, "/v1/cluster/terms"))

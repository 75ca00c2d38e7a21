"""Made from surface/whoami.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from raftsched.client.generated.whoami import Who
from raftsched.client.transport import Transport


class ClusterCalls:
    """Methods that make one call."""

    _transport: Transport

    async def whoami(self) -> Who:
        """Returns the caller as the cluster knows them: name, roles, and until when. Raises AuthError when a token is
        missing or not valid."""
        return await self._transport.get(Who, "/v1/whoami")

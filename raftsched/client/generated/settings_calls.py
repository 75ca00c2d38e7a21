"""Made from surface/settings.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Any

from raftsched.client.encoding import encode
from raftsched.client.transport import Transport
from raftsched.client.wire import own_key


class ClusterCalls:
    """Methods that make one call."""

    _transport: Transport

    async def settings(self) -> dict[str, Any]:
        """Returns all limits and defaults that hold on every node alike; durations as text."""
        return await self._transport.get(dict[str, Any], "/v1/cluster/settings")

    async def set_settings(self, **changes: Any) -> dict[str, Any]:
        """Changes the given settings, None to the default, and returns all of them. InvalidError names each value out
        of bounds."""
        return (await self._transport.send("PATCH", "/v1/cluster/settings", body=encode(changes))).decoded(
            dict[str, Any]
        )

    async def pause(self) -> None:
        """Nothing is fired or started any more; what runs goes on."""
        await self._transport.send("POST", "/v1/cluster/pause", body=b"{}", headers=own_key(), repeatable=True)

    async def resume(self) -> None:
        """Lets jobs start again. Each job's misfire policy says what happens to times that were missed."""
        await self._transport.send("POST", "/v1/cluster/resume", body=b"{}", headers=own_key(), repeatable=True)

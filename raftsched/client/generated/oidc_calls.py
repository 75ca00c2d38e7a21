"""Made from surface/oidc.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raftsched.client.encoding import encode
from raftsched.client.transport import Transport


class ClusterCalls:
    """Methods that make one call."""

    _transport: Transport

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
        return (
            await self._transport.send(
                "PUT",
                "/v1/cluster/oidc",
                body=encode(
                    {
                        "issuer": issuer,
                        "audience": audience,
                        "rules": rules,
                        "client_id": client_id,
                        "username_claim": username_claim,
                        "algorithms": algorithms,
                    }
                ),
            )
        ).decoded(dict[str, Any])

    async def forget_oidc(self) -> None:
        """Tokens of an issuer are not taken any more."""
        await self._transport.send("DELETE", "/v1/cluster/oidc")

"""Made from surface/namespaces.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.encoding import encode
from raftsched.client.generated.namespaces import Namespace, RunKey
from raftsched.client.generated.namespaces_given import NamespaceSpec
from raftsched.client.pages import each_of
from raftsched.client.transport import Transport
from raftsched.client.wire import condition, conditions, segment


class NamespacesCalls:
    """Methods that make one call."""

    _transport: Transport

    def list(self, *, most: int | None = None) -> AsyncIterator[Namespace]:
        """Yields, by name, the namespaces that are declared and those that merely have jobs or secrets, at most `most`
        (None: all)."""
        return each_of(self._transport, Namespace, "/v1/namespaces", {}, most)

    async def get(self, name: str) -> Namespace:
        """Returns the namespace. Raises NotFoundError: it is not declared, and has neither jobs nor secrets."""
        return await self._transport.get(Namespace, f"/v1/namespaces/{segment(name)}")

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **said: Unpack[NamespaceSpec]
    ) -> Namespace:
        """Declares the namespace, or replaces all that is declared. Jobs that are written from then on get its
        defaults. With `only_new` it must not be there yet, else ConflictError "exists". `if_match`: only while it is at
        this revision, else ConflictError "stale-revision"."""
        return (
            await self._transport.send(
                "PUT",
                f"/v1/namespaces/{segment(name)}",
                body=encode(said),
                headers=conditions(only_new, if_match),
                repeatable=not only_new,
            )
        ).decoded(Namespace)

    async def patch(self, name: str, *, if_match: int | None = None, **said: Unpack[NamespaceSpec]) -> Namespace:
        """Changes the fields that are given; None removes one. Raises NotFoundError: it is not declared. `if_match` as
        in `put`."""
        return (
            await self._transport.send(
                "PATCH", f"/v1/namespaces/{segment(name)}", body=encode(said), headers=condition(if_match)
            )
        ).decoded(Namespace)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Deletes the declaration. Raises ConflictError while it has jobs or secrets. `if_match` as in `put`."""
        await self._transport.send("DELETE", f"/v1/namespaces/{segment(name)}", headers=condition(if_match))

    def keys(self, name: str, *, most: int | None = None) -> AsyncIterator[RunKey]:
        """Yields the keys of runs that are in use in a namespace, at most `most` (None: all)."""
        return each_of(self._transport, RunKey, f"/v1/namespaces/{segment(name)}/keys", {}, most)

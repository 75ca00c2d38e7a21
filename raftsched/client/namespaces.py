"""Namespaces: what is said about them. Jobs may name any; one need not be declared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.models_cluster import Namespace
from raftsched.client.pages import pages
from raftsched.client.spec import NamespaceSpec
from raftsched.client.transport import Transport, encode
from raftsched.client.wire import condition, segment


class Namespaces:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, name: str) -> Namespace:
        """NotFoundError: it is not declared, and has neither jobs nor secrets."""
        return await self._transport.get(Namespace, _path(name))

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **said: Unpack[NamespaceSpec]
    ) -> Namespace:
        """All that is said about it, anew. Its defaults are taken over by jobs that are written from then on. With
        `only_new` it must not be declared, else ConflictError "exists". `if_match`: only while it is this revision,
        else ConflictError "stale-revision"."""
        headers = {"If-None-Match": "*"} if only_new else condition(if_match)
        answer = await self._transport.send(
            "PUT", _path(name), body=encode(said), headers=headers, repeatable=not only_new
        )
        return answer.decoded(Namespace)

    async def patch(self, name: str, *, if_match: int | None = None, **said: Unpack[NamespaceSpec]) -> Namespace:
        """What is given is changed, None takes it out. NotFoundError: it is not declared. `if_match` as in `put`."""
        answer = await self._transport.send("PATCH", _path(name), body=encode(said), headers=condition(if_match))
        return answer.decoded(Namespace)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """ConflictError while it has jobs. `if_match` as in `put`."""
        await self._transport.send("DELETE", _path(name), headers=condition(if_match))

    async def list(self, *, most: int | None = None) -> AsyncIterator[Namespace]:
        """By name: those that are declared, and those that merely have jobs or secrets; `most` of them (None: all)."""
        async for page in pages(self._transport, Namespace, "/v1/namespaces", {}, most):
            for namespace in page:
                yield namespace


def _path(name: str) -> str:
    return f"/v1/namespaces/{segment(name)}"

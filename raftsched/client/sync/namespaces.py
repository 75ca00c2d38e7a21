"""Made from client/namespaces.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from raftsched.client.models_cluster import Namespace
from raftsched.client.spec import NamespaceSpec
from raftsched.client.sync.bridge import Bridge


class Namespaces:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def get(self, name: str) -> Namespace:
        """NotFoundError: it is not declared, and has neither jobs nor secrets."""
        return self._bridge.run(lambda c: c.namespaces.get(name))

    def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **said: Unpack[NamespaceSpec]
    ) -> Namespace:
        """All that is said about it, anew. Its defaults are taken over by jobs that are written from then on. With
        `only_new` it must not be declared, else ConflictError "exists". `if_match`: only while it is this revision,
        else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.namespaces.put(name, only_new=only_new, if_match=if_match, **said))

    def patch(self, name: str, *, if_match: int | None = None, **said: Unpack[NamespaceSpec]) -> Namespace:
        """What is given is changed, None takes it out. NotFoundError: it is not declared. `if_match` as in `put`."""
        return self._bridge.run(lambda c: c.namespaces.patch(name, if_match=if_match, **said))

    def delete(self, name: str, *, if_match: int | None = None) -> None:
        """ConflictError while it has jobs. `if_match` as in `put`."""
        self._bridge.run(lambda c: c.namespaces.delete(name, if_match=if_match))

    def list(self, *, most: int | None = None) -> Iterator[Namespace]:
        """By name: those that are declared, and those that merely have jobs or secrets; `most` of them (None: all)."""
        return self._bridge.each(lambda c: c.namespaces.list(most=most))

"""Gives each operation of the API its handler. `@serves(surface.cluster.TERMS)` stands beside each handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from aiohttp import web

from raftsched.surface.operation import Operation

Handler = Callable[..., Awaitable[web.StreamResponse]]  # of a context and a call
H = TypeVar("H", bound=Handler)


class Route(NamedTuple):
    """An operation and its handler."""

    operation: Operation
    handler: Handler

    @property
    def method(self) -> str:
        return self.operation.method

    @property
    def path(self) -> str:
        return self.operation.path

    @property
    def operation_id(self) -> str:
        return self.operation.id


SERVED: dict[str, Route] = {}  # by operation id


def serves(operation: Operation) -> Callable[[H], H]:
    """Notes the handler of an operation; where a job has the operation under its name, too, that of both. Raises
    LookupError for an operation that has one."""

    def note(handler: H) -> H:
        for one in operation.each():
            if one.id in SERVED:
                raise LookupError(f"{one.id} is served twice: by {SERVED[one.id].handler} and {handler}")
            SERVED[one.id] = Route(one, handler)
        return handler

    return note

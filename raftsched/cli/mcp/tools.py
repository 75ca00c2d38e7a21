"""Defines a tool: a function over the client, the arguments that it takes, and the operations of the API that it needs.

The arguments are msgspec structs, as the bodies of the API are. Their schema is what clients are told, and what
arguments are checked against.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from raftsched.client.aio import AsyncClient
from raftsched.client.errors import NotFoundError
from raftsched.client.refs import job_path
from raftsched.surface import patterns
from raftsched.surface.enums import RoleName
from raftsched.surface.operation import Operation

TEXT_MAX = 2_048  # characters of an argument that is one word or address
LIST_DEFAULT = 20
LIST_MAX = 100

Text = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Limit = Annotated[int, Meta(ge=1, le=LIST_MAX, description=f"items, {LIST_MAX} at most")]
Cursor = Annotated[
    str, Meta(min_length=1, max_length=TEXT_MAX, description="`next` of the answer before: goes on there")
]
Namespace = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX, description="only of this namespace")]
JobRef = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=TEXT_MAX,
        description="a job: namespace/name, an id, or a name of the namespace default",
    ),
]
RunRef = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=TEXT_MAX,
        pattern=r"^[0-9A-Za-z@.-]*[0-9A-Za-z]$",  # what else would be an address may lead elsewhere: ..
        description="the id of a run, such as 0d3k5xw2a9f4m@1763600400000",
    ),
]
TimeArg = Annotated[
    str, Meta(min_length=1, max_length=64, description="a time in RFC 3339, such as 2030-01-31T02:00:00Z")
]

_ROLES: tuple[RoleName, ...] = ("viewer", "editor", "operator", "admin")  # each may do what those before it may
_JOB_ID = re.compile(patterns.JOB_ID, re.ASCII)


class Arguments(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The arguments of one tool."""

    def query(self) -> dict[str, Any]:
        """Returns those that were given, under the names of the API's parameters."""
        return {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}


class WithText(msgspec.Struct):
    """An answer with a text after its JSON, which is shown as it is."""

    value: Any
    text: str


Run = Callable[[AsyncClient, Any], Awaitable[Any]]


@dataclass(frozen=True)
class Tool:
    """`operations`: those of the API that it asks for; the caller's role has to suffice for each. `destroys`: it takes
    something away, or overwrites it. `repeatable`: called again, it changes nothing more."""

    name: str
    title: str
    says: str
    arguments: type[Arguments]
    run: Run
    operations: tuple[Operation, ...]
    writes: bool = False
    destroys: bool = False
    repeatable: bool = False

    @property
    def role(self) -> RoleName:
        """The least role that may use it."""
        return max((one.role for one in self.operations if one.role in _ROLES), key=_ROLES.index)

    def schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of its arguments, in one object."""
        _, found = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        own = found.pop(self.arguments.__name__)
        own.pop("title", None)
        own.pop("description", None)
        return {**own, "$defs": found} if found else own


def tool(
    *operations: Operation, title: str, writes: bool = False, destroys: bool = False, repeatable: bool = False
) -> Callable[[Run], Tool]:
    """Makes a tool of a function: its name and docstring are what clients are told."""

    def made(run: Run) -> Tool:
        name: str = run.__name__
        says = " ".join((run.__doc__ or "").split())
        arguments = get_type_hints(run)["given"]
        return Tool(name, title, says, arguments, run, operations, writes, destroys, repeatable)

    return made


def is_role_enough(held: str, needed: RoleName) -> bool:
    """Returns True where a role may do what needs another one."""
    return held in _ROLES and _ROLES.index(held) >= _ROLES.index(needed)


async def found_job(client: AsyncClient, ref: str) -> dict[str, Any]:
    """Returns the job as the API has it. A text that looks like an id is tried as one first, as on the command line.
    Raises ClientError."""
    if "/" not in ref and _JOB_ID.fullmatch(ref):
        try:
            return await client.transport.get(dict[str, Any], job_path(ref))
        except NotFoundError as error:
            if error.code != "not-found":
                raise
    return await client.transport.get(dict[str, Any], job_path(ref if "/" in ref else f"default/{ref}"))

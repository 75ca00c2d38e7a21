"""Named resources: list, read, put, patch and delete, once for all kinds.

A kind (queues, calendars, namespaces, ...) is a `NamedResource`: where its rows are, how its JSON and its commands
look. `serve` makes the handlers of its operations (surface.named), so that conditions, tags and answers are alike
everywhere:

- a GET answers an ETag, and 304 to an If-None-Match that holds;
- If-Match on a PUT of what is not there is 412, on a PATCH or DELETE 404, be it `*` or a revision;
- a PATCH without If-Match merges again when somebody else changed the row in between;
- a PUT that creates answers 201 and the Location.

What only one kind does (secrets of webhooks, the force of deleting a secret) is a handler in that kind's module, which
may use the parts of its `NamedResource`, and is left out where `serve` names operations.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.call import Call
from raftsched.api.http.merging import merge
from raftsched.api.http.problems import Problem, of_a_change
from raftsched.api.http.replies import propose_one, reply_page, reply_tagged
from raftsched.api.http.requests import catch_up
from raftsched.api.http.slices import Slices
from raftsched.api.openapi.parameters import PATH
from raftsched.api.resources.amending import Versioned, amend
from raftsched.api.rows import following, paged
from raftsched.api.serving import serves
from raftsched.core.commands import Command, encode
from raftsched.core.rows import Row
from raftsched.core.tables import ReadView, Table, after
from raftsched.names import NameRule
from raftsched.surface.named import Named
from raftsched.surface.operation import Operation

R = TypeVar("R", bound=Versioned)
T = TypeVar("T")
Handler = Callable[[ApiContext, Call[Any]], Awaitable[web.StreamResponse]]

_PART = re.compile(r"\{([a-z]+)\}")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Write(Generic[R]):
    """A PUT, or a PATCH that was merged into the row `was`. `value`: the JSON that `read` made of the body."""

    names: tuple[str, ...]
    value: Any
    if_match: int | None = None
    only_new: bool = False
    was: R | None = None

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def revision(self) -> int | None:
        """The revision that the row must still have; None: any."""
        return self.if_match if self.was is None else self.was.revision


@dataclass(frozen=True, kw_only=True)
class NamedResource(Generic[R]):
    """A kind of named things. In its address, the parts in braces are its name."""

    kind: Named = field(kw_only=False)
    rows: Row[R, *tuple[Any, ...]]
    name_rules: tuple[NameRule, ...]  # of each part of the name
    absent: str  # the answer when it is not there; {0} is its name, {1} the second part of the name
    unset: str = ""  # the same where it can be read, but is not set; "": as `absent`
    unmet: str  # the end of the answer to an If-Match when it is not there

    # `among`: the number of rows in the same answer, for what is counted up to a bound
    shown: Callable[[ApiContext, ReadView, R, int], Any]
    # the JSON of a PUT that would change nothing: a PATCH is merged into it
    as_put: Callable[[R], dict[str, Any]] = msgspec.to_builtins
    command: Callable[[ApiContext, Write[R]], Awaitable[Command]]  # of a PUT, or of a PATCH that was merged
    delete_command: Callable[..., Command] | None = None
    is_visible: Callable[[ReadView, R], bool] = lambda view, row: True
    is_listed: Callable[[R], bool] = lambda row: True
    is_set: Callable[[R], bool] = lambda row: True  # False: it can be read, but there is nothing to change or delete
    read: Callable[[bytes], Any] = strict.parse
    merge: Callable[[dict[str, Any], Any], Any] = merge
    on_change: Callable[[ApiContext], None] = lambda ctx: None

    @property
    def read_only(self) -> frozenset[str]:
        """The fields of an answer that a PUT ignores and a PATCH refuses."""
        kind = self.kind
        return frozenset(kind.out.__struct_encode_fields__) - frozenset(kind.body.__struct_encode_fields__)

    def names(self, call: Call[Any]) -> tuple[str, ...]:
        return tuple(call.path[part] for part in _PART.findall(self.kind.path))

    def find(self, view: ReadView, names: tuple[str, ...]) -> R | None:
        """Returns the row; None: it is not there, or not there for the caller."""
        row = self.rows.get(view, *names) if self.is_name(names) else None
        return row if row is not None and self.is_visible(view, row) else None

    def is_name(self, names: tuple[str, ...]) -> bool:
        return all(rule.allows(name) for rule, name in zip(self.name_rules, names, strict=True))

    def not_found(self, names: tuple[str, ...], *, is_unset: bool = False) -> Problem:
        text = (is_unset and self.unset) or self.absent
        return Problem("not-found", text.format(*(name[:128] for name in names)))

    def checked(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Raises Problem not-found for what cannot be a name."""
        if not self.is_name(names):
            raise self.not_found(names)
        return names

    async def target(self, ctx: ApiContext, names: tuple[str, ...]) -> R:
        """Returns the row that a write is meant for; this node catches up before it says that there is none. Raises
        Problem not-found."""
        for is_last in (False, True):
            with ctx.read() as view:
                row = self.find(view, names)
            if row is not None and self.is_set(row):
                return row
            if is_last or not self.is_name(names):
                raise self.not_found(names, is_unset=row is not None)
            await catch_up(ctx)
        raise AssertionError

    async def check_if_match(self, ctx: ApiContext, call: Call[Any]) -> None:
        """Raises Problem stale-revision: a PUT has an If-Match, and there is nothing that it could hold for."""
        if call.must_exist:
            try:
                await self.target(ctx, self.names(call))
            except Problem:
                raise self.unmet_condition() from None

    def unmet_condition(self) -> Problem:
        return Problem("stale-revision", f"If-Match was given, but {self.unmet}.")

    def without_read_only(self, value: Any) -> Any:
        """Drops what the cluster sets, so that an answer may be put back."""
        return {k: v for k, v in value.items() if k not in self.read_only} if isinstance(value, dict) else value

    # ------------------------------------------------------------ the handlers

    async def list_all(self, ctx: ApiContext, call: Call[None]) -> web.Response:
        def take(view: ReadView, _: bytes, raw: bytes) -> R | None:
            row = self.rows.decode(raw)
            return row if self.is_visible(view, row) and self.is_listed(row) else None

        def shown(view: ReadView, row: R, of: int) -> Any:
            return self.shown(ctx, view, row, of)

        return await list_page(ctx, call, self.kind.plural, self.rows.table, take, shown)

    async def get(self, ctx: ApiContext, call: Call[None]) -> web.Response:
        return self.reply(ctx, call)

    async def put(self, ctx: ApiContext, call: Call[Any]) -> web.Response:
        names = self.names(call)
        if not self.is_name(names):
            rules = "; ".join(f"{rule.kind} has a name of {rule.rule}" for rule in self.name_rules)
            raise Problem("invalid-parameter", f"{rules[0].upper()}{rules[1:]}.")
        value = self.without_read_only(self.read(call.raw))
        await self.check_if_match(ctx, call)
        write: Write[R] = Write(names, value, call.if_match, call.create_only)
        accepted = await propose_one(ctx, encode(await self.command(ctx, write)))
        self.on_change(ctx)
        return self.reply(ctx, call, created=accepted.created)

    async def patch(self, ctx: ApiContext, call: Call[Any]) -> web.Response:
        names, change = self.names(call), call.json()
        strict.refuse_unknown(change, self.kind.body, self.read_only)

        async def command(was: R) -> bytes:
            merged = self.merge(self.as_put(was), change)
            with of_a_change():
                return encode(await self.command(ctx, Write(names, merged, call.if_match, was=was)))

        await amend(ctx, f"The {self.kind.noun}", lambda: self.target(ctx, names), call.if_match, command)
        self.on_change(ctx)
        return self.reply(ctx, call)

    async def delete(self, ctx: ApiContext, call: Call[None]) -> web.Response:
        assert self.delete_command is not None
        names = self.checked(self.names(call))
        await propose_one(ctx, encode(self.delete_command(*names, call.if_match)))
        self.on_change(ctx)
        return web.Response(status=204)

    def reply(self, ctx: ApiContext, call: Call[Any], *, created: bool = False) -> web.Response:
        """Answers with the row as it is now. Raises Problem not-found."""
        names = self.names(call)
        with ctx.read() as view:
            row = self.find(view, names)
            if row is None:
                raise self.not_found(names)
            shown = self.shown(ctx, view, row, 1)
        return reply_tagged(call.request, shown, row.revision, self.kind.path.format(**call.path) if created else None)


async def list_page(
    ctx: ApiContext,
    call: Call[Any],
    listing: str,
    table: Table,
    take: Callable[[ReadView, bytes, bytes], T | None],
    shown: Callable[[ReadView, T, int], Any],
    *,
    prefix: bytes = b"",
) -> web.Response:
    """Answers with a page of the rows whose key has this prefix, as far as `take` keeps them. `shown`: one of so many
    as it is shown; None: it has gone meanwhile."""
    query, slices = call.query, Slices()

    def rows_behind(view: ReadView, last: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        low = prefix if last is None else max(prefix, following(last))
        return view.scan(table, low, after(prefix) if prefix else None)

    rows, last = await paged(ctx, slices, rows_behind, query.limit(), take, query.cursor(listing))
    items: list[bytes] = []
    for row in rows:
        with ctx.read() as view:
            one = shown(view, row, len(rows))
        if one is not None:
            items.append(_encode(one))
        await slices.turn()
    return reply_page(call.request, items, listing, query.filters(), last)


REGISTRY: list[NamedResource[Any]] = []


def serve(resource: NamedResource[Any], *operations: Operation) -> None:
    """Serves these operations on the kind; those that are not named here have handlers of their own."""
    REGISTRY.append(resource)
    rule, plural = resource.name_rules[-1], resource.kind.plural
    PATH.setdefault(plural, ({"type": "string", "pattern": rule.pattern}, f"{rule.kind.capitalize()}'s name."))
    for operation in operations:
        name = operation.id.removeprefix(f"{plural}_")
        serves(operation)(_handler(getattr(resource, name)))


def _handler(run: Handler) -> Handler:
    """Returns a function of its own for each kind."""

    async def handler(ctx: ApiContext, call: Call[Any]) -> web.StreamResponse:
        return await run(ctx, call)

    return handler

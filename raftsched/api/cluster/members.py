"""/v1/cluster/members: who belongs to the cluster, changed one at a time; /v1/cluster/leader: handing leadership over.

A change is committed when it is answered, and what is done already is done: each request may be repeated.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.auth.callers import note_proposed
from raftsched.api.cluster.overview import seen
from raftsched.api.context import ApiContext
from raftsched.api.http.answers import MemberLetIn, MemberList, Transferred
from raftsched.api.http.call import Call
from raftsched.api.http.idempotency import UNNAMED, Named, done_before, noted, part, under
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import reply, reply_value
from raftsched.api.http.requests import READ, catch_up
from raftsched.api.openapi.declarations import action
from raftsched.api.openapi.operation import WRITES, Reply, operation
from raftsched.core.commands import Barrier
from raftsched.errors import RaftschedError
from raftsched.surface.scalars import NodeId, StoreId

NOTE_S = 2.0


class MemberIn(msgspec.Struct, forbid_unknown_fields=True):
    """A node that asks to be let in. `store`: only with this disk, as GET /v1/cluster names it."""

    id: NodeId | None = None
    replace: bool = False
    store: StoreId | None = None


class TransferIn(msgspec.Struct, forbid_unknown_fields=True):
    to: NodeId | None = None


@operation("List the members", {200: MemberList}, query=READ, role="viewer", scope="shared")
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    """The nodes of GET /v1/cluster, and those that are waiting to join."""
    out = await seen(ctx, call.request)
    return reply_value({"items": out.nodes, "waiting": out.waiting, "next": None})


@action(
    "Add a member",
    {202: Reply(MemberLetIn, "It is a member.", ("Location",))},
    body=MemberIn,
    codes=("not-waiting", "membership-busy", "no-such-member", "not-possible", "name-taken"),
    role="admin",
)
async def add(ctx: ApiContext, call: Call[MemberIn]) -> web.Response:
    """Adds a node that is waiting to join, as a member without a vote: it first receives all data, and gets its vote
    when it has caught up. With "replace" it takes the place of the member of the same name, whose disk is lost."""
    raw = call.raw
    given = call.body
    errors = []
    if given.id is None or not names.NODE.allows(given.id):
        errors.append(FieldError("/id", f"must be the id of a node: {names.NODE.rule}, such as n4"))
    if given.store is not None and not names.STORE.allows(given.store):
        errors.append(FieldError("/store", "must be 32 hexadecimal digits, as GET /v1/cluster shows them"))
    if errors or given.id is None:
        raise Problem("invalid-body", errors=errors)
    location = {"Location": f"/v1/nodes/{given.id}"}
    name = call.key("let in", raw)
    done = done_before(ctx, name)
    if done is not None:
        return reply(done.note, 202, location)
    disk = None if given.store is None else bytes.fromhex(given.store)
    note_proposed()
    await ctx.cluster.members.change("replace" if given.replace else "add", given.id, disk, ctx.propose_timeout_s)
    await _note(ctx, name)
    with suppress(RaftschedError):  # it is committed; this only makes sure that it is seen here
        await catch_up(ctx)
    out = await seen(ctx, call.request)
    member = next((n for n in out.nodes if n.id == given.id), None)
    answer = msgspec.json.encode(member or {"id": given.id, "voter": False})
    return reply(await noted(ctx, name, answer), 202, location)


@operation(
    "Remove a member",
    {204: None},
    codes=(*WRITES, "no-such-member", "membership-busy", "last-member", "not-possible"),
    role="admin",
)
async def remove(ctx: ApiContext, call: Call[None]) -> web.Response:
    """Removes a member. If it leads, leadership is transferred first."""
    node = call.path["id"]
    if all(m.node != node for m in ctx.cluster.members.list()):
        await catch_up(ctx)
    names = [m.node for m in ctx.cluster.members.list()]
    if node not in names:
        raise Problem("no-such-member", f"There is no member {node[:64]!r}; members are {', '.join(names)}.")
    note_proposed()
    await ctx.cluster.members.change("remove", node, None, ctx.propose_timeout_s)
    await _note(ctx, UNNAMED)
    return web.Response(status=204)


@action(
    "Transfer leadership",
    {200: Transferred},
    body=TransferIn,
    codes=("no-such-member", "membership-busy", "not-possible"),
    body_required=False,
    role="operator",
    scope="shared",
)
async def transfer(ctx: ApiContext, call: Call[TransferIn]) -> web.Response:
    """Transfers leadership to the member in "to", or to the voting member with the most complete log. With an
    Idempotency-Key a repeat answers with the same member and transfers nothing again."""
    raw = call.raw
    given = call.body
    if given.to is not None and not names.NODE.allows(given.to):
        raise Problem("invalid-body", errors=[FieldError("/to", "must be the id of a voting member, such as n2")])
    name = call.key("transfer", raw)
    done = done_before(ctx, name)
    if done is not None:
        return reply(done.note)
    note_proposed()
    leader = await ctx.cluster.members.transfer(given.to, ctx.propose_timeout_s)
    await _note(ctx, name)
    return reply(await noted(ctx, name, msgspec.json.encode(Transferred(leader or None, ctx.cluster.status().term))))


async def _note(ctx: ApiContext, name: Named) -> None:
    """Notes in the audit an act that no command did, with a command that does nothing. The act stands without it."""
    with suppress(RaftschedError):
        await ctx.propose((under(part(name, b"audit"), Barrier()),), NOTE_S)

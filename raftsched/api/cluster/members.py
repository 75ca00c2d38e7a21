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
from raftsched.api.http.call import Call
from raftsched.api.http.idempotency import UNNAMED, Named, done_before, noted, part, under
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import reply, reply_value
from raftsched.api.http.requests import catch_up
from raftsched.api.serving import serves
from raftsched.core.commands import Barrier
from raftsched.errors import RaftschedError
from raftsched.surface import cluster, nodes

NOTE_S = 2.0


@serves(cluster.MEMBERS)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    out = await seen(ctx, call.request)
    return reply_value({"items": out.nodes, "waiting": out.waiting, "next": None})


@serves(cluster.ADD_MEMBER)
async def add(ctx: ApiContext, call: Call[cluster.MemberIn]) -> web.Response:
    raw = call.raw
    given = call.body
    errors = []
    if given.id is None or not names.NODE.allows(given.id):
        errors.append(FieldError("/id", f"must be the id of a node: {names.NODE.rule}, such as n4"))
    if given.store is not None and not names.STORE.allows(given.store):
        errors.append(FieldError("/store", "must be 32 hexadecimal digits, as GET /v1/cluster shows them"))
    if errors or given.id is None:
        raise Problem("invalid-body", errors=errors)
    location = {"Location": nodes.GET.path.format(id=given.id)}
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


@serves(cluster.REMOVE_MEMBER)
async def remove(ctx: ApiContext, call: Call[None]) -> web.Response:
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


@serves(cluster.TRANSFER)
async def transfer(ctx: ApiContext, call: Call[cluster.TransferIn]) -> web.Response:
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
    done_now = cluster.Transferred(leader or None, ctx.cluster.status().term)
    return reply(await noted(ctx, name, msgspec.json.encode(done_now)))


async def _note(ctx: ApiContext, name: Named) -> None:
    """Notes in the audit an act that no command did, with a command that does nothing. The act stands without it."""
    with suppress(RaftschedError):
        await ctx.propose((under(part(name, b"audit"), Barrier()),), NOTE_S)

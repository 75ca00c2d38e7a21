"""PUT /v1/nodes/{id}/output-copies: pieces of a node's output, which it sends for a second copy; and how they are
sent."""

from __future__ import annotations

import asyncio
import hmac
from hashlib import sha256
from typing import Annotated, Any

import aiohttp
import msgspec
from aiohttp import web
from msgspec import Meta

from raftsched.api.auth.callers import caller
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.peers import CONNECT_S, call_node, said_in, whole
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.serving import serves
from raftsched.bounds import OUTPUT_PIECE_MAX
from raftsched.errors import KINDS, RaftschedError, WrongOffset
from raftsched.output.following.copies import SEGMENT_MAX, Piece
from raftsched.output.following.places import STORE_BYTES
from raftsched.surface import output as surface
from raftsched.surface.output import COPY, CopyOut

_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=30.0)

_Place = Annotated[int, Meta(ge=0, le=SEGMENT_MAX)]
_encode = msgspec.msgpack.Encoder().encode


class CopyPiece(Piece, frozen=True, array_like=True):
    """A piece as it is taken from a node."""

    store: Annotated[bytes, Meta(min_length=STORE_BYTES, max_length=STORE_BYTES)]
    segment: Annotated[int, Meta(ge=1, le=2**40)]
    owner: Annotated[str, Meta(pattern="^([0-9a-f]{24})?$")]
    start: _Place
    offset: _Place
    written_at_ms: Annotated[int, Meta(ge=0, le=2**53)]
    data: Annotated[bytes, Meta(max_length=OUTPUT_PIECE_MAX)]


_decode = msgspec.msgpack.Decoder(CopyPiece).decode


@serves(surface.COPIES)
async def put(ctx: ApiContext, call: Call[Any]) -> web.Response:
    if ctx.copied is None:
        raise RaftschedError("stopping")
    node = call.path["id"]
    if not any(member.node == node for member in ctx.meta().members):
        raise Problem("not-found", f"{node[:64]} is not a member.")
    if caller().peer and caller().name != f"node {node}":
        raise Problem("forbidden", f"{caller().name} may send its own output, and not that of {node}.")
    if not hmac.compare_digest(sha256(call.raw).hexdigest(), call.query.text("sha256") or ""):
        raise Problem("invalid-body", "The body is not what sha256 says.")
    try:
        piece = _decode(call.raw)
    except msgspec.DecodeError as error:
        raise Problem("invalid-body", f"The piece cannot be read: {error}.") from None
    try:
        size = await asyncio.to_thread(ctx.copied.take, node, piece, ctx.now_ms())
    except OSError as error:
        raise Problem("disk-full", f"The copy could not be kept: {error.strerror}.") from None
    return reply_value(CopyOut(size))


async def push(ctx: ApiContext, session: aiohttp.ClientSession, node: str, piece: Piece) -> None:
    """Sends a piece of this node's output to another one; returns when it is on its disk. Raises RaftschedError."""
    body = _encode(piece)
    path, query = surface.COPIES.at(id=ctx.node_id), {"sha256": sha256(body).hexdigest()}
    answer = await call_node(ctx, session, node, path, query, _LIMIT, headers={"Content-Type": COPY}, put=body)
    raw = await whole(node, answer)
    if answer.status == 200:
        return
    said = said_in(raw)
    if said.code == "wrong-offset" and said.offset is not None:
        raise WrongOffset(said.offset)
    code = said.code if said.code in KINDS else "internal"
    raise Problem(code, f"Node {node} answers {answer.status}. {said.detail}".rstrip())

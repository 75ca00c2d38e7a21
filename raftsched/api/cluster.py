"""GET /v1/cluster: who leads, and how every node is doing as far as this one can see."""

from __future__ import annotations

import aiohttp
import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext, ClusterStatus, Peer, meta
from raftsched.api.output import CLIENT, HOP
from raftsched.api.replies import reply_value
from raftsched.api.requests import READ, Query, fresh_enough
from raftsched.api.rows import newest_session
from raftsched.core.model import Session
from raftsched.core.tables import ReadView, Table, after, u64

_LEADER_WAIT = aiohttp.ClientTimeout(total=1.0)


class NodeOut(msgspec.Struct):
    """`applied_index` of another node is known to the leader only (a follower asks it): how far its log is known to
    agree with the leader's own."""

    id: str
    role: str
    http: str | None
    alive: bool
    applied_index: int | None
    commit_index: int | None
    lag: int | None
    clock_offset_ms: float | None
    running: int
    slots: int
    version: str | None
    session_open: bool


class ClusterOut(msgspec.Struct):
    node: str
    leader: str | None
    term: int
    formed: bool
    cluster_id: str | None
    nodes: list[NodeOut]


async def get(ctx: ApiContext, request: web.Request) -> web.Response:
    await fresh_enough(ctx, Query(request, *READ))
    status = ctx.status()
    peers = {peer.node_id: peer for peer in ctx.peers()}
    with ctx.read() as view:
        cluster = meta(view)
        names = sorted({m.node for m in cluster.members} | set(peers) | {status.node_id})
        nodes = [_node(ctx, view, status, name, peers.get(name)) for name in names]
    if status.leader is not None and status.leader != status.node_id and HOP not in request.headers:
        address = next((n.http for n in nodes if n.id == status.leader), None)
        known = await _leaders_view(ctx, request, address)
        nodes = [n if n.id == status.node_id else known.get(n.id, n) for n in nodes]
    return reply_value(
        ClusterOut(
            node=status.node_id,
            leader=status.leader,
            term=status.term,
            formed=status.formed,
            cluster_id=cluster.cluster_id.hex() or None,
            nodes=nodes,
        )
    )


async def _leaders_view(ctx: ApiContext, request: web.Request, address: str | None) -> dict[str, NodeOut]:
    """How far the other nodes are, which only the leader knows; empty when it does not answer at once."""
    if address is None:
        return {}
    try:
        async with request.app[CLIENT].get(
            f"http://{address}/v1/cluster", headers={HOP: ctx.node_id}, timeout=_LEADER_WAIT, allow_redirects=False
        ) as answer:
            seen = msgspec.json.decode(await answer.read(), type=ClusterOut)
    except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError):
        return {}
    return {node.id: node for node in seen.nodes}


def _node(ctx: ApiContext, view: ReadView, status: ClusterStatus, name: str, peer: Peer | None) -> NodeOut:
    session = newest_session(view, name)
    own = name == status.node_id
    applied = status.applied_index if own else None
    if peer is not None and status.role == "leader":
        applied = peer.match_index
    return NodeOut(
        id=name,
        role=_role(status, name),
        http=(session.http if session else None) or (peer.http if peer else None),
        alive=own or (peer is not None and peer.connected),
        applied_index=applied,
        commit_index=status.commit_index if own else None,
        lag=None if applied is None else max(0, status.commit_index - applied),
        clock_offset_ms=0.0 if own else (peer.clock_offset_ms if peer else None),
        running=_running(view, session.id) if session else 0,
        slots=session.slots if session else 0,
        version=_version(ctx, session, own),
        session_open=session is not None and session.open,
    )


def _running(view: ReadView, session: int) -> int:
    """Live attempts of a session."""
    prefix = u64(session)
    return sum(1 for _ in view.scan(Table.ASSIGNED, prefix, after(prefix)))


def _role(status: ClusterStatus, name: str) -> str:
    if name == status.node_id:
        return status.role
    return "leader" if name == status.leader else "follower"


def _version(ctx: ApiContext, session: Session | None, own: bool) -> str | None:
    if own:
        return ctx.version or None
    return session.version or None if session else None

"""GET /v1/cluster: who leads, how every node is doing, who asks to be let in, as far as this node can see."""

from __future__ import annotations

import aiohttp
import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.peers import CLIENT, HOP, call_node, whole
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.ports import ClusterStatus, Peer
from raftsched.api.rows import address_of, newest_session, node_rule
from raftsched.api.serving import serves
from raftsched.core.rules.eligibility import slots_of
from raftsched.core.subjects.cluster import Session
from raftsched.core.subjects.leasing import DiskUse
from raftsched.core.tables import ReadView, Table, after, u64
from raftsched.raft import JoinRequest, MemberStatus
from raftsched.surface import cluster

_LEADER_WAIT = aiohttp.ClientTimeout(total=1.0)


@serves(cluster.STATUS)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    return reply_value(await seen(ctx, call.request))


async def seen(ctx: ApiContext, request: web.Request) -> cluster.ClusterOut:
    """Returns the cluster as this node sees it, with the leader's knowledge of the other nodes."""
    status = ctx.cluster.status()
    out = _own_view(ctx, status)
    if status.leader is None or status.leader == status.node_id or HOP in request.headers:
        return out
    known = await _leaders_view(ctx, request)
    if known is not None:
        own = next(n for n in out.nodes if n.id == status.node_id)
        # Its own clock is right for every node: what counts is how far it is from the leader's, which gives the time.
        led = next((n for n in known.nodes if n.id == own.id), None)
        own.clock_offset_ms = None if led is None else led.clock_offset_ms
        own.last_heartbeat_at = None if led is None else led.last_heartbeat_at
        out.nodes = [own if n.id == own.id else n for n in known.nodes]
        if all(n.id != own.id for n in out.nodes):
            out.nodes.append(own)
        out.waiting = known.waiting
    return out


def _own_view(ctx: ApiContext, status: ClusterStatus) -> cluster.ClusterOut:
    members = {m.node: m for m in ctx.cluster.members.list()}
    peers = {peer.node_id: peer for peer in ctx.cluster.peers()}
    with ctx.read() as view:
        known = meta(view)
        names = sorted(members.keys() | {status.node_id})
        nodes = [_node(ctx, view, status, name, members.get(name), peers.get(name)) for name in names]
    ages, now_ms, disks = ctx.cluster.heartbeat_ages(), ctx.now_ms(), ctx.cluster.disks()
    levels = ctx.cluster.levels()
    for node in nodes:
        node.level = levels.get(node.id)
        node.disk = _disk(disks.get(node.id))
        if node.id in ages:
            node.last_heartbeat_at = format_time(now_ms - ages[node.id])
    return cluster.ClusterOut(
        node=status.node_id,
        leader=status.leader,
        term=status.term,
        formed=status.formed,
        cluster_id=known.cluster_id.hex() or None,
        waits_for=status.waits_for,
        nodes=nodes,
        waiting=[
            cluster.WaitingOut(k.node, k.raft, k.http, k.store_id.hex(), _why(k, members))
            for k in sorted(ctx.cluster.members.join_requests(), key=lambda k: k.node)
        ],
        paused=known.paused,
        level=known.level,
        level_held=bool(known.settings.upgrade_hold),
    )


def _why(request: JoinRequest, members: dict[str, MemberStatus]) -> str:
    if request.rolled_back:
        return "disk-went-back"
    return "other-disk" if request.node in members else "new"


async def _leaders_view(ctx: ApiContext, request: web.Request) -> cluster.ClusterOut | None:
    """Returns the leader's view: how far the other nodes are, and which ask to join. None when it does not answer at
    once."""
    raw = await leaders_answer(ctx, request, cluster.STATUS.path)
    try:
        return None if raw is None else msgspec.json.decode(raw, type=cluster.ClusterOut)
    except msgspec.DecodeError:
        return None


async def leaders_answer(ctx: ApiContext, request: web.Request, target: str) -> bytes | None:
    """Returns the leader's answer to a GET of this path and query. None: it does not answer at once, or there is nobody
    to ask: this node leads, knows of no leader, or was itself asked by another node."""
    status = ctx.cluster.status()
    leader = status.leader
    if leader is None or leader == status.node_id or HOP in request.headers:
        return None
    try:
        said = {HOP: ctx.node_id}
        answer = await call_node(ctx, request.app[CLIENT], leader, target, None, _LEADER_WAIT, headers=said)
        raw = await whole(leader, answer)
    except Problem:
        return None
    return raw if answer.status == 200 else None


def _node(
    ctx: ApiContext, view: ReadView, status: ClusterStatus, name: str, member: MemberStatus | None, peer: Peer | None
) -> cluster.NodeOut:
    session, rule = newest_session(view, name), node_rule(view, name)
    own = name == status.node_id
    applied = status.applied_index if own else None
    voter = status.formed and member is not None and member.voter
    if peer is not None and status.role == "leader":
        applied = peer.match_index or (None if voter else 0)  # a new leader has not heard of everybody yet
    return cluster.NodeOut(
        id=name,
        role=_role(status, name),
        voter=voter,
        raft=member.raft if member else None,
        http=address_of(view, name, [peer] if peer else []),
        alive=own or (peer is not None and peer.connected),
        applied_index=applied,
        commit_index=status.commit_index if own else None,
        lag=None if applied is None else max(0, status.commit_index - applied),
        clock_offset_ms=_offset(status, own, peer),
        running=running_of(view, session.id) if session else 0,
        slots=slots_of(session, rule),
        version=_version(ctx, session, own),
        session_open=session is not None and session.open,
        drained=rule.drained,
        trouble=ctx.cluster.troubles().get(name),
        raft_announced=member.announced if member else None,
        log_index=status.log_index if own else None,
        log_term=status.log_term if own else None,
    )


def _disk(use: DiskUse | None) -> cluster.DiskOut | None:
    return None if use is None else cluster.DiskOut(use.free, use.total, use.store, use.output)


def _offset(status: ClusterStatus, own: bool, peer: Peer | None) -> float | None:
    """Returns the offset of the node's clock from the leader's in ms; None elsewhere: only the leader measures it."""
    if status.role != "leader":
        return None
    return 0.0 if own else (peer.clock_offset_ms if peer else None)


def running_of(view: ReadView, session: int) -> int:
    """Returns how many attempts of a session are live."""
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

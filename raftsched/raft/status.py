"""Reports the status of the members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raftsched.raft.measures import Measured

if TYPE_CHECKING:
    from raftsched.raft.replica import Replica


@dataclass(frozen=True)
class PeerStatus:
    """Another member as this node sees it. Indices are 0 unless this node leads."""

    node: str
    raft: str  # host:port
    connected: bool
    match_index: int
    next_index: int
    clock_offset_ms: int | None  # its wall clock minus ours, as the leader measured it last
    http: str | None  # its API's host:port, while connected


@dataclass(frozen=True)
class MemberStatus:
    node: str
    raft: str  # host:port
    store_id: bytes
    voter: bool  # False: catching up
    announced: str | None = None  # host:port where it says that it is; None: where the configuration has it


@dataclass(frozen=True)
class JoinRequest:
    """A node that is no member, or not with this disk, and wants to be one."""

    node: str
    raft: str  # host:port
    http: str  # host:port
    store_id: bytes
    age_ms: int
    rolled_back: bool = (
        False  # it has the member's disk, which went back to an earlier state, and is not let in with that
    )


def peer_statuses(replica: Replica, is_connected: Callable[[str], bool]) -> list[PeerStatus]:
    """Returns the other members as this node sees them now."""
    engine, formation = replica.engine, replica.formation
    return [
        PeerStatus(
            node=peer,
            raft=formation.addresses.get(peer, ""),
            connected=is_connected(peer),
            match_index=engine.match_index(peer) if engine.is_leader else 0,
            next_index=engine.next_index(peer) if engine.is_leader else 0,
            clock_offset_ms=engine.heartbeats.offset_ms(peer),
            http=formation.http_of(peer),
        )
        for peer in engine.peers
    ]


def member_statuses(replica: Replica) -> list[MemberStatus]:
    """Returns the newest configuration in this node's log."""
    moves = replica.formation.moves
    return [
        MemberStatus(m.node, m.raft, m.store_id, m.voter, moves.of(m.node) if m.store_id else None)
        for m in replica.membership.current
    ]


def measured(replica: Replica, writing_ms: int = 0) -> Measured:
    """Returns what is to be shown of a member now. `writing_ms`: for so long the current batch has been written."""
    engine, journal = replica.engine, replica.journal
    followers = engine.peers if engine.is_leader else []
    me, voters = engine.membership.node_id, engine.membership.voters
    offsets = {peer: engine.heartbeats.offset_ms(peer) for peer in followers}
    return Measured(
        counts=engine.measures,
        log_entries=journal.last_index - journal.first_index + 1,
        voters=len(voters),
        connected={peer: engine.is_connected(peer) for peer in engine.peers},
        lag_entries={peer: max(0, journal.last_index - engine.match_index(peer)) for peer in followers},
        clock_offset_s={peer: ms / 1000 for peer, ms in offsets.items() if ms is not None},
        voters_connected=sum(voter == me or engine.is_connected(voter) for voter in voters),
        uncommitted_s=engine.uncommitted_s(),
        writing_s=writing_ms / 1000,
        log_index=journal.last_index,
        log_term=journal.last_term,
    )

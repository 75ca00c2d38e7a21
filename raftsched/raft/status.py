"""Status of the members, as the raft room reports it."""

from __future__ import annotations

from dataclasses import dataclass


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

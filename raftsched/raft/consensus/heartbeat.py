"""Heartbeat rounds: since when a majority is known to follow this leader, and how far the peers' clocks are off.

A round counts from when it was SENT: a peer that answers in this term had not helped another leader up to then.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftsched.raft.guards import Guards
from raftsched.raft.membership.configuration import Membership

_SLOW_ROUND_TRIP_MS = 100  # a slower answer says little about a clock,
FAR_OFF_MS = 5_000  # unless that is off by more, whatever time the answer took


@dataclass(slots=True)
class _Peer:
    sent_at_ms: int | None = None  # newest round answered in this term, boot clock
    offset_ms: int | None = None  # peer's wall clock minus ours


class HeartbeatRounds:
    """The rounds of one leadership; forgotten when the next one begins."""

    def __init__(self, membership: Membership, guards: Guards) -> None:
        self._membership = membership
        self._guards = guards
        self._peers: dict[str, _Peer] = {}
        self._since_ms = 0

    def begin(self, now_ms: int) -> None:
        """Starts afresh for a new leadership."""
        self._since_ms = now_ms
        if self._guards.rounds_of_this_leadership:
            self._peers = {}

    def forget(self, peer: str) -> None:
        """Forgets a node that is no member any more, or has another disk."""
        self._peers.pop(peer, None)

    def forget_offsets(self) -> None:
        """Forgets the clocks' offsets; the next answers measure them again."""
        for peer in self._peers.values():
            peer.offset_ms = None

    def answered(self, peer: str, sent_at_ms: int, peer_wall_ms: int, now_ms: int, wall_ms: int) -> None:
        """Takes an answer. `now_ms` and `sent_at_ms` are boot time, the others wall time."""
        if sent_at_ms > now_ms:
            return
        state = self._peers.setdefault(peer, _Peer())
        if state.sent_at_ms is None or sent_at_ms > state.sent_at_ms:
            state.sent_at_ms = sent_at_ms
        round_trip = now_ms - sent_at_ms
        offset = peer_wall_ms + round_trip // 2 - wall_ms
        # A slower one may be wrong by half of it, which says too little, but for a clock that is much further off.
        if round_trip <= _SLOW_ROUND_TRIP_MS or abs(offset) - round_trip // 2 > FAR_OFF_MS:
            state.offset_ms = offset

    def quorum_sent_at_ms(self, now_ms: int) -> int | None:
        """Returns the newest boot time at which a round was sent that a majority (this node included) answered."""
        membership, known = self._membership, []
        for voter in membership.voters:
            if voter == membership.node_id:
                known.append(now_ms)
            elif (state := self._peers.get(voter)) is not None and state.sent_at_ms is not None:
                known.append(state.sent_at_ms)
        if len(known) < membership.majority:
            return None
        known.sort(reverse=True)
        return known[membership.majority - 1]

    def age_ms(self, now_ms: int) -> int:
        """Returns the time since a majority was last known to follow, or since the leadership began."""
        return now_ms - max(self._since_ms, self.quorum_sent_at_ms(now_ms) or 0)

    def offset_ms(self, peer: str) -> int | None:
        state = self._peers.get(peer)
        return None if state is None else state.offset_ms

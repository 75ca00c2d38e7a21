"""Heartbeat rounds: since when a majority is known to follow this leader, and how far the peers' clocks are off.

A round counts from when it was SENT: a peer that answers in this term had not helped another leader up to then.
"""

from __future__ import annotations

from dataclasses import dataclass

_SLOW_ROUND_TRIP_MS = 100  # a slower answer says little about a clock


@dataclass(slots=True)
class _Peer:
    sent_at_ms: int | None = None  # newest round answered in this term, boot clock
    offset_ms: int | None = None  # peer's wall clock minus ours


class HeartbeatRounds:
    """Kept by the leader, forgotten with the leadership."""

    def __init__(self, peers: list[str]) -> None:
        self._peers = {peer: _Peer() for peer in peers}
        self._majority = (len(peers) + 1) // 2 + 1
        self._since_ms = 0

    def begin(self, now_ms: int) -> None:
        """A leadership begins."""
        self._since_ms = now_ms
        for peer in self._peers.values():
            peer.sent_at_ms = None
        self.forget_offsets()

    def forget_offsets(self) -> None:
        """They are measured anew by the next answers."""
        for peer in self._peers.values():
            peer.offset_ms = None

    def answered(self, peer: str, sent_at_ms: int, peer_wall_ms: int, now_ms: int, wall_ms: int) -> None:
        """`now_ms` and `sent_at_ms` are boot time, the others wall time."""
        state = self._peers.get(peer)
        if state is None or sent_at_ms > now_ms:
            return
        if state.sent_at_ms is None or sent_at_ms > state.sent_at_ms:
            state.sent_at_ms = sent_at_ms
        round_trip = now_ms - sent_at_ms
        if round_trip <= _SLOW_ROUND_TRIP_MS:  # a slower one says too little: it may be wrong by half of it
            state.offset_ms = peer_wall_ms + round_trip // 2 - wall_ms

    def quorum_sent_at_ms(self, now_ms: int) -> int | None:
        """The newest boot time at which a round was sent that a majority (this node included) answered."""
        known = [now_ms, *(p.sent_at_ms for p in self._peers.values() if p.sent_at_ms is not None)]
        if len(known) < self._majority:
            return None
        known.sort(reverse=True)
        return known[self._majority - 1]

    def age_ms(self, now_ms: int) -> int:
        """How long ago a majority was last known to follow, or the leadership began."""
        return now_ms - max(self._since_ms, self.quorum_sent_at_ms(now_ms) or 0)

    def offset_ms(self, peer: str) -> int | None:
        state = self._peers.get(peer)
        return None if state is None else state.offset_ms

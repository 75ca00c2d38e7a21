"""Proposals on their way: from this node to the leader, and what this node takes as the leader.

Acknowledgements and answers to heartbeats go the same way, so no more than a window is sent ahead of the batches that
the leader has. Its heartbeats say which it has; those applied here it had as well.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping

from raftsched.raft import codec
from raftsched.raft.consensus.engine import Engine
from raftsched.raft.membership.peer_set import PeerSet
from raftsched.raft.options import RaftOptions
from raftsched.raft.ports import Links
from raftsched.raft.proposals.proposer import Proposer
from raftsched.raft.proposals.queue import ProposalQueue, unfit
from raftsched.raft.window import Window
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)

_PROPOSE_BYTES = 2 * 1024 * 1024  # batches in one message to the leader
_WARN_EVERY_S = 60.0


class Forwarding:
    """Both sides of the way to the leader, on one node."""

    def __init__(
        self,
        engine: Engine,
        proposer: Proposer,
        queue: ProposalQueue,
        peer_set: PeerSet,
        links: Links,
        connections: Mapping[str, int],
        clock: Clock,
        options: RaftOptions,
    ) -> None:
        self.rejected = 0  # batches that held what is no command, since this node started
        self._engine = engine
        self._proposer = proposer
        self._queue = queue
        self._peer_set = peer_set
        self._links = links
        self._connections = connections
        self._clock = clock
        self._options = options
        self._route: tuple[str | None, int, int] = (None, 0, 0)
        self._retry_at: float | None = None
        self._window = Window(options, options.waiting_max_bytes)
        self._underway: deque[tuple[int, int, float]] = deque()  # (number, bytes, when it was sent)
        self._underway_bytes = 0
        self._taken: dict[str, int] = {}  # as the leader: number of the newest batch of each node
        self._warned_at: dict[str, float] = {}  # by peer: a warning was logged

    # ------------------------------------------------------------ to the leader

    def pump(self) -> None:
        """Moves this node's proposals into its own queue, or sends them to the leader."""
        engine, proposer = self._engine, self._proposer
        leader = engine.leader_id
        if leader is None:
            return
        route = (leader, engine.term, self._connections.get(leader, 0))
        if route != self._route:
            self._route = route
            proposer.rerouted()
            proposer.forget_rate()
            self._window = Window(self._options, self._options.waiting_max_bytes)
            self._forget_underway()
            self._peer_set.requests.rerouted()
        self._peer_set.forward(leader)
        if not proposer.waiting or self._retry_at is not None:
            return
        if leader == engine.node_id:
            while proposer.waiting and self._queue.room > 0:
                for batch in proposer.batches(self._queue.room, engine.entry_bytes):
                    self._queue.add(batch)
        elif leader in self._connections:
            self._send(leader)

    def _send(self, leader: str) -> None:
        window, now = self._window, self._clock.monotonic()
        while self._proposer.waiting and self._underway_bytes < window.size:
            # One batch more than there is room for may go along: it has to fit the frame, too.
            most = min(_PROPOSE_BYTES, self._options.frame_max_bytes // 4)
            room = min(most, window.size - self._underway_bytes)
            batches = self._proposer.batches(room, max(self._options.window_min_bytes, window.size // 2))
            if not self._links.send(leader, codec.Propose(self._engine.term, batches)):
                break
            for _, seq, commands in batches:
                size = sum(map(len, commands))
                self._underway.append((seq, size, now))
                self._underway_bytes += size
            window.used(self._underway_bytes)

    def arrived(self, seq: int) -> None:
        """The leader has this batch, and those before it."""
        underway = self._underway
        if not underway or underway[0][0] > seq:
            return
        sent_at = 0.0
        while underway and underway[0][0] <= seq:
            _, size, sent_at = underway.popleft()
            self._underway_bytes -= size
        self._window.measured((self._clock.monotonic() - sent_at) * 1000)

    def _forget_underway(self) -> None:
        self._underway.clear()
        self._underway_bytes = 0

    def refused(self, m: codec.ProposeRefused) -> None:
        if m.term == self._engine.term:
            self._retry_at = self._clock.monotonic() + self._options.heartbeat_ms / 1000

    def rejected_by(self, peer: str, m: codec.ProposeRejected) -> None:
        if m.term == self._engine.term and peer == self._engine.leader_id:
            self._proposer.rejected(m.seq, m.places)

    @property
    def pauses(self) -> bool:
        """The leader refused proposals, which are sent again in a moment."""
        return self._retry_at is not None

    def tick(self, now: float) -> None:
        """Retries refused proposals and measures the rate. `now` in monotonic seconds."""
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            self._forget_underway()
            self._proposer.rerouted()
        if self._engine.leader_id is None:
            self._proposer.forget_rate()
        else:
            self._proposer.sample(now)

    # ------------------------------------------------------------ as the leader

    def proposed(self, peer: str, m: codec.Propose) -> None:
        """Takes a follower's batches. Bytes that are no command would be in the log for good: they are refused
        before."""
        if not self._engine.is_leader or m.term != self._engine.term or self._queue.room <= 0:
            self._links.send(peer, codec.ProposeRefused(m.term))
            return
        self._taken[peer] = max((seq for _, seq, _ in m.batches), default=0)
        for batch in m.batches:
            places = unfit(batch[2], self._options)
            if places:
                self.rejected += 1
                self._warn(peer, len(places))
                self._links.send(peer, codec.ProposeRejected(m.term, batch[1], places))
            else:
                self._queue.add(batch)

    def connected(self, peer: str) -> None:
        """Forgets the batch numbers of a peer: another life of it may count from the beginning."""
        self._taken.pop(peer, None)

    def taken(self, peer: str) -> int:
        """Returns the number of the newest batch that came from this peer."""
        return self._taken.get(peer, 0)

    def _warn(self, peer: str, many: int) -> None:
        now = self._clock.monotonic()
        if now - self._warned_at.get(peer, float("-inf")) > _WARN_EVERY_S:
            self._warned_at[peer] = now
            log.warning(
                "%s sent %d commands that this version does not know; they are refused",
                peer,
                many,
                extra={"peer": peer},
            )

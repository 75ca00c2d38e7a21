"""The leader's side of replication: what each follower has, what it is sent next, what is committed, heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from raftsched.clock import Clock
from raftsched.raft.codec import Append, AppendAnswer, Frame, Ping
from raftsched.raft.guards import Guards
from raftsched.raft.heartbeat import HeartbeatRounds
from raftsched.raft.journal import Journal
from raftsched.raft.library import GuardedSyncObj
from raftsched.raft.options import RaftOptions
from raftsched.raft.replication import Progress

_PROBE_BYTES = 64 * 1024  # entries that travel with a probe


class LeaderHost(Protocol):
    """What leading needs from the node around it."""

    def send(self, peer: str, frame: Frame) -> bool: ...
    def opening(self, term: int) -> bytes: ...
    def need_snapshot(self, peer: str) -> None: ...


class Leadership:
    """Meaningful while this node leads; `begin` starts it afresh."""

    def __init__(
        self,
        core: GuardedSyncObj,
        peers: Sequence[str],
        host: LeaderHost,
        journal: Journal,
        clock: Clock,
        options: RaftOptions,
        guards: Guards,
    ) -> None:
        self.heartbeats = HeartbeatRounds(list(peers))
        self.opening_index = 0
        self._core = core
        self._peers = peers
        self._majority = (len(peers) + 1) // 2 + 1
        self._host = host
        self._journal = journal
        self._clock = clock
        self._options = options
        self._guards = guards
        self._progress = {peer: Progress() for peer in peers}
        self._beat_at = 0.0  # monotonic seconds: the next heartbeat

    def begin(self) -> None:
        """Every leadership opens with an entry of its own: only its commit commits what earlier leaders left."""
        for peer in self._peers:
            self._core.set_next_index(peer, self._journal.last_index + 1)
            self._core.set_match_index(peer, 0)
            self._progress[peer] = Progress()
        self.heartbeats.begin(self._clock.boot_ms())
        term = self._core.term
        self.opening_index = self._journal.append(term, self._host.opening(term))
        self._beat_at = 0.0
        self.beat(self._clock.monotonic())

    # ------------------------------------------------------------ heartbeats

    def has_lost_majority(self) -> bool:
        """No majority answered for so long that another one may have elected somebody else."""
        return self.heartbeats.age_ms(self._clock.boot_ms()) > self._options.fallback_ms

    def beat(self, now: float) -> None:
        if now < self._beat_at:
            return
        self._beat_at = now + self._options.heartbeat_ms / 1000
        ping = Ping(self._core.term, self._clock.boot_ms())
        for peer in self._peers:
            if not self._core.is_connected(peer):
                continue
            self._host.send(peer, ping)
            progress = self._progress[peer]
            progress.asked = False
            behind = self._core.match_index(peer) < self._journal.last_index
            if behind and not progress.probing and not progress.snapshot:
                self._send_empty(peer, progress)  # shows whether it lost something, as it may while it loads a snapshot

    # ------------------------------------------------------------ sending

    def append(self, data: bytes) -> int:
        """The next entry; returns its index."""
        if self._guards.entries_below_batch and len(data) > self._options.append_max_bytes:
            raise RuntimeError(f"an entry of {len(data)} bytes does not fit a message")
        return self._journal.append(self._core.term, data)

    def replicate(self, more_soon: bool) -> None:
        """See Engine.replicate."""
        for peer in self._peers:
            if self._core.is_connected(peer):
                self._replicate(peer, self._progress[peer], more_soon)

    def _replicate(self, peer: str, progress: Progress, more_soon: bool) -> None:
        if progress.snapshot or (progress.probing and progress.asked):
            return
        journal, options, core = self._journal, self._options, self._core
        limit = _PROBE_BYTES if progress.probing else options.append_max_bytes
        while (start := core.next_index(peer)) <= journal.last_index or progress.probing:
            full = progress.inflight_bytes >= options.inflight_max_bytes
            if progress.inflight and (full or len(progress.inflight) >= options.inflight_max_messages):
                return
            prev_term = journal.term(start - 1)
            entries = journal.entries(start, limit)
            if prev_term is None or (not entries and start <= journal.last_index):
                progress.snapshot = True
                self._host.need_snapshot(peer)
                return
            sent = [(entry.term, entry.data) for entry in entries]
            commit = journal.commit_index
            if not self._host.send(peer, Append(core.term, start - 1, prev_term, commit, sent)):
                return
            progress.told_commit = commit
            if progress.probing:
                progress.asked = True
                return
            core.set_next_index(peer, entries[-1].index + 1)
            progress.sent(entries[-1].index, sum(len(data) for _, data in sent))
        if progress.told_commit < journal.commit_index and not more_soon:
            self._send_empty(peer, progress)

    def _send_empty(self, peer: str, progress: Progress) -> None:
        prev_index = self._core.next_index(peer) - 1
        prev_term = self._journal.term(prev_index)
        if prev_term is not None:
            progress.told_commit = self._journal.commit_index
            self._host.send(peer, Append(self._core.term, prev_index, prev_term, progress.told_commit, []))

    # ------------------------------------------------------------ answers

    def answered(self, peer: str, m: AppendAnswer) -> None:
        """An answer of this term."""
        core, progress = self._core, self._progress[peer]
        match = core.match_index(peer)
        if m.success:
            if m.next_index - 1 > match or m.next_index >= self._journal.first_index:
                progress.snapshot = False  # it got further, or can go on with entries
            match = max(match, m.next_index - 1)
            core.set_match_index(peer, match)
            core.set_next_index(peer, max(core.next_index(peer), m.next_index))
            progress.acknowledged(match)
            self.advance_commit()
        elif m.reset and (m.next_index > match or not self._guards.next_index_above_match):
            core.set_next_index(peer, max(1, progress.probe(m.next_index, self._guards)))

    def advance_commit(self) -> None:
        """Commits what a majority has on its disks, entries of this term only (and with them all before)."""
        journal = self._journal
        own = journal.durable_index if self._guards.count_self_when_durable else journal.last_index
        index = sorted([own, *self._core.match_indices()], reverse=True)[self._majority - 1]
        if index > journal.commit_index and journal.term(index) == self._core.term:
            self._core.commit_to(index)

    # ------------------------------------------------------------ connections and snapshots

    def connection_changed(self, peer: str) -> None:
        """What was on its way is lost: go on from what is acknowledged."""
        self._progress[peer] = Progress()
        match = self._core.match_index(peer)
        if match:
            self._core.set_next_index(peer, match + 1)

    def takes_snapshot(self, peer: str) -> bool:
        return self._progress[peer].snapshot

    def snapshot_failed(self, peer: str) -> None:
        self._progress[peer].snapshot = False

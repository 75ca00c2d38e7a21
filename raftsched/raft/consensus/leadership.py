"""The leader's side of replication: each follower's progress, what to send it next, what is committed, heartbeats."""

from __future__ import annotations

from collections import deque

from raftsched.raft.codec import Append, AppendAnswer, Ping
from raftsched.raft.consensus.heartbeat import HeartbeatRounds
from raftsched.raft.consensus.journal import Journal
from raftsched.raft.consensus.library import GuardedSyncObj
from raftsched.raft.consensus.replication import Progress
from raftsched.raft.guards import Guards
from raftsched.raft.measures import Measures
from raftsched.raft.membership.configuration import Membership
from raftsched.raft.options import RaftOptions
from raftsched.raft.ports import EngineHost
from raftsched.raft.window import Window
from raftsched.system.clock import Clock

_PROBE_BYTES = 64 * 1024  # entries that travel with a probe


class LeaderReplication:
    """Meaningful while this node leads; `begin` starts it afresh."""

    def __init__(
        self,
        core: GuardedSyncObj,
        membership: Membership,
        host: EngineHost,
        journal: Journal,
        clock: Clock,
        options: RaftOptions,
        guards: Guards,
        measures: Measures,
    ) -> None:
        self.heartbeats = HeartbeatRounds(membership, guards)
        self.opening_index = 0
        self._core = core
        self._membership = membership
        self._host = host
        self._journal = journal
        self._clock = clock
        self._options = options
        self._guards = guards
        self._measures = measures
        self._made: deque[tuple[int, float]] = deque()  # entries that are not committed: index, monotonic seconds
        self._progress: dict[str, Progress] = {}
        self._goals: dict[str, tuple[float, int]] = {}  # learner -> (since when it catches up, the log's end then)
        self.beat_at = 0.0  # monotonic seconds: the next heartbeat

    def begin(self) -> None:
        """Starts a leadership, with an entry of its own: only its commit commits the entries of earlier leaders."""
        for peer in self._membership.peers:
            self._start(peer)
        self._goals.clear()
        self._made.clear()
        self.heartbeats.begin(self._clock.boot_ms())
        term = self._core.term
        if self._guards.leader_opens_with_entry or self._journal.last_index == 0:
            self.opening_index = self._journal.append(term, self._host.opening(term))
            self._made.append((self.opening_index, self._clock.monotonic()))
        self.beat_at = 0.0
        self.beat(self._clock.monotonic())

    # ------------------------------------------------------------ heartbeats

    def has_lost_majority(self) -> bool:
        """Returns whether no majority has answered for so long that another leader may have been elected."""
        return self.heartbeats.age_ms(self._clock.boot_ms()) > self._options.fallback_ms

    def beat(self, now: float) -> None:
        if now < self.beat_at:
            return
        if self.beat_at:
            self._measures.heartbeats_late.add(now - self.beat_at)
        self.beat_at = now + self._options.heartbeat_ms / 1000
        ping = Ping(self._core.term, self._clock.boot_ms(), self._host.log_ms())
        for peer in self._membership.peers:
            if not self._core.is_connected(peer):
                continue
            self._host.send(peer, ping)
            progress = self._of(peer)
            if progress.snapshot:
                continue
            if progress.probing:
                if progress.probe_sent and not self._send_empty(peer, progress):
                    progress.probe_sent = False  # the probed entry is compacted away meanwhile
            elif self._core.match_index(peer) < self._journal.last_index:
                self._send_empty(peer, progress)  # shows whether it lost something, as it may while it loads a snapshot

    # ------------------------------------------------------------ sending

    def append(self, data: bytes) -> int:
        """Appends the next entry; returns its index."""
        if self._guards.entries_below_batch and len(data) > self._options.append_max_bytes:
            raise RuntimeError(f"an entry of {len(data)} bytes does not fit a message")
        index = self._journal.append(self._core.term, data)
        self._made.append((index, self._clock.monotonic()))
        return index

    def replicate(self, more_soon: bool) -> None:
        """Sends the followers their next entries; see Engine.replicate."""
        for peer in self._membership.peers:
            if self._core.is_connected(peer):
                self._replicate(peer, self._of(peer), more_soon)

    def _replicate(self, peer: str, progress: Progress, more_soon: bool) -> None:
        if progress.snapshot or (progress.probing and progress.probe_sent):
            return
        journal, options, core = self._journal, self._options, self._core
        while (start := core.next_index(peer)) <= journal.last_index or progress.probing:
            limit = min(options.append_bytes, _PROBE_BYTES if progress.probing else progress.window.size)
            full = progress.inflight_bytes >= progress.window.size
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
            progress.commit_sent(commit, start - 1 + len(sent))
            if progress.probing:
                progress.probe_sent = True
                return
            core.set_next_index(peer, entries[-1].index + 1)
            progress.sent(entries[-1].index, sum(len(data) for _, data in sent))
        if progress.sent_commit < journal.commit_index and not more_soon:
            self._send_empty(peer, progress, wants_answer=False)

    def _send_empty(self, peer: str, progress: Progress, *, wants_answer: bool = True) -> bool:
        """Sends an append without entries. Returns False when the entry before the follower's next one is compacted
        away."""
        prev_index = self._core.next_index(peer) - 1
        prev_term = self._journal.term(prev_index)
        if prev_term is None:
            return False
        commit = self._journal.commit_index
        progress.commit_sent(commit, prev_index)
        self._host.send(peer, Append(self._core.term, prev_index, prev_term, commit, [], wants_answer))
        return True

    # ------------------------------------------------------------ answers

    def answered(self, peer: str, m: AppendAnswer) -> None:
        """Takes a follower's answer of this term."""
        if self._membership.member(peer) is None:
            return
        if m.next_index > self._journal.last_index + 1:
            return  # nobody has what was never sent
        core, progress = self._core, self._of(peer)
        match = core.match_index(peer)
        if m.success:
            if m.next_index - 1 > match or m.next_index >= self._journal.first_index:
                progress.snapshot = False  # it got further, or can go on with entries
            match = max(match, m.next_index - 1)
            core.set_match_index(peer, match)
            core.set_next_index(peer, max(core.next_index(peer), m.next_index))
            progress.acknowledged(match)
            if match > self._journal.commit_index:
                self.advance_commit()
        elif m.reset and (m.next_index > match or not self._guards.next_index_above_match):
            core.set_next_index(peer, max(1, progress.probe(m.next_index, self._guards)))
        elif m.reset and self._guards.old_connections_dropped and self._guards.rolled_back_disk_refused:
            # It is no late answer: those of older connections are dropped.
            self._host.lost_entries(peer, m.next_index - 1, match)

    def is_told_all(self, peer: str) -> bool:
        """Returns whether there is nothing to send to a voter now: no entry, and no commit index."""
        progress, journal = self._of(peer), self._journal
        waits = progress.probing or progress.snapshot or self._core.next_index(peer) <= journal.last_index
        return not waits and progress.sent_commit >= journal.commit_index and peer in self._membership.voters

    def measured(self, peer: str, took_ms: int) -> None:
        """Takes the round trip of a heartbeat."""
        self._of(peer).window.measured(took_ms)

    def entry_bytes(self) -> int:
        """Returns the largest size of an entry: so that each follower needed for a majority can have two in flight."""
        membership, options = self._membership, self._options
        windows = sorted((self._of(v).window.size for v in membership.voters if v != membership.node_id), reverse=True)
        needed = membership.majority - 1
        if not 0 < needed <= len(windows):
            return options.entry_max_bytes
        return min(options.entry_max_bytes, max(options.window_min_bytes, windows[needed - 1] // 2))

    def advance_commit(self) -> None:
        """Commits the entries that a majority has on its disks: of this term only (and with them all before)."""
        journal = self._journal
        own = journal.durable_index if self._guards.count_self_when_durable else journal.last_index
        membership, core = self._membership, self._core
        have = [own if v == membership.node_id else core.match_index(v) for v in membership.voters]
        index = sorted(have, reverse=True)[membership.majority - 1]
        own_term = journal.term(index) == self._core.term or not self._guards.commit_own_term_only
        if index > journal.commit_index and own_term:
            self._core.commit_to(index)
            self._measure_commits(index)

    def uncommitted_s(self) -> float:
        """Returns how long ago the oldest entry was made that is not committed yet; 0 when there is none."""
        return self._clock.monotonic() - self._made[0][1] if self._made else 0.0

    def _measure_commits(self, index: int) -> None:
        now = self._clock.monotonic()
        while self._made and self._made[0][0] <= index:
            self._measures.commits.add(now - self._made.popleft()[1])

    # ------------------------------------------------------------ connections and snapshots

    def connection_changed(self, peer: str) -> None:
        """Restarts replication to a peer from its acknowledged entries: messages in flight are lost."""
        match = self._core.match_index(peer)
        self._start(peer)
        if match:
            self._core.set_match_index(peer, match)
            self._core.set_next_index(peer, match + 1)

    def takes_snapshot(self, peer: str) -> bool:
        return self._of(peer).snapshot

    def snapshot_failed(self, peer: str) -> None:
        self._of(peer).snapshot = False

    # ------------------------------------------------------------ members that come and go

    def _start(self, peer: str) -> Progress:
        self._core.set_next_index(peer, self._journal.last_index + 1)
        self._core.set_match_index(peer, 0)
        progress = self._progress[peer] = Progress(Window(self._options, self._options.inflight_max_bytes))
        return progress

    def _of(self, peer: str) -> Progress:
        return self._progress.get(peer) or self._start(peer)

    def forget(self, peer: str) -> None:
        """Forgets a node that is no member any more, or has another disk."""
        self._progress.pop(peer, None)
        self._goals.pop(peer, None)
        self.heartbeats.forget(peer)

    def caught_up(self, peer: str, now: float) -> bool:
        """Returns whether a member without a vote is so near the end of the log that its vote would delay nobody:
        within one election timeout it got all entries there were at its beginning (Ongaro, 2014, section 4.2.1). Ask
        repeatedly."""
        if not self._core.is_connected(peer) or not self._guards.caught_up_before_voting:
            return not self._guards.caught_up_before_voting
        since, goal = self._goals.get(peer, (0.0, -1))
        in_time = now - since <= self._options.election_min_ms / 1000
        if goal >= 0 and self._core.match_index(peer) >= goal and in_time:
            return True
        if goal < 0 or not in_time:
            self._goals[peer] = (now, self._journal.last_index)
        return False

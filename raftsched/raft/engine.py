"""pysyncobj's SyncObj, guarded: the only module that touches the library's private names.

The library keeps role, term, vote, leader, next and match indices and the set of members; every path of it that loses
data is overridden, and what this project does not use (pickled commands, dumps, membership changes, code versions,
piecewise transmission) raises when reached. Input comes as calls (`receive`, `tick`, `connected`...), output goes
to the Host: no sockets, no threads, no clock but the injected one.

Rules are those of Ongaro, "Consensus: Bridging Theory and Practice" (2014), chapters 3 and 9.6 (pre-vote).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node
from pysyncobj.syncobj import _RAFT_STATE
from pysyncobj.transport import Transport

from raftsched.clock import Clock
from raftsched.raft.codec import (
    Append,
    AppendAnswer,
    Frame,
    Ping,
    Pong,
    PreVoteAnswer,
    PreVoteRequest,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from raftsched.raft.guards import Guards
from raftsched.raft.heartbeat import HeartbeatRounds
from raftsched.raft.journal import Journal
from raftsched.raft.options import RaftOptions
from raftsched.raft.replication import Progress, verify
from raftsched.raft.turns import Action

log = logging.getLogger(__name__)

_PROBE_BYTES = 64 * 1024  # entries that travel with a probe


class Host(Protocol):
    """What the engine needs from the node around it."""

    def send(self, peer: str, frame: Frame) -> bool: ...
    def hold(self, action: Action) -> None: ...
    def may_vote(self) -> bool: ...
    def opening(self, term: int) -> bytes: ...
    def need_snapshot(self, peer: str) -> None: ...


class _NoTransport(Transport):  # type: ignore[misc]
    """The library is never asked to talk to anybody."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    ready = True


def _unused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("a part of pysyncobj that is not used was reached")


class Engine(SyncObj):  # type: ignore[misc]
    """One member's consensus state."""

    def __init__(
        self,
        node_id: str,
        peers: Sequence[str],
        host: Host,
        journal: Journal,
        hard_state: tuple[int, str | None],
        clock: Clock,
        rng: random.Random,
        options: RaftOptions,
        guards: Guards,
    ) -> None:
        self.node_id = node_id
        self.peers = sorted(peers)
        self.majority = (len(self.peers) + 1) // 2 + 1
        self.heartbeats = HeartbeatRounds(self.peers)
        self.opening_index = 0  # of this leadership
        self.installing = False  # a snapshot is being loaded: appends are not looked at
        self._host = host
        self._journal = journal
        self._clock = clock
        self._rng = rng
        self._options = options
        self._guards = guards
        self._nodes = {peer: Node(peer) for peer in self.peers}
        self._progress = {peer: Progress() for peer in self.peers}
        self._votes: set[str] = set()
        self._pre_votes: set[str] = set()
        self._pre_round = 0
        self._heard_at = float("-inf")  # monotonic seconds: the last word of a leader
        conf = SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=True,  # also keeps the library from opening a pipe
            dynamicMembershipChange=False,
            leaderFallbackTimeout=options.fallback_ms / 1000,
            raftMinTimeout=options.election_min_ms / 1000,
            raftMaxTimeout=options.election_max_ms / 1000,
            appendEntriesPeriod=options.heartbeat_ms / 1000 / 2,
            connectionTimeout=max(options.dead_peer_ms, options.election_max_ms) / 1000,
        )
        super().__init__(
            Node(node_id), list(self._nodes.values()), conf, nodeClass=Node, transport=_NoTransport()
        )
        self._SyncObj__raftLog = journal
        self._SyncObj__raftCurrentTerm = max(hard_state[0], journal.last_term)
        self._SyncObj__votedForNodeId = hard_state[1] if hard_state[0] >= journal.last_term else None
        self._SyncObj__raftCommitIndex = journal.commit_index
        self._SyncObj__raftLastApplied = journal.applied_index
        self._SyncObj__raftElectionDeadline = clock.monotonic() + self._SyncObj__generateRaftTimeout()

    # ------------------------------------------------------------ state

    @property
    def term(self) -> int:
        return int(self._SyncObj__raftCurrentTerm)

    @property
    def is_leader(self) -> bool:
        return bool(self._SyncObj__raftState == _RAFT_STATE.LEADER)

    @property
    def role(self) -> str:
        return ("follower", "candidate", "leader")[self._SyncObj__raftState]

    @property
    def leader_id(self) -> str | None:
        leader = self._SyncObj__raftLeader
        return None if leader is None else str(leader.id)

    @property
    def voted_for(self) -> str | None:
        return self._SyncObj__votedForNodeId

    def is_connected(self, peer: str) -> bool:
        return self._nodes[peer] in self._SyncObj__connectedNodes

    def match_index(self, peer: str) -> int:
        return int(self._SyncObj__raftMatchIndex.get(self._nodes[peer], 0))

    def next_index(self, peer: str) -> int:
        return int(self._SyncObj__raftNextIndex.get(self._nodes[peer], 0))

    # ------------------------------------------------------------ overrides: what the library must not do its own way

    def _SyncObj__generateRaftTimeout(self) -> float:
        low, high = self._options.election_min_ms, self._options.election_max_ms
        return self._rng.uniform(low, high) / 1000

    def _SyncObj__getCurrentLogIndex(self) -> int:
        return self._journal.last_index

    def _SyncObj__getCurrentLogTerm(self) -> int:
        return self._journal.last_term

    def _SyncObj__setCurrentTerm(self, term: int, voted_for: str | None) -> None:
        self._SyncObj__raftCurrentTerm = term
        self._SyncObj__votedForNodeId = voted_for
        self._journal.set_hard_state(term, voted_for)

    def _SyncObj__onBecomeLeader(self) -> None:
        self._SyncObj__raftLeader = self._SyncObj__selfNode
        self._SyncObj__setState(_RAFT_STATE.LEADER)
        for peer, node in self._nodes.items():
            self._SyncObj__raftNextIndex[node] = self._journal.last_index + 1
            self._SyncObj__raftMatchIndex[node] = 0
            self._progress[peer] = Progress()
        self.heartbeats.begin(self._clock.boot_ms())
        self._SyncObj__newAppendEntriesTime = 0.0
        self.opening_index = self._journal.append(self.term, self._host.opening(self.term))
        log.info("%s leads term %d", self.node_id, self.term)
        self._lead(self._clock.monotonic())

    def _onTick(self, timeToWait: float = 0.0) -> None:
        now = self._clock.monotonic()
        if self.is_leader:
            self._lead(now)
        elif now >= self._SyncObj__raftElectionDeadline and self._host.may_vote() and not self.installing:
            self._postpone_election(now)
            if self._guards.pre_vote:
                self._ask_pre_votes()
            else:
                self.campaign()

    def destroy(self) -> None:
        """Nothing to close: the library was given no sockets, threads or files."""

    _SyncObj__onMessageReceived = _unused
    _SyncObj__sendAppendEntries = _unused
    _SyncObj__sendNextNodeIdx = _unused
    _SyncObj__applyLogEntries = _unused
    _SyncObj__doApplyCommand = _unused
    _SyncObj__parseChangeClusterRequest = _unused
    _SyncObj__doChangeCluster = _unused
    _SyncObj__tryLogCompaction = _unused
    _SyncObj__loadDumpFile = _unused
    _applyCommand = _unused
    _checkCommandsToApply = _unused
    setCodeVersion = _unused
    addNodeToCluster = _unused
    removeNodeFromCluster = _unused

    # ------------------------------------------------------------ input

    def tick(self) -> None:
        """Looks at the timers."""
        self.doTick(0.0)

    def connected(self, peer: str) -> None:
        """A new connection: what was on its way on an older one is lost."""
        node = self._nodes[peer]
        self._SyncObj__onNodeConnected(node)
        self._progress[peer] = Progress()
        if self.is_leader:
            match = self._SyncObj__raftMatchIndex[node]
            if match:
                self._SyncObj__raftNextIndex[node] = match + 1
            self._host.send(peer, Ping(self.term, self._clock.boot_ms()))

    def disconnected(self, peer: str) -> None:
        self._SyncObj__onNodeDisconnected(self._nodes[peer])
        self._progress[peer] = Progress()

    def receive(self, peer: str, frame: Frame) -> None:
        """A message of a member, over its newest connection."""
        match frame:
            case Append():
                self._on_append(peer, frame)
            case AppendAnswer():
                self._on_append_answer(peer, frame)
            case Ping():
                self._on_ping(peer, frame)
            case Pong():
                self._on_pong(peer, frame)
            case VoteRequest():
                self._on_vote_request(peer, frame)
            case VoteAnswer():
                self._on_vote_answer(peer, frame)
            case PreVoteRequest():
                self._on_pre_vote_request(peer, frame)
            case PreVoteAnswer():
                self._on_pre_vote_answer(peer, frame)
            case TimeoutNow():
                if frame.term == self.term and peer == self.leader_id and self._host.may_vote():
                    self.campaign()
            case _:
                raise RuntimeError(f"not a message for the engine: {type(frame).__name__}")

    def turn_done(self) -> None:
        """A turn is durable: the leader may count itself further."""
        self._SyncObj__raftLastApplied = self._journal.applied_index
        if self.is_leader:
            self._advance_commit()

    def installed(self, leader: str) -> None:
        """A snapshot was loaded; its sender may go on behind it."""
        self.installing = False
        self._SyncObj__raftLastApplied = self._journal.applied_index
        self._SyncObj__raftCommitIndex = self._journal.commit_index
        self._host.send(leader, AppendAnswer(self.term, self._journal.applied_index + 1, True, False))

    # ------------------------------------------------------------ terms and roles

    def adopt(self, term: int) -> None:
        """A newer term was seen: this node follows, whoever leads it."""
        if self.is_leader:
            self._postpone_election(self._clock.monotonic())
        self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__setState(_RAFT_STATE.FOLLOWER)
        self._SyncObj__raftLeader = None

    def follow(self, peer: str, term: int) -> None:
        """`peer` leads `term`, which is not older than ours."""
        if term > self.term:
            self.adopt(term)
        elif self.is_leader:
            raise RuntimeError(f"two leaders in term {term}: {self.node_id} and {peer}")
        now = self._clock.monotonic()
        self._heard_at = now
        self._postpone_election(now)
        self._SyncObj__setState(_RAFT_STATE.FOLLOWER)
        self._SyncObj__raftLeader = self._nodes[peer]

    def step_down(self) -> None:
        """Hands over to the follower that has everything, if there is one."""
        if not self.is_leader:
            return
        ready = [
            p for p in self.peers if self.is_connected(p) and self.match_index(p) == self._journal.last_index
        ]
        if ready:
            self._host.send(ready[0], TimeoutNow(self.term))
        self._resign("asked to")

    def _resign(self, why: str) -> None:
        log.info("%s steps down from leading term %d: %s", self.node_id, self.term, why)
        self._SyncObj__setState(_RAFT_STATE.FOLLOWER)
        self._SyncObj__raftLeader = None
        self._postpone_election(self._clock.monotonic() + self._options.election_max_ms / 1000)

    def _postpone_election(self, now: float) -> None:
        self._SyncObj__raftElectionDeadline = now + self._SyncObj__generateRaftTimeout()

    # ------------------------------------------------------------ elections

    def _ask_pre_votes(self) -> None:
        self._pre_round += 1
        self._pre_votes = {self.node_id}
        request = PreVoteRequest(
            self.term + 1, self._journal.last_index, self._journal.last_term, self._pre_round
        )
        for peer in self.peers:
            self._host.send(peer, request)
        self._count_pre_votes()

    def _count_pre_votes(self) -> None:
        if len(self._pre_votes) >= self.majority:
            self._pre_votes = set()
            self.campaign()

    def campaign(self) -> None:
        """A new term, with a vote for oneself that is durable before anybody hears of it."""
        self._postpone_election(self._clock.monotonic())
        self._SyncObj__raftLeader = None
        self._SyncObj__setState(_RAFT_STATE.CANDIDATE)
        self._SyncObj__setCurrentTerm(self.term + 1, self.node_id)
        self._votes = set()
        term = self.term
        self._host.hold(lambda: self._ask_votes(term))

    def _ask_votes(self, term: int) -> None:
        if term != self.term or self.role != "candidate":
            return
        request = VoteRequest(term, self._journal.last_index, self._journal.last_term)
        for peer in self.peers:
            self._host.send(peer, request)
        self._count_vote(self.node_id)

    def _count_vote(self, voter: str) -> None:
        self._votes.add(voter)
        if len(self._votes) >= self.majority:
            self._SyncObj__onBecomeLeader()

    def _is_behind(self, last_term: int, last_index: int) -> bool:
        return (last_term, last_index) < (self._journal.last_term, self._journal.last_index)

    def _hears_a_leader(self) -> bool:
        """A leader spoke lately: there is nothing to elect. Two heartbeats shorter than the shortest election timeout,
        so that those who lost the leader together agree on it."""
        silence = self._clock.monotonic() - self._heard_at
        return silence < (self._options.election_min_ms - 2 * self._options.heartbeat_ms) / 1000

    def _on_pre_vote_request(self, peer: str, m: PreVoteRequest) -> None:
        led = self.is_leader or self._hears_a_leader()
        granted = (
            self._host.may_vote()
            and not led
            and m.term > self.term
            and not self._is_behind(m.last_term, m.last_index)
        )
        self._host.send(peer, PreVoteAnswer(self.term, m.round, granted))

    def _on_pre_vote_answer(self, peer: str, m: PreVoteAnswer) -> None:
        if m.term > self.term:
            self.adopt(m.term)
        elif m.granted and m.round == self._pre_round and self._pre_votes and not self.is_leader:
            if self._hears_a_leader():
                return
            self._pre_votes.add(peer)
            self._count_pre_votes()

    def _on_vote_request(self, peer: str, m: VoteRequest) -> None:
        if not self._host.may_vote():
            return
        if m.term > self.term:
            self.adopt(m.term)
        can = m.term == self.term and self.voted_for in (None, peer) and not self.is_leader
        if not can or self._is_behind(m.last_term, m.last_index):
            self._host.send(peer, VoteAnswer(self.term, False))
            return
        if self.voted_for is None:
            self._SyncObj__setCurrentTerm(m.term, peer)
        self._postpone_election(self._clock.monotonic())
        answer = VoteAnswer(m.term, True)
        self._host.hold(lambda: self._send_late(peer, answer))

    def _on_vote_answer(self, peer: str, m: VoteAnswer) -> None:
        if m.term > self.term:
            self.adopt(m.term)
        elif m.granted and m.term == self.term and self.role == "candidate":
            self._count_vote(peer)

    def _send_late(self, peer: str, frame: Frame) -> None:
        self._host.send(peer, frame)

    # ------------------------------------------------------------ following

    def _on_ping(self, peer: str, m: Ping) -> None:
        accepted = m.term >= self.term
        if accepted:
            self.follow(peer, m.term)
        elif not self._guards.stale_leader_answered:
            return
        self._host.send(peer, Pong(self.term, m.sent_at_ms, self._clock.wall_ms(), accepted))

    def _on_append(self, peer: str, m: Append) -> None:
        if m.term < self.term:
            if self._guards.stale_leader_answered:
                self._host.send(peer, AppendAnswer(self.term, 0, False, False))
            return
        self.follow(peer, m.term)
        if self.installing:
            return
        journal = self._journal
        verdict = verify(journal, journal.commit_index, m.prev_index, m.prev_term, m.entries, self._guards)
        if not verdict.matches:
            self._host.send(peer, AppendAnswer(self.term, verdict.index, False, True))
            return
        if verdict.truncate_from is not None:
            journal.truncate_from(verdict.truncate_from)
        for term, data in verdict.entries:
            journal.append(term, data)
        answer = AppendAnswer(self.term, verdict.index + 1, True, False)
        verified = verdict.index if self._guards.commit_only_verified else journal.last_index
        self.commit_to(min(m.commit, verified))
        self._host.hold(lambda: self._send_late(peer, answer))

    def commit_to(self, index: int) -> None:
        """Everything up to `index` is committed."""
        if index > self._SyncObj__raftCommitIndex:
            self._SyncObj__raftCommitIndex = index
            self._journal.set_commit(index)

    # ------------------------------------------------------------ leading

    def _lead(self, now: float) -> None:
        if self.heartbeats.age_ms(self._clock.boot_ms()) > self._options.fallback_ms:
            self._resign("no majority answers")
            return
        if now < self._SyncObj__newAppendEntriesTime:
            return
        self._SyncObj__newAppendEntriesTime = now + self._options.heartbeat_ms / 1000
        ping = Ping(self.term, self._clock.boot_ms())
        for peer in self.peers:
            if not self.is_connected(peer):
                continue
            self._host.send(peer, ping)
            progress = self._progress[peer]
            progress.asked = False
            behind = self.match_index(peer) < self._journal.last_index
            if behind and not progress.probing and not progress.snapshot:
                self._send_empty(
                    peer, progress
                )  # shows whether it lost something, as it may while it loads a snapshot

    def _on_pong(self, peer: str, m: Pong) -> None:
        if m.term > self.term:
            self.adopt(m.term)
        elif m.accepted and m.term == self.term and self.is_leader:
            clock = self._clock
            self.heartbeats.answered(peer, m.sent_at_ms, m.wall_ms, clock.boot_ms(), clock.wall_ms())

    def append(self, data: bytes) -> int:
        """The leader's next entry."""
        if self._guards.entries_below_batch and len(data) > self._options.append_max_bytes:
            raise RuntimeError(f"an entry of {len(data)} bytes does not fit a message")
        return self._journal.append(self.term, data)

    def replicate(self, more_soon: bool) -> None:
        """Sends every follower what it lacks. `more_soon`: another entry is about to follow and can carry the commit
        index, so that it needs no message of its own."""
        for peer in self.peers:
            if self.is_connected(peer):
                self._replicate(peer, self._progress[peer], more_soon)

    def _replicate(self, peer: str, progress: Progress, more_soon: bool) -> None:
        if progress.snapshot or (progress.probing and progress.asked):
            return
        journal, options, node = self._journal, self._options, self._nodes[peer]
        limit = _PROBE_BYTES if progress.probing else options.append_max_bytes
        while (start := self._SyncObj__raftNextIndex[node]) <= journal.last_index or progress.probing:
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
            if not self._host.send(peer, Append(self.term, start - 1, prev_term, commit, sent)):
                return
            progress.told_commit = commit
            if progress.probing:
                progress.asked = True
                return
            self._SyncObj__raftNextIndex[node] = entries[-1].index + 1
            progress.sent(entries[-1].index, sum(len(data) for _, data in sent))
        if progress.told_commit < journal.commit_index and not more_soon:
            self._send_empty(peer, progress)

    def _send_empty(self, peer: str, progress: Progress) -> None:
        prev_index = self._SyncObj__raftNextIndex[self._nodes[peer]] - 1
        prev_term = self._journal.term(prev_index)
        if prev_term is not None:
            progress.told_commit = self._journal.commit_index
            self._host.send(peer, Append(self.term, prev_index, prev_term, progress.told_commit, []))

    def takes_snapshot(self, peer: str) -> bool:
        """A snapshot is being prepared for or sent to this follower."""
        return self._progress[peer].snapshot

    def snapshot_failed(self, peer: str) -> None:
        """The transfer was given up; it starts again when the follower still needs it."""
        self._progress[peer].snapshot = False

    def _on_append_answer(self, peer: str, m: AppendAnswer) -> None:
        if m.term > self.term:
            self.adopt(m.term)
            return
        if not self.is_leader or (m.term < self.term and self._guards.answers_carry_term):
            return
        node, progress = self._nodes[peer], self._progress[peer]
        match, following = self._SyncObj__raftMatchIndex, self._SyncObj__raftNextIndex
        if m.success:
            if m.next_index - 1 > match[node] or m.next_index >= self._journal.first_index:
                progress.snapshot = False  # it got further, or can go on with entries
            match[node] = max(match[node], m.next_index - 1)
            following[node] = max(following[node], m.next_index)
            progress.acknowledged(match[node])
            self._advance_commit()
        elif m.reset and (m.next_index > match[node] or not self._guards.next_index_above_match):
            following[node] = max(1, progress.probe(m.next_index, self._guards))

    def _advance_commit(self) -> None:
        journal = self._journal
        own = journal.durable_index if self._guards.count_self_when_durable else journal.last_index
        held = sorted([own, *self._SyncObj__raftMatchIndex.values()], reverse=True)
        index = held[self.majority - 1]
        if index > self._SyncObj__raftCommitIndex and journal.term(index) == self.term:
            self.commit_to(index)

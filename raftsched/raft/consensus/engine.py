"""Drives consensus: elections and following. Leading is in leadership.py, the state in library.py.

Calls come in (`receive`, `tick`, `connected`...), and everything that goes out goes to the Host: no sockets, no
threads, no clock but the injected one. The rules are those of Ongaro, "Consensus: Bridging Theory and Practice" (2014),
chapters 3 and 9.6 (pre-vote).
"""

from __future__ import annotations

import logging
import random

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
from raftsched.raft.consensus.journal import Journal
from raftsched.raft.consensus.leadership import LeaderReplication
from raftsched.raft.consensus.library import CANDIDATE, FOLLOWER, LEADER, ROLES, GuardedSyncObj
from raftsched.raft.consensus.replication import verify
from raftsched.raft.guards import Guards
from raftsched.raft.measures import Measures
from raftsched.raft.membership.configuration import Membership
from raftsched.raft.options import RaftOptions
from raftsched.raft.ports import EngineHost
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)


class Engine:
    """One member's part in consensus."""

    def __init__(
        self,
        membership: Membership,
        host: EngineHost,
        journal: Journal,
        hard_state: tuple[int, str | None],
        clock: Clock,
        rng: random.Random,
        options: RaftOptions,
        guards: Guards,
    ) -> None:
        self.node_id = membership.node_id
        self.membership = membership
        self.measures = Measures()
        self.installing = False  # a snapshot is being loaded: appends are not looked at
        self._host = host
        self._journal = journal
        self._clock = clock
        self._rng = rng
        self._options = options
        self._guards = guards
        self._votes: set[str] = set()
        self._pre_votes: set[str] = set()
        self._pre_round = 0
        self._heard_at = float("-inf")  # monotonic seconds: the last word of a leader
        # To elect a leader, since this node started or its leader's connection ended, and one more; 0: neither, or a
        # leader was heard since.
        self._tries = 1
        self._core = GuardedSyncObj(self.node_id, self.peers, journal, hard_state, rng, options, self._on_tick)
        self._lead = LeaderReplication(self._core, membership, host, journal, clock, options, guards, self.measures)
        self.heartbeats = self._lead.heartbeats
        self._postpone_election(clock.monotonic())
        if membership.is_majority([self.node_id]):
            self._core.deadline = clock.monotonic()  # there is nobody whose leader it could hear of

    # ------------------------------------------------------------ state

    @property
    def peers(self) -> list[str]:
        """The other members, including those that still catch up."""
        return self.membership.peers

    @property
    def term(self) -> int:
        return self._core.term

    @property
    def is_leader(self) -> bool:
        return self._core.role == LEADER

    @property
    def role(self) -> str:
        """follower, candidate or leader."""
        return ROLES[self._core.role]

    @property
    def leader_id(self) -> str | None:
        return self._core.leader

    @property
    def voted_for(self) -> str | None:
        return self._core.voted_for

    @property
    def opening_index(self) -> int:
        """Index of the entry that opened this node's newest leadership."""
        return self._lead.opening_index

    def uncommitted_s(self) -> float:
        """Returns how long the oldest entry has waited for its commit that this node made as the leader."""
        return self._lead.uncommitted_s() if self.is_leader else 0.0

    def is_connected(self, peer: str) -> bool:
        return self._core.is_connected(peer)

    def match_index(self, peer: str) -> int:
        return self._core.match_index(peer)

    def next_index(self, peer: str) -> int:
        return self._core.next_index(peer)

    def takes_snapshot(self, peer: str) -> bool:
        """Leader: returns whether a snapshot is being prepared for or sent to this follower."""
        return self._lead.takes_snapshot(peer)

    def snapshot_failed(self, peer: str) -> None:
        """Leader: gives up the transfer; it starts again when the follower still needs it."""
        self._lead.snapshot_failed(peer)

    # ------------------------------------------------------------ input

    @property
    def due_at(self) -> float:
        """Monotonic seconds: when the next heartbeat, or the next election, is due."""
        return self._lead.beat_at if self.is_leader else self._core.deadline

    def tick(self) -> None:
        """Runs the timers that are due."""
        self._core.doTick(0.0)

    def _on_tick(self) -> None:
        now = self._clock.monotonic()
        if self.is_leader:
            if self._guards.lonely_leader_resigns and self._lead.has_lost_majority():
                self._resign("no majority answers")
                self._postpone_election(now)  # nobody is there to be let pass, and it may be the only one to be elected
            elif not self.membership.may_lead:
                self._resign("it is no voting member any more")
            else:
                self._lead.beat(now)
        elif now >= self._core.deadline:
            self._core.leader = None  # not heard of for so long; a follower that is cut off must not pass for one
            self._postpone_next_try(now)
            if not self._may_campaign():
                return
            self._tries += self._tries > 0
            if self._guards.pre_vote:
                self._ask_pre_votes()
            else:
                self.campaign()

    def _may_campaign(self) -> bool:
        return self._host.may_vote() and self.membership.may_lead and not self.installing

    def forget(self, peer: str) -> None:
        """Forgets votes and progress of a node that is no member any more, or has another disk."""
        self._votes.discard(peer)
        self._pre_votes.discard(peer)
        self._core.forget(peer)
        self._lead.forget(peer)

    def connected(self, peer: str) -> None:
        """Takes note of a new connection: anything in flight on an older one is lost."""
        self._core.set_connected(peer, True)
        self._lead.connection_changed(peer)
        if self.is_leader:
            self._host.send(peer, Ping(self.term, self._clock.boot_ms(), self._host.log_ms()))
        else:
            self.try_soon()

    def try_soon(self) -> None:
        """Makes an election due soon where this node looks for a leader: with a new connection, or with its own vote,
        there may be a majority. A leader shows itself as soon as it is connected, and those that hear one refuse."""
        if self._tries and self.leader_id is None and not self.is_leader:
            self._expect_election(0, self._options.election_lost_min_ms)

    def disconnected(self, peer: str) -> None:
        self._core.set_connected(peer, False)
        self._lead.connection_changed(peer)
        if peer == self.leader_id:
            self._tries = 1
            self._expect_election(self._options.election_lost_min_ms, self._options.election_lost_max_ms)

    def append(self, data: bytes) -> int:
        """Leader: appends the next entry; returns its index."""
        return self._lead.append(data)

    def replicate(self, more_soon: bool) -> None:
        """Sends every follower the entries it lacks. `more_soon`: another entry is about to follow and can carry the
        commit index, so that the commit index needs no message of its own."""
        if self.is_leader:
            self._lead.replicate(more_soon)

    def is_told_all(self, peer: str) -> bool:
        """Returns whether this node leads and has nothing to send to this voter now."""
        return self.is_leader and self._lead.is_told_all(peer)

    @property
    def entry_bytes(self) -> int:
        """Leader: the largest size of an entry that the connections can carry."""
        return self._lead.entry_bytes()

    def commit_to(self, index: int) -> None:
        """Follower: commits everything up to `index`."""
        self._core.commit_to(index)

    def receive(self, peer: str, frame: Frame) -> None:
        """Handles a member's message that came over its newest connection."""
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
                if frame.term == self.term and peer == self.leader_id and self._may_campaign():
                    self.campaign()
            case _:
                raise RuntimeError(f"not a message for the engine: {type(frame).__name__}")

    def write_done(self) -> None:
        """A write batch is durable: the leader may count itself further."""
        self._core.applied()
        if self.is_leader:
            self._lead.advance_commit()

    def installed(self, leader: str) -> None:
        """A snapshot was loaded: tells its sender to go on behind it."""
        self.installing = False
        self._core.loaded()
        self._host.send(leader, AppendAnswer(self.term, self._journal.applied_index + 1, True, False))

    # ------------------------------------------------------------ terms and roles

    def adopt(self, term: int) -> None:
        """Follows in a newer term that was seen, whoever leads it."""
        if self.is_leader:
            self._postpone_election(self._clock.monotonic())
        if self._guards.newer_term_adopted:
            self._core.set_term(term, None)
        self._core.role = FOLLOWER
        self._core.leader = None

    def follow(self, peer: str, term: int) -> None:
        """Follows `peer`, the leader of `term`, which is not older than ours."""
        if term > self.term:
            self.adopt(term)
        elif self.is_leader:
            raise RuntimeError(f"two leaders in term {term}: {self.node_id} and {peer}")
        now = self._clock.monotonic()
        self._heard_at = now
        self._tries = 0
        self._postpone_election(now)
        self._core.role = FOLLOWER
        self._core.leader = peer

    def step_down(self) -> None:
        """Hands over to the follower that has everything, if there is one."""
        if not self.is_leader:
            return
        ready = [p for p in self.peers if self.has_everything(p)]
        if ready:
            self.hand_over(ready[0])
        self._resign("asked to")

    def has_everything(self, peer: str) -> bool:
        """Leader: returns whether the peer is a connected voter that has each entry of the log."""
        counts = peer in self.membership.voters and self.is_connected(peer)
        return counts and self.match_index(peer) == self._journal.last_index

    def caught_up(self, peer: str) -> bool:
        """Leader: returns whether a member without a vote is near enough to the end of the log to get one."""
        return self._lead.caught_up(peer, self._clock.monotonic())

    def hand_over(self, peer: str) -> None:
        """Leader: asks `peer` to campaign at once. This node leads on until it hears of the newer term."""
        self._host.send(peer, TimeoutNow(self.term))

    def _resign(self, why: str) -> None:
        log.info("%s steps down from leading term %d: %s", self.node_id, self.term, why, extra={"term": self.term})
        self._core.role = FOLLOWER
        self._core.leader = None
        self._postpone_election(self._clock.monotonic() + self._options.election_max_ms / 1000)

    def _postpone_election(self, now: float) -> None:
        self._core.deadline = now + self._core.election_timeout()

    def _postpone_next_try(self, now: float) -> None:
        """Sets when to try again if this election comes to nothing, because two candidates stood at once or a voter is
        not connected yet. After a start, or the end of the leader's connection, the first pauses are short; each is
        twice as long as the one before, up to the usual timeout."""
        timeout = self._core.election_timeout()
        if self._tries:
            options = self._options
            soon = self._rng.uniform(options.election_lost_min_ms, options.election_lost_max_ms) / 1000
            timeout = min(timeout, soon * 2 ** min(self._tries - 1, 10))
        self._core.deadline = now + timeout

    def _expect_election(self, least_ms: int, most_ms: int) -> None:
        """Makes an election due soon: the leader's connection ended, most likely with its process. The leader's last
        heartbeat holds no pre-vote back any more. A connection that was merely reset is back before the election, and
        with it the leader's heartbeats; peers that still hear the leader refuse their pre-votes."""
        self._heard_at = float("-inf")
        pause = self._rng.uniform(least_ms, most_ms) / 1000
        self._core.deadline = min(self._core.deadline, self._clock.monotonic() + pause)

    # ------------------------------------------------------------ elections

    def _ask_pre_votes(self) -> None:
        self._pre_round += 1
        self._pre_votes = {self.node_id}
        request = PreVoteRequest(self.term + 1, self._journal.last_index, self._journal.last_term, self._pre_round)
        for peer in self.peers:
            self._host.send(peer, request)
        self._count_pre_votes()

    def _count_pre_votes(self) -> None:
        if self.membership.is_majority(self._pre_votes):
            self._pre_votes = set()
            self.campaign()

    def campaign(self) -> None:
        """Begins a new term, with a vote for oneself that is durable before anybody hears of it."""
        if not self._may_campaign() and self._guards.wiped_disk_refused:
            return
        self._postpone_next_try(self._clock.monotonic())
        self.measures.elections += 1
        self._core.leader = None
        self._core.role = CANDIDATE
        self._core.set_term(self.term + 1, self.node_id)
        self._votes = set()
        term = self.term
        self._host.hold(lambda: self._ask_votes(term))

    def _ask_votes(self, term: int) -> None:
        if term != self.term or self._core.role != CANDIDATE:
            return
        request = VoteRequest(term, self._journal.last_index, self._journal.last_term)
        for peer in self.peers:
            self._host.send(peer, request)
        self._count_vote(self.node_id)

    def _count_vote(self, voter: str) -> None:
        self._votes.add(voter)
        if self.membership.is_majority(self._votes):
            self._become_leader()

    def _become_leader(self) -> None:
        self._tries = 0
        self.measures.won += 1
        self._core.role = LEADER
        self._core.leader = self.node_id
        self._lead.begin()
        log.info("%s leads term %d", self.node_id, self.term, extra={"term": self.term})

    def _is_behind(self, last_term: int, last_index: int) -> bool:
        behind = (last_term, last_index) < (self._journal.last_term, self._journal.last_index)
        return behind and self._guards.candidate_log_compared

    def _hears_a_leader(self) -> bool:
        """Returns whether a leader was heard lately, so that there is nothing to elect. The time is two heartbeats
        shorter than the shortest election timeout, so that the followers of a leader that is gone agree on it."""
        silence = self._clock.monotonic() - self._heard_at
        return silence < (self._options.election_min_ms - 2 * self._options.heartbeat_ms) / 1000

    def _on_pre_vote_request(self, peer: str, m: PreVoteRequest) -> None:
        led = (self.is_leader or self._hears_a_leader()) and self._guards.leader_heard_first
        behind = self._is_behind(m.last_term, m.last_index)
        granted = self._host.may_vote() and not led and not behind and m.term > self.term
        self._host.send(peer, PreVoteAnswer(self.term, m.round, granted))
        if granted:
            self._give_way(peer, m)

    def _give_way(self, peer: str, m: PreVoteRequest) -> None:
        """Lets `peer` campaign first: two candidates at the same time may both fail. Of those that ask for pre-votes at
        the same time the one with the longer log goes on, and of equal ones the one with the higher id."""
        own = (self._journal.last_term, self._journal.last_index)
        if self._pre_votes and ((m.last_term, m.last_index), peer) < (own, self.node_id):
            return
        self._pre_votes = set()
        pause = self._options.election_lost_min_ms / 1000
        self._core.deadline = max(self._core.deadline, self._clock.monotonic() + pause)

    def _on_pre_vote_answer(self, peer: str, m: PreVoteAnswer) -> None:
        asking = m.round == self._pre_round and bool(self._pre_votes) and not self.is_leader
        if m.term > self.term:
            self.adopt(m.term)
            if asking and self._may_campaign():
                self._ask_pre_votes()  # its log may be the newest of all: the others' newer term must not cost it time
        elif m.granted and asking and not self._hears_a_leader():
            self._pre_votes.add(peer)
            self._count_pre_votes()

    def _on_vote_request(self, peer: str, m: VoteRequest) -> None:
        if not self._host.may_vote():
            return
        if m.term > self.term:
            self.adopt(m.term)
        free = self.voted_for in (None, peer) or not self._guards.one_vote_per_term
        can = m.term == self.term and free and not self.is_leader
        if not can or self._is_behind(m.last_term, m.last_index):
            self._host.send(peer, VoteAnswer(self.term, False))
            return
        if self.voted_for is None:
            self._core.set_term(m.term, peer)
        self._pre_votes = set()
        self._postpone_election(self._clock.monotonic())
        answer = VoteAnswer(m.term, True)
        self._host.hold(lambda: self._send_late(peer, answer))

    def _on_vote_answer(self, peer: str, m: VoteAnswer) -> None:
        of_this_term = m.term == self.term or not self._guards.votes_carry_term
        if m.term > self.term:
            self.adopt(m.term)
        elif m.granted and of_this_term and self._core.role == CANDIDATE:
            self._count_vote(peer)

    def _send_late(self, peer: str, answer: AppendAnswer | VoteAnswer) -> None:
        """Sends an answer once it is durable, unless a leader of a newer term has taken over meanwhile."""
        if answer.term == self.term:
            self._host.send(peer, answer)

    # ------------------------------------------------------------ following

    def _on_ping(self, peer: str, m: Ping) -> None:
        accepted = m.term >= self.term or not self._guards.older_terms_refused
        if accepted:
            self.follow(peer, m.term)
            if m.log_ms:
                self._host.heard_log_ms(m.log_ms)
        elif not self._guards.stale_leader_answered:
            return
        self._host.send(peer, Pong(self.term, m.sent_at_ms, self._clock.wall_ms(), accepted))

    def _on_append(self, peer: str, m: Append) -> None:
        if m.term < self.term and self._guards.older_terms_refused:
            if self._guards.stale_leader_answered:
                self._host.send(peer, AppendAnswer(self.term, 0, False, False))
            return
        self.follow(peer, m.term)
        if self.installing and self._guards.install_holds_appends:
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
        verified = verdict.index if self._guards.commit_only_verified else journal.last_index
        self.commit_to(min(m.commit, verified))
        if m.wants_answer:
            answer = AppendAnswer(self.term, verdict.index + 1, True, False)
            self._host.hold(lambda: self._send_late(peer, answer))

    # ------------------------------------------------------------ leading: see leadership.py

    def _on_append_answer(self, peer: str, m: AppendAnswer) -> None:
        if m.term > self.term:
            self.adopt(m.term)
        elif self.is_leader and (m.term == self.term or not self._guards.answers_carry_term):
            self._lead.answered(peer, m)

    def _on_pong(self, peer: str, m: Pong) -> None:
        if m.term > self.term:
            self.adopt(m.term)
        elif m.accepted and m.term == self.term and self.is_leader:
            now_ms = self._clock.boot_ms()
            self.heartbeats.answered(peer, m.sent_at_ms, m.wall_ms, now_ms, self._clock.wall_ms())
            self._lead.measured(peer, now_ms - m.sent_at_ms)

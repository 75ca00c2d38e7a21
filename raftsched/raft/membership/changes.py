"""Does the leader's part in changing the members and in handing leadership over.

One change at a time: the next begins when the last one is applied here, and none before the leadership's own opening
entry is (Ongaro's note of July 2015 on single-server changes: a leader that changes members before it has committed an
entry of its term can lose a committed one). A new or replaced member gets everything without a vote first and becomes a
voter by itself when it is nearly up to date.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from raftsched.core.subjects.cluster import Member
from raftsched.errors import RaftschedError
from raftsched.raft.codec import Answered, ChangeMembers, TransferLeadership
from raftsched.raft.consensus.engine import Engine
from raftsched.raft.guards import Guards
from raftsched.raft.membership.configuration import Members, added, find, promoted, removed
from raftsched.raft.membership.moves import moved
from raftsched.raft.options import RaftOptions
from raftsched.raft.ports import ChangesHost
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)

ANSWERS_MAX = 256  # requests that wait for the change under way


@dataclass(slots=True)
class _Transfer:
    to: str
    deadline: float  # monotonic seconds
    campaign_sent: bool = False  # TimeoutNow was sent
    waiting: list[tuple[str, int]] = field(default_factory=list)  # (peer, request)


class Changes:
    """Changes of the members and of leadership while this node leads. `lost` forgets all requests: they go to the next
    leader."""

    def __init__(self, host: ChangesHost, engine: Engine, clock: Clock, options: RaftOptions, guards: Guards) -> None:
        self._host = host
        self._engine = engine
        self._membership = engine.membership
        self._clock = clock
        self._options = options
        self._guards = guards
        self._waiting: list[tuple[str, int, Callable[[Members], bool]]] = []
        self._transfer: _Transfer | None = None

    # ------------------------------------------------------------ members

    def change(self, peer: str, m: ChangeMembers) -> None:
        """Handles a request of `peer`, which may be this node."""
        try:
            reached = self._change(m)
        except RaftschedError as error:
            self._answer(peer, m.request, error.code, error.detail)
            return
        if reached(self._membership.applied) and not self._membership.pending:
            self._answer(peer, m.request)
            return
        if len(self._waiting) >= ANSWERS_MAX:
            self._answer(peer, m.request, "overloaded", "Too many requests are waiting; try again shortly.")
            return
        self._waiting = [w for w in self._waiting if w[:2] != (peer, m.request)]
        self._waiting.append((peer, m.request, reached))

    def _change(self, m: ChangeMembers) -> Callable[[Members], bool]:
        """Begins the change unless it is done or under way; returns the test of whether it is done. Raises
        RaftschedError."""
        current = self._membership.current
        member, node = find(current, m.node), m.node
        if m.change == "remove":
            if member is not None:
                self._remove(member)
            return lambda members: find(members, node) is None
        request = self._host.join_request(node)
        if request is not None and m.store_id and request.store_id != m.store_id:
            request = None
        if member is not None and request is not None and request.store_id == member.store_id:
            disk = member.store_id  # it was let in just now, and is not connected yet
            return lambda members: (now := find(members, node)) is not None and now.store_id == disk
        if m.change == "add" and member is not None and request is not None:
            raise RaftschedError("not-possible", f"{node} is a member with another disk; replace it instead.")
        if m.change == "replace" and member is None:
            raise RaftschedError("no-such-member", f"{node} is not a member; add it instead.")
        if request is None:
            known = member is not None and m.store_id in (b"", member.store_id)
            if not known or (m.change == "replace" and not self._is_present(node)):
                raise RaftschedError(
                    "not-waiting",
                    f"No node {node!r} asks the leader ({self._engine.node_id}) to be let in; start it with an empty "
                    "data directory, --join and the members' addresses in --peers, and wait a moment.",
                )
            return lambda members: find(members, node) is not None
        store_id = request.store_id
        self._check_free(node)
        if member is not None and node != self._engine.node_id and self._is_present(node):
            raise RaftschedError("not-possible", f"{node} is connected with the disk it has; stop that one first.")
        if node == self._engine.node_id:
            raise RaftschedError("not-possible", f"{node} leads the cluster with the disk it has.")
        self._begin(added(current, request), f"{m.change} {node}")
        return lambda members: (now := find(members, node)) is not None and now.store_id == store_id

    def _is_present(self, node: str) -> bool:
        """Returns whether the node is this one, or a member connected with the disk that the configuration names."""
        return node == self._engine.node_id or (self._engine.is_connected(node) and self._host.counts(node))

    def _remove(self, member: Member) -> None:
        node = member.node
        self._check_free(node)
        members = removed(self._membership.current, node)
        if node == self._engine.node_id:
            to = self._best()
            if to is None:
                raise RaftschedError("not-possible", f"{node} leads, and nobody else can at the moment.")
            self._hand_over(to)
            raise RaftschedError("moved")
        self._begin(members, f"remove {node}")

    def _check_free(self, leaving: str | None) -> None:
        """Raises RaftschedError unless a change may begin; with the code "moved" for a reason that passes in a moment,
        so that the request is sent again. A member that still catches up may always leave or get another disk."""
        if self._membership.pending and self._guards.one_change_at_a_time:
            raise RaftschedError("moved", "Another change of the members is not committed yet; try again shortly.")
        if not self._host.leading and self._guards.change_after_own_commit:
            raise RaftschedError("moved", "The leader has only just been elected; try again shortly.")
        learner = next((m.node for m in self._membership.current if not m.voter), None)
        if learner is not None and learner != leaving and self._guards.one_change_at_a_time:
            raise RaftschedError("membership-busy", f"{learner} is still catching up; wait for it, or remove it.")

    def _begin(self, members: Members, what: str) -> None:
        voters = [m.node for m in members if m.voter]
        there = [v for v in voters if self._is_present(v)]
        if len(there) < len(voters) // 2 + 1 and self._guards.majority_stays_connected:
            raise RaftschedError(
                "not-possible",
                f"Of the voting members {', '.join(voters)} that would be left only {len(there)} are connected; start "
                "the others first.",
            )
        log.info("members: %s", what)
        self._host.configure(members)

    def applied(self) -> None:
        """Entries were applied: answers the requests that are done now."""
        if not self._waiting or self._membership.pending:
            return
        for item in list(self._waiting):
            peer, request, reached = item
            if reached(self._membership.applied):
                self._waiting.remove(item)
                self._answer(peer, request)

    def tick(self) -> None:
        """Gives the vote to a member that has caught up; notes where members that moved are; watches the transfer."""
        now = self._clock.monotonic()
        transfer = self._transfer
        if transfer is not None and now >= transfer.deadline:
            self._transfer = None
            for peer, request in transfer.waiting:
                self._answer(peer, request, "not-possible", f"{transfer.to} did not take over in time.")
        guards = self._guards
        if self._membership.pending and guards.one_change_at_a_time:
            return
        if not self._host.leading and guards.change_after_own_commit:
            return
        for member in self._membership.current:
            if not member.voter and self._engine.caught_up(member.node):
                log.info("members: %s has caught up and votes from now on", member.node, extra={"peer": member.node})
                self._host.configure(promoted(self._membership.current, member.node))
                return
        members = moved(self._membership.current, self._host.present())
        if members is not None:
            for old, new in zip(self._membership.current, members, strict=True):
                if old != new:
                    log.info("members: %s is at %s now, no more at %s", new.node, new.raft, old.raft)
            self._host.configure(members)

    # ------------------------------------------------------------ leadership

    @property
    def handing_over(self) -> bool:
        """Returns whether nothing new is appended for now, because the next leader has to have everything."""
        return self._transfer is not None

    def transfer(self, peer: str, m: TransferLeadership) -> None:
        """Handles a request of `peer`, which may be this node."""
        engine = self._engine
        if m.to == engine.node_id or (not m.to and engine.term > m.term):
            self._answer(peer, m.request)
            return
        to = m.to or self._best() or ""
        if to not in self._membership.voters or not engine.is_connected(to):
            reason = f"{to} is not a connected voting member." if to else "No other voting member is connected."
            self._answer(peer, m.request, "not-possible", reason)
            return
        self._hand_over(to)
        assert self._transfer is not None
        if (peer, m.request) not in self._transfer.waiting and len(self._transfer.waiting) < ANSWERS_MAX:
            self._transfer.waiting.append((peer, m.request))

    def _best(self) -> str | None:
        """Returns the connected voter that has most of the log."""
        engine = self._engine
        others = [v for v in self._membership.voters if v != engine.node_id and engine.is_connected(v)]
        return max(others, key=engine.match_index, default=None)

    def _hand_over(self, to: str) -> None:
        if self._transfer is None:
            log.info("%s hands leadership over to %s", self._engine.node_id, to, extra={"peer": to})
            self._transfer = _Transfer(to, self._clock.monotonic() + self._options.election_max_ms / 1000)

    def pump(self) -> None:
        """Tells the next leader to campaign as soon as it has everything."""
        transfer = self._transfer
        if transfer is not None and not transfer.campaign_sent and self._engine.has_everything(transfer.to):
            transfer.campaign_sent = True
            self._engine.hand_over(transfer.to)

    # ------------------------------------------------------------ answers

    def _answer(self, peer: str, request: int, code: str = "", detail: str = "") -> None:
        self._host.answer(peer, Answered(request, code, detail))

    def lost(self) -> None:
        """Forgets all requests: this node leads no more."""
        self._waiting.clear()
        self._transfer = None

"""Follows this node's peers as members come and go: connections, join requests, requests to the leader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from raftsched.core.entry import encode_configuration
from raftsched.core.subjects.cluster import Member
from raftsched.raft.codec import Answered, ChangeMembers, Hello
from raftsched.raft.consensus.engine import Engine
from raftsched.raft.guards import Guards
from raftsched.raft.membership.changes import Changes
from raftsched.raft.membership.configuration import Members, find
from raftsched.raft.membership.formation import Formation
from raftsched.raft.membership.join_requests import JoinRequests
from raftsched.raft.membership.requests import Done, Request, Requests
from raftsched.raft.options import RaftOptions
from raftsched.raft.ports import Links
from raftsched.raft.timestamps import Timestamps
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)


class PeerSet:
    """The connected peers of this node. `is_leading`: this node leads and has applied its opening entry. `origin` is a
    random number of this life of the node. `drop` ends the connection with a peer."""

    def __init__(
        self,
        engine: Engine,
        formation: Formation,
        links: Links,
        timestamps: Timestamps,
        clock: Clock,
        options: RaftOptions,
        guards: Guards,
        *,
        origin: int,
        is_leading: Callable[[], bool],
        drop: Callable[[str], None],
    ) -> None:
        self.changes = Changes(self, engine, clock, options, guards)
        self.requests = Requests(origin)
        self.join_requests = JoinRequests(clock)
        self._engine = engine
        self._membership = engine.membership
        self._formation = formation
        self._links = links
        self._timestamps = timestamps
        self._clock = clock
        self._guards = guards
        self._is_leading = is_leading
        self._drop = drop
        self._peers: dict[str, Hello] = {}  # connected now
        self._news = False  # of members that are elsewhere: the others are to be told
        self._has_non_members = False  # a peer is connected that is no member, or whose removal is not committed
        self._seen = self._membership.current
        formation.leaving = self._is_leaving
        formation.settled = lambda: self._membership.applied_at
        formation.follow(self._seen, self._membership.index)
        self._membership.subscribe(self._reconfigured)

    # ------------------------------------------------------------ connections

    def connected(self, hello: Hello) -> None:
        self._peers[hello.node] = hello
        self._has_non_members = self._has_non_members or not self._is_in(self._membership.current, hello)
        if not self._asks_to_join(hello):
            self.join_requests.let_in(hello.node)

    def _asks_to_join(self, hello: Hello) -> bool:
        """Remembers a join request of a peer that is connected though it is no member with that disk. Its configuration
        looks newer than ours, and may be one that came to nothing; while it is connected it does not ask again by
        itself."""
        asks = self._formation.may_join(hello) and not self._is_leaving(hello)
        if asks:
            self.join_requests.heard(hello)
        return asks

    def disconnected(self, peer: str) -> None:
        self._peers.pop(peer, None)

    def counts(self, peer: str) -> bool:
        """Returns whether a connected peer is a member with the disk that it has. One that is not may lead all the
        same: its configuration is newer than ours."""
        hello = self._peers.get(peer)
        known = hello is not None and self._is_in(self._membership.current, hello)
        return known or not self._guards.members_only_count

    def present(self) -> Iterator[tuple[str, str]]:
        formation, current = self._formation, self._membership.current
        if formation.is_member:
            yield formation.node_id, formation.moves.own
        for peer, hello in self._peers.items():
            if self._is_in(current, hello):
                yield peer, hello.raft

    def join_refused(self, hello: Hello) -> None:
        """Takes the hello of a refused node that proved to hold the cluster key."""
        if self._formation.may_join(hello):
            self.join_requests.heard(hello)
        elif self._formation.rolled_back(hello) is not None and self._formation.own_disk_rolled_back(hello) is None:
            self.join_requests.heard(hello, rolled_back=True)

    def lost_entries(self, peer: str, last: int, acknowledged: int) -> dict[str, bytes | None]:
        """Notes that a follower says it has entries up to `last`, though it had acknowledged more to this leader.
        Returns the own record to write."""
        hello = self._peers.get(peer)
        if hello is None:
            return {}
        log.error(
            "%s acknowledged entries up to %d and has them up to %d only",
            peer,
            acknowledged,
            last,
            extra={"peer": peer},
        )
        return self._formation.incarnations.mark_lost(hello)

    def drop_rolled_back(self) -> None:
        """Drops connected peers whose disk has lost entries, or runs another process than the one that counts: they are
        not let in any more, and their votes and acknowledgements count for nothing."""
        for peer, hello in list(self._peers.items()):
            if (why := self._formation.rolled_back(hello)) is not None:
                log.error("%s", why)
                self._drop(peer)
                self._engine.forget(peer)
                self._links.members_changed()

    def _reconfigured(self) -> None:
        """Follows another configuration: in the midst of an append or a truncation, so that only data change here."""
        before, self._seen = self._seen, self._membership.current
        self._formation.follow(self._seen, self._membership.index)
        for old in before:
            new = self._membership.member(old.node)
            other = new is None or old.store_id not in (b"", new.store_id)
            if other and old.node != self._engine.node_id and self._guards.replaced_disk_forgotten:
                self._engine.forget(old.node)
        self._news = self._formation.hears_again() or self._news
        self._drop_non_members()
        self._links.members_changed()

    def _drop_non_members(self) -> None:
        """Drops connected peers that are no members. A member that is being removed stays connected until the removal
        is committed: the removal may have been its own request."""
        self._has_non_members = False
        for peer, hello in list(self._peers.items()):
            if self._is_in(self._membership.current, hello) or not self._formation.is_member:
                continue
            removed = self._membership.member(hello.node) is None
            if self._is_leaving(hello) or self._formation.has_newer_configuration(hello):
                self._has_non_members = True
            else:
                self._drop(peer)
                if removed and self._guards.replaced_disk_forgotten:
                    self._engine.forget(peer)

    def _is_leaving(self, hello: Hello) -> bool:
        """Returns whether the peer was removed by a configuration that is not committed, as far as this node knows."""
        membership = self._membership
        removed = membership.member(hello.node) is None
        return removed and membership.pending and self._is_in(membership.applied, hello)

    def _is_in(self, members: Members, hello: Hello) -> bool:
        member = find(members, hello.node)
        return member is not None and member.store_id in (b"", hello.store_id)

    def take_news(self) -> bool:
        """Returns whether a configuration made known where members are, once each time."""
        news, self._news = self._news, False
        return news

    def applied(self) -> None:
        """Entries were applied."""
        self.changes.applied()
        if self._has_non_members and not self._membership.pending:
            self._drop_non_members()
            self._links.members_changed()

    # ------------------------------------------------------------ changes: what they need of the node

    @property
    def leading(self) -> bool:
        return self._is_leading()

    def configure(self, members: Members) -> None:
        """Leader: appends the next configuration."""
        self._engine.append(encode_configuration(self._timestamps.now_ms(), members))
        self._links.wake()

    def join_request(self, node: str) -> Member | None:
        return self.join_requests.member(node)

    def answer(self, peer: str, frame: Answered) -> None:
        if peer == self._engine.node_id:
            self.answered(frame)
        else:
            self._links.send(peer, frame)

    # ------------------------------------------------------------ requests

    def request(self, frame: Request, timeout: float, done: Done) -> None:
        """Asks the leader; `timeout` in seconds. Raises Overloaded."""
        self.requests.add(frame, self._clock.monotonic() + timeout, done)
        self._links.wake()

    def forward(self, leader: str) -> None:
        """Sends the requests that are due to the leader, which may be this node."""
        for frame in self.requests.due(self._clock.monotonic()):
            if leader == self._engine.node_id:
                self.asked(leader, frame)
            else:
                self._links.send(leader, frame)

    def asked(self, peer: str, m: Request) -> None:
        if not self._engine.is_leader:
            return
        if isinstance(m, ChangeMembers):
            self.changes.change(peer, m)
        else:
            self.changes.transfer(peer, m)
        self._links.wake()

    def answered(self, frame: Answered) -> None:
        self.requests.answered(frame, self._clock.monotonic())

    def tick(self) -> None:
        self.requests.expire(self._clock.monotonic())
        self.drop_rolled_back()
        for hello in self._peers.values():
            self._asks_to_join(hello)
        if self._engine.is_leader:
            self.changes.tick()

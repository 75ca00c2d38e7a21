"""Assigns ready instances to nodes. Which nodes may be assigned runs is decided here, which one gets a run in the
dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from raftsched.core.commands import Assign
from raftsched.core.model import Policy
from raftsched.leader.cluster import Cluster
from raftsched.leader.dispatcher import Dispatcher
from raftsched.leader.leases import Leases, may_assign
from raftsched.leader.pacing import Proposals
from raftsched.leader.placement import NodeLoad
from raftsched.leader.ports import Host
from raftsched.leader.vitals import Vitals


class Assigning:
    """The assignments of one leadership. Nodes are judged by the boot clock, which is read here."""

    def __init__(
        self,
        host: Host,
        cluster: Cluster,
        dispatcher: Dispatcher,
        leases: Leases,
        vitals: Vitals,
        proposals: Proposals,
        is_current: Callable[[], bool],
        since_ms: int,
    ) -> None:
        self._raft = host.raft
        self._clock = host.clock
        self._cluster = cluster
        self._dispatcher = dispatcher
        self._leases = leases
        self._vitals = vitals
        self._proposals = proposals
        self._is_current = is_current
        self._follower_seen_ms = since_ms
        self._boot_ms = since_ms  # as of the last look at the quorum

    def heard(self, node: str, boot_ms: int) -> None:
        """A node's heartbeat came with which it holds its lease."""
        if node in self._cluster.followers:
            self._follower_seen_ms = boot_ms

    def tick(self, now_ms: int) -> int | None:
        """Assigns what waits to who is free. Returns when a queue's rate lets the next of those that wait start."""
        self.assign()
        return None if self._cluster.paused else self._dispatcher.unblocked_at_ms

    def assign(self) -> None:
        """Proposes assignments for ready instances, if there may be any to make."""
        if self._cluster.paused or not self._dispatcher.backlog or not self._is_current() or not self.quorum_is_fresh():
            return
        commands = self._dispatcher.pump(self._is_assignable, self._clock.wall_ms())
        if commands:
            self._proposals.send(commands)

    def can_assign(self) -> bool:
        """Returns whether new instances may be assigned at once: they overtake nobody."""
        return self.quorum_is_fresh() and not self._dispatcher.backlog

    def place(self, starts: Iterable[tuple[bytes, Policy, str]], now_ms: int) -> list[Assign]:
        """Makes assignments for instances that are about to become ready (Dispatcher.place); call it after
        `can_assign`."""
        return self._dispatcher.place(starts, self._is_assignable, now_ms)

    def assignable_nodes(self) -> list[NodeLoad]:
        """Returns the loads of the nodes that may be assigned runs; call it after `quorum_is_fresh`."""
        return [n for n in self._dispatcher.loads().values() if self._is_assignable(n.session.id)]

    def quorum_is_fresh(self) -> bool:
        """Returns whether a majority has answered so lately that what is assigned now is started in time."""
        self._boot_ms = self._clock.boot_ms()
        sent = self._raft.quorum_sent_at_ms()
        ttl = self._leases.shortest_ttl_ms() or self._cluster.settings.session_ttl_ms
        return sent is not None and may_assign(self._boot_ms - sent, ttl)

    def _is_assignable(self, session: int) -> bool:
        """Returns whether a session may be assigned runs.

        Not that of a member that catches up: it would start runs late, and its disk and network have enough to do. Nor
        that of a node that was removed: its runs would be lost with its lease. Nor that of a node that says it can
        start nothing."""
        if session == self._dispatcher.own_session and not self._may_run_here():
            return False
        node = self._leases.node(session)
        if node not in self._cluster.voters or self._vitals.pauses(node, self._boot_ms):
            return False
        return self._leases.assignable(session, self._boot_ms)

    def _may_run_here(self) -> bool:
        """Returns whether the leader's own node may be assigned runs: when a follower is there to be preferred, or none
        has been for a TTL; not while the followers' sessions are only just being opened."""
        followers = self._cluster.followers
        return (
            not followers
            or self._leases.any_assignable(self._boot_ms, followers)
            or self._boot_ms - self._follower_seen_ms > self._cluster.settings.session_ttl_ms
        )

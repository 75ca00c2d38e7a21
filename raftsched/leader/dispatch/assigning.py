"""Assigns ready instances to nodes. Which nodes may be assigned runs is decided here, which one gets a run in the
dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from raftsched.core.commands import Assign
from raftsched.core.model import Policy
from raftsched.core.rules.executors import is_worker
from raftsched.leader.cluster_view import Cluster
from raftsched.leader.dispatch.dispatcher import Dispatcher
from raftsched.leader.dispatch.placement import NodeLoad
from raftsched.leader.liveness.leases import Leases, may_assign
from raftsched.leader.liveness.quiet import Quiet
from raftsched.leader.liveness.vitals import Vitals
from raftsched.leader.pacing import Proposals
from raftsched.leader.raft_port import Host


@dataclass(slots=True)
class Assigning:
    """The assignments of one leadership. Nodes are judged by the boot clock, which is read here."""

    host: Host
    cluster: Cluster
    dispatcher: Dispatcher
    leases: Leases
    vitals: Vitals
    quiet: Quiet
    proposals: Proposals
    is_current: Callable[[], bool]
    follower_seen_ms: int  # when a follower was last seen to hold its lease; at first, when the leadership began
    _boot_ms: int = 0  # as of the last look at the quorum
    _heard_over: dict[str, int | None] = field(default_factory=dict)  # node -> the connection of its newest heartbeat

    def heard(self, node: str, boot_ms: int) -> None:
        """A node's heartbeat came with which it holds its lease."""
        self._heard_over[node] = self.host.raft.connection(node)
        if node in self.cluster.followers:
            self.follower_seen_ms = boot_ms

    def tick(self, now_ms: int) -> int | None:
        """Assigns what waits to who is free. Returns when a queue's rate lets the next of those that wait start."""
        self.assign()
        return None if self.cluster.paused else self.dispatcher.unblocked_at_ms

    def assign(self) -> None:
        """Proposes assignments for ready instances, if there may be any to make."""
        if self.cluster.paused or not self.dispatcher.backlog or not self.is_current() or not self.quorum_is_fresh():
            return
        commands = self.dispatcher.pump(self._is_assignable, self.host.clock.wall_ms())
        if commands:
            self.proposals.send(commands)

    def can_assign(self) -> bool:
        """Returns whether new instances may be assigned at once: they overtake nobody."""
        return self.quorum_is_fresh() and not self.dispatcher.backlog

    def place(self, starts: Iterable[tuple[bytes, Policy, str]], now_ms: int) -> list[Assign]:
        """Makes assignments for instances that are about to become ready (Dispatcher.place); call it after
        `can_assign`."""
        return self.dispatcher.place(starts, self._is_assignable, now_ms)

    def assignable_nodes(self) -> list[NodeLoad]:
        """Returns the loads of the nodes that may be assigned runs; call it after `quorum_is_fresh`."""
        return [n for n in self.dispatcher.loads().values() if self._is_assignable(n.session.id)]

    def quorum_is_fresh(self) -> bool:
        """Returns whether a majority has answered so lately that what is assigned now is started in time."""
        self._boot_ms = self.host.clock.boot_ms()
        sent = self.host.raft.quorum_sent_at_ms()
        ttl = self.leases.shortest_ttl_ms() or self.cluster.settings.session_ttl_ms
        return sent is not None and may_assign(self._boot_ms - sent, ttl)

    def _is_assignable(self, session: int) -> bool:
        """Returns whether a session may be assigned runs.

        Not that of a member that catches up: it would start runs late, and its disk and network have enough to do. Nor
        that of a node that was removed: its runs would be lost with its lease. Nor that of a node that says it can
        start nothing. Nor one whose holder would not hear of it: a node that has not been heard of since its connection
        ended, a remote worker that has no poll open."""
        if session == self.dispatcher.own_session and not self._may_run_here():
            return False
        node = self.leases.node(session)
        if (
            node is None
            or not (is_worker(node) or node in self.cluster.voters)
            or self.vitals.pauses(node, self._boot_ms)
        ):
            return False
        if self.quiet.is_quiet(session) if is_worker(node) else self.is_cut_off(node):
            return False
        return self.leases.assignable(session, self._boot_ms)

    def is_cut_off(self, node: str) -> bool:
        """Returns whether the connection that a node was heard over last has ended."""
        return self._heard_over.get(node) != self.host.raft.connection(node)

    def _may_run_here(self) -> bool:
        """Returns whether the leader's own node may be assigned runs: when a follower is there to be preferred, or none
        has been for a TTL; not while the followers' sessions are only just being opened."""
        followers = self.cluster.followers
        return (
            not followers
            or self.leases.any_assignable(self._boot_ms, followers)
            or self._boot_ms - self.follower_seen_ms > self.cluster.settings.session_ttl_ms
        )

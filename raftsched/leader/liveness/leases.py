"""The leader's side of sessions and leases: which nodes may run jobs.

A session is declared over only when its worker's lease has run out for certain: not before over_at, the later of this
leadership's start and the session's opening, plus TTL and margin, moved on by each heartbeat that holds the lease. A
grant is counted from the newest round of heartbeats that a majority answered, by the time that round was SENT: a
leader that is cut off cannot extend anybody's lease. All times are boot-clock milliseconds, read when they are used.
The margin covers clocks slewed by up to 10 %: 2 rho TTL / (1 - rho) < TTL / 4.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from raftsched.core.rules.executors import is_worker
from raftsched.core.subjects.cluster import Session
from raftsched.core.subjects.leasing import KILL_BEFORE_MS


@dataclass(slots=True)
class Lease:
    session: int
    node: str
    ttl_ms: int
    over_at_ms: int  # boot clock
    holding: bool = False  # the last heartbeat held the lease
    heard_at_ms: int = 0
    declared: bool = False  # its end was proposed: nothing is granted any more

    @property
    def margin_ms(self) -> int:
        return self.ttl_ms // 4


class Leases:
    """The open sessions as one leadership sees them. `now_ms` is the boot clock everywhere."""

    def __init__(self, sessions: list[Session], now_ms: int) -> None:
        self._leases: dict[int, Lease] = {}
        for session in sessions:
            self.opened(session, now_ms)

    def opened(self, session: Session, now_ms: int) -> None:
        ttl = session.ttl_ms
        self._leases[session.id] = Lease(session.id, session.node, ttl, now_ms + ttl + ttl // 4)

    def ended(self, session: int) -> None:
        self._leases.pop(session, None)

    def heartbeat(self, session: int, node: str, holds: bool, quorum_ms: int | None, now_ms: int) -> int:
        """Returns how long to grant, in ms from the heartbeat's sending; 0 or less: nothing.

        `quorum_ms` is when the newest round that a majority answered was sent."""
        lease = self._leases.get(session)
        if lease is None or lease.node != node or lease.declared or quorum_ms is None:
            return 0
        grant = lease.ttl_ms - (now_ms - quorum_ms)
        if holds:
            lease.over_at_ms = max(lease.over_at_ms, now_ms + lease.ttl_ms + lease.margin_ms)
        else:
            grant = min(grant, lease.over_at_ms - lease.margin_ms - now_ms)
        lease.holding = holds
        lease.heard_at_ms = now_ms
        return grant

    def worker_heartbeat(self, session: int, quorum_ms: int | None, now_ms: int) -> int:
        """Returns how long to grant to a remote worker, in ms from when it sent its request; 0 or less: nothing. Which
        node passed the request on does not matter. A remote worker asks only while it holds its lease, which begins
        with its session."""
        worker = self.node(session)
        return (
            0 if worker is None or not is_worker(worker) else self.heartbeat(session, worker, True, quorum_ms, now_ms)
        )

    def assignable(self, session: int, now_ms: int) -> bool:
        """Returns whether a session was seen holding its lease lately: only such a one is assigned runs."""
        lease = self._leases.get(session)
        if lease is None or lease.declared or not lease.holding:
            return False
        return now_ms - lease.heard_at_ms < lease.ttl_ms // 2

    def any_assignable(self, now_ms: int, nodes: Set[str]) -> bool:
        """Returns whether a session of one of these nodes is assignable."""
        return any(lease.node in nodes and self.assignable(s, now_ms) for s, lease in self._leases.items())

    def node(self, session: int) -> str | None:
        """Returns the node of a session; None: it is not open."""
        lease = self._leases.get(session)
        return None if lease is None else lease.node

    def ttl_ms(self, session: int) -> int | None:
        """Returns the TTL of a session; None: it is not open."""
        lease = self._leases.get(session)
        return None if lease is None else lease.ttl_ms

    def over(self, now_ms: int) -> list[int]:
        """Returns the sessions to end now. From here on nothing is granted to them."""
        result = []
        for lease in self._leases.values():
            if now_ms >= lease.over_at_ms:
                lease.declared = True
                result.append(lease.session)
        return result

    def shortest_ttl_ms(self) -> int | None:
        return min((lease.ttl_ms for lease in self._leases.values()), default=None)


def may_assign(quorum_age_ms: int, ttl_ms: int) -> bool:
    """Returns whether a run that is assigned now is started in time: within the first quarter of the TTL."""
    return quorum_age_ms < ttl_ms // 4


def must_step_down(quorum_age_ms: int, ttl_ms: int) -> bool:
    """Returns whether a grant of this leadership could outlive it: no majority has answered for nearly a TTL."""
    return quorum_age_ms >= ttl_ms - KILL_BEFORE_MS

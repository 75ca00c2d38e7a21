"""Ends sessions whose lease has run out, and this leadership before its own grants could outlive it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from raftsched.core.commands import EndSession
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.leader.cluster_view import Cluster
from raftsched.leader.liveness.leases import Leases, must_step_down
from raftsched.leader.pacing import Proposals
from raftsched.leader.raft_port import Host

END_AGAIN_MS = 1_000  # between two proposals to end the same session

log = logging.getLogger("raftsched.leader")


@dataclass(slots=True)
class LeaseWatch:
    """The lease watch of one leadership. Leases are counted by the boot clock, which is read here."""

    host: Host
    cluster: Cluster
    leases: Leases
    proposals: Proposals
    term: int
    since_ms: int  # boot clock: when the leadership began
    _ends_proposed: dict[int, int] = field(default_factory=dict)  # session -> when its end was proposed last

    def closed(self, session: int) -> None:
        self.leases.ended(session)
        self._ends_proposed.pop(session, None)

    def tick(self) -> None:
        now = self.host.clock.boot_ms()
        sent = self.host.raft.quorum_sent_at_ms()
        ttl = self.leases.shortest_ttl_ms() or self.cluster.settings.session_ttl_ms
        # the first round of this leadership may still be on its way
        if must_step_down(now - (self.since_ms if sent is None else sent), ttl):
            log.warning("no majority has answered for too long; leadership is given away")
            self.host.raft.step_down()
            return
        if self.host.raft.write_age_ms() >= ttl - KILL_BEFORE_MS:
            log.error("this node's disk does not answer; leadership is given away")
            self.host.raft.step_down()
            return
        for session in self.leases.over(now):
            if now - self._ends_proposed.get(session, -10_000) >= END_AGAIN_MS:
                self._ends_proposed[session] = now
                log.warning("session %d is over: its worker was not heard of", session, extra={"session": session})
                self.proposals.send([EndSession(session, self.term)])

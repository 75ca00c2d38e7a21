"""Knows by their hellos whether the members know this node and its disk, and advises the operator.

A node that was removed may never hear of it through the log: nobody replicates to it any more. A disk that was lost and
replaced has nothing to remember. Both learn it from the members that refuse them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from raftsched.lost_majority import ELSE, HEALTHY, SEE, no_majority, said_of
from raftsched.raft.codec import Hello
from raftsched.raft.membership.formation import Formation
from raftsched.raft.membership.join_requests import JoinRequests
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)

FRESH_S = 10.0  # a member's hello counts for so long; it is dialled about once a second
PEERS_MAX = 64


class Admission:
    def __init__(self, formation: Formation, clock: Clock, asking: JoinRequests) -> None:
        self._formation = formation
        self._asking = asking
        self._clock = clock
        self._refused: dict[str, tuple[float, bytes | None]] = {}  # member -> (monotonic, the disk it knows of us)
        self._back: dict[str, tuple[float, str]] = {}  # member -> (monotonic, what it says of our disk)
        self._logged = ""

    def heard(self, peer: Hello) -> None:
        """Takes the hello of a node that proved to hold the cluster key."""
        formation = self._formation
        if not peer.formed or not peer.remembered or formation.foreign(peer):
            return
        known = peer.remembered.get(formation.node_id)
        back = formation.own_disk_rolled_back(peer)
        if back is None:
            self._back.pop(peer.node, None)
        elif peer.node in self._back or len(self._back) < PEERS_MAX:
            self._back[peer.node] = (self._clock.monotonic(), back)
        if known == formation.store_id or formation.is_newer_member_than(peer):
            self._refused.pop(peer.node, None)
        elif peer.node in self._refused or len(self._refused) < PEERS_MAX:
            self._refused[peer.node] = (self._clock.monotonic(), known)
        text = self.refusal or ""
        if text and text != self._logged:
            log.warning("%s", text)
        self._logged = text

    def tick(self, leader: str | None) -> None:
        """`leader`: whom this node follows. While it follows one it is let in, and members that refused it had not
        heard of that yet: when there is no leader next, it waits for one as all do."""
        if leader is not None:
            self._refused.clear()

    @property
    def refusal(self) -> str | None:
        """The reason why the members do not let this node in, with advice; None: none of them said so lately."""
        now = self._clock.monotonic()
        back = next((text for at, text in self._back.values() if now - at <= FRESH_S), None)
        if back is not None:
            return f"{back[0].upper()}{back[1:]}."
        fresh = [known for at, known in self._refused.values() if now - at <= FRESH_S]
        if not fresh:
            return None
        node, disk = self._formation.node_id, self._formation.store_id.hex()[:8]
        others = [known for known in fresh if known is not None]
        if others:
            return (
                f"{node} has another disk (store {disk}) than the member of that name (store {others[0].hex()[:8]}): "
                f"it neither votes nor counts. Bring back the old data directory, or, {HEALTHY}, admit this disk with "
                f"'raftsched cluster members replace {node}'. {ELSE}."
            )
        if self._formation.formed:
            return (
                f"{node} was removed from the cluster. Stop it; or take it back with 'raftsched cluster members add "
                f"{node}'."
            )
        return f"{node} is no member of the cluster yet: admit it with 'raftsched cluster members add {node}'."

    def waits_for(self, connected: list[str], voters: list[str]) -> str:
        """Returns what a node without a leader waits for, in one sentence."""
        refusal = self.refusal
        if refusal is not None:
            return refusal
        formation = self._formation
        others = ", ".join(sorted(formation.addresses.keys() - {formation.node_id}))
        if formation.formed:
            unfit = [
                hello.node for hello, _, _ in self._asking.recent()
            ]  # theirs is not the member's disk, or went back
            if no_majority(voters, unfit):
                return f"No leader, and none can come: {said_of(voters, unfit)}. Empty no data directory: {SEE}."
            rest = [voter for voter in voters if voter != formation.node_id]
            needed = f"{len(voters) // 2 + 1} of the {len(voters)} voting members have to reach one another"
            says = f"No leader at the moment: {formation.node_id} {_reaches(rest, connected)}; {needed}."
            moved = formation.moves.advice
            return says if moved is None else f"{says} {moved}"
        if formation.join:
            return (
                f"{formation.node_id} waits to be let in, but no member of the cluster has answered yet: check that "
                f"--peers names running members (it names {others or 'none'}) and that the cluster key is theirs."
            )
        if not_agreed_yet := formation.not_agreed_yet:
            return (
                "The cluster is being formed: every node of the peer list has to say that it remembers the same disks; "
                f"not heard from yet: {', '.join(not_agreed_yet)}."
            )
        missing = ", ".join(sorted(formation.addresses.keys() - {formation.node_id} - set(connected)))
        return "The cluster is not formed yet: that needs all nodes of the peer list, with empty data directories; " + (
            f"missing: {missing}." if missing else "all are connected."
        )


def _reaches(others: Sequence[str], connected: Collection[str]) -> str:
    """Returns which of the others a node reaches, and which not, such as "reaches neither n1 nor n2"."""
    heard = [node for node in others if node in connected]
    unheard = [node for node in others if node not in connected]
    if not heard and len(unheard) == 2:
        return f"reaches neither {' nor '.join(unheard)}"
    if not heard:
        return f"does not reach {', '.join(unheard)}"
    return f"reaches {', '.join(heard)}" + (f", and not {', '.join(unheard)}" if unheard else "")

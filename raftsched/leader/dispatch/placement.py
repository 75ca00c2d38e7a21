"""Chooses who gets a run: the least load per slot among the nodes and workers that can take it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from raftsched.core.model import Policy
from raftsched.core.rules.eligibility import Offer, offer
from raftsched.core.subjects.cluster import NodeRule, Session

NO_RULE = NodeRule()
SHARE_MAX = 8  # times the smallest capacity that counts for what one may have more than others

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class NodeLoad:
    """One open session, as the dispatcher counts it."""

    session: Session
    running: int = 0  # live attempts, those proposed included
    scheduled: int = 0  # assignments ever, for ties
    leader: bool = False
    rule: NodeRule = NO_RULE
    offer: Offer = field(init=False)
    room: int = field(init=False)  # slots that may be filled
    capacity: int = field(init=False)  # slots, weighted

    def __post_init__(self) -> None:
        self.follow(self.rule)

    def follow(self, rule: NodeRule) -> None:
        """Follows a change of the node's rule."""
        self.rule = rule
        self.offer = offer(self.session, rule)
        self.room = 0 if self.offer.drained else self.offer.slots
        self.capacity = max(1, self.offer.slots * self.offer.weight)

    @property
    def node(self) -> str:
        return self.session.node

    @property
    def slots(self) -> int:
        return self.offer.slots

    @property
    def free(self) -> int:
        return 0 if self.offer.drained else self.offer.slots - self.running

    def can(self, policy: Policy, namespace: str) -> bool:
        """Returns whether the node could take the run, were it free."""
        return self.offer.can(policy, namespace)


def able(nodes: Iterable[NodeLoad], policy: Policy, namespace: str) -> list[NodeLoad]:
    """Returns the nodes that could take a run with this policy in this namespace, were they free: the leader too."""
    return [n for n in nodes if not n.offer.drained and n.can(policy, namespace)]


def candidates(nodes: Iterable[NodeLoad], policy: Policy | None = None, namespace: str = "") -> list[NodeLoad]:
    """Returns those of them that are given runs (None: any run). The leader is among them only when no other node
    is."""
    if policy is None:
        eligible = [n for n in nodes if not n.offer.drained and n.offer.runs]
    else:
        eligible = able(nodes, policy, namespace)
    return [n for n in eligible if not n.leader] or eligible


def choose(eligible: Iterable[NodeLoad], avoid: str = "", prefer: Labels = ()) -> NodeLoad | None:
    """Returns the candidate with the least load, which is its runs for each slot, weighted; ties go to the one with the
    fewest assignments so far. None: no node can take the run now.

    Only those are looked at that are free, then those that are not the node to `avoid`, on which an attempt has just
    failed, then those with most of the preferred labels; each of these where there are any. Of what is left, a node
    whose runs are above twice their minimum (counted as at least 1) gets nothing, where one of several times the
    capacity may have as many times the runs, up to SHARE_MAX. One that is full is no longer eligible, else a small
    node would keep a large one idle."""
    free = [n for n in eligible if n.running < n.room]
    if avoid:
        free = [n for n in free if n.node != avoid] or free
    if prefer and len(free) > 1:
        free = _preferred(free, frozenset(prefer))
    if len(free) <= 1:
        return free[0] if free else None
    least = min(n.capacity for n in free)
    if least == max(n.capacity for n in free):  # which is the rule where all machines are alike
        return min(free, key=lambda n: (n.running, n.scheduled))
    shares = [(n, n.running / min(SHARE_MAX, n.capacity / least)) for n in free]
    limit = 2 * max(1, min(share for _, share in shares))
    return min((n for n, share in shares if share <= limit), key=lambda n: (n.running / n.capacity, n.scheduled))


def _preferred(nodes: list[NodeLoad], labels: frozenset[tuple[str, str]]) -> list[NodeLoad]:
    carried = [len(labels & n.offer.labels) for n in nodes]
    most = max(carried)
    return [n for n, count in zip(nodes, carried, strict=True) if count == most]

"""Chooses the node for a run: the least load per slot among those that can take it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from raftsched.core.cluster import NodeRule, Session
from raftsched.core.eligibility import Offer, offer
from raftsched.core.model import Policy

NO_RULE = NodeRule()


@dataclass(slots=True)
class NodeLoad:
    """One open session, as the dispatcher counts it."""

    session: Session
    running: int = 0  # live attempts, those proposed included
    scheduled: int = 0  # assignments ever, for ties
    leader: bool = False
    rule: NodeRule = NO_RULE
    offer: Offer = field(init=False)

    def __post_init__(self) -> None:
        self.follow(self.rule)

    def follow(self, rule: NodeRule) -> None:
        """Follows a change of the node's rule."""
        self.rule = rule
        self.offer = offer(self.session, rule)

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


def candidates(nodes: Iterable[NodeLoad], policy: Policy | None = None, namespace: str = "") -> list[NodeLoad]:
    """Returns the nodes that could take a run with this policy in this namespace (None: any run), were they free. The
    leader is among them only when no other node is."""
    eligible = [n for n in nodes if not n.offer.drained and (policy is None or n.can(policy, namespace))]
    return [n for n in eligible if not n.leader] or eligible


def choose(eligible: Iterable[NodeLoad], avoid: str = "") -> NodeLoad | None:
    """Returns the candidate with the least load per slot; ties go to the one with the fewest assignments so far. A
    node whose load is above twice their minimum (counted as at least 1) gets nothing; one that is full is no longer
    eligible, else a small node would keep a large one idle. The node to `avoid`, on which an attempt has just failed,
    only when no other is free. None: no node can take the run now."""
    free = [n for n in eligible if n.free > 0]
    if avoid:
        free = [n for n in free if n.node != avoid] or free
    if not free:
        return None
    if len(free) == 1:
        return free[0]
    limit = 2 * max(1, min(n.running for n in free))
    return min((n for n in free if n.running <= limit), key=lambda n: (n.running / n.slots, n.scheduled))

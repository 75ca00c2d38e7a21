"""Which node takes a run: least load per slot among those that can. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from raftsched.core.model import Policy, Session


@dataclass(slots=True)
class NodeLoad:
    """One open session, as the dispatcher counts it."""

    session: Session
    running: int = 0  # live attempts, those proposed included
    scheduled: int = 0  # assignments ever, for ties
    leader: bool = False
    labels: frozenset[tuple[str, str]] = field(init=False)
    handlers: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.labels = frozenset(self.session.labels)
        self.handlers = frozenset(self.session.handlers)

    @property
    def free(self) -> int:
        return self.session.slots - self.running

    def can(self, policy: Policy) -> bool:
        """It has the handler and the labels."""
        if policy.handler_need and policy.handler_need not in self.handlers:
            return False
        return self.labels.issuperset(policy.node_labels)


def place(nodes: Iterable[NodeLoad], policy: Policy) -> NodeLoad | None:
    """The eligible node with the least load per slot; ties go to the one with the fewest assignments so far. A node
    whose load is above twice the eligible minimum (counted as at least 1) gets nothing; one that is full is no longer
    eligible, else a small node would keep a large one idle. The leader is eligible only when
    nobody else is. None: nobody can take it now."""
    eligible = [n for n in nodes if n.can(policy)]
    followers = [n for n in eligible if not n.leader]
    candidates = followers or eligible
    if not candidates:
        return None
    free = [n for n in candidates if n.free > 0]
    if not free:
        return None
    limit = 2 * max(1, min(n.running for n in free))
    return min((n for n in free if n.running <= limit), key=lambda n: (n.running / n.session.slots, n.scheduled))

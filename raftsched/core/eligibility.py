"""Which nodes could take a run, busy or not, and what is missing where none could."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from raftsched.core.cluster import NodeRule, Session
from raftsched.core.model import Policy

_SHOWN = 5  # names that one text lists


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node brings along: as it says itself, unless somebody said otherwise."""

    node: str
    slots: int
    handlers: frozenset[str]
    labels: frozenset[tuple[str, str]]
    drained: bool
    users: frozenset[str] = frozenset()

    def can(self, policy: Policy) -> bool:
        """It has the handler and the labels, and may run it as whom it says."""
        if policy.handler_need and policy.handler_need not in self.handlers:
            return False
        if policy.user and not may_run_as(self.users, policy.user):
            return False
        return self.labels.issuperset(policy.node_labels)


def offer(session: Session, rule: NodeRule) -> Offer:
    return Offer(
        session.node,
        session.slots if rule.slots is None else rule.slots,
        frozenset(session.handlers),
        frozenset(session.labels if rule.labels is None else rule.labels),
        rule.drained,
        frozenset(session.users),
    )


EVERY = "default"  # of users: for each namespace that the node does not name


def may_run_as(users: Collection[str], wanted: str) -> bool:
    """Whether jobs may ask for it, as a namespace and a user with ":" between. `users`: what a node announces, in the
    same form; what it says for one namespace stands alone, and "default" is for all that it does not name."""
    if wanted in users:
        return True
    namespace, _, user = wanted.partition(":")
    return f"{EVERY}:{user}" in users and not any(one.startswith(f"{namespace}:") for one in users)


def lacking(offers: Sequence[Offer], policy: Policy) -> str:
    """Why none of these could take it, busy or not: a sentence."""
    if not offers:
        return "No node has an open session: no worker is connected to the leader, or all have only just started."
    need = policy.handler_need
    handled = [o for o in offers if not need or need in o.handlers]
    if not handled:
        return f'No node has the handler "{need}".'
    who = f'node with the handler "{need}"' if need else "node"
    if policy.user:
        handled = [o for o in handled if may_run_as(o.users, policy.user)]
        if not handled:
            namespace, _, user = policy.user.partition(":")
            return f'No {who} may run jobs of the namespace {namespace} as the user "{user}".'
        who = f"{who} that may run it as its user"
    missing = [f"{k}={v}" for k, v in policy.node_labels if all((k, v) not in o.labels for o in handled)]
    if missing:
        return f"No {who} carries the label {_some(missing, ' nor ')}."
    wanted = _some((f"{k}={v}" for k, v in policy.node_labels), " and ")
    return f"No {who} carries all of the labels {wanted} together."


def _some(names: Iterable[str], joint: str) -> str:
    listed = list(names)
    more = len(listed) - _SHOWN
    return joint.join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

"""Edits operators' rules for nodes (drained, slots, labels), and pauses the whole cluster."""

from __future__ import annotations

from msgspec.structs import replace

from raftsched.core.actions import ClusterPaused, NodeRuleChanged
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import is_stale, stale_revision
from raftsched.core.commands import Accepted, Answer, PauseCluster, PutNodeRule, Rejected
from raftsched.core.limits import node_rule_error
from raftsched.core.subjects.cluster import Member, NodeRule

NO_RULE = NodeRule()


def pause_cluster(tx: Tx, c: PauseCluster) -> Answer:
    if tx.meta.paused == c.paused:
        return Accepted(unchanged=True)
    tx.meta.paused = c.paused
    tx.actions.append(ClusterPaused(c.paused))
    return Accepted()


def put_node_rule(tx: Tx, c: PutNodeRule) -> Answer:
    """Sets the rule of a member. There are few members, and so there are few rules."""
    if all(m.node != c.node for m in tx.meta.members):
        names = ", ".join(m.node for m in tx.meta.members)
        return Rejected("no-such-member", f"There is no member {c.node[:64]!r}; members are {names}.")
    labels = None if c.labels is None else tuple(sorted(c.labels))
    rule = NodeRule(drained=c.drained, slots=c.slots, labels=labels)
    wrong = node_rule_error(rule)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    before = tx.node_rule(c.node) or NO_RULE
    if c.was is not None and not same(c.was, before):
        return Rejected("stale", f"What is said about {c.node} was changed meanwhile; read it again.")
    if is_stale(c.if_revision, before):
        return stale_revision(c.node, before)
    if same(rule, before):
        return Accepted(unchanged=True)
    tx.put_node_rule(c.node, None if rule == NO_RULE else replace(rule, revision=tx.new_revision()))
    tx.actions.append(NodeRuleChanged(c.node))
    return Accepted()


def same(rule: NodeRule, other: NodeRule) -> bool:
    """Returns whether the rules are equal but for their revisions."""
    return replace(rule, revision=0) == replace(other, revision=0)


def forget_rules(tx: Tx, before: tuple[Member, ...], now: tuple[Member, ...]) -> None:
    """Deletes the rules of nodes that are no members any more: a node that comes back under the name starts without
    one. A disk that is replaced leaves the member and its rule in place."""
    stay = {m.node for m in now}
    for member in before:
        if member.node not in stay and tx.node_rule(member.node) is not None:
            tx.put_node_rule(member.node, None)
            tx.actions.append(NodeRuleChanged(member.node))

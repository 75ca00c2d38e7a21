"""One scheduling cycle of the dispatcher: who could take what, found out once for instances of equal requirements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from raftsched.core.commands import Command
from raftsched.core.model import Condition, Instance, Policy
from raftsched.core.rules.eligibility import lacking
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.leader.dispatch.placement import NodeLoad, able, candidates

BATCH = 500  # instances that one cycle proposes something for
PASS_OVER = 256  # ready instances of a lane that one walk leaves where they are; the next one goes on behind them
PASSED_MAX = 4 * PASS_OVER  # the same, over all lanes; at least what one lane may take, twice PASS_OVER

SPLITS_MAX = 10  # runs that one cycle splits: each makes as many instances as a step has

# Handler, labels, user to run as, and "" or the one node that it must be; where workers are for some queues or
# namespaces, these; where nodes restrict what jobs may name, also target, directory, variables and conditions.
# Instances of equal requirements can go to the same nodes.
Named = tuple[str, str, tuple[str, ...], tuple[Condition, ...]]
Requirements = tuple[str, tuple[tuple[str, str], ...], str, str, str, str, Named]

Waiting = tuple[Policy, str, str]  # policy, namespace, and the one node that it must be or ""


@dataclass(slots=True)
class Cycle:
    """The free slots, and what is proposed."""

    nodes: Sequence[NodeLoad]  # that may be assigned runs
    everyone: Sequence[NodeLoad]  # all with an open session
    now_ms: int
    free: int  # slots; the leader's own while no others are free
    commands: list[Command] = field(default_factory=list)
    moves: list[bytes] = field(default_factory=list)  # to other lanes
    busy: dict[Requirements, Waiting] = field(default_factory=dict)  # no node is free for them in this cycle
    passed: int = 0
    splits: int = 0
    _eligible: dict[Requirements, tuple[list[NodeLoad], int]] = field(default_factory=dict)
    _able: dict[Requirements, list[NodeLoad]] = field(default_factory=dict)
    _lacking: dict[Requirements, str] = field(default_factory=dict)
    _restricted: dict[tuple[str, bool], bool] = field(default_factory=dict)  # by (handler, has conditions)
    _all_serve_all: bool = field(init=False)

    def __post_init__(self) -> None:
        self._all_serve_all = all(n.offer.serves_all for n in self.everyone)

    def requirements(self, policy: Policy, namespace: str, only: str = "") -> Requirements:
        kind = policy.required_capability, bool(policy.conditions)
        restricted = self._restricted.get(kind)
        if restricted is None:
            restricted = self._restricted[kind] = any(n.offer.looks_at(policy) for n in self.everyone)
        named = (policy.target, policy.cwd, policy.env, policy.conditions) if restricted else ("", "", (), ())
        own = namespace if namespace == SYSTEM_NAMESPACE else ""  # not everybody takes these
        served = ("", own) if self._all_serve_all else (policy.queue, namespace)
        return policy.required_capability, policy.node_labels, policy.user, only, *served, named

    def eligible(self, policy: Policy, namespace: str, only: str = "") -> tuple[list[NodeLoad], int]:
        """Returns the nodes that could run it, were they free, and how many nodes take runs at all."""
        need = self.requirements(policy, namespace, only)
        known = self._eligible.get(need)
        if known is None:
            nodes = [n for n in self.nodes if n.node == only] if only else self.nodes
            known = self._eligible[need] = candidates(nodes, policy, namespace), len(candidates(nodes))
        return known

    def targets(self, policy: Policy, namespace: str) -> tuple[str, ...]:
        """Returns the nodes and workers on which a run for all of them has parts: the leader's own too."""
        return tuple(n.node for n in able(self.nodes, policy, namespace))

    def able(self, policy: Policy, namespace: str) -> list[NodeLoad]:
        """Returns the nodes that could run it, busy, drained, or not given runs at present."""
        need = self.requirements(policy, namespace)
        known = self._able.get(need)
        if known is None:
            known = self._able[need] = [n for n in self.everyone if n.can(policy, namespace)]
        return known

    def lacking(self, policy: Policy, namespace: str) -> str:
        """Returns what is missing where none is able."""
        need = self.requirements(policy, namespace)
        known = self._lacking.get(need)
        # The words name the queue and the namespace only where those are part of what is needed.
        if known is None:
            known = self._lacking[need] = lacking([n.offer for n in self.everyone], policy, namespace)
        return known

    @property
    def found(self) -> int:
        """Returns how many instances something is proposed for."""
        return len(self.commands) + len(self.moves)

    @property
    def is_over(self) -> bool:
        """Returns whether nothing more is to be proposed in this cycle."""
        return self.free <= 0 or self.passed >= PASSED_MAX or self.found >= BATCH


def has_parts(instance: Instance, policy: Policy) -> bool:
    """Returns whether it is split when its turn comes, in the place of an assignment."""
    return instance.parent is None and (instance.parts is not None or policy.shards > 0 or policy.on_all)


def lacking_of(instance: Instance, policy: Policy, namespace: str, cycle: Cycle) -> str:
    """Returns what is missing where nobody is able to take it."""
    if instance.parent is None or not instance.only_on:
        return cycle.lacking(policy, namespace)
    if not any(n.node == instance.only_on for n in cycle.everyone):
        return f"This part is for {instance.only_on}, which has no open session."
    return f"This part is for {instance.only_on}, which cannot take it any more."

"""Asks workers to probe the conditions that only a machine can see.

Nothing that matters is remembered here: while an instance waits, its timer brings the question up again. Paths are
probed by every node that could take the run, first by those with a free slot. The busy ones and the leader's own are
asked a moment later, if it still waits: the first that says "met" gets the run. A server is probed by one node, where
none could take the run by one that could not: remote workers look at nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from raftsched.core.model import ConditionKind, Policy
from raftsched.core.subjects.checking import Check, encode
from raftsched.leader.dispatch.lanes import waiting
from raftsched.leader.dispatch.placement import NodeLoad
from raftsched.store import StoreView

WANTED_MAX = 10_000  # instances to be asked about; what is beyond that comes again with its timer
ASK_MAX = 200  # instances asked about at a time
LATE_MS = 1_000


class ConditionProbes:
    """The questions of one leadership. Times are boot-clock milliseconds."""

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[StoreView]],
        send: Callable[[str, str, bytes], bool],
    ) -> None:
        self._read = read
        self._send = send
        self._wanted: deque[bytes] = deque()
        self._late: deque[tuple[int, bytes, frozenset[str]]] = deque()  # (when, instance, who was asked already)
        self._next_node = 0  # which of the nodes probes the next server

    def wanted(self, key: bytes) -> None:
        """An instance waits for conditions."""
        if len(self._wanted) < WANTED_MAX:
            self._wanted.append(key)

    @property
    def open(self) -> bool:
        """Returns whether there is a node to ask, now or later."""
        return bool(self._wanted or self._late)

    def ask(self, nodes: Sequence[NodeLoad], now_ms: int) -> bool:
        """Asks these nodes, which take runs, about what is due; while there are none it waits. Returns whether there is
        more."""
        if not nodes:
            return False
        with self._read() as view:
            for _ in range(min(ASK_MAX, len(self._wanted))):
                self._ask(view, self._wanted.popleft(), nodes, now_ms)
            for _ in range(ASK_MAX):
                if not self._late or self._late[0][0] > now_ms:
                    break
                _, key, asked = self._late.popleft()
                rest = [n for n in nodes if n.node not in asked]
                question = _question(view, key)
                if question is not None:
                    check, policy, namespace = question
                    self._send_check(check, _able(rest, policy, namespace))
        return bool(self._wanted)

    def _ask(self, view: StoreView, key: bytes, nodes: Sequence[NodeLoad], now_ms: int) -> None:
        question = _question(view, key)
        if question is None:
            return
        check, policy, namespace = question
        able = _able(nodes, policy, namespace)
        followers = [n for n in able if not n.leader]
        if all(condition.kind is ConditionKind.HTTP for condition in check.conditions):
            candidates = followers or able or [n for n in nodes if not n.leader] or list(nodes)
            self._next_node += 1
            self._send_check(check, [candidates[self._next_node % len(candidates)]] if candidates else [])
            return
        first = [n for n in followers if n.free > 0] or followers or able
        self._send_check(check, first)
        if len(first) < len(able) and len(self._late) < WANTED_MAX:
            self._late.append((now_ms + LATE_MS, key, frozenset(n.node for n in first)))

    def _send_check(self, check: Check, nodes: Sequence[NodeLoad]) -> None:
        payload = encode(check)
        for node in nodes:
            self._send(node.node, "check", payload)


def _question(view: StoreView, key: bytes) -> tuple[Check, Policy, str] | None:
    """Returns the check of an instance, and its policy and namespace, which say which nodes can do it; None: it
    waits no more."""
    instance, policy, namespace = waiting(view, key)
    if instance is None or policy is None or instance.checks_end_at_ms is None:
        return None
    seen = tuple(condition for condition in policy.conditions if condition.kind is not ConditionKind.JOB)
    if not seen:
        return None
    return Check(key, instance.checks_end_at_ms, seen, view.applied_index), policy, namespace


def _able(nodes: Sequence[NodeLoad], policy: Policy, namespace: str) -> list[NodeLoad]:
    return [n for n in nodes if n.can(policy, namespace) and not n.offer.drained]

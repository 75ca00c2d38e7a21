"""Assigns ready instances to nodes: highest priority first, first come first served within one, least load first.

The queue is the READY table; only counts and what was proposed and not yet applied are in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from raftsched.core.apply.tx import decode_instance, decode_job
from raftsched.core.commands import Assign
from raftsched.core.model import Policy, Session
from raftsched.core.tables import ReadView, Table, after, u64
from raftsched.leader.placement import NodeLoad, place

Read = Callable[[], AbstractContextManager[ReadView]]

BATCH = 500  # assignments looked for at a time
PASS_OVER = 1_000  # ready instances looked at, at most, beyond those that can be placed


class Dispatcher:
    """Counts of one leadership."""

    def __init__(self, read: Read, leader_node: str) -> None:
        self._read = read
        self._leader_node = leader_node
        self._nodes: dict[int, NodeLoad] = {}
        self._proposed: dict[bytes, int] = {}  # instance key -> session: assigned, not yet applied
        self.backlog = True  # READY may hold instances that are not in _proposed

    def opened(self, session: Session, running: int) -> None:
        self._nodes[session.id] = NodeLoad(session, running, leader=session.node == self._leader_node)

    def closed(self, session: int) -> None:
        self._nodes.pop(session, None)

    def loads(self) -> dict[str, NodeLoad]:
        """By node id."""
        return {n.session.node: n for n in self._nodes.values()}

    def place(self, key: bytes, policy: Policy, assignable: Callable[[int], bool]) -> Assign | None:
        """An assignment for one instance that is about to become ready; None: it has to queue."""
        node = place([n for n in self._nodes.values() if assignable(n.session.id)], policy)
        if node is None:
            return None
        return self._take(key, node)

    def _take(self, key: bytes, node: NodeLoad) -> Assign:
        node.running += 1
        node.scheduled += 1
        self._proposed[key] = node.session.id
        return Assign(key, node.session.id)

    def pump(self, assignable: Callable[[int], bool]) -> list[Assign]:
        """Assignments for what waits in READY, at most BATCH."""
        nodes = [n for n in self._nodes.values() if assignable(n.session.id)]
        free = sum(max(0, n.free) for n in nodes)
        if not nodes or free <= 0 or not self.backlog:
            return []
        result: list[Assign] = []
        passed = 0
        with self._read() as view:
            for row, _ in view.scan(Table.READY):
                key = row[9:]
                if key in self._proposed:
                    continue
                if len(result) >= min(BATCH, free):
                    return result
                policy = _policy(view, key)
                node = place(nodes, policy) if policy is not None else None
                if node is None:
                    passed += 1
                    if passed > PASS_OVER:
                        return result
                    continue
                result.append(self._take(key, node))
        self.backlog = passed > 0
        return result

    # ------------------------------------------------------------ what became of it

    def applied(self, key: bytes, session: int) -> None:
        """Assigned: what was counted beforehand is true now. What an earlier leadership left behind is counted here."""
        if self._proposed.pop(key, None) is None:
            node = self._nodes.get(session)
            if node is not None:
                node.running += 1

    def refused(self, key: bytes) -> None:
        session = self._proposed.pop(key, None)
        if session is not None:
            self.attempt_ended(session)
            self.backlog = True

    def attempt_ended(self, session: int) -> None:
        node = self._nodes.get(session)
        if node is not None and node.running > 0:
            node.running -= 1


def count_running(view: ReadView, session: int) -> int:
    """Live attempts of a session."""
    prefix = u64(session)
    return sum(1 for _ in view.scan(Table.ASSIGNED, prefix, after(prefix)))


def _policy(view: ReadView, key: bytes) -> Policy | None:
    raw = view.get(Table.JOBS, key[8:16])
    if raw is None:
        return None
    job = decode_job(raw)
    instance_raw = view.get(Table.INSTANCES, key)
    if instance_raw is None:
        return None
    revision = decode_instance(instance_raw).job_revision
    if revision != job.revision:
        kept = view.get(Table.REVISIONS, key[8:16] + u64(revision))
        if kept is not None:
            job = decode_job(kept)
    return job.policy

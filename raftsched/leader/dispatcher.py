"""Assigns ready instances to nodes: highest priority first, first come first served within one, least load first.

The queue is the READY table; only counts, what was proposed and not yet applied, and what no node can take are in
memory.
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
PASS_OVER = 256  # ready instances that one walk leaves where they are; the next one goes on behind them
PARKED_MAX = 100_000


class Dispatcher:
    """Counts of one leadership."""

    def __init__(self, read: Read, leader_node: str) -> None:
        self._read = read
        self._leader_node = leader_node
        self._nodes: dict[int, NodeLoad] = {}
        self._proposed: dict[bytes, int] = {}  # instance key -> session: assigned, not yet applied
        self._parked: set[bytes] = set()  # ready instances that no node there is could take, busy or not
        self._resume: bytes | None = None  # READY row at which the last walk stopped
        self.backlog = True  # READY may hold instances that are neither proposed nor parked

    def opened(self, session: Session, running: int) -> None:
        self._nodes[session.id] = NodeLoad(session, running, leader=session.node == self._leader_node)
        self._parked.clear()
        self.backlog = True

    def closed(self, session: int) -> None:
        self._nodes.pop(session, None)

    def ready(self, key: bytes) -> None:
        """An instance waits (again)."""
        self._parked.discard(key)
        self.backlog = True

    @property
    def own_session(self) -> int:
        """That of the leader's own node; 0: it has none."""
        return next((n.session.id for n in self._nodes.values() if n.leader), 0)

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

    # ------------------------------------------------------------ the walk over READY

    def pump(self, assignable: Callable[[int], bool]) -> list[Assign]:
        """Assignments for what waits in READY, at most BATCH.

        Always from the front, and, when too many are passed over there, on from where the last walk stopped: however
        many wait for somebody who is busy, those behind them get their turn."""
        nodes = [n for n in self._nodes.values() if assignable(n.session.id)]
        if not self.backlog or not any(n.free > 0 for n in nodes):
            return []
        result: list[Assign] = []
        with self._read() as view:
            resume = self._resume
            stopped, passed = self._walk(view, b"", resume, nodes, result)
            if resume is not None and len(result) < BATCH:
                stopped, more = self._walk(view, resume, None, nodes, result)
                passed += more
        self._resume = stopped
        self.backlog = stopped is not None or passed > 0 or resume is not None
        return result

    def _walk(
        self, view: ReadView, low: bytes, high: bytes | None, nodes: list[NodeLoad], result: list[Assign]
    ) -> tuple[bytes | None, int]:
        """(the row it stopped at before the end, how many it passed over)"""
        passed = 0
        free = sum(max(0, n.free) for n in nodes)
        for row, _ in view.scan(Table.READY, low, high):
            key = row[9:]
            if key in self._proposed or key in self._parked:
                continue
            if passed >= PASS_OVER or len(result) >= BATCH or not free:
                return row, passed
            policy = _policy(view, key)
            node = place(nodes, policy) if policy is not None else None
            if node is not None:
                result.append(self._take(key, node))
                free -= 1
            elif policy is None or not any(n.can(policy) for n in self._nodes.values()):
                self._park(key)
            else:
                passed += 1
        return None, passed

    def _park(self, key: bytes) -> None:
        if len(self._parked) >= PARKED_MAX:
            self._parked.clear()  # many of them are gone; the others come back with the next walk
        self._parked.add(key)

    # ------------------------------------------------------------ what became of it

    def applied(self, key: bytes, session: int) -> None:
        """Assigned: what was counted beforehand is true now. What an earlier leadership left behind in the log is
        counted here, instead of what was proposed for the same instance since."""
        proposed = self._proposed.pop(key, None)
        if proposed == session:
            return
        if proposed is not None:
            self.attempt_ended(proposed)
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
    """That of the revision the instance was made from; None: it is gone."""
    raw = view.get(Table.JOBS, key[8:16])
    instance_raw = view.get(Table.INSTANCES, key)
    if raw is None or instance_raw is None:
        return None
    job = decode_job(raw)
    revision = decode_instance(instance_raw).job_revision
    if revision != job.revision:
        kept = view.get(Table.REVISIONS, key[8:16] + u64(revision))
        if kept is not None:
            job = decode_job(kept)
    return job.policy

"""The members as consensus has to see them: the newest configuration in this node's log, committed or not.

A configuration takes effect when it is appended and goes when it is truncated; below it lies the applied one (Ongaro,
"Consensus: Bridging Theory and Practice", 2014, chapter 4, single-server changes). Two consecutive configurations
differ by one voter, so that any majority of one shares a node with any majority of the other; hence one change at a
time, each committed before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from raftsched.core.subjects.cluster import Member
from raftsched.errors import RaftschedError
from raftsched.raft.guards import Guards

MEMBERS_MAX = 9

Members = tuple[Member, ...]


class Membership:
    """The current configuration: `peers` are all other members, `voters` the ids of all voting members, this node
    included where it is one."""

    def __init__(self, node_id: str, applied: Members, guards: Guards, applied_at: int = 0) -> None:
        self.node_id = node_id
        self.applied = applied
        self.applied_at = applied_at  # index of the entry
        self._guards = guards
        self._later: list[tuple[int, Members]] = []  # in the log and not applied, ascending
        self._on_change: list[Callable[[], None]] = []
        self._see()

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Calls `on_change` in the midst of an append or a truncation: to adjust data, not to act."""
        self._on_change.append(on_change)

    # ------------------------------------------------------------ what counts now

    def _see(self) -> None:
        self.current = self._later[-1][1] if self._later else self.applied
        self.voters = sorted(m.node for m in self.current if m.voter)
        self.peers = sorted(m.node for m in self.current if m.node != self.node_id)
        self.majority = len(self.voters) // 2 + 1

    @property
    def index(self) -> int:
        """Index of the entry that holds the current configuration; 0: the formation."""
        return self._later[-1][0] if self._later else self.applied_at

    @property
    def pending(self) -> bool:
        """Returns whether a configuration in the log is not applied yet."""
        return bool(self._later)

    def member(self, node: str) -> Member | None:
        return find(self.current, node)

    @property
    def may_lead(self) -> bool:
        """Returns whether the node is a voter, which it also is while its removal is not committed yet: it may be the
        only one that can commit it."""
        return any(m.node == self.node_id and m.voter for m in (*self.current, *self.applied))

    def is_majority(self, nodes: Iterable[str]) -> bool:
        """Returns whether these nodes hold a majority of the voters."""
        return len(set(self.voters) & set(nodes)) >= self.majority

    # ------------------------------------------------------------ the log

    def appended(self, index: int, members: Members) -> None:
        if not self._guards.config_from_log:
            return
        self._later.append((index, members))
        self._changed()

    def truncated(self, index: int) -> None:
        """Drops the configurations in entries from `index` on."""
        if self._later and self._later[-1][0] >= index:
            self._later = [(at, members) for at, members in self._later if at < index]
            self._changed()

    def applied_to(self, index: int) -> None:
        """Moves the applied configuration up to `index`."""
        while self._later and self._later[0][0] <= index:
            self.applied_at, self.applied = self._later.pop(0)

    def reset(self, members: Members, at: int, *, log_gone: bool = False) -> None:
        """Takes the members from the applied state where it was not followed entry by entry: at formation, and when a
        snapshot replaced state and log."""
        if log_gone and self._guards.config_goes_with_log:
            self._later.clear()
        if members:
            self.applied, self.applied_at = members, at
        self._changed()

    def _changed(self) -> None:
        before = self.current
        self._see()
        if self.current != before:
            for on_change in self._on_change:
                on_change()


def find(members: Members, node: str) -> Member | None:
    return next((m for m in members if m.node == node), None)


def added(members: Members, node: Member) -> Members:
    """Returns the members with a new one that catches up, or with a member's disk replaced. Raises RaftschedError."""
    if find(members, node.node) is None and len(members) >= MEMBERS_MAX:
        raise RaftschedError("not-possible", f"A cluster has at most {MEMBERS_MAX} members; remove one first.")
    kept = removed(members, node.node) if find(members, node.node) is not None else members
    return tuple(sorted((*kept, msgspec.structs.replace(node, voter=False)), key=lambda m: m.node))


def promoted(members: Members, node: str) -> Members:
    return tuple(msgspec.structs.replace(m, voter=True) if m.node == node else m for m in members)


def removed(members: Members, node: str) -> Members:
    """Returns the members without this one. Raises RaftschedError for the last voter."""
    kept = tuple(m for m in members if m.node != node)
    if not any(m.voter for m in kept):
        raise RaftschedError("last-member", f"{node} is the only voting member and cannot be taken out.")
    return kept

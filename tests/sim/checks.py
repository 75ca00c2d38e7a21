"""Raft's invariants, which must hold after every step whatever is broken, watched from outside the code that has them.

Durable facts come from the store's writes as they are executed; commit indices and roles are looked at after every
callback of every node. The first violation ends the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from zlib import crc32

import msgspec

from raftsched.core.entry import BatchResult, EntryResult, members_of
from raftsched.core.subjects.cluster import Member
from raftsched.core.tables import Table
from raftsched.store import Store, WriteBatch

HASH_EVERY = 50  # applied entries between two looks at all tables, about

_encode = msgspec.msgpack.Encoder().encode


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class DurableLog:
    """The log of one disk, as its write batches left it, and the state of its tables, which a crash takes back as far
    as their checkpoint."""

    store_id: bytes = b""
    first: int = 1
    last: int = 0
    applied: int = 0
    checkpoint: int = 0  # the entry that was applied last in it
    back: bool = False  # in an earlier state than it was in: as good as another one
    terms: dict[int, int] = field(default_factory=lambda: {0: 0})  # also of the entry before the first

    def has(self, index: int, term: int) -> bool:
        return index < self.first or (index <= self.last and self.terms.get(index) == term)


def state_hash(store: Store) -> str:
    """Returns a hash of all tables."""
    digest = hashlib.blake2b(digest_size=8)
    with store.read() as view:
        for table in Table:
            # by LMDB's own iterator: this is a hash of everything, some hundred times in a run
            with view._txn.cursor(view._databases[table]) as cursor:
                digest.update(b"".join(chain.from_iterable(cursor)))
            digest.update(bytes((table,)))
    return digest.hexdigest()


Members = tuple[Member, ...]


class Checks:
    """`first` are the members at the beginning, with their first disks."""

    def __init__(self) -> None:
        self.violation: Violation | None = None
        self.first: Members = ()
        self.members: Members = ()  # as committed last
        self.admitted: set[tuple[str, bytes]] = set()  # disks that some configuration has named
        self.disks: dict[str, DurableLog] = {}
        self.highest = 0  # highest index committed anywhere
        self.committed: dict[int, int] = {}  # index -> term
        self.sizes: dict[int, int] = {}  # index -> bytes of the committed entry
        self.leaders: dict[int, tuple[str, int]] = {}  # term -> node, incarnation
        self.votes: dict[tuple[int, str], set[str]] = {}  # (term, candidate) -> whose disk says so
        self.swapping: dict[str, int] = {}  # snapshots that are being swapped in, by the index
        self.hashed = 0  # states compared
        self._configs: dict[tuple[int, int], Members] = {}  # (index, term) -> of a configuration entry
        self._lost: dict[tuple[str, bytes], DurableLog] = {}  # disks that are no more
        self._entries: dict[tuple[int, int], tuple[int, int, int]] = {}  # (index, term) -> crc, term before, size
        self._applied: dict[int, tuple[int, int]] = {}  # index -> term, crc of the answers
        self._fresh: dict[tuple[int, int], int] = {}  # batch -> index at which it had answers
        self._hashes: dict[int, tuple[str, str]] = {}  # applied index -> state, whose
        self._next_hash: dict[str, int] = {}

    def fail(self, what: str) -> None:
        violation = Violation(what)
        if self.violation is None:
            self.violation = violation
        raise violation

    def new_disk(self, name: str) -> None:
        """The machine's disk is empty, and what was on the one before is lost."""
        lost = self.disks.get(name)
        if lost is not None:
            self._lost[name, lost.store_id] = lost
        self.disks[name] = DurableLog()

    def started(self, name: str, store_id: bytes) -> None:
        """A process runs on the machine, whose disk has this id. One that went back is no member's disk any more."""
        disk = self.disks[name]
        disk.store_id = b"back " + store_id if disk.back else store_id

    def rolled_back(self, name: str, disk: DurableLog) -> None:
        """A copy took the place of the machine's disk; what came after it is lost."""
        lost = self.disks[name]
        self._lost[name, lost.store_id] = lost
        self.disks[name] = replace(disk, store_id=b"back " + disk.store_id, back=True)

    def formed(self, members: Members) -> None:
        """The cluster begins with these."""
        self.first = self.members = members
        self.admitted |= {(member.node, member.store_id) for member in members}

    # ------------------------------------------------------------ members

    def appended(self, index: int, term: int, data: bytes) -> None:
        """An entry is in the memory of a node's log."""
        members = members_of(data)
        if members is not None and (index, term) not in self._configs:
            self._configs[index, term] = members
            self.admitted |= {(member.node, member.store_id) for member in members}

    def configuration(self, last: int, term_at: Callable[[int], int | None]) -> Members:
        """The newest one in a log that goes up to `last`."""
        for (index, term), members in sorted(self._configs.items(), reverse=True):
            if index <= last:
                known = term_at(index)
                if term == (self.committed.get(index) if known is None else known):
                    return members
        return self.first

    def disk_of(self, member: Member) -> DurableLog:
        """The disk that is this member; one that was lost meanwhile held what it held when it said so."""
        disk = self.disks[member.node]
        return disk if disk.store_id == member.store_id else self._lost[member.node, member.store_id]

    # ------------------------------------------------------------ durable facts

    def written(self, name: str, store: Store, batch: WriteBatch) -> None:
        """A write is on the disk."""
        disk = self.disks[name]
        if batch.hard_state is not None and batch.hard_state[1] is not None:
            self.votes.setdefault((batch.hard_state[0], batch.hard_state[1]), set()).add(name)
        if batch.truncate_from is not None:
            self._truncated(name, disk, batch.truncate_from)
        for index, term, data in batch.append:
            before = disk.terms.get(index - 1)
            if before is None:
                self.fail(f"{name} appends entry {index} behind a hole")
                return
            self.appended(index, term, data)
            mine = (crc32(data), before, len(data))
            if self._entries.setdefault((index, term), mine) != mine:
                self.fail(f"{name} has another entry ({index}, term {term}) or another one before it than others")
            disk.terms[index] = term
            disk.last = index
        first, last = store.log_bounds()
        if first > disk.checkpoint + 1:
            self.fail(f"{name} drops the log up to {first - 1}, its checkpoint is of {disk.checkpoint}")
        for index in range(disk.first, first):
            disk.terms.pop(index - 1, None)
        disk.first = first
        if last != disk.last:
            self.fail(f"{name} has the log up to {last}; writes gave {disk}")

    def applied(self, name: str, store: Store, results: Sequence[EntryResult]) -> None:
        """Entries are in the tables, as this process sees them."""
        disk = self.disks[name]
        for entry in results:
            if disk.terms.get(entry.index) != entry.term:
                self.fail(f"{name} applies entry {entry.index}, which is not in the log on its disk")
            self._apply(name, disk, entry.index, entry.term, entry)
        if store.applied_index != disk.applied:
            self.fail(f"{name} has applied {store.applied_index}; there were entries up to {disk.applied}")
        if disk.applied >= self._next_hash.get(name, 0):
            self._next_hash[name] = (disk.applied // HASH_EVERY + 1) * HASH_EVERY
            self.same_state(name, store)

    def checkpointed(self, name: str, index: int) -> None:
        """A checkpoint is on the disk."""
        disk = self.disks[name]
        disk.checkpoint = max(disk.checkpoint, index)

    def _truncated(self, name: str, disk: DurableLog, start: int) -> None:
        for index in range(start, disk.last + 1):
            if index <= self.highest and disk.terms[index] == self.committed[index]:
                self.fail(f"{name} deletes the committed entry {index}")
            del disk.terms[index]
        disk.last = min(disk.last, start - 1)

    def _apply(self, name: str, disk: DurableLog, index: int, term: int, entry: object) -> None:
        if index > self.highest or self.committed[index] != term:
            self.fail(f"{name} applies entry ({index}, term {term}), which is not committed")
        if index != disk.applied + 1:
            self.fail(f"{name} applies entry {index} after {disk.applied}")
        disk.applied = index
        batches = entry.batches  # type: ignore[attr-defined]
        mine = (term, crc32(self.outcome(batches)))
        if self._applied.setdefault(index, mine) != mine:
            self.fail(f"{name} applied entry {index} with another outcome than the others")
        for batch in batches:
            if batch.answers is None:
                continue
            known = self._fresh.setdefault((batch.origin, batch.seq), index)
            if known != index:
                self.fail(f"batch {batch.seq} of {batch.origin} is applied at {known} and again at {index}")

    def outcome(self, batches: Sequence[BatchResult]) -> bytes:
        """Returns what all nodes have to answer alike."""
        return _encode(batches)

    def state(self, store: Store) -> str:
        """Returns what all nodes have to have alike."""
        return state_hash(store)

    def installed(self, name: str, store: Store) -> None:
        """A snapshot replaced a disk's state and log."""
        disk = self.disks[name]
        index = store.applied_index
        if index < disk.applied:
            self.fail(f"{name} went back from applied {disk.applied} to {index} by a snapshot")
        if index > self.highest or self.committed[index] != store.applied_term:
            self.fail(f"{name} installed a state at ({index}, term {store.applied_term}), which is not committed")
        if disk.last > index and disk.terms.get(index) == store.applied_term:
            self.fail(f"{name} gives up the entries from {index + 1} to {disk.last} for a snapshot of entry {index}")
        first, last = store.log_bounds()
        self.disks[name] = DurableLog(disk.store_id, first, last, index, index, disk.back, {index: store.applied_term})
        self.same_state(name, store)

    def loaded(self, name: str, store: Store) -> None:
        """A node opens its store again. Its tables are those of a checkpoint and what the log has beyond it, as far as
        that was known to be committed."""
        disk = self.disks[name]
        found = store.applied_index
        if self.swapping.pop(name, None) == found and store.log_bounds() != (disk.first, disk.last):
            self.installed(name, store)  # the process ended in the midst of it, and it is done
            return
        most = max(disk.first - 1, min(self.highest, disk.last))
        if store.log_bounds() != (disk.first, disk.last) or not disk.checkpoint <= found <= most:
            self.fail(f"{name} finds log {store.log_bounds()}, applied {found}; on its disk was {disk}")
        if store.checkpoint_index < disk.checkpoint:
            self.fail(f"{name} finds a checkpoint of entry {store.checkpoint_index}; on its disk was {disk}")
        disk.applied, disk.checkpoint = (
            found,
            store.checkpoint_index,
        )  # one may be there that the process did not hear of
        self._next_hash[name] = 0
        self.same_state(name, store)

    def same_state(self, name: str, store: Store) -> str:
        mine = self.state(store)
        known, whose = self._hashes.setdefault(store.applied_index, (mine, name))
        self.hashed += 1
        if known != mine:
            self.fail(f"{name} and {whose} have different states at applied index {store.applied_index}")
        return mine

    # ------------------------------------------------------------ memory: roles and commit indices

    def leads(
        self, name: str, incarnation: int, term: int, voters: Sequence[str], has: Callable[[int, int], bool]
    ) -> None:
        """A node became leader; `voters` are those of its configuration, `has(index, term)` says what its log and state
        have. One that learns late that it was elected, when newer terms have been led, lacks what these have committed.
        """
        if self.leaders.setdefault(term, (name, incarnation)) != (name, incarnation):
            self.fail(f"term {term} has two leaders: {self.leaders[term][0]} and {name}")
        elected_by = self.votes.get((term, name), set()) & set(voters)
        if 2 * len(elected_by) <= len(voters):
            self.fail(f"{name} leads term {term} by the votes of {sorted(elected_by)} only, of {list(voters)}")
        newest = term == max(self.leaders)
        if newest and self.highest and not has(self.highest, self.committed[self.highest]):
            self.fail(f"{name} leads term {term} without the committed entry {self.highest}")

    def commits(self, name: str, index: int, last: int, term_at: Callable[[int], int | None]) -> None:
        """A node's commit index rose to `index`; its log goes up to `last` and has these terms."""
        term = term_at(index)
        if index <= self.highest:
            if term is not None and self.committed[index] != term:
                self.fail(f"{name} takes ({index}, term {term}) for committed; it was term {self.committed[index]}")
            return
        if term is None:
            self.fail(f"{name} commits entry {index}, which it does not have")
            return
        voters = [member for member in self.configuration(last, term_at) if member.voter]
        holders = [voter for voter in voters if self.disk_of(voter).has(index, term)]
        if 2 * len(holders) <= len(voters):
            names, few = [voter.node for voter in voters], [voter.node for voter in holders]
            self.fail(f"{name} commits ({index}, term {term}): it is durable on {few} only, of {names}")
        for between in range(self.highest + 1, index + 1):
            for holder in holders:
                known = self.disk_of(holder).terms.get(between)
                if known is not None:
                    self.committed[between] = known
                    self.sizes[between] = self._entries[between, known][2]
                    self.members = self._configs.get((between, known), self.members)
                    break
            else:
                self.fail(f"entry {between} is committed and on no disk")
        self.highest = index

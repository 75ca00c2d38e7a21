"""Applies one committed entry to the tables. Pure, deterministic, total.

It returns `Rejected` for what cannot be done and never raises for it; anything raised here is a bug, and the node
stops rather than diverge from the others. Commands are handled by family: cluster, nodes, queues, jobs,
firing, attempts, instances, retention, access.
"""

from __future__ import annotations

from raftsched.core.actions import Action
from raftsched.core.apply.cluster import membership
from raftsched.core.apply.dispatch import HANDLERS
from raftsched.core.apply.runs import following, run_keys
from raftsched.core.apply.tx import Tx
from raftsched.core.entry import BatchResult, EntryResult, decode_entry
from raftsched.core.subjects.origins import claim
from raftsched.core.tables import View


class Applier:
    """Applies the entries of one transaction to its view, write batch by write batch. The counters are read once, and
    written by `close`, which ends a write batch."""

    def __init__(self, view: View) -> None:
        self._tx = Tx(view)

    def entry(self, index: int, term: int, data: bytes) -> EntryResult:
        """Applies one entry. An empty entry, and data that is no entry, change nothing. Raises NewerLog."""
        tx = self._tx
        actions: list[Action] = []
        tx.actions = actions
        results: list[BatchResult] = []
        entry = decode_entry(data) if data else None
        if entry is not None:
            tx.advance(entry.now_ms)
            tx.index, tx.term = index, term
            if entry.members is not None:
                membership.configure(tx, index, entry.members)
            for batch in entry.batches:
                if claim(tx.view, batch.origin, batch.seq, tx.now):
                    answers = [HANDLERS[type(command)](tx, command) for command in batch.commands]
                    results.append(BatchResult(batch.origin, batch.seq, answers))
                else:
                    results.append(BatchResult(batch.origin, batch.seq, None))
            end_entry(tx, index)
        return EntryResult(index, term, results, actions)

    def close(self) -> None:
        self._tx.save()


def end_entry(tx: Tx, index: int) -> None:
    """Does what follows from all commands of an entry together, and writes what was gathered."""
    if tx.ended:
        following.tell_followers(tx)
    if tx.lines:
        run_keys.let_go(tx)
    tx.close_entry(index)


def apply_entry(view: View, index: int, term: int, data: bytes) -> EntryResult:
    """Applies one entry by itself."""
    applier = Applier(view)
    result = applier.entry(index, term, data)
    applier.close()
    return result

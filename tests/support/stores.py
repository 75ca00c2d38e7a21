"""What Raft does with a store, in one call: a batch is written, and what is committed is applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raftsched.core.entry import EntryResult
from raftsched.raft.checkpoints import CheckpointStore
from raftsched.store import LogEntry, Store, WriteBatch


def commit(store: Store, *entries: LogEntry, **fields: Any) -> list[EntryResult]:
    """Appends entries, applies them, and shows them to all threads. `fields`: others of the write batch."""
    fields.setdefault("commit_index", entries[-1].index)
    return carry_out(store, WriteBatch(append=list(entries), **fields), entries)


def carry_out(store: Store, batch: WriteBatch, apply: Sequence[LogEntry] = ()) -> list[EntryResult]:
    """Writes the batch, applies entries, and shows them to all threads."""
    store.write(batch)
    results = store.apply(apply) if apply else []
    store.publish()
    return results


def checkpoint(store: CheckpointStore) -> None:
    """What was applied outlives a crash from now on."""
    pending = store.begin_checkpoint()
    if pending is not None:
        store.write_checkpoint(pending)
        store.end_checkpoint(pending)

"""Stores in LMDB: the Raft log and this node's own records in one environment, the replicated tables in another.

A write batch is one transaction of the log: new entries, term and vote, all or nothing, on the disk when it returns.
Committed entries are applied to the tables without waiting for the disk. A checkpoint brings these to the disk from
time to time; after a crash they are those of the newest checkpoint, and the log has what was applied since.
"""

from raftsched.store.compaction import Usage
from raftsched.store.snapshot import make_directory
from raftsched.store.store import CorruptLog, Fresh, PendingCheckpoint, Rules, SnapshotMeta, Store, StoreView
from raftsched.store.write_batch import LogEntry, WriteBatch

__all__ = [
    "CorruptLog",
    "Fresh",
    "LogEntry",
    "PendingCheckpoint",
    "Rules",
    "SnapshotMeta",
    "Store",
    "StoreView",
    "Usage",
    "WriteBatch",
    "make_directory",
]

"""LMDB: the replicated tables, the Raft log and this node's own records in one environment.

A write batch is one transaction: new log entries, term and vote, committed entries applied, all or nothing. So log and
state never disagree, and a restart needs no replay. One thread owns the write transaction; reads are short
transactions in any thread.
"""

from raftsched.store.snapshot import make_directory
from raftsched.store.store import CorruptLog, Fresh, SnapshotMeta, Store, StoreView
from raftsched.store.write_batch import LogEntry, OnApplied, WriteBatch, WriteResult

__all__ = [
    "CorruptLog",
    "Fresh",
    "LogEntry",
    "OnApplied",
    "SnapshotMeta",
    "Store",
    "StoreView",
    "WriteBatch",
    "WriteResult",
    "make_directory",
]

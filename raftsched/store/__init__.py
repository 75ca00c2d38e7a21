"""LMDB: the replicated tables, the Raft log and this node's own records in one environment.

One write transaction per turn: log entries, term and vote, what was committed applied, all or nothing. So log and state
never disagree, and a restart needs no replay. The write transaction lives in one thread; reads are short transactions
in any thread.
"""

from raftsched.store.snapshot import make_directory
from raftsched.store.store import CorruptLog, Fresh, SnapshotMeta, Store, StoreView
from raftsched.store.turn import LogEntry, OnApplied, Turn, TurnResult

__all__ = [
    "CorruptLog",
    "Fresh",
    "LogEntry",
    "OnApplied",
    "SnapshotMeta",
    "Store",
    "StoreView",
    "Turn",
    "TurnResult",
    "make_directory",
]

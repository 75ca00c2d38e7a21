"""A write batch: everything that one transaction of the log writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from raftsched.core.entry import BatchResult, EntryResult

__all__ = ["BatchResult", "EntryResult", "LogEntry", "WriteBatch"]


class LogEntry(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index on purpose
    term: int
    data: bytes


@dataclass(slots=True)
class WriteBatch:
    """Everything that one transaction of the log writes, in the order of the fields."""

    truncate_from: int | None = None  # delete log entries with index >= this
    append: list[LogEntry] = field(default_factory=list)  # contiguous
    hard_state: tuple[int, str | None] | None = None  # (current term, voted for), when changed
    commit_index: int | None = None  # when changed
    drop_below: int | None = None  # compaction: entries below may go (a bounded number goes per write)
    local: dict[str, bytes | None] = field(default_factory=dict)  # this node's own records; None deletes

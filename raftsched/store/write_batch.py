"""A write batch: everything that one transaction of the store writes, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from raftsched.core.entry import BatchResult, EntryResult

__all__ = ["BatchResult", "EntryResult", "LogEntry", "OnApplied", "WriteBatch", "WriteResult"]


class LogEntry(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index on purpose
    term: int
    data: bytes


@dataclass(slots=True)
class WriteBatch:
    """Everything that one transaction writes, in the order of the fields."""

    truncate_from: int | None = None  # delete log entries with index >= this
    append: list[LogEntry] = field(default_factory=list)  # contiguous
    hard_state: tuple[int, str | None] | None = None  # (current term, voted for), when changed
    commit_index: int | None = None  # when changed
    apply: list[LogEntry] = field(default_factory=list)  # committed, in order, first is applied_index + 1
    drop_below: int | None = None  # compaction: entries below may go (a bounded number goes per write)
    local: dict[str, bytes | None] = field(default_factory=dict)  # this node's own records; None deletes


@dataclass(slots=True)
class WriteResult:
    applied: list[EntryResult]


OnApplied = Callable[[WriteResult], None]

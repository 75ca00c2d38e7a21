"""Counts the runs of the minute. Its row is read and written once in a write batch. The rows of MINUTES are written
when the minute is over, or has many namespaces; old ones are dropped then, a bounded number.
"""

from __future__ import annotations

from itertools import islice

from raftsched.bounds import MINUTE_MS
from raftsched.core.model import InstanceState
from raftsched.core.rows import MINUTES, OPEN_MINUTE
from raftsched.core.subjects.cluster import Meta
from raftsched.core.subjects.minutes import (
    AHEAD_MS,
    ALL,
    COUNT_MAX,
    KEEP_MS,
    LATE_MS,
    OPEN_KEY,
    Minute,
    OpenMinute,
    add_up,
)
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import Table, View, u64

OPEN_MAX = 16  # namespaces in the row of the minute that goes on
DROP_MAX = 500  # rows dropped when rows are written, beside twice as many as were
_SUCCEEDED, _KILLED, _SKIPPED = InstanceState.SUCCEEDED, InstanceState.KILLED, InstanceState.SKIPPED


class Minutes:
    """The minute in which the entry is applied."""

    __slots__ = ("_meta", "_rows", "_view", "open")

    def __init__(self, view: View, meta: Meta) -> None:
        self._view = view
        self._meta = meta
        self.open: OpenMinute | None = None  # None: nothing was counted in this batch
        self._rows: dict[str, Minute] = {}  # of `open`; empty when the minute of the entry is another

    def advance(self, now_ms: int) -> None:
        """Begins another entry. Only where something was counted before it."""
        if self.open is not None and not 0 <= now_ms - self.open.at_ms < MINUTE_MS:
            self._rows = {}

    def started(self, namespace: str, first: bool, late_ms: int) -> None:
        """Counts an attempt that started, the first of its run or a later one."""
        row = self._rows.get(namespace) or self._new(namespace)
        if not first:
            row.restarted += 1
            return
        row.started += 1
        if late_ms > row.late_max_ms:
            row.late_max_ms = min(late_ms, COUNT_MAX)
        if late_ms > LATE_MS:
            row.late += 1

    def ended(self, namespace: str, state: InstanceState) -> None:
        """Counts a run that has come to its end."""
        row = self._rows.get(namespace) or self._new(namespace)
        if state is _SUCCEEDED:
            row.succeeded += 1
        elif state is _KILLED:
            row.killed += 1
        elif state is _SKIPPED:
            row.skipped += 1
        else:
            row.failed += 1

    def succeeded(self, namespace: str, late_ms: int) -> None:
        """Counts a run that has succeeded, and that was not heard of before."""
        row = self._rows.get(namespace) or self._new(namespace)
        row.succeeded += 1
        row.started += 1
        if late_ms > row.late_max_ms:
            row.late_max_ms = min(late_ms, COUNT_MAX)
        if late_ms > LATE_MS:
            row.late += 1

    def skipped(self, namespace: str, count: int) -> None:
        """Counts due times that were left out."""
        row = self._rows.get(namespace) or self._new(namespace)
        row.skipped = min(row.skipped + count, COUNT_MAX)

    def _new(self, namespace: str) -> Minute:
        """Returns the row of a namespace that has none in this minute, or none yet that was read."""
        now_ms = self._meta.now_ms
        minute = self.open
        if minute is None:
            minute = OPEN_MINUTE.get(self._view, OPEN_KEY) or OpenMinute(0, {})
        if not 0 <= now_ms - minute.at_ms < MINUTE_MS:
            self._write(minute)
            minute = OpenMinute(now_ms - now_ms % MINUTE_MS, {})
        self.open, self._rows = minute, minute.rows
        row = minute.rows.get(namespace)
        if row is None:
            row = minute.rows[namespace] = Minute()
        return row

    def close_entry(self) -> None:
        """Keeps the row of the minute small, where something was counted. By entry: which table holds what must not
        depend on the write batches."""
        if len(self._rows) > OPEN_MAX and self.open is not None:
            self._write(self.open)
            self._rows.clear()

    def save(self) -> None:
        if self.open is not None:
            OPEN_MINUTE.put(self._view, self.open, OPEN_KEY)
            self.open, self._rows = None, {}

    # ------------------------------------------------------------ MINUTES

    def _write(self, minute: OpenMinute) -> None:
        """Adds what was counted to the rows of MINUTES."""
        total = Minute()
        for namespace, row in minute.rows.items():
            self._add(minute.at_ms, namespace, row)
            if namespace != SYSTEM_NAMESPACE:
                add_up(total, row)
        if minute.rows:
            self._add(minute.at_ms, ALL, total)
            self._drop(minute.at_ms, DROP_MAX + 2 * len(minute.rows))

    def _add(self, at_ms: int, namespace: str, more: Minute) -> None:
        row = MINUTES.get(self._view, at_ms, namespace)
        if row is not None:
            add_up(row, more)
        MINUTES.put(self._view, more if row is None else row, at_ms, namespace)

    def _drop(self, at_ms: int, most: int) -> None:
        """Drops rows that need not be kept any longer, and those of a time that has not come."""
        old = self._view.scan(Table.MINUTES, b"", u64(max(0, at_ms - KEEP_MS)))
        ahead = self._view.scan(Table.MINUTES, u64(at_ms + AHEAD_MS), reverse=True)
        gone = [key for rows in (old, ahead) for key, _ in islice(rows, most)]
        for key in gone:
            self._view.delete(Table.MINUTES, key)

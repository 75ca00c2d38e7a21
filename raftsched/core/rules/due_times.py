"""Due times in their order: those of DUE, which are in it, and those of DUE_LATER, which are by days and are sorted
here."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge, nlargest, nsmallest

from raftsched.core.rules.selection import Walk
from raftsched.core.tables import ReadView, Table, day_begins, u64


class DueLaterFirst:
    """The first rows of DUE_LATER in a range of due times, as keys of DUE. A day is looked through as a whole, a
    bounded number of rows at a time: the caller lets others have their turn in between."""

    def __init__(self, due: Walk, after_key: bytes | None, *, reverse: bool, count: int) -> None:
        """`due`: the walk that this is a part of. `after_key`: the key of DUE that an earlier look ended with. `count`:
        how many are wanted; there may be more."""
        low, high = due.low, due.high
        if after_key is not None and reverse:
            high = after_key if high is None else min(high, after_key)
        elif after_key is not None:
            low = max(low, after_key + b"\0")
        self._due = Walk(Table.DUE, low, high)
        self._reverse = reverse
        self._count = count
        self._found: list[bytes] = []
        self._at: bytes | None = None  # the row of DUE_LATER that was looked at last
        self._cut = False  # there are more behind those that were found

    def walk_before(self, view: ReadView) -> Walk | None:
        """Returns the part of the walk where nothing of DUE_LATER comes; None: nothing of DUE_LATER comes anywhere in
        it."""
        first = next(self._due.far.rows(view, reverse=self._reverse), None)
        if first is None:
            return None
        _, low, high = self._due
        if self._reverse:
            return Walk(Table.DUE, max(low, u64(day_begins(first[0], 1))), high)
        begins = u64(day_begins(first[0]))
        return Walk(Table.DUE, low, begins if high is None else min(high, begins))

    def read_rows(self, view: ReadView, rows_max: int) -> bool:
        """Looks at a number of rows. Returns whether it is done."""
        _, low, high = self._due
        for seen, (key, value) in enumerate(self._due.far.rows(view, self._at, reverse=self._reverse)):
            if seen >= rows_max:
                return False
            if self._at is not None and key[:4] != self._at[:4] and len(self._found) >= self._count:
                self._cut = True  # the days that follow are behind all of these
                return True
            self._at = key
            due = value + key[4:]
            if due >= low and (high is None or due < high):
                self._found.append(due)
                if len(self._found) > 4 * self._count:
                    self._keep_first()
        return True

    def _keep_first(self) -> None:
        self._cut = self._cut or len(self._found) > self._count
        self._found = (nlargest if self._reverse else nsmallest)(self._count, self._found)

    def rows(self, view: ReadView) -> tuple[Iterator[bytes], bytes | None]:
        """Yields the keys of DUE, and those that were found in DUE_LATER among them, in the order of their times. Also
        returns the key that they end with when there may be more; None: they are all there are."""
        self._keep_first()
        last = self._found[-1] if self._cut else None
        near = (key for key, _ in self._due.rows(view, reverse=self._reverse))
        return _each_once(merge(near, self._found, reverse=self._reverse), last), last


def _each_once(keys: Iterator[bytes], last: bytes | None) -> Iterator[bytes]:
    """Yields the keys up to the last one. A row that came near between two looks is in both tables' keys."""
    before = None
    for key in keys:
        if key != before:
            yield key
        if key == last:
            return
        before = key

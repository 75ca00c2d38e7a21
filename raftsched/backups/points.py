"""The points in time that a repository can restore: pure functions of the names in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from raftsched.backups.names import Full, Segment


class NotKept(ValueError):
    """A point that cannot be restored; the text says in one line why, and which are near."""


class Stretch(NamedTuple):
    """Entries after each of which the state can be restored, none missing between the first and the last."""

    first: int
    last: int
    from_ms: int  # the log's time at the first, and at the last
    to_ms: int


class Stranded(NamedTuple):
    """Entries of segments that nothing leads to: what is between them and the backup before them is missing, or that
    backup is."""

    first: int
    last: int
    from_ms: int  # the log's time at the first, and at the last, as far as the names of the segments say
    to_ms: int
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.segments)


@dataclass(frozen=True)
class Way:
    """Names what makes a state again: a backup, and the segments that lead from it to the entry."""

    full: Full
    segments: tuple[Segment, ...]
    index: int


@dataclass(frozen=True)
class Points:
    """All that is kept of one cluster, in order."""

    fulls: tuple[Full, ...]
    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, kept: Iterable[Full | Segment]) -> Points:
        found = list(kept)
        return cls(
            tuple(sorted(one for one in found if isinstance(one, Full))),
            tuple(sorted(one for one in found if isinstance(one, Segment))),
        )

    @property
    def last_index(self) -> int:
        """The newest entry after which the state can be restored; 0: there is no backup."""
        return max((stretch.last for stretch in self.stretches()), default=0)

    def on_from(self, full: Full, until: int | None = None) -> tuple[Segment, ...]:
        """Returns the segments that lead on from a backup, as far as they have all entries, or to one of them."""
        found: list[Segment] = []
        at = full.index
        farthest: Segment | None = None  # of those that begin where `at` is, or before
        for one in self.segments:
            if one.first > at + 1:
                if farthest is None or (until is not None and at >= until):
                    break
                found.append(farthest)
                at, farthest = farthest.last, None
                if one.first > at + 1:
                    break
            if one.last > at and (farthest is None or one.last > farthest.last):
                farthest = one
        if farthest is not None and (until is None or at < until):
            found.append(farthest)
        return tuple(found)

    def stretches(self) -> list[Stretch]:
        """Returns the stretches, those that overlap or touch as one."""
        found: list[Stretch] = []
        for full in self.fulls:
            way = self.on_from(full)
            last, to_ms = (way[-1].last, way[-1].to_ms) if way else (full.index, full.at_ms)
            if found and full.index <= found[-1].last:
                before = found.pop()
                end = max((before.last, before.to_ms), (last, to_ms))
                found.append(Stretch(before.first, end[0], before.from_ms, end[1]))
            else:
                found.append(Stretch(full.index, last, full.at_ms, to_ms))
        return found

    def _runs(self) -> list[tuple[int, int]]:
        """Returns the first and the last of the entries that segments have, those that overlap or touch as one."""
        found: list[tuple[int, int]] = []
        for one in self.segments:
            if found and one.first <= found[-1][1] + 1:
                found[-1] = (found[-1][0], max(found[-1][1], one.last))
            else:
                found.append((one.first, one.last))
        return found

    def stranded(self) -> list[Stranded]:
        """Returns the entries of the segments that nothing leads to, in order. A segment from which a backup is gone on
        is none of these, whatever it has of before."""
        stretches = self.stretches()
        pieces: list[tuple[int, int]] = []  # that cannot be restored
        for first, last in self._runs():
            at = first
            for stretch in stretches:
                if at <= stretch.last and stretch.first <= last:
                    if at < stretch.first:
                        pieces.append((at, stretch.first - 1))
                    at = stretch.last + 1
            if at <= last:
                pieces.append((at, last))
        found = []
        for first, last in pieces:
            # a backup may be that of the last entry of one
            within = tuple(one for one in self.segments if first <= one.first and one.last <= last + 1)
            if within:
                from_ms, to_ms = min(one.from_ms for one in within), max(one.to_ms for one in within)
                found.append(Stranded(first, min(last, max(one.last for one in within)), from_ms, to_ms, within))
        return found

    def missing(self) -> list[tuple[int, int]]:
        """Returns the first and the last of the entries that the log lacks between the oldest point or stranded entry
        and the newest."""
        stretches, stranded = self.stretches(), self.stranded()
        ends = [one.last for one in stretches] + [one.last for one in stranded]
        at = min([one.first for one in stretches] + [one.first - 1 for one in stranded], default=0)
        found = []
        for first, last in [*self._runs(), (max(ends, default=0) + 1, 0)]:
            if first > at + 1:
                found.append((at + 1, first - 1))
            at = max(at, last)
        return found

    def require_newest(self) -> None:
        """Raises NotKept when later entries are stranded than those of the newest state that there is a way to."""
        beyond = [one for one in self.stranded() if one.first > self.last_index]
        if self.fulls and beyond:
            at = self.last_index  # a hole may begin before the newest backup, and go on behind it
            lacking = [(max(first, at + 1), last) for first, last in self.missing() if last > at]
            later = _entries((one.first, one.last) for one in beyond)
            raise NotKept(
                f"{later} of the log are kept and nothing leads to them, for {_entries(lacking)} are missing. Look for"
                f" another copy, or an earlier version, of what is missing (log-{lacking[0][0]:016d}-...); to go on"
                f" without them, say --at {self.last_index}"
            )

    def way_to(self, index: int | None) -> Way:
        """Returns the way to the state after an entry, from the nearest backup; None: to the newest one. Raises
        NotKept."""
        if not self.fulls:
            kept = _entries((one.first, one.last) for one in self.stranded())
            raise NotKept("there is no full backup" + (f", and nothing leads to {kept} of the log" if kept else ""))
        if index is None:
            index = self.last_index
        for full in reversed(self.fulls):
            if full.index > index:
                continue
            segments = self.on_from(full, index)
            if (segments[-1].last if segments else full.index) >= index:
                return Way(full, segments, index)
        raise NotKept(f"the state after entry {index} cannot be restored; {self._near(index)}")

    def around(self, at_ms: int) -> tuple[Full | None, Segment | None]:
        """Returns the newest backup that is of no later time, and the segment with the newest entry that is of no later
        time. A leader's clock may be behind that of the one before: what is newest goes by the order of the log."""
        full = next((one for one in reversed(self.fulls) if one.at_ms <= at_ms), None)
        newest_first = sorted(self.segments, key=lambda one: one.last, reverse=True)
        return full, next((one for one in newest_first if one.from_ms <= at_ms), None)

    def require_no_gap(self, index: int, at_ms: int) -> None:
        """Raises NotKept when nothing is kept of a time: `index` is the newest entry that is not of later, and what
        followed it is missing."""
        kept: list[Stretch | Stranded] = [*self.stretches(), *self.stranded()]
        for stretch, following in pairwise(sorted(kept, key=lambda one: one.first)):
            if stretch.last == index and stretch.to_ms < at_ms < following.from_ms:
                raise NotKept(f"nothing is kept of that time; {self._near(index + 1)}")

    def _near(self, index: int) -> str:
        stretches = self.stretches()
        before = max((s.last for s in stretches if s.last < index), default=None)
        after = min((s.first for s in stretches if s.first > index), default=None)
        near = [f"--at {found}" for found in (before, after) if found is not None]
        return (
            f"the nearest that can are {' and '.join(near)}" if len(near) > 1 else f"the nearest that can is {near[0]}"
        )


def _entries(ranges: Iterable[tuple[int, int]]) -> str:
    """Returns "entries 19 to 24, 30 to 35"; nothing for none."""
    text = ", ".join(f"{first} to {last}" for first, last in ranges)
    return f"entries {text}" if text else ""


def expired(points: Points, keep_ms: int, keep_full: int, now_ms: int) -> Sequence[Full | Segment]:
    """Returns what may be deleted, in the order in which it may be.

    All points of the last `keep_ms` stay, and so does the backup from which the oldest of them is made; the newest
    `keep_full` backups stay however old they are. Time is the log's newest, or `now_ms` where that is earlier: a
    clock that was ahead for a while makes nothing old. Nor does one that was behind: what has an old time and follows
    younger points in the log is no older than they are. What nothing leads to stays as long: the backup or the segment
    before it may be found again. A backup goes before its segments, which are of no use without
    it: whoever is interrupted leaves nothing that looks whole and is not."""
    if not points.fulls:
        return []
    newest_ms = max(stretch.to_ms for stretch in points.stretches())
    until_ms = min(newest_ms, now_ms)
    since_ms = until_ms - keep_ms
    young = [full.index for full in points.fulls if since_ms < full.at_ms <= until_ms]
    for one in points.segments:
        latest_ms = one.to_ms if one.to_ms <= until_ms else one.from_ms  # what is ahead of time gets no older for long
        if since_ms < latest_ms <= until_ms:
            young.append(one.first)
    first = min(young, default=points.fulls[-1].index + 1)
    old_enough = [at for at, full in enumerate(points.fulls) if full.at_ms <= since_ms and full.index < first]
    oldest = max(0, min(old_enough[-1] if old_enough else 0, len(points.fulls) - max(1, keep_full)))
    base = points.fulls[oldest]
    segments = [one for one in points.segments if one.last <= base.index and one.last < first]
    return [*points.fulls[:oldest], *segments]

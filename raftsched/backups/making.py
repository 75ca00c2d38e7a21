"""Adds to a repository what it lacks: segments of the log since the last time, and a full backup where one is due."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from raftsched.backups.names import Full, Segment
from raftsched.backups.points import Points, expired
from raftsched.backups.repository import Repository
from raftsched.store.backup import Contents, Label, NotABackup, read_label, verified_contents, verify
from raftsched.store.segment import decode


class LogGone(Exception):
    """The cluster no longer has the entries that were asked for."""


class WentBack(ValueError):
    """The repository has entries that the cluster does not have; the text says so in one line."""


class Cluster(Protocol):
    """The cluster that is backed up."""

    @property
    def id(self) -> str:
        """Hexadecimal."""

    def log(self, after: int) -> tuple[bytes, int]:
        """Returns a segment of what follows an entry (empty: nothing does), and the newest entry: all that was
        acknowledged before has been applied by then. Raises LogGone, WentBack."""

    def state(self, target: Path) -> None:
        """Writes a backup to a new file, with all that was acknowledged before."""


@dataclass(frozen=True)
class Made:
    """The outcome of one round."""

    index: int  # the newest entry in the repository
    at_ms: int  # and the log's time there
    segments: int
    full: Full | None
    gap: bool  # the log no longer went back so far: states between the two cannot be restored
    size: int  # bytes, as stored
    begins: bool  # there was no backup of the cluster before


class Round:
    """One round. `scratch`: an empty directory for a backup on its way."""

    def __init__(self, repository: Repository, cluster: Cluster, scratch: Path) -> None:
        self._repository = repository
        self._cluster = cluster
        self._scratch = scratch
        self._segments = self._size = 0

    def add(self, full_every_ms: int) -> Made:
        """Fetches all that the repository lacks. A full backup is due when the newest is so much older than the log,
        when there is none, or when the log has a gap to it."""
        points = self._repository.points(self._cluster.id)
        gap = False
        made: Full | None = None
        at, term, at_ms = 0, 0, 0
        if points.fulls:
            self._fill(points)
            at, term, at_ms = self._end(points)
            try:
                at, term, at_ms = self._log(at, term, at_ms)
            except LogGone:
                gap = True
        # A leader's clock may have gone back since.
        if gap or not points.fulls or abs(at_ms - points.fulls[-1].at_ms) >= full_every_ms:
            with self._fetched() as (file, full):
                if points.fulls and not gap and at < full.index:
                    try:  # so that no point between the segments and this backup is missing
                        at, term, at_ms = self._log(at, term, at_ms)
                    except LogGone:
                        gap = True
                made = self._put(file)  # last: the next round goes on from it, and fetches nothing of before
            if at < made.index:
                at, at_ms = made.index, made.at_ms
        return Made(at, at_ms, self._segments, made, gap, self._size, not points.fulls)

    def _end(self, points: Points) -> tuple[int, int, int]:
        newest = points.fulls[-1]
        way = points.on_from(newest)
        return (way[-1].last, way[-1].term, way[-1].to_ms) if way else (newest.index, newest.term, newest.at_ms)

    def _fill(self, points: Points) -> None:
        """Stores what was lost of the log before the newest backup, as far as the cluster still has it: what a segment
        goes on from was there once. What is missing behind that backup comes by itself."""
        fulls = {one.index: one.term for one in points.fulls}
        ends = fulls | {one.last: one.term for one in points.segments}
        begun = {one.first for one in points.segments}
        for first, last in points.missing():
            lost = last + 1 in begun and last not in fulls and first - 1 in ends
            if lost and first <= points.fulls[-1].index:
                with suppress(LogGone):
                    self._log(first - 1, ends[first - 1], 0, last)

    def _log(self, at: int, term: int, at_ms: int, until: int | None = None) -> tuple[int, int, int]:
        """Stores the log behind an entry, as far as it goes now, or to another entry. Returns the last entry, with its
        term and time."""
        goal = until
        while goal is None or at < goal:
            raw, newest = self._cluster.log(at)
            goal = newest if goal is None else goal  # else a busy cluster would be followed for ever
            if not raw:
                break
            label, _ = decode(raw, "the segment that the cluster sent", self._repository.keys)
            if (label.cluster_id, label.first) != (self._cluster.id, at + 1):
                raise NotABackup(f"the cluster sent entries from {label.first} on of {label.cluster_id}")
            if label.before_term != term:
                raise WentBack(
                    f"entry {at} is of term {label.before_term} in the cluster and of term {term} in"
                    f" {self._repository.where}: the cluster lost entries that were backed up; back it up elsewhere"
                )
            name = Segment(label.cluster_id, label.first, label.last, label.term, label.from_ms, label.to_ms)
            self._size += self._repository.put(name, io.BytesIO(raw))
            self._segments += 1
            at, term, at_ms = label.last, label.term, label.to_ms
        return at, term, at_ms

    @contextmanager
    def _fetched(self) -> Iterator[tuple[Path, Label]]:
        """Gives a new backup of the cluster, which nobody has looked into yet, and what it says of itself."""
        file = self._scratch / "full"
        try:
            self._cluster.state(file)
            with file.open("rb") as source:
                label = read_label(source, str(file))
            if label.cluster_id != self._cluster.id:
                raise NotABackup(f"the cluster sent a backup of {label.cluster_id}")
            yield file, label
        finally:
            file.unlink(missing_ok=True)

    def _put(self, file: Path) -> Full:
        """Stores a backup, which is read whole and looked into before."""
        found = self._checked(file)
        label = found.label
        name = Full(label.cluster_id, label.index, label.term, found.meta.now_ms)
        with file.open("rb") as source:
            self._size += self._repository.put(name, source)
        return name

    def _checked(self, file: Path) -> Contents:
        verify(file, keys=self._repository.keys)
        return verified_contents(file)


def retain(
    repository: Repository,
    cluster: str,
    keep_ms: int,
    keep_full: int,
    now_ms: int,
    before: Callable[[Points], None] = lambda points: None,
) -> int:
    """Deletes what no point needs that is to be kept. Returns how many files that were. `now_ms`: the wall clock.
    `before` gets what is kept, when something is about to be deleted: nothing is if it raises."""
    points = repository.points(cluster)
    gone = expired(points, keep_ms, keep_full, now_ms)
    if gone:
        before(points)
        repository.delete(gone)
    return len(gone)

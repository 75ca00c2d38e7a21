"""Verifies a repository by restoring from it: makes the newest state, and compares two ways to one state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from raftsched.backups.names import Full
from raftsched.backups.points import NotKept, Points, Way
from raftsched.backups.repository import Repository
from raftsched.store.backup import NotABackup, NotWhole, reading
from raftsched.store.digest import digest
from raftsched.store.rebuild import Rebuilt, go_on, rebuild
from raftsched.store.store import MAP_BYTES

Progress = Callable[[str, int, int], None]  # what is read, bytes so far, and all of them


def _quiet(what: str, done: int, total: int) -> None:
    return


@dataclass(frozen=True)
class Verified:
    """The outcome of a restore of the newest state."""

    state: Rebuilt
    way: Way
    compared: (
        tuple[int, int] | None
    )  # a state that was made from an earlier backup and the log: of this backup, to this
    # entry, where another backup is; None: there are no two ways to one state
    digest: str  # of all rows


def made(
    repository: Repository, way: Way, directory: Path, progress: Progress = _quiet, map_bytes: int = MAP_BYTES
) -> Rebuilt:
    """Returns the state at the end of a way, in a new directory below `directory`. Raises NotABackup, ObjectStoreError,
    OSError."""
    work = directory / f"to-{way.index}-from-{way.full.index}"
    work.mkdir(mode=0o700)
    file = work / "backup"
    what = f"backup of entry {way.full.index}"
    repository.fetch(way.full, file, lambda done: progress(what, done, way.full.size))
    entries = repository.entries(way)
    try:
        return rebuild(file, work, work / "tables", entries, map_bytes=map_bytes, keys=repository.keys)
    except ValueError as error:
        kind = NotWhole if isinstance(error, NotWhole) else NotABackup
        raise kind(str(error).replace(str(file), f"{repository.where}/{way.full.key}")) from None
    finally:
        file.unlink(missing_ok=True)


@contextmanager
def another_way(points: Points, way: Way) -> Iterator[None]:
    """Says of a full backup that is not whole that others lead to the same state, where they do. Raises NotWhole."""
    try:
        yield
    except NotWhole as error:
        if way.full.key not in str(error):  # a segment is not whole, which the others need, too
            raise
        others = Points(tuple(one for one in points.fulls if one != way.full), points.segments)
        try:
            full = others.way_to(way.index).full
        except NotKept:
            raise error from None
        raise NotWhole(
            f"{error}; move it away: the backup of entry {full.index} and the log lead to the same state"
        ) from None


def verified(
    repository: Repository, points: Points, directory: Path, progress: Progress = _quiet, map_bytes: int = MAP_BYTES
) -> Verified:
    """Restores the newest state below `directory`. Where an earlier backup and the log lead to the backup that it is
    made from, they must give the same rows. Raises NotKept, NotABackup, ObjectStoreError, OSError."""
    newest = points.way_to(None)
    with another_way(points, newest):
        alone = made(repository, Way(newest.full, (), newest.full.index), directory, progress, map_bytes)
    rows, compared = _digest(alone, repository, newest, map_bytes), None
    earlier = _earlier(points, newest.full)
    if earlier is not None:
        other = made(repository, earlier, directory, progress, map_bytes)
        if _digest(other, repository, earlier, map_bytes) != rows:
            raise NotABackup(
                f"the state after entry {newest.full.index} is another in {repository.where}/{newest.full.key} than the"
                f" backup of entry {earlier.full.index} and the log lead to"
            )
        compared = (earlier.full.index, newest.full.index)
    state = go_on(alone, repository.entries(newest), map_bytes=map_bytes)
    if state.index != alone.index:
        rows = _digest(state, repository, newest, map_bytes)
    return Verified(state, newest, compared, rows)


def read_stranded(repository: Repository, points: Points, progress: Progress = _quiet) -> None:
    """Reads what is kept of the log and cannot be restored: it is of use only where it is whole. Raises NotABackup,
    ObjectStoreError, OSError."""
    segments = [segment for one in points.stranded() for segment in one.segments]
    done, total = 0, sum(segment.size for segment in segments)
    for segment in segments:
        repository.segment(segment)
        done += segment.size
        progress("stranded entries", done, total)


def _digest(state: Rebuilt, repository: Repository, way: Way, map_bytes: int) -> str:
    """Raises NotABackup, OSError."""
    with reading(f"{repository.where}/{way.full.key}"):
        return digest(state.directory, map_bytes=map_bytes)


def _earlier(points: Points, full: Full) -> Way | None:
    """Returns the way to the state of a backup from the one before it, where the log has all that is between."""
    before = [one for one in points.fulls if one.index < full.index]
    if not before:
        return None
    segments = points.on_from(before[-1], full.index)
    if not segments or segments[-1].last < full.index:
        return None
    return Way(before[-1], segments, full.index)

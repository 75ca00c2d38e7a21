"""Reads and writes a repository: what lies in an object store under the names of `names`, sealed for a recipient or in
the clear."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

from raftsched.backups.names import Full, Segment, parse
from raftsched.backups.points import NotKept, Points, Way
from raftsched.core.entry import time_of
from raftsched.objectstore.store import ObjectStore, Source
from raftsched.security.keyring import Keyring
from raftsched.security.sealed_backup import MAGIC, NotOpened, OtherRecipient, Sealing, opened
from raftsched.store import LogEntry
from raftsched.store.backup import NotABackup, NotWhole, read_label
from raftsched.store.segment import FILE_MAX, SegmentLabel, decode

_READ = 1 << 20  # bytes


class Repository:
    """`recipient`: whom new ones are sealed for; `identity`: opens sealed ones; `keys`: all that is read must be signed
    with one of them. Every failure is a NotABackup, NotKept, ObjectStoreError or OSError, whose text is one line."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        recipient: str | None = None,
        identity: str | None = None,
        keys: Keyring | None = None,
    ) -> None:
        self.store = store
        self._recipient = recipient
        self._identity = identity
        self.keys = keys

    @property
    def where(self) -> str:
        return self.store.where

    def clusters(self) -> dict[str, Points]:
        """Returns what is kept of each cluster, by its id. Files with other names are left alone."""
        found: dict[str, list[Full | Segment]] = {}
        for one in self._kept(""):
            found.setdefault(one.cluster, []).append(one)
        return {cluster: Points.of(kept) for cluster, kept in found.items()}

    def points(self, cluster: str) -> Points:
        """Returns what is kept of one cluster."""
        return Points.of(self._kept(f"{cluster}/"))

    def _kept(self, prefix: str) -> Iterator[Full | Segment]:
        for key, size, _ in self.store.list(prefix):
            one = parse(key, size)
            if one is not None and size > 0:
                yield one

    def put(self, name: Full | Segment, source: Source) -> int:
        """Stores a file, sealed if there is a recipient, and returns its bytes."""
        return self.store.put(name.key, source if self._recipient is None else _Sealed(source, self._recipient))

    def delete(self, names: Iterable[Full | Segment]) -> None:
        """Deletes these, in this order."""
        for name in names:
            self.store.delete(name.key)

    # ------------------------------------------------------------ reading

    def fetch(self, full: Full, target: Path, progress: Callable[[int], None] = lambda done: None) -> None:
        """Writes a backup to a new file, in the clear. What it says of itself must be what its name says; whether it is
        whole `backup.verify` says."""
        done = 0
        with target.open("xb") as out, self._reading(full) as pieces:
            for piece in pieces:
                out.write(piece)
                done += len(piece)
                progress(done)
        with target.open("rb") as file:
            label = read_label(file, self._name(full))
        if (label.cluster_id, label.index, label.term) != (full.cluster, full.index, full.term):
            raise NotWhole(f"{self._name(full)} holds the state after entry {label.index} of {label.cluster_id}")

    def entries(self, way: Way) -> Iterator[list[LogEntry]]:
        """Yields the entries of a way that follow its backup, each once and in order, segment by segment."""
        at, term = way.full.index, way.full.term
        for segment in way.segments:
            label, entries = self.segment(segment)
            before = label.before_term if label.first == at + 1 else entries[at - label.first].term
            if before != term:
                raise NotABackup(
                    f"{self._name(segment)} does not go on from entry {at} of term {term}: it was written after the"
                    " cluster had lost that entry"
                )
            part = [entry for entry in entries if at < entry.index <= way.index]
            yield part
            at, term = part[-1].index, part[-1].term

    def segment(self, segment: Segment) -> tuple[SegmentLabel, list[LogEntry]]:
        """Returns the content of a segment, checked."""
        name = self._name(segment)
        raw = bytearray()
        with self._reading(segment) as pieces:
            for piece in pieces:
                raw += piece
                if len(raw) > FILE_MAX:
                    raise NotABackup(f"{name} is larger than any segment ({FILE_MAX >> 20} MiB)")
        label, entries = decode(bytes(raw), name, self.keys)
        if (label.cluster_id, label.first, label.last, label.term) != (
            segment.cluster,
            segment.first,
            segment.last,
            segment.term,
        ):
            raise NotABackup(f"{name} holds the entries {label.first} to {label.last} of {label.cluster_id}")
        return label, entries

    def way_at(self, points: Points, at_ms: int) -> Way:
        """Returns the way to the state after the newest entry that is of no later time. Raises NotKept."""
        full, segment = points.around(at_ms)
        found = [] if full is None else [full.index]
        if segment is not None:
            times = [(entry.index, time_of(entry.data)) for entry in self.segment(segment)[1]]
            found += [index for index, time in times if time is not None and time <= at_ms]
        if not found:
            oldest = min((one.at_ms for one in points.fulls), default=None)
            raise NotKept(
                "there is no full backup"
                if oldest is None
                else f"all that is kept is of later; the oldest state is of {time_text(oldest)}"
            )
        points.require_no_gap(max(found), at_ms)
        return points.way_to(max(found))

    @contextmanager
    def _reading(self, name: Full | Segment) -> Iterator[Iterator[bytes]]:
        """Gives the pieces of a file in the clear."""
        pieces = _Pieces(self.store.get(name.key, 0, name.size or None))  # no more than was listed
        try:
            if pieces.peek(len(MAGIC)) != MAGIC:
                yield iter(lambda: pieces.read(_READ), b"")
                return
            if self._identity is None:
                raise NotABackup(f"{self._name(name)} is sealed; say --identity FILE")
            yield opened(cast(BinaryIO, pieces), self._identity)
        except OtherRecipient as error:
            raise NotABackup(f"{self._name(name)} {error}") from None
        except NotOpened as error:
            raise NotWhole(f"{self._name(name)} {error}") from None
        finally:
            pieces.close()

    def _name(self, name: Full | Segment) -> str:
        return f"{self.where}/{name.key}"


def chosen(clusters: dict[str, Points], said: str | None, where: str) -> str:
    """Returns the cluster that is meant: the only one, or the one whose id begins so. Raises NotKept."""
    found = [cluster for cluster in sorted(clusters) if cluster.startswith(said or "")]
    if len(found) == 1:
        return found[0]
    if not clusters:
        raise NotKept(f"{where} holds no backups of raftsched")
    if found:
        raise NotKept(
            f"{where} holds backups of {len(found)} clusters ({', '.join(c[:8] for c in found)}); say --cluster"
        )
    raise NotKept(f"{where} holds none of the cluster {said}; it has {', '.join(c[:8] for c in sorted(clusters))}")


def time_text(at_ms: int) -> str:
    """Returns a time as it is shown, and as --at takes it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Sealed:
    """A source that seals what another one gives."""

    def __init__(self, source: Source, recipient: str) -> None:
        self._source = source
        self._out = io.BytesIO()
        self._sealing: Sealing | None = Sealing(self._out, recipient)

    def read(self, size: int, /) -> bytes:
        while self._sealing is not None and self._out.tell() < size:
            piece = self._source.read(_READ)
            if piece:
                self._sealing.write(piece)
            else:
                self._sealing.end()
                self._sealing = None
        whole = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        self._out.write(whole[size:])
        return whole[:size]


class _Pieces:
    """A file to read from, of pieces of any size: gives as many bytes as it is asked for, until the end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    def peek(self, size: int) -> bytes:
        self._fill(size)
        return self._held[:size]

    def read(self, size: int) -> bytes:
        self._fill(size)
        found, self._held = self._held[:size], self._held[size:]
        return found

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()

    def _fill(self, size: int) -> None:
        if len(self._held) >= size:
            return
        found, length = [self._held], len(self._held)
        for piece in self._pieces:
            found.append(piece)
            length += len(piece)
            if length >= size:
                break
        self._held = b"".join(found)

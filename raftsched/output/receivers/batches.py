"""Reads what was not shipped yet from a node's segments, in batches: bounded, in the order of the segments, and only
what is on the disk for good. Blocks; for a thread.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from raftsched.output.format.records import HEADER, HEADER_SIZE, body_size, pieces_of
from raftsched.output.keeping.owner_record import NAMED_MAX, OutputOwner, read_body
from raftsched.output.keeping.segment_table import Synced
from raftsched.output.receivers.lines import Line, frames_in, lines_of
from raftsched.output.receivers.marks import Mark
from raftsched.system import background

BATCH_MAX = 512 * 1024  # bytes as the receiver gets them; one line may go beyond it
BATCH_LINES = 5_000
BATCH_RECORDS = 20_000  # that are passed over at once, because they are not shipped
AHEAD_MS = 60_000  # by which the time of a line may be ahead of this clock
_NS = 1_000_000  # in a millisecond

log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A line, and whose it is. `at_ns`: when its attempt ended (UTC), and as much later as keeps lines in order."""

    owner: OutputOwner
    token: int
    at_ns: int
    line: Line


class Packed(NamedTuple):
    entry: Entry
    data: bytes  # as the receiver gets it


class Batch:
    """Lines that are sent together."""

    def __init__(self) -> None:
        self.lines: list[Packed] = []
        self.size = 0
        self.passed = 0  # records that are not shipped
        self.damaged = 0  # bytes
        self.after: dict[int, Mark] = {}  # where the receiver is when it has taken them, by segment

    @property
    def full(self) -> bool:
        return self.size >= BATCH_MAX or len(self.lines) >= BATCH_LINES or self.passed >= BATCH_RECORDS

    @property
    def empty(self) -> bool:
        return not self.after


class _Record(NamedTuple):
    """A record of a segment, as its header says it."""

    begin: int
    end: int
    token: int
    ended_at_ms: int
    sha256: bytes


class _Named(NamedTuple):
    """A record that says whose the next one is."""

    begin: int
    end: int
    token: int
    owner: OutputOwner


class _Step(NamedTuple):
    """The next thing in a segment: a line, or something that is not shipped. `after`: the mark behind it."""

    after: Mark
    entry: Entry | None = None
    damaged: int = 0


class Unshipped:
    """Reads what was on the disk at one moment, and had not been taken."""

    def __init__(
        self,
        segments: Iterable[Synced],
        mark_of: Callable[[int], Mark],
        pack: Callable[[Entry], bytes],
        *,
        namespaces: Collection[str] | None,
        now_ms: int,
    ) -> None:
        """`pack`: makes what the receiver gets of a line. `namespaces`: whose output is shipped; None: that of all."""
        self._pack = pack
        self._namespaces = namespaces
        self._now_ms = now_ms
        self._steps = self._all(list(segments), mark_of)

    def next(self) -> Batch:
        """Returns the next batch; empty: that was all. Raises OSError."""
        batch = Batch()
        for number, step in self._steps:
            batch.after[number] = step.after
            batch.damaged += step.damaged
            if step.entry is None:
                batch.passed += 1
            else:
                try:
                    packed = Packed(step.entry, self._pack(step.entry))
                except Exception as error:  # it is passed over, or nothing behind it would ever be shipped
                    background.note("output-shipping", error, f"a line of attempt {step.entry.token}")
                    batch.damaged += len(step.entry.line.text)
                else:
                    batch.lines.append(packed)
                    batch.size += len(packed.data)
            if batch.full:
                break
        return batch

    def _all(self, segments: list[Synced], mark_of: Callable[[int], Mark]) -> Iterator[tuple[int, _Step]]:
        for segment in segments:
            mark = mark_of(segment.number)
            if mark.at >= segment.size:
                continue
            try:
                for step in self._in(segment, mark):
                    yield segment.number, step
            except FileNotFoundError:  # it was deleted meanwhile
                continue
            except OSError as error:
                log.warning("output in %s cannot be read, and is not shipped: %s", segment.path, error)

    def _in(self, segment: Synced, mark: Mark) -> Iterator[_Step]:
        before: _Named | None = None
        with segment.path.open("rb", buffering=0) as file:
            while True:
                at = mark.at if before is None else before.end
                if at >= segment.size:
                    if before is not None:  # the output was not written to its end, and this segment gets no more
                        yield _Step(Mark(segment.size, 0, mark.last_ns))
                    return
                record = _record_at(file.fileno(), at, segment.size)
                if record is None:  # nothing behind it can be found
                    yield _Step(Mark(segment.size, 0, mark.last_ns), damaged=segment.size - at)
                    return
                named = _named(file.fileno(), record)
                if named is not None:
                    before = _Named(at, record.end, record.token, named)
                    continue
                for step in self._steps_of(segment, file.fileno(), record, before, mark):
                    yield step
                    mark = step.after
                before = None

    def _steps_of(
        self, segment: Synced, fd: int, record: _Record, before: _Named | None, mark: Mark
    ) -> Iterator[_Step]:
        """Yields the lines of an output, or one step to pass over it. `mark`: that before it, or within its lines."""
        passed = Mark(record.end, 0, mark.last_ns)
        if before is None or before.token != record.token or not self._is_wanted(before.owner):
            yield _Step(passed)
        elif not _is_whole(fd, record):
            yield _Step(passed, damaged=record.end - record.begin)
        else:
            yield from self._lines(segment, record, before, mark)

    def _is_wanted(self, owner: OutputOwner) -> bool:
        return self._namespaces is None or owner.namespace in self._namespaces

    def _lines(self, segment: Synced, record: _Record, before: _Named, mark: Mark) -> Iterator[_Step]:
        taken = mark.lines if mark.at == before.begin else 0
        last_ns = mark.last_ns
        # Whoever works elsewhere may say any time; and a clock that was ahead must not put all that follows ahead, too.
        ended_ns = min(record.ended_at_ms, self._now_ms) * _NS
        was_ahead = last_ns > (self._now_ms + AHEAD_MS) * _NS
        for line in lines_of(frames_in(segment.path, record.begin + HEADER_SIZE, record.end)):
            if line.number > taken:
                last_ns = ended_ns + line.number if was_ahead else max(ended_ns, last_ns + 1)
                after = Mark(before.begin, line.number, last_ns)
                yield _Step(after, Entry(before.owner, record.token, last_ns, line))
        yield _Step(Mark(record.end, 0, last_ns))


def waiting(segments: Iterable[Synced], mark_of: Callable[[int], Mark]) -> tuple[int, int | None]:
    """Returns how many bytes of segments were not taken or passed over yet, and when the oldest attempt of these ended
    (UTC ms)."""
    size, since = 0, None
    for segment in segments:
        at = mark_of(segment.number).at
        if at >= segment.size:
            continue
        try:
            with segment.path.open("rb", buffering=0) as file:
                record = _record_at(file.fileno(), at, segment.size)
        except OSError:
            continue
        size += segment.size - at
        if record is not None:
            since = record.ended_at_ms if since is None else min(since, record.ended_at_ms)
    return size, since


def _record_at(fd: int, at: int, end: int) -> _Record | None:
    """None: there is no whole header, or the record goes on behind what is on the disk."""
    head = os.pread(fd, HEADER_SIZE, at)
    size = body_size(head)
    if size is None or at + HEADER_SIZE + size > end:
        return None
    _, _, token, ended_at_ms, _, sha256 = HEADER.unpack(head[: HEADER.size])
    return _Record(at, at + HEADER_SIZE + size, token, ended_at_ms, sha256)


def _named(fd: int, record: _Record) -> OutputOwner | None:
    """Returns whose the next record is, where this one says that; None: it is an output."""
    at, size = record.begin + HEADER_SIZE, record.end - record.begin - HEADER_SIZE
    if size > NAMED_MAX:
        return None
    owner = read_body(os.pread(fd, size, at))
    return owner if owner is not None and _is_whole(fd, record) else None


def _is_whole(fd: int, record: _Record) -> bool:
    """Returns whether its digest fits."""
    body = hashlib.sha256()
    for piece in pieces_of(fd, record.begin + HEADER_SIZE, record.end):
        body.update(piece)
    return body.digest() == record.sha256

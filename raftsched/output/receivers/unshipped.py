"""Reads what was not shipped yet from a node's segments, in batches: bounded, in the order in which each namespace
printed, and only what is on the disk for good. Blocks; for a thread.

Namespaces take turns: each has its next lines in a batch, up to TURN, before one has more. The headers of records are
read ahead for that, over all segments, since most namespaces share one.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from raftsched.output.following.follower import Piece
from raftsched.output.format.records import HEADER, HEADER_SIZE, body_size, spans
from raftsched.output.keeping.owner_record import NAMED_MAX, OutputOwner, read_body
from raftsched.output.keeping.segment_table import Synced
from raftsched.output.receivers.lines import Line, frames_in, lines_of
from raftsched.output.receivers.marks import Mark, Marks
from raftsched.system import background

BATCH_MAX = 512 * 1024  # what a batch costs at most; one line may go beyond it
LINE_COST = 256  # bytes that a line counts as beside its own: to make, to send and to keep one costs so much
TURN = 64 * 1024  # what a namespace has of a batch, before the others have as much
AHEAD = 50_000  # outputs that are known of and were not read yet: so far a namespace is seen behind another one
NAMESPACES = 256  # that take turns at one time: a file is open for each that is within an output
BATCH_RECORDS = 20_000  # that are passed over at once, because they are not shipped
AHEAD_MS = 60_000  # by which the time of a line may be ahead of this clock
_BUFFER = 256 * 1024  # bytes of an output that are read at once
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


class _Record(NamedTuple):
    """A record of a segment, as its header says it."""

    begin: int
    end: int
    token: int
    ended_at_ms: int


@dataclass(slots=True)
class Reading:
    """A segment of which something is not shipped. All before `at` is known of."""

    segment: Synced
    at: int
    pending: dict[int, int] = field(default_factory=dict)  # outputs that were not taken: where they begin and end
    pending_bytes: int = 0

    @property
    def base(self) -> int:
        """All before it was taken."""
        return next(iter(self.pending), self.at)

    def find(self, begin: int, end: int) -> None:
        self.pending[begin] = end
        self.pending_bytes += end - begin

    def done(self, begin: int) -> None:
        self.pending_bytes -= self.pending.pop(begin) - begin


class _Output(NamedTuple):
    """An output to ship. `begin`: where the record that names its owner does. `record`: None: this part is damaged."""

    reading: Reading
    begin: int
    end: int
    owner: OutputOwner | None = None
    record: _Record | None = None


class _Step(NamedTuple):
    """The next thing of a namespace in a segment: a line, or the end of an output. `after`: the mark behind it."""

    output: _Output
    after: Mark
    entry: Entry | None = None
    damaged: int = 0


class Batch(Piece):
    """Lines that are sent together."""

    def __init__(self) -> None:
        super().__init__(("",), items=0)
        self.lines: list[Packed] = []
        self.damaged = 0  # bytes
        self.passed = 0  # records that are not shipped
        self.after: dict[int, dict[str, Mark]] = {}  # where the receiver is when it has taken them, by segment
        self.done: list[_Output] = []

    @property
    def full(self) -> bool:
        return self.cost >= BATCH_MAX

    @property
    def empty(self) -> bool:
        return not self.after and not self.passed

    def add(self, namespace: str, step: _Step, pack: Callable[[Entry], bytes]) -> None:
        self.after.setdefault(step.output.reading.segment.number, {})[namespace] = step.after
        self.damaged += step.damaged
        if step.entry is None:
            self.done.append(step.output)
            self.cost += LINE_COST
            return
        try:
            packed = Packed(step.entry, pack(step.entry))
        except Exception as error:  # it is passed over, or nothing behind it would ever be shipped
            background.note("output-shipping", error, f"a line of attempt {step.entry.token}")
            self.damaged += len(step.entry.line.text)
        else:
            self.lines.append(packed)
            self.items += 1
            self.size += len(packed.data)
            self.cost += len(packed.data) + LINE_COST


class Unshipped:
    """Reads what was on the disk at one moment, and had not been taken."""

    def __init__(
        self,
        segments: Iterable[Synced],
        marks: Marks,
        pack: Callable[[Entry], bytes],
        *,
        namespaces: Collection[str] | None,
        now_ms: int,
    ) -> None:
        """`pack`: makes what the receiver gets of a line. `namespaces`: whose output is shipped; None: that of all."""
        self._marks = marks
        self._pack = pack
        self._namespaces = namespaces
        self._now_ms = now_ms
        self.readings = {
            segment.number: Reading(segment, marks.of(segment.number).at)
            for segment in segments
            if marks.of(segment.number).at < segment.size
        }
        self._found = self._find_all()
        self._known = 0  # outputs of which not all was read
        self._queues: dict[str, deque[_Output]] = {}  # by namespace; "": what is damaged
        self._turns: dict[str, Iterator[_Step]] = {}  # by namespace, the one whose turn it is first
        self._unread: set[tuple[int, str]] = set()  # segments that cannot be read, with the namespace that had its turn
        self._last_ns: dict[tuple[int, str], int] = {}  # the time of the last line, by segment and namespace

    def next(self) -> Batch:
        """Returns the next batch; empty: that was all. Raises OSError."""
        batch = Batch()
        while not batch.full:
            self._look_ahead(batch)
            if not self._turns or batch.passed >= BATCH_RECORDS:
                break
            self._take_turn(batch, next(iter(self._turns)))
        return batch

    def _take_turn(self, batch: Batch, namespace: str) -> None:
        steps = self._turns.pop(namespace)
        end = batch.cost + TURN
        for step in steps:
            batch.add(namespace, step, self._pack)
            if batch.cost >= end or batch.full:
                self._turns[namespace] = steps  # behind the others
                return
        del self._queues[namespace]

    def taken(self, batch: Batch) -> None:
        """Moves the marks: the receiver has this batch, which was read last, and all before it."""
        for output in batch.done:
            output.reading.done(output.begin)
        for number, reading in self.readings.items():
            taken = batch.after.get(number, {})
            if taken or reading.base != self._marks.of(number).at:
                self._marks.move(number, reading.base, taken)

    # ------------------------------------------------------------ looking ahead

    def _look_ahead(self, batch: Batch) -> None:
        while self._known < AHEAD and len(self._turns) < NAMESPACES and batch.passed < BATCH_RECORDS:
            try:
                output = next(self._found)
            except StopIteration:
                return
            if output is None:
                batch.passed += 1
                continue
            self._known += 1
            output.reading.find(output.begin, output.end)
            namespace = "" if output.owner is None else output.owner.namespace
            if namespace not in self._queues:
                self._queues[namespace] = deque()
                self._turns[namespace] = self._steps(namespace, self._queues[namespace])
            self._queues[namespace].append(output)

    def _find_all(self) -> Iterator[_Output | None]:
        """Yields the outputs; None: one that is not shipped, or was taken."""
        for reading in self.readings.values():
            try:
                with reading.segment.path.open("rb", buffering=0) as file:
                    yield from self._find(reading, file.fileno())
            except OSError as error:
                _warn(reading.segment, error)

    def _find(self, reading: Reading, fd: int) -> Iterator[_Output | None]:
        begin, size, mark = reading.at, reading.segment.size, self._marks.of(reading.segment.number)
        before: tuple[OutputOwner, int] | None = None  # whose the next one is, and the token of that
        at = begin
        while at < size:
            record = _record_at(fd, at, size)
            if record is None:  # nothing behind it can be found, but for what came since it was passed over
                behind = mark.mark_of("").at
                yield _Output(reading, at, size) if behind <= at else None
                reading.at = at = begin = behind if behind > at else size
                before = None
                continue
            at = record.end
            owner = _named(fd, record)
            if owner is not None:
                before = owner, record.token
                continue
            reading.at = at
            wanted = before is not None and before[1] == record.token and self._is_wanted(before[0])
            if before is not None and wanted and begin >= mark.mark_of(before[0].namespace).at:
                yield _Output(reading, begin, at, before[0], record)
            else:
                yield None
            begin, before = at, None
        if before is not None:  # the output was not written to its end, and this segment gets no more
            reading.at = size
            yield None

    def _is_wanted(self, owner: OutputOwner) -> bool:
        return self._namespaces is None or owner.namespace in self._namespaces

    # ------------------------------------------------------------ reading

    def _steps(self, namespace: str, outputs: deque[_Output]) -> Iterator[_Step]:
        while outputs:
            output = outputs.popleft()
            segment = output.reading.segment
            self._known -= 1
            if (segment.number, namespace) in self._unread:
                continue
            mark = self._marks.of(segment.number).mark_of(namespace)
            last_ns = self._last_ns.get((segment.number, namespace), mark.last_ns)
            damaged = 0
            try:
                for entry in self._entries(output, mark.lines if mark.at == output.begin else 0, last_ns):
                    last_ns = entry.at_ns
                    yield _Step(output, Mark(output.begin, entry.line.number, last_ns), entry)
            except _Damaged:
                damaged = output.end - (output.begin if output.record is None else output.record.begin)
            except OSError as error:  # what is behind it waits, too, for the next look
                self._unread.add((segment.number, namespace))
                _warn(segment, error)
                continue
            self._last_ns[segment.number, namespace] = last_ns
            yield _Step(output, Mark(output.end, 0, last_ns), damaged=damaged)

    def _entries(self, output: _Output, taken: int, last_ns: int) -> Iterator[Entry]:
        """Yields the lines behind those that were taken. Raises _Damaged, OSError."""
        record, path = output.record, output.reading.segment.path
        if record is None or output.owner is None:
            raise _Damaged
        # Whoever works elsewhere may say any time; and a clock that was ahead must not put all that follows ahead, too.
        ended_ns = min(record.ended_at_ms, self._now_ms) * _NS
        was_ahead = last_ns > (self._now_ms + AHEAD_MS) * _NS
        with path.open("rb", buffering=min(record.end - record.begin, _BUFFER)) as file:
            if not _is_whole(file.fileno(), record):
                raise _Damaged
            for line in lines_of(frames_in(file, record.begin + HEADER_SIZE, record.end)):
                if line.number > taken:
                    last_ns = ended_ns + line.number if was_ahead else max(ended_ns, last_ns + 1)
                    yield Entry(output.owner, record.token, last_ns, line)


class _Damaged(Exception):
    """It is not what its digest says."""


def _warn(segment: Synced, error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # it was deleted meanwhile
        log.warning("output in %s cannot be read, and is not shipped: %s", segment.path, error)


def _record_at(fd: int, at: int, end: int) -> _Record | None:
    """None: there is no whole header, or the record goes on behind what is on the disk."""
    head = os.pread(fd, HEADER_SIZE, at)
    size = body_size(head)
    if size is None or at + HEADER_SIZE + size > end:
        return None
    _, _, token, ended_at_ms, *_ = HEADER.unpack(head[: HEADER.size])
    return _Record(at, at + HEADER_SIZE + size, token, ended_at_ms)


def _named(fd: int, record: _Record) -> OutputOwner | None:
    """Returns whose the next record is, where this one says that; None: it is an output."""
    at, size = record.begin + HEADER_SIZE, record.end - record.begin - HEADER_SIZE
    if size > NAMED_MAX:
        return None
    owner = read_body(os.pread(fd, size, at))
    return owner if owner is not None and _is_whole(fd, record) else None


def _is_whole(fd: int, record: _Record) -> bool:
    """Returns whether its digest fits."""
    span = next(spans(fd, record.begin, record.end), None)
    return span is not None and span.whole

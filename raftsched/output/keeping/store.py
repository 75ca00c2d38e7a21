"""Stores the output of attempts on the disk of the node that ran them, in segment files, written one after the other.

A segment is a row of records. A record is a header (magic, sizes, token, digest, checksum) and a body, the frames of
spool.py. References are made only after fdatasync, so what a reference points to is on the disk. A segment with a torn
record at its end (power loss, kill -9 in the middle of a write) when the store opens it gets no more
(segment_tails.py).

A namespace that may have so many bytes has segments of its own, a sixteenth of that each (segments.py).
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError
from raftsched.output.format import spool
from raftsched.output.format.records import (
    HEADER_SIZE,
    FrameDigests,
    digests_of,
    head_of,
    pieces_of,
)
from raftsched.output.format.segments import newest_ms, owner_of
from raftsched.output.keeping.lost_segments import has_name
from raftsched.output.keeping.owner_record import OutputOwner, body_of
from raftsched.output.keeping.segment_table import SegmentTable, Synced
from raftsched.output.reading.open_outputs import OpenTexts
from raftsched.output.reading.text import Text, stream_number
from raftsched.system.whole_file import write_at

log = logging.getLogger(__name__)
_RECENT_MAX = 1_000
_OPEN_MAX = 64  # segments of namespaces that are open between two batches
_OWN_SEGMENTS = 16  # that a share is divided into: so much of it goes at once
_OWN_SEGMENT_MIN = 64 * 1024  # bytes
NOWHERE = 0  # the number of no segment: all of it was more than its namespace may have
GONE = "The output is not kept any more: it was deleted by age or for room, or with a disk that was replaced."
REMOVED = "The output is not there any more: its file was removed from the node's disk, and not by the node."


@dataclass(frozen=True, slots=True)
class Record:
    """Output to be kept: `frames`, or the spool file of the token when `spooled`."""

    token: int
    ended_at_ms: int
    frames: bytes = b""
    spooled: bool = False
    truncated: int = 0
    namespace: str = ""  # of the job
    owner: OutputOwner | None = None  # written before it where the store says whose outputs are


@dataclass(slots=True)
class _Open:
    """A segment that is written to."""

    number: int
    fd: int
    end: int


def _no_share(namespace: str) -> int | None:
    return None


class OutputStore:
    """Safe for threads; the appending side is meant for one."""

    def __init__(
        self,
        directory: Path,
        *,
        max_attempt_bytes: int = 1024 * 1024,
        segment_bytes: int = 64 * 1024 * 1024,
        keep_bytes: int | None = None,
        keep_largest: int = 0,
        writes_owners: bool = False,
        now_ms: int = 0,
        share_of: Callable[[str], int | None] = _no_share,
    ) -> None:
        """`directory` is made if need be. Spool files of attempts that did not end properly are removed: the caller
        makes sure that nothing of an earlier process of this node runs any more, or opens another one's directory
        for reading only. `max_attempt_bytes`: kept of an attempt for which `bound` says nothing. `keep_bytes`: of all
        segments, and no less than so many (`keep_largest`) of the largest that `bound` was told of; beyond that the
        oldest go. `writes_owners`: it writes owner records (owner_record). `now_ms`: the time (UTC); a process that
        begins later gives segments higher numbers, on another disk as well. `share_of`: how many bytes a namespace may
        have, None: no such limit; asked before output is written, by the thread that writes it."""
        self.directory = directory
        self.live_directory = directory / "live"
        self.max_attempt_bytes = max_attempt_bytes
        self._segment_bytes = segment_bytes
        self._keep_bytes, self._keep_largest = keep_bytes, keep_largest
        self.writes_owners = writes_owners
        self._bounds: dict[int, int] = {}  # token -> bytes that are kept of an attempt that goes on
        self._largest = 0
        self._share_of = share_of
        self._lock = threading.Lock()
        self._recent: dict[int, OutputRef] = {}  # by token
        self._held: set[int] = set()  # tokens whose spool files are not the supervisor's
        self._texts = OpenTexts()
        for made in (directory, self.live_directory):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._table = SegmentTable(directory, self._lock, now_ms)
        self._open: dict[str, _Open] = {}  # by owner; the one that was written to last is the last
        self._open_newest("")

    def close(self) -> None:
        with self._lock:
            for owner in list(self._open):
                self._shut(owner)
        self._texts.clear()

    def clear_live(self) -> None:
        """Removes spool files that nobody will finish. Only while nothing runs here."""
        held = {spool.live_name(token) for token in tuple(self._held)}
        for token in self._bounds.keys() - self._held:
            self.forget(token)
        for path in self.live_directory.iterdir():
            if path.name not in held:
                path.unlink(missing_ok=True)

    def bound(self, token: int, most: int) -> None:
        """Notes how many bytes are kept of an attempt that starts now: readers need it until it has ended."""
        self._bounds[token] = most
        self._largest = max(self._largest, most)

    def forget(self, token: int) -> None:
        """The attempt has ended, without any output."""
        self._bounds.pop(token, None)

    def hold(self, token: int) -> None:
        """Keeps the spool file of an attempt that runs elsewhere from `clear_live`, until it is discarded."""
        self._held.add(token)

    # ------------------------------------------------------------ writing

    def append(self, records: Sequence[Record]) -> list[OutputRef | None]:
        """Writes them with one fdatasync; blocks. None for a record without any output.

        Raises OSError (a full disk) with nothing written and the spool files still there."""
        shares = {namespace: self._share_of(namespace) for namespace in {record.namespace for record in records}}
        with self._lock:
            while len(self._open) > _OPEN_MAX:
                self._shut(next(owner for owner in self._open if owner))
            if self._open[""].end >= self._segment_bytes or self._gets_no_more(self._open[""]):
                self._roll("")
            self._drop_beyond()
            starts: dict[int, int] = {}  # where the segments ended that are written to, by number
            refs: list[OutputRef | None] = []
            try:
                for record in records:
                    refs.append(self._append(record, shares[record.namespace], starts))
                for at in self._open.values():
                    if at.number in starts:
                        self._sync(at)
            except Exception:
                for at in self._open.values():
                    if at.number in starts:
                        self._cut_off(at, starts[at.number])
                raise
        for record, ref in zip(records, refs, strict=True):
            self.forget(record.token)
            if record.spooled:
                if ref is not None:  # readers of the running attempt find it here until the end is applied
                    with self._lock:
                        self._recent[record.token] = ref
                        while len(self._recent) > _RECENT_MAX:
                            del self._recent[next(iter(self._recent))]
                self.discard(record.token)
        return refs

    def _append(self, record: Record, share: int | None, starts: dict[int, int]) -> OutputRef | None:
        if record.spooled:
            return self._append_spooled(record, share, starts)
        body = record.frames
        if not body:
            return None
        text = spool.render(body)
        digests = FrameDigests(len(body), hashlib.sha256(body).digest(), len(text), hashlib.sha256(text).digest())
        return self._write(record, digests, iter((body,)), share, starts)

    def _append_spooled(self, record: Record, share: int | None, starts: dict[int, int]) -> OutputRef | None:
        """A piece at a time: one may be larger than what a node has memory for."""
        try:
            fd = os.open(self._live_path(record.token), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            size = os.fstat(fd).st_size
            if not size:
                return None
            return self._write(record, digests_of(fd, 0, size), pieces_of(fd, 0, size), share, starts)
        finally:
            os.close(fd)

    def _write(
        self, record: Record, digests: FrameDigests, pieces: Iterator[bytes], share: int | None, starts: dict[int, int]
    ) -> OutputRef:
        before = _named(record, record.owner) if self.writes_owners and record.owner is not None else b""
        head = head_of(digests.size, record.token, record.ended_at_ms, record.truncated, digests.sha256)
        size = len(before) + HEADER_SIZE + digests.size
        at = self._open[""] if share is None else self._room_of(owner_of(record.namespace), size, share, starts)
        if at is None:
            return OutputRef(NOWHERE, 0, digests.shown, digests.shown_sha256, record.truncated)
        end = at.end
        offset = end + len(before)
        starts.setdefault(at.number, end)
        for piece in chain((before + head,), pieces):
            end += write_at(at.fd, piece, end)
        self._count(at, end)
        return OutputRef(at.number, offset, digests.shown, digests.shown_sha256, record.truncated)

    def _room_of(self, owner: str, size: int, share: int, starts: dict[int, int]) -> _Open | None:
        """Returns the segment to which so many bytes more are written, after the oldest made room for them. None: they
        are more than all that it may have."""
        at = self._open.pop(owner, None) or self._open_newest(owner)
        self._open[owner] = at
        size_max = min(self._segment_bytes, max(_OWN_SEGMENT_MIN, share // _OWN_SEGMENTS))
        full = at.end >= size_max or self._gets_no_more(at)
        kept = self._table.kept
        while full or (kept[owner] and kept[owner] + size > share):
            oldest = self._table.oldest_of(owner)
            if full or oldest == at.number:
                if at.number in starts:  # what is in it is referred to when all is written
                    self._sync(at)
                at, full = self._roll(owner), False
            else:
                self._drop(oldest)
        return at if size <= share else None

    def _count(self, at: _Open, end: int) -> None:
        """The segment ends there now."""
        self._table.note_end(at.number, end)
        at.end = end

    def _sync(self, at: _Open) -> None:
        os.fdatasync(at.fd)
        self._table.segments[at.number].synced = at.end

    def _cut_off(self, at: _Open, end: int) -> None:
        self._count(at, end)
        segment = self._table.segments[at.number]
        segment.synced = min(segment.synced, end)
        os.ftruncate(at.fd, end)

    def discard(self, token: int) -> None:
        """Removes the spool file of an attempt, if it has one. Where that cannot be it stays, and the log says so:
        whatever is the matter with the disk, the end of the run is told."""
        try:
            self._live_path(token).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed: %s", self._live_path(token), error.strerror)
        self._held.discard(token)
        self.forget(token)

    def _roll(self, owner: str) -> _Open:
        at = self._begin(self._table.last + 1, owner)
        self._shut(owner)
        self._open[owner] = at
        return at

    def _shut(self, owner: str) -> None:
        os.close(self._open.pop(owner).fd)

    def _open_newest(self, owner: str) -> _Open:
        """The segment that was begun last of those that are its own; a new one when it has none."""
        at = self._open[owner] = self._begin(self._table.newest_of(owner) or self._table.last + 1, owner)
        self._table.check_end(at.number)
        return at

    def _gets_no_more(self, at: _Open) -> bool:
        return self._table.gets_no_more(at.number) or not has_name(at.fd)

    def _begin(self, number: int, owner: str) -> _Open:
        fd = self._table.begin(number, owner)
        return _Open(number, fd, self._table.segments[number].size)

    # ------------------------------------------------------------ reading

    def read(self, ref: OutputRef, stream: str | None = None, offset: int = 0, limit: int | None = None) -> bytes:
        """Output as text: everything as it came, or "stdout" or "stderr" only; `limit` bytes of it from `offset`.

        Raises RaftschedError "output-gone" when its segment was deleted or is damaged."""
        text = self.open(ref, stream)
        return text.read(offset, text.size if limit is None else limit)

    def live(self, token: int, stream: str | None = None, offset: int = 0, limit: int | None = None) -> bytes | None:
        """Returns what a running attempt has printed so far; None when nothing is there (yet, or not any more)."""
        text = self.open_live(token, stream)
        return None if text is None else text.read(offset, text.size if limit is None else limit)

    def open(self, ref: OutputRef, stream: str | None = None, token: int | None = None, *, whole: bool = True) -> Text:
        """Like `read`, a piece at a time. The digest is held against all of it before, once for all who read it; not
        `whole`: it is not, for who reads all of it once. `token`: whose it has to be; None: anybody's.

        Raises RaftschedError "output-gone"."""
        path = partial(self._table.path_of, ref.segment)
        try:
            return self._texts.open(ref.segment, path, ref, token, whole=whole).of(stream)
        except FileNotFoundError:
            raise self._gone(ref.segment) from None

    def _gone(self, number: int) -> RaftschedError:
        """Returns the error for a segment that has no file."""
        return RaftschedError("output-gone", REMOVED if self.is_removed(number) else GONE)

    def is_removed(self, number: int) -> bool:
        """Returns whether the file of a segment was removed, and not by this store."""
        return not self._table.path_of(number).exists() and self._table.is_removed(number)

    def open_live(self, token: int, stream: str | None = None) -> Text | None:
        """Like `live`, a piece at a time, and as of now. While the middle is being left out, its size stays, and what
        lies behind it moves; until then offsets are stable."""
        key = (token, stream_number(stream))
        text = self._texts.get(key)
        if text is not None and text.refresh():
            return text
        try:
            fd = os.open(self._live_path(token), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            ref = self._recent.get(token)
            return self.open(ref, stream) if ref is not None else None
        text = Text(fd, 0, None, key[1], self._bounds.get(token, self.max_attempt_bytes) // 2)
        self._texts.add(key, text)
        return text

    def being_read(self, token: int, stream: str | None = None) -> Text | None:
        """Returns the output of a running attempt that somebody reads, as of the last look; without a look at the
        disk."""
        return self._texts.get((token, stream_number(stream)))

    # ------------------------------------------------------------ deleting

    def owners(self) -> set[str]:
        """Returns the owners of segments that are not anybody's."""
        return {owner for owner in tuple(self._table.kept) if owner}

    def drop_old(self, now_ms: int, keep_ms: int, own: Mapping[str, int]) -> int:
        """Deletes segments with nothing that ended within this time (or that of their owner, `own`), and writes no more
        to those that were begun a sixteenth of it ago: what is older goes that much later at most. Returns how many."""
        with self._lock:
            for number, segment in self._table.segments.items():
                if segment.size:
                    self._table.ages.finish_if_old(
                        number, self._table.path_of(number), now_ms, own.get(segment.owner, keep_ms)
                    )
        return self.drop_before(now_ms - keep_ms, {owner: now_ms - ms for owner, ms in own.items()})

    def drop_before(self, ms: int, own: Mapping[str, int] = MappingProxyType({})) -> int:
        """Deletes the segments whose newest record is older than this (UTC ms), or than what `own` has for their owner;
        returns how many."""
        dropped = 0
        with self._lock:
            at = self._open[""]
            if at.end and self._is_before(at.number, ms):
                self._roll("")
            for number, segment in list(self._table.segments.items()):
                if number != self._open[""].number and self._is_before(number, own.get(segment.owner, ms)):
                    self._drop(number)
                    dropped += 1
        return dropped

    def _is_before(self, number: int, ms: int) -> bool:
        """Returns whether the newest record of a segment is older than this. One without a file is none of the old:
        `scan` tells of it."""
        try:
            return newest_ms(self._table.path_of(number)) < ms
        except FileNotFoundError:
            return False

    def _drop_beyond(self) -> None:
        """Segments go, the oldest first, until what is kept leaves room for the one that was begun: it may be filled,
        and hold one batch of records more."""
        if self._keep_bytes is None:
            return
        begun = self._open[""]
        room = max(self._keep_bytes, self._keep_largest * self._largest) - self._segment_bytes
        while self._table.kept.total() - begun.end > room:
            oldest = next((number for number in self._table.segments if number != begun.number), None)
            if oldest is None:
                break
            self._drop(oldest)

    def _drop(self, number: int) -> None:
        self._let_go(number)
        self._table.delete(number)
        self._texts.forget(number)

    def _let_go(self, number: int) -> None:
        """Nothing more is written to it."""
        owner = self._table.segments[number].owner
        at = self._open.get(owner)
        if at is not None and at.number == number:
            self._shut(owner)

    def scan(self) -> None:
        """Finds out whether others removed, hid or cut off files of segments (lost_segments.py); to be called each
        minute. Raises OSError."""
        with self._lock:
            for made in (self.directory, self.live_directory):
                made.mkdir(mode=0o700, exist_ok=True)
            removed, cut = self._table.changed({at.number: at.fd for at in self._open.values()})
            if self._open[""].number in {*removed, *cut}:
                self._roll("")
            for number in (*removed, *cut):
                self._let_go(number)
                self._texts.forget(number)
            self._table.lose(removed, cut)

    @property
    def lost(self) -> int:
        """Files of segments that others removed, hid or cut off, since the store was opened."""
        return self._table.lost

    def synced(self) -> list[Synced]:
        """Returns how far each segment is on the disk for good, and whole, in the order in which they were begun.
        Blocks: those that an earlier process was writing to are read the first time."""
        return self._table.synced()

    def size(self) -> int:
        """Bytes of all segments."""
        return sum(tuple(self._table.kept.values()))  # at once: another thread may write

    def _live_path(self, token: int) -> Path:
        return self.live_directory / spool.live_name(token)


def _named(record: Record, owner: OutputOwner) -> bytes:
    """Returns the record that says whose the next one is."""
    body = body_of(owner)
    digest = hashlib.sha256(body).digest()
    return head_of(len(body), record.token, record.ended_at_ms, record.truncated, digest) + body

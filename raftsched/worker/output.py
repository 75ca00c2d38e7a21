"""What attempts printed, on the disk of the node that ran them: segment files, written one after the other.

A segment is a row of records. A record is a header (magic, sizes, token, digest, checksum) and a body, the frames of
spool.py. References are made only after fdatasync, so what a reference points to is on the disk; a torn record at the
end of the newest segment (power loss, kill -9 in the middle of a write) is cut off when the store opens.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import weakref
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError
from raftsched.worker import spool
from raftsched.worker.reading import Text

_MAGIC = b"RSo1"
# magic, body size, token, ended_at_ms, bytes left out, sha256 of the body; then crc32 of these
_HEADER = struct.Struct("<4sIQqQ32s")
_CRC = struct.Struct("<I")
_RECENT_MAX = 1_000
_CHECKED_AT_ONCE = 256 * 1024  # bytes
GONE = "The output is not kept any more: it was deleted by age or for room, or with a disk that was replaced."
DAMAGED = "The stored output is damaged: its digest does not fit."
HEADER_SIZE = _HEADER.size + _CRC.size


@dataclass(frozen=True, slots=True)
class Record:
    """Output to be kept: `frames`, or the spool file of the token when `spooled`."""

    token: int
    ended_at_ms: int
    frames: bytes = b""
    spooled: bool = False
    truncated: int = 0


class OutputStore:
    """Safe for threads; the appending side is meant for one."""

    def __init__(
        self,
        directory: Path,
        *,
        max_attempt_bytes: int = 1024 * 1024,
        segment_bytes: int = 64 * 1024 * 1024,
        keep_bytes: int | None = None,
    ) -> None:
        """`directory` is made if need be. Spool files of attempts that did not end properly are removed: the caller
        makes sure that nothing of an earlier process of this node runs any more, or opens another one's directory
        for reading only. `keep_bytes`: of all segments; beyond that the oldest go."""
        self.directory = directory
        self.live_directory = directory / "live"
        self.max_attempt_bytes = max_attempt_bytes
        self._segment_bytes = segment_bytes
        self._keep_bytes = keep_bytes
        self._lock = threading.Lock()
        self._recent: dict[int, OutputRef] = {}  # by token
        self._texts: weakref.WeakValueDictionary[Hashable, Text] = weakref.WeakValueDictionary()  # that are read now
        self._texts_lock = threading.Lock()
        for made in (directory, self.live_directory):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        numbers = self._numbers()
        self._number = numbers[-1] if numbers else 1
        self._fd = self._open_segment(self._number)
        self._end = self._whole_size()
        if self._end < os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, self._end)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def clear_live(self) -> None:
        """Removes spool files that nobody will finish. Only while nothing runs."""
        for path in self.live_directory.iterdir():
            path.unlink(missing_ok=True)

    # ------------------------------------------------------------ writing

    def append(self, records: Sequence[Record]) -> list[OutputRef | None]:
        """Writes them with one fdatasync; blocks. None for a record without any output.

        Raises OSError (a full disk) with nothing written and the spool files still there."""
        with self._lock:
            if self._end >= self._segment_bytes:
                self._roll()
                self._drop_beyond()
            start = self._end
            refs: list[OutputRef | None] = []
            try:
                for record in records:
                    refs.append(self._append(record))
                if self._end != start:
                    os.fdatasync(self._fd)
            except OSError:
                self._end = start
                os.ftruncate(self._fd, start)
                raise
        for record, ref in zip(records, refs, strict=True):
            if record.spooled:
                if ref is not None:  # readers of the running attempt find it here until the end is applied
                    self._recent[record.token] = ref
                    while len(self._recent) > _RECENT_MAX:
                        del self._recent[next(iter(self._recent))]
                self.discard(record.token)
        return refs

    def _append(self, record: Record) -> OutputRef | None:
        body = record.frames
        if record.spooled:
            try:
                body = self._live_path(record.token).read_bytes()
            except FileNotFoundError:
                body = b""
        if not body:
            return None
        digest = hashlib.sha256(body).digest()
        head = _HEADER.pack(_MAGIC, len(body), record.token, record.ended_at_ms, record.truncated, digest)
        data = head + _CRC.pack(zlib.crc32(head)) + body
        offset = self._end
        done = 0
        while done < len(data):
            done += os.pwrite(self._fd, memoryview(data)[done:], offset + done)
        self._end += len(data)
        text = spool.render(body)
        return OutputRef(self._number, offset, len(text), hashlib.sha256(text).digest(), record.truncated)

    def discard(self, token: int) -> None:
        """Removes the spool file of an attempt, if it has one."""
        self._live_path(token).unlink(missing_ok=True)

    def _roll(self) -> None:
        fd = self._open_segment(self._number + 1)
        os.close(self._fd)
        self._fd = fd
        self._number += 1
        self._end = os.fstat(fd).st_size

    def _open_segment(self, number: int) -> int:
        path = self._segment_path(number)
        fresh = not path.exists()
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if fresh:  # the name has to be on the disk before a reference to it is
            directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        return fd

    def _whole_size(self) -> int:
        """Where the whole records of the open segment end."""
        size = os.fstat(self._fd).st_size
        at = 0
        while True:
            head = os.pread(self._fd, HEADER_SIZE, at)
            body_size = _body_size(head)
            if body_size is None or at + HEADER_SIZE + body_size > size:
                return at
            body = os.pread(self._fd, body_size, at + HEADER_SIZE)
            if hashlib.sha256(body).digest() != _HEADER.unpack(head[: _HEADER.size])[5]:
                return at
            at += HEADER_SIZE + body_size

    # ------------------------------------------------------------ reading

    def read(self, ref: OutputRef, stream: str | None = None, offset: int = 0, limit: int | None = None) -> bytes:
        """Output as text: everything as it came, or "stdout" or "stderr" only; `limit` bytes of it from `offset`.

        Raises RaftschedError "output-gone" when its segment was deleted or is damaged."""
        try:
            fd = os.open(self._segment_path(ref.segment), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise RaftschedError("output-gone", GONE) from None
        try:
            head = os.pread(fd, HEADER_SIZE, ref.offset)
            body = os.pread(fd, _body_size(head) or 0, ref.offset + HEADER_SIZE)
        finally:
            os.close(fd)
        text = spool.render(body)
        whole = bool(body) and hashlib.sha256(body).digest() == _HEADER.unpack(head[: _HEADER.size])[5]
        if not whole or len(text) != ref.size or hashlib.sha256(text).digest() != ref.sha256:
            raise RaftschedError("output-gone", DAMAGED)
        number = _stream_number(stream)
        return _cut(text if number is None else spool.render(body, number), offset, limit)

    def live(self, token: int, stream: str | None = None, offset: int = 0, limit: int | None = None) -> bytes | None:
        """What a running attempt has printed so far; None when nothing is there (yet, or not any more).

        Once the middle is being left out, what lies behind it moves; until then offsets are stable."""
        try:
            body = self._live_path(token).read_bytes()
        except FileNotFoundError:
            ref = self._recent.get(token)
            return self.read(ref, stream, offset, limit) if ref is not None else None
        return _cut(spool.render(body, _stream_number(stream)), offset, limit)

    def open(self, ref: OutputRef, stream: str | None = None) -> Text:
        """Like `read`, a piece at a time. The digest is held against all of it before, once for all who read it.

        Raises RaftschedError "output-gone"."""
        number = _stream_number(stream)
        key = (ref.segment, ref.offset, ref.size, ref.sha256, number)
        with self._texts_lock:
            text = self._texts.get(key)
        if text is not None:
            return text
        try:
            fd = os.open(self._segment_path(ref.segment), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise RaftschedError("output-gone", GONE) from None
        try:
            end = _checked(fd, ref)
        except BaseException:
            os.close(fd)
            raise
        text = Text(fd, ref.offset + HEADER_SIZE, end, number)
        with self._texts_lock:
            return self._texts.setdefault(key, text)

    def open_live(self, token: int, stream: str | None = None) -> Text | None:
        """Like `live`, a piece at a time, and as of now. While the middle is being left out, its size stays."""
        key = (token, _stream_number(stream))
        with self._texts_lock:
            text = self._texts.get(key)
        if text is not None and text.refresh():
            return text
        try:
            fd = os.open(self._live_path(token), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            ref = self._recent.get(token)
            return self.open(ref, stream) if ref is not None else None
        text = Text(fd, 0, None, key[1], self.max_attempt_bytes // 2)
        with self._texts_lock:
            self._texts[key] = text
        return text

    def being_read(self, token: int, stream: str | None = None) -> Text | None:
        """What somebody reads of a running attempt, as it was looked at last; without a look at the disk."""
        with self._texts_lock:
            return self._texts.get((token, _stream_number(stream)))

    # ------------------------------------------------------------ deleting

    def drop_before(self, ms: int) -> int:
        """Deletes the segments whose newest record is older than this (UTC ms); returns how many."""
        dropped = 0
        with self._lock:
            if self._end and self._newest_ms(self._number) < ms:
                self._roll()
            for number in self._numbers():
                if number == self._number:
                    continue
                if self._newest_ms(number) >= ms:
                    break
                self._segment_path(number).unlink(missing_ok=True)
                dropped += 1
        return dropped

    def _drop_beyond(self) -> None:
        """Segments go, the oldest first, until what is kept leaves room for the one that was begun: it may be filled,
        and hold one batch of records more."""
        if self._keep_bytes is None:
            return
        sizes = {number: self._segment_path(number).stat().st_size for number in self._numbers()}
        room = self._keep_bytes - self._segment_bytes
        kept = sum(sizes.values())
        for number, size in sizes.items():
            if kept <= room or number == self._number:
                break
            self._segment_path(number).unlink(missing_ok=True)
            kept -= size

    def size(self) -> int:
        """Bytes of all segments."""
        return sum(self._segment_path(number).stat().st_size for number in self._numbers())

    def _newest_ms(self, number: int) -> int:
        return self._segment_path(number).stat().st_mtime_ns // 1_000_000

    def _numbers(self) -> list[int]:
        names = (path.name for path in self.directory.glob("seg-*.dat"))
        return sorted(int(name[4:-4]) for name in names if name[4:-4].isdigit())

    def _segment_path(self, number: int) -> Path:
        return self.directory / f"seg-{number:08d}.dat"

    def _live_path(self, token: int) -> Path:
        return self.live_directory / spool.live_name(token)


def _body_size(head: bytes) -> int | None:
    if len(head) < HEADER_SIZE or head[:4] != _MAGIC:
        return None
    if zlib.crc32(head[: _HEADER.size]) != _CRC.unpack(head[_HEADER.size :])[0]:
        return None
    size: int = _HEADER.unpack(head[: _HEADER.size])[1]
    return size


def _checked(fd: int, ref: OutputRef) -> int:
    """Where the body of the record ends. Raises RaftschedError "output-gone"."""
    head = os.pread(fd, HEADER_SIZE, ref.offset)
    size = _body_size(head)
    if not size:
        raise RaftschedError("output-gone", DAMAGED)
    start = ref.offset + HEADER_SIZE
    body = hashlib.sha256()
    for at in range(start, start + size, _CHECKED_AT_ONCE):
        body.update(os.pread(fd, min(_CHECKED_AT_ONCE, start + size - at), at))
    if body.digest() != _HEADER.unpack(head[: _HEADER.size])[5]:
        raise RaftschedError("output-gone", DAMAGED)
    text = Text(os.dup(fd), start, start + size, None)
    shown = hashlib.sha256()
    for at in range(0, text.size, _CHECKED_AT_ONCE):
        shown.update(text.read(at, _CHECKED_AT_ONCE))
    if text.size != ref.size or shown.digest() != ref.sha256:
        raise RaftschedError("output-gone", DAMAGED)
    return start + size


def _stream_number(stream: str | None) -> int | None:
    if stream is None:
        return None
    try:
        return {"stdout": spool.STDOUT, "stderr": spool.STDERR}[stream]
    except KeyError:
        detail = f'stream is {stream!r}; it can be "stdout" or "stderr", or be left out for both.'
        raise RaftschedError("invalid-parameter", detail) from None


def _cut(text: bytes, offset: int, limit: int | None) -> bytes:
    if offset == 0 and limit is None:
        return text
    return text[offset : None if limit is None else offset + limit]

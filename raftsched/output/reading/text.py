"""Output as text, read a piece at a time: what one reader holds does not depend on how much a run printed.

A text knows where in its file every so many bytes of it begin, so that a piece is found without what is before it. One
text is shared by all who read the same output, and is brought up to date once for all of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import weakref
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from raftsched.errors import RaftschedError
from raftsched.output.format.spool import HEAD, NOTE, STDERR, STDOUT, left_out, note_of

PIECE = 64 * 1024  # bytes of text that are handed out at once
_CHUNK = 256 * 1024  # bytes of the file that are in memory at once
_MARK_EVERY = 64 * 1024  # bytes of text
SPAN = 128 * 1024  # bytes of all streams that are handed out at once


class _Place(NamedTuple):
    """A place before a frame."""

    size: int  # bytes of the text before it
    at: int  # in the file
    printed: int  # bytes of all streams before it, with those that were left out


class Span(NamedTuple):
    """A part of what one stream printed, without anything of the other between."""

    printed: int  # bytes of all streams before it
    stream: int
    data: bytes


class Text:
    """The frames from `start` to `end` of a file, which is closed with it; safe for threads.

    `end` None: the file grows, and what is behind the first `settled` bytes of output (of all streams) may be written
    anew."""

    def __init__(self, fd: int, start: int, end: int | None, stream: int | None, settled: int = 0) -> None:
        self._fd = fd
        self.end = end
        self._stream = stream
        self._settled = settled
        self._streams: dict[int, Text] = {}
        self._lock = threading.Lock()
        self._marks = [_Place(0, start, 0)]
        self._to = self._final = self._marks[0]  # as far as it is known, and as far as nothing changes any more
        self._seen: tuple[int, int, bytes] | None = None
        self._last = (-1, b"")  # the piece that was read last, and where it begins
        self._last_spans: tuple[int, list[Span]] = (-1, [])
        self.looked_at = float("-inf")  # for who opened it: when it was brought up to date
        weakref.finalize(self, os.close, fd)
        self.refresh()

    def of(self, stream: str | None) -> Text:
        """Returns one stream of a text of both. Where the file does not grow, all who read it share that. Raises
        RaftschedError invalid-parameter."""
        number = stream_number(stream)
        if number is None:
            return self
        text = self._streams.get(number)
        if text is None:
            text = Text(os.dup(self._fd), self._marks[0].at, self.end, number, self._settled)
            if self.end is not None:
                self._streams[number] = text
        return text

    @property
    def size(self) -> int:
        """Bytes, as far as it is known."""
        return self._to.size

    @property
    def printed(self) -> int:
        """Bytes of all streams that were printed, also those that were left out, as far as it is known."""
        return self._to.printed

    def refresh(self) -> bool:
        """Looks what was added. False: the file is gone, and nothing will be."""
        with self._lock:
            with self._quiet() as quiet:
                if quiet:
                    self._look()
            return os.fstat(self._fd).st_nlink > 0

    def _look(self) -> None:
        seen = self._signature()
        if seen == self._seen:
            return
        self._seen = seen
        self._last_spans = (-1, [])
        if self._to != self._final and self.end is None:
            self._to = self._final
            del self._marks[bisect_right(self._marks, self._final) :]
            self._last = (-1, b"")
        noted = False
        for place, kind, _ in self._frames(self._to, content=False):
            # How much was left out is behind what is settled, and told anew with each piece that is.
            noted = noted or kind == NOTE
            if not noted and self._to.printed < place.printed <= self._settled:
                self._final = place
            self._to = place
            if place.size - self._marks[-1].size >= _MARK_EVERY:
                self._marks.append(place)

    def _signature(self) -> tuple[int, int, bytes]:
        """Returns something that differs when anything was written: of two writes in one tick of the file's time, the
        later one has more left out."""
        status = os.fstat(self._fd)
        told = os.pread(self._fd, HEAD.size + 8, self._final.at) if self.end is None else b""
        return status.st_mtime_ns, status.st_size, told

    @contextmanager
    def _quiet(self) -> Iterator[bool]:
        """Returns whether nothing is written anew at the moment."""
        if self.end is not None:
            yield True
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # files of this disk cannot be locked
            yield True
            return
        try:
            yield True
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def read(self, offset: int, limit: int = PIECE) -> bytes:
        """Returns at most `limit` bytes of it from `offset`; less at its end."""
        with self._lock:
            if self._last[0] == offset and len(self._last[1]) == min(limit, self.size - offset):
                return self._last[1]
            parts: list[bytes] = []
            wanted = min(limit, self.size - offset)
            begin = self._marks[bisect_right(self._marks, offset, key=lambda mark: mark.size) - 1]
            behind = begin.size
            for place, _, text in self._frames(begin, content=True):
                if wanted <= 0:
                    break
                part = text[max(0, offset - behind) :][:wanted]
                behind = place.size
                if part:
                    parts.append(part)
                    wanted -= len(part)
            piece = b"".join(parts)
            self._last = (offset, piece)
            return piece

    def digest(self) -> bytes:
        """Returns the SHA-256 of all of it."""
        found = hashlib.sha256()
        with self._lock:
            for _, _, text in self._frames(self._marks[0], content=True):
                found.update(text)
        return found.digest()

    def spans(self, printed: int) -> list[Span]:
        """Returns the next piece of what was printed from there on, in order; empty: nothing at the moment.

        The first one begins later when what is between was left out. Of a text of all streams."""
        with self._lock:
            if self._last_spans[0] == printed:
                return self._last_spans[1]
            with self._quiet() as quiet:
                if not quiet:
                    return []
                self._look()
                found = self._read_spans(printed)
            if found:
                self._last_spans = (printed, found)
            return found

    def _read_spans(self, printed: int) -> list[Span]:
        found: list[Span] = []
        left = SPAN
        begin = self._marks[bisect_right(self._marks, printed, key=lambda mark: mark.printed) - 1]
        before = begin.printed
        for place, stream, text in self._frames(begin, content=True):
            if stream != NOTE and place.printed > printed:
                part = text[max(0, printed - before) :][:left]
                at = max(printed, before)
                if found and found[-1].stream == stream and found[-1].printed + len(found[-1].data) == at:
                    found[-1] = found[-1]._replace(data=found[-1].data + part)
                else:
                    found.append(Span(at, stream, part))
                left -= len(part)
                if left <= 0:
                    break
            before = place.printed
        return found

    def has_spans(self, printed: int) -> list[Span] | None:
        """The spans from there on, when they were read for another reader just now."""
        at, found = self._last_spans
        return found if at == printed else None

    def has_read(self, offset: int) -> bytes | None:
        """The piece from there on, when it was read for another reader just now."""
        at, piece = self._last
        return piece if at == offset and len(piece) == min(PIECE, self.size - offset) else None

    def start_of(self, lines: int) -> int:
        """Returns the offset at which the last `lines` lines begin."""
        if lines == 0:
            return self.size
        end = self.size
        left = lines + 1 if end and self.read(end - 1, 1) == b"\n" else lines
        while end > 0:
            begin = max(0, end - PIECE)
            piece = self.read(begin, end - begin)
            at = len(piece)
            while (at := piece.rfind(b"\n", 0, at)) >= 0:
                left -= 1
                if left == 0:
                    return begin + at + 1
            end = begin
        return 0

    def printed_before(self, offset: int) -> int:
        """Returns the number of bytes of all streams that were printed before this byte of the text."""
        with self._lock:
            before = self._marks[bisect_right(self._marks, offset, key=lambda mark: mark.size) - 1]
            for place, _, _ in self._frames(before, content=False):
                if place.size > offset:
                    break
                before = place
            return before.printed + offset - before.size if offset < self._to.size else self._to.printed

    def _frames(self, place: _Place, *, content: bool) -> Iterator[tuple[_Place, int, bytes]]:
        """Each whole frame from there on: the place behind it, its stream, and its text (empty without `content`)."""
        end = os.fstat(self._fd).st_size if self.end is None else self.end
        size, at, printed = place
        base, held = at, b""
        while at + HEAD.size <= end:
            if at + HEAD.size > base + len(held):
                base, held = at, os.pread(self._fd, _CHUNK, at)
                if len(held) < HEAD.size:
                    return
            kind, length = HEAD.unpack_from(held, at - base)
            behind = at + HEAD.size + length
            if behind > end or kind not in (1, 2, NOTE):
                return  # it is being written
            note = kind == NOTE
            shown = note or self._stream is None or kind == self._stream
            text = b""
            if note or (content and shown):
                if behind > base + len(held):
                    base, held = at, os.pread(self._fd, max(_CHUNK, behind - at), at)
                text = held[at + HEAD.size - base : behind - base]
                if len(text) < length:
                    return
                if note:
                    printed += left_out(text)
                    text = note_of(text)
            if shown:
                size += len(text) if note else length
            if not note:
                printed += length
            at = behind
            yield _Place(size, at, printed), kind, text if content and shown else b""


def stream_number(stream: str | None) -> int | None:
    """Returns the number of a stream in frames; None: both. Raises RaftschedError invalid-parameter."""
    if stream is None:
        return None
    try:
        return {"stdout": STDOUT, "stderr": STDERR}[stream]
    except KeyError:
        detail = f'stream is {stream!r}; it can be "stdout" or "stderr", or be left out for both.'
        raise RaftschedError("invalid-parameter", detail) from None

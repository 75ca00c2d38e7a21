"""Output as text, read a piece at a time: what one reader holds does not depend on how much a run printed.

A text knows where in its file every so many bytes of it begin, so that a piece is found without what is before it. One
text is shared by all who read the same output, and is brought up to date once for all of them.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from raftsched.worker.spool import HEAD, NOTE, note_of

PIECE = 64 * 1024  # bytes of text that are handed out at once
_CHUNK = 256 * 1024  # bytes of the file that are in memory at once
_MARK_EVERY = 64 * 1024  # bytes of text


class _Place(NamedTuple):
    """Before a frame."""

    size: int  # bytes of the text before it
    at: int  # in the file
    printed: int  # bytes of all streams before it


class Text:
    """The frames from `start` to `end` of a file, which is closed with it; safe for threads.

    `end` None: the file grows, and what is behind the first `settled` bytes of output (of all streams) may be written
    anew."""

    def __init__(self, fd: int, start: int, end: int | None, stream: int | None, settled: int = 0) -> None:
        self._fd = fd
        self._end = end
        self._stream = stream
        self._settled = settled
        self._lock = threading.Lock()
        self._marks = [_Place(0, start, 0)]
        self._to = self._final = self._marks[0]  # as far as it is known, and as far as nothing changes any more
        self._seen: tuple[int, int] | None = None
        self._last = (-1, b"")  # the piece that was read last, and where it begins
        self.looked_at = float("-inf")  # for who opened it: when it was brought up to date
        weakref.finalize(self, os.close, fd)
        self.refresh()

    @property
    def size(self) -> int:
        """Bytes, as far as it is known."""
        return self._to.size

    def refresh(self) -> bool:
        """Looks what was added. False: the file is gone, and nothing will be."""
        with self._lock:
            status = os.fstat(self._fd)
            seen = (status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                self._seen = seen
                if self._to != self._final and self._end is None:
                    self._to = self._final
                    del self._marks[bisect_right(self._marks, self._final) :]
                    self._last = (-1, b"")
                for place, _ in self._frames(self._to, content=False):
                    # How much was left out is behind what is settled, and told anew with each piece that is.
                    if self._to.printed < place.printed <= self._settled:
                        self._final = place
                    self._to = place
                    if place.size - self._marks[-1].size >= _MARK_EVERY:
                        self._marks.append(place)
            return status.st_nlink > 0

    def read(self, offset: int, limit: int = PIECE) -> bytes:
        """At most `limit` bytes of it from `offset`; less at its end."""
        with self._lock:
            if self._last[0] == offset and len(self._last[1]) == min(limit, self.size - offset):
                return self._last[1]
            parts: list[bytes] = []
            wanted = min(limit, self.size - offset)
            begin = self._marks[bisect_right(self._marks, offset, key=lambda mark: mark.size) - 1]
            behind = begin.size
            for place, text in self._frames(begin, content=True):
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

    def _frames(self, place: _Place, *, content: bool) -> Iterator[tuple[_Place, bytes]]:
        """Each whole frame from there on: the place behind it, and its text (empty without `content`)."""
        end = os.fstat(self._fd).st_size if self._end is None else self._end
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
                    text = note_of(text)
            if shown:
                size += len(text) if note else length
            if not note:
                printed += length
            at = behind
            yield _Place(size, at, printed), text if content and shown else b""

"""The output of a run, as a keeper gathers it: chunks tagged with their stream, bounded, readable while the run lasts.

The stored form is a row of frames: stream (1 byte), length (4 bytes, little endian), that many bytes. Stream NOTE
holds the number of bytes that were left out at this place (8 bytes, little endian).
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

from raftsched.output.format.redaction import Redactor
from raftsched.system.whole_file import write_at

INLINE_MAX = 32 * 1024  # output up to this stays in memory and travels in the message of the end
STDOUT, STDERR, NOTE = 1, 2, 3
FLUSH_AFTER_MS = 200  # how soon a reader of a running attempt sees what was printed
REWRITE_AFTER_MS = 1_000  # the same, once the middle is being left out
REWRITTEN_IN_MS = 16 * 1024  # bytes of the last part; it is told later when it is larger
AGAIN_AFTER_MS = 50  # while a reader is in what would be rewritten

HEAD = struct.Struct("<BI")
_COUNT = struct.Struct("<Q")
_TAIL = 1024
_AT_ONCE = 1024 * 1024  # bytes
_CHARACTER_MAX = 4  # bytes that UTF-8 makes of one


def pack(stream: int, data: bytes) -> bytes:
    return HEAD.pack(stream, len(data)) + data


def unpack(stored: bytes) -> Iterator[tuple[int, bytes]]:
    """(stream, bytes) of each whole frame; a cut one at the end is left out."""
    at = 0
    while at + HEAD.size <= len(stored):
        stream, size = HEAD.unpack_from(stored, at)
        at += HEAD.size
        if at + size > len(stored):
            return
        yield stream, stored[at : at + size]
        at += size


def render(stored: bytes, stream: int | None = None) -> bytes:
    """Returns frames as text: everything as it came, or one stream; a note where bytes were left out."""
    parts: list[bytes] = []
    for kind, data in unpack(stored):
        if kind == NOTE:
            parts.append(note_of(data))
        elif stream is None or kind == stream:
            parts.append(data)
    return b"".join(parts)


def note_of(data: bytes) -> bytes:
    """Returns the words of a NOTE where bytes were left out."""
    return b"\n[... %d bytes of output left out ...]\n" % left_out(data)


def left_out(data: bytes) -> int:
    """Returns the number in a NOTE."""
    count: int = _COUNT.unpack(data)[0]
    return count


def complete(data: bytes) -> int:
    """Returns the number of these bytes that end with a whole character (RFC 3629); what is no UTF-8 is one byte a
    character."""
    for back in range(1, min(_CHARACTER_MAX, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:  # begins one of 2, 3 or 4 bytes
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if needed > back else len(data)
        if byte < 0x80:
            break
    return len(data)


def live_name(token: int) -> str:
    return f"{token:020d}"


class Capture:
    """Gathers the output of one attempt at a time. Keeps the first and the last half of `limit` bytes.

    Short output stays in memory; what is older than FLUSH_AFTER_MS or larger than INLINE_MAX is written to a spool file
    named after the token in `directory`. Times are milliseconds of any one clock.
    """

    def __init__(self, directory: str, limit: int) -> None:
        self._directory = directory
        self._hider: Redactor | None = None
        self.keep(limit)
        self._fd = -1
        self._reset()

    def keep(self, limit: int) -> None:
        """Keeps so many bytes of the next attempt. To be called before anything of it is written."""
        self._head_max = limit // 2
        self._tail_max = limit - limit // 2

    def _reset(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._unwritten: list[bytes] = []  # frames of the head that are not in the file yet
        self._unwritten_size = 0
        self._head_size = 0  # bytes of output in the head
        self._written = 0  # bytes of the file that are final
        self._rest: deque[tuple[int, bytes]] = deque()
        self._rest_size = 0
        self._rest_changed = False
        self._left_out = 0
        self._failure: str | None = None  # why the spool file could not be written
        self._tails = {STDOUT: b"", STDERR: b""}
        self._begun = {STDOUT: b"", STDERR: b""}  # a character that is not complete: its rest may come after the other
        self.flush_at: int | None = None

    def hide(self, values: Sequence[str]) -> None:
        """From here on none of these is shown in what is written; a piece of one that may be going on waits."""
        self._hider = Redactor(values) if values else None

    def write(self, stream: int, data: bytes, now_ms: int) -> None:
        if self._hider is not None:
            data = self._hider.feed(stream, data)
        if data:
            data = self._begun[stream] + data
            whole = complete(data)
            self._begun[stream] = data[whole:]
            self._write(stream, data[:whole], now_ms)

    def _write(self, stream: int, data: bytes, now_ms: int) -> None:
        if not data:
            return
        self._tails[stream] = (self._tails[stream] + data)[-_TAIL:]
        room = 0 if self._left_out else self._head_max - self._head_size
        if room > 0:
            part = data[:room]
            data = data[room:]
            self._unwritten.append(pack(stream, part))
            self._unwritten_size += len(part) + HEAD.size
            self._head_size += len(part)
        if data:
            if self._rest and self._rest[-1][0] == stream and len(self._rest[-1][1]) < _TAIL:
                self._rest[-1] = (stream, self._rest[-1][1] + data)  # a row of tiny writes becomes one frame
            else:
                self._rest.append((stream, data))
            self._rest_size += len(data)
            self._rest_changed = True
            while self._rest_size > self._tail_max:
                over = self._rest_size - self._tail_max
                first_stream, first = self._rest.popleft()
                if len(first) > over:
                    self._rest.appendleft((first_stream, first[over:]))
                cut = min(over, len(first))
                self._rest_size -= cut
                self._left_out += cut
        if self.flush_at is None:
            # All of the last part is written anew each time: no more of it in a second than a slow disk takes.
            rewrite_ms = REWRITE_AFTER_MS + self._rest_size // REWRITTEN_IN_MS
            self.flush_at = now_ms + (rewrite_ms if self._rest else FLUSH_AFTER_MS)

    def leave_out(self, count: int, now_ms: int) -> None:
        """So many bytes, which were printed next, are not there. The head ends here; what came behind it is left out as
        well, for there is one gap."""
        self._end_characters(now_ms)
        self._left_out += self._rest_size + count
        self._rest.clear()
        self._rest_size = 0
        self._rest_changed = True
        if self.flush_at is None:
            self.flush_at = now_ms + REWRITE_AFTER_MS

    def drop(self) -> None:
        """Forgets the attempt; its spool file is left as it is."""
        self._reset()

    @property
    def urgent(self) -> bool:
        """So much waits in memory that it should be flushed now."""
        return self._unwritten_size > INLINE_MAX

    def flush(self, token: int, now_ms: int | None = None) -> None:
        """Writes to the spool file, where `OutputStore.live` reads it. With a time, what is written anew may wait for a
        reader."""
        self.flush_at = None
        if self._failure is None:
            try:
                if not self._flush(token, patient=now_ms is not None) and now_ms is not None:
                    self.flush_at = now_ms + AGAIN_AFTER_MS
            except OSError as exc:
                self._failure = exc.strerror
        if self._failure is not None:
            self._unwritten.clear()
            self._unwritten_size = 0

    def _flush(self, token: int, *, patient: bool) -> bool:
        """Returns False where a reader is in the part that is written anew; it is left as it was."""
        if self._fd < 0:
            self._fd = _make(self._directory, live_name(token))
        if not self._rest_changed:
            self._flush_head()
            return True
        # Neither side ever waits for the other: a keeper that stood still would stop its job.
        mine = _locked(self._fd)
        if not mine and patient:
            return False
        try:
            self._flush_head()
            end, waiting = self._written, bytearray()
            for frame in self._rest_frames():
                waiting += frame
                if len(waiting) > _AT_ONCE:
                    end += write_at(self._fd, waiting, end)
                    waiting.clear()
            end += write_at(self._fd, waiting, end)
            os.ftruncate(self._fd, end)
            self._rest_changed = False
        finally:
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        return True

    def _flush_head(self) -> None:
        if self._unwritten:
            self._written += write_at(self._fd, b"".join(self._unwritten), self._written)
            self._unwritten.clear()
            self._unwritten_size = 0

    def _rest_frames(self) -> Iterator[bytes]:
        if self._left_out:
            yield pack(NOTE, _COUNT.pack(self._left_out))
        for stream, data in self._rest:
            yield pack(stream, data)

    def _settle(self) -> None:
        """The run is over: what waited for more of it does not wait any longer."""
        for stream, data in self._hider.rest() if self._hider is not None else ():
            self._write(stream, self._begun[stream] + data, 0)
            self._begun[stream] = b""
        self._end_characters(0)

    def _end_characters(self, now_ms: int) -> None:
        for stream, data in self._begun.items():
            self._write(stream, data, now_ms)
            self._begun[stream] = b""

    def tail(self) -> str:
        """The end of stderr, or of stdout when nothing went to stderr. To be asked for when the run is over."""
        self._settle()
        raw = self._tails[STDERR].strip() or self._tails[STDOUT].strip()
        return raw.decode("utf-8", "replace")

    def finish(self, token: int) -> tuple[bytes, bool, int]:
        """(frames, spooled, bytes left out), and ready for the next attempt. Empty and not spooled: no output."""
        self._settle()
        left_out = self._left_out
        frames = b""
        if self._fd < 0 and self._failure is None and self._unwritten_size + self._rest_size <= INLINE_MAX:
            frames = b"".join((*self._unwritten, *self._rest_frames()))
        elif self._fd >= 0 or self._unwritten or self._rest:
            self.flush(token)
        spooled = self._fd >= 0 and self._failure is None
        if spooled and not os.fstat(self._fd).st_nlink:  # somebody removed the file: nobody finds it by its name
            spooled = False
            if os.fstat(self._fd).st_size <= INLINE_MAX:
                frames = os.pread(self._fd, INLINE_MAX, 0)
            else:
                self._failure = "its file was removed from the node's disk, and not by the node"
        if self._failure is not None:
            frames = pack(STDERR, f"raftsched: the output could not be kept: {self._failure}\n".encode())
        self._reset()
        return frames, spooled, left_out


def _make(directory: str, name: str) -> int:
    """Returns the descriptor of a file that is empty. The directory, and the one that it is in, may have been removed
    under the node. Raises OSError."""
    path, flags = os.path.join(directory, name), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        for made in (os.path.dirname(directory), directory):
            with suppress(FileExistsError):
                os.mkdir(made, 0o700)
        return os.open(path, flags, 0o600)


def _locked(fd: int) -> bool:
    """Takes the file for its writer. False: somebody reads it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # files of this disk cannot be locked
        pass
    return True

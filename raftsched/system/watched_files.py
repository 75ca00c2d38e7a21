"""Files that are replaced while a process runs (certificates, tokens, passwords), and what was read from them.

A change is seen by what stat(2) says of the file that a path leads to now: whether it was written in place, replaced by
a rename, or reached by a symbolic link that leads elsewhere (as Kubernetes switches the files of a secret). What cannot
be used, because it is half written or does not fit together, changes nothing: it is said once, and looked at again
until it is right.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

from raftsched.system.clock import Clock, SystemClock

# A file that was changed so shortly before it was read may be changed once more without that being seen: the kernel's
# times go on by some milliseconds at once, those of a file system on the network by up to two seconds (NFS, SMB).
UNSETTLED_MS = 2_000

Marks = tuple[object, ...]

_T = TypeVar("_T")


def marks_of(files: Sequence[Path | str | None]) -> Marks:
    """Returns what differs when one of the files was changed or replaced. None: no file."""
    marks: list[object] = []
    for path in files:
        try:
            found = None if path is None else os.stat(path)
        except OSError as error:
            marks.append(error.errno)
        else:
            # The time of the last change of the inode cannot be set: a copy may keep the time of its original.
            marks.append(found and (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    return tuple(marks)


@dataclass(frozen=True)
class Made(Generic[_T]):
    """A value that was made of the content of files: it is another one when that is."""

    value: _T = field(compare=False)
    digest: bytes


def digest_of(*contents: bytes | None) -> bytes:
    """Returns what tells the contents of files from others."""
    return sha256(b"".join(sha256(content or b"").digest() for content in contents)).digest()


class WatchedFiles(Generic[_T]):
    """`value` is what was read from the files when that was last possible."""

    def __init__(
        self,
        files: Sequence[Path | str | None],
        read: Callable[[], _T],
        *,
        unusable: tuple[type[Exception], ...],
        warn: Callable[[Exception], None],
        clock: Clock | None = None,
    ) -> None:
        """`read` makes the value, which is not taken where it equals the one before; what it raises of `unusable` is
        passed to `warn` once, and to the caller here."""
        self._files = tuple(files)
        self._read = read
        self._unusable = unusable
        self._warn = warn
        self._clock = clock or SystemClock()
        self._said: str | None = None  # what is wrong; None: nothing is
        self._seen, self._unsettled = self._marks()
        self.value = read()

    def reload_if_changed(self, *, again: bool = False, aloud: bool = False) -> bool:
        """Reads files that have changed; with `again` also where none seems to. Returns True when there is another
        value. `aloud`: what cannot be used is passed on also where it was before. For a thread."""
        seen, unsettled = self._marks()
        if not again and seen == self._seen and self._said is None and not self._unsettled:
            return False
        try:
            value = self._read()
        except self._unusable as error:
            if aloud or str(error) != self._said:
                self._said = str(error)
                self._warn(error)
            return False
        self._seen, self._unsettled, self._said = seen, unsettled, None
        if value == self.value:
            return False
        self.value = value
        return True

    @property
    def wrong(self) -> str | None:
        """The reason why what the files hold now is not in use; None: it is."""
        return self._said

    def _marks(self) -> tuple[Marks, bool]:
        """Returns the marks of the files, before they are read, and whether they may change without another mark."""
        marks = marks_of(self._files)
        newest_ms = max((mark[-1] // 1_000_000 for mark in marks if isinstance(mark, tuple)), default=0)
        return marks, self._clock.wall_ms() - newest_ms < UNSETTLED_MS

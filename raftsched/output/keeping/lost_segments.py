"""Segments whose files somebody else removed, cut off, or hid by what was mounted over their directory.

Who writes to a file that has no name any more is told of nothing: so the names are compared with what the store
believes in. What is there again, when what hid it was unmounted, can be read; the next process counts it again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from raftsched.output.format.segments import Segment

_KNOWN_MAX = 10_000

log = logging.getLogger(__name__)


def has_name(fd: int) -> bool:
    """Returns whether the open file is in any directory."""
    return os.fstat(fd).st_nlink > 0


def size_at(path: Path, fd: int | None) -> int | None:
    """Returns how large the file of this name is; None: it is gone, or is not the open one. Raises OSError."""
    try:
        there = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if fd is not None and not os.path.samestat(there, os.fstat(fd)):
        return None
    return there.st_size


class LostSegments:
    """Remembers which segments were lost. For who has the lock of the store."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._owners: dict[int, str] = {}  # by number
        self.count = 0  # files, since the store was opened

    def owner_of(self, number: int) -> str | None:
        """Returns the owner of a lost segment; None: it is none."""
        return self._owners.get(number)

    def add(self, number: int, segment: Segment) -> None:
        """Its file is not there."""
        self._owners[number] = segment.owner
        while len(self._owners) > _KNOWN_MAX:
            del self._owners[next(iter(self._owners))]

    def say(self, paths: Sequence[Path], what: str) -> None:
        """Counts files, and tells the log what befell them and what to do."""
        if not paths:
            return
        self.count += len(paths)
        names = paths[0].name if len(paths) == 1 else f"{paths[0].name} and others"
        log.warning(
            "%s: %s: %d of the files with the output of runs %s, and not by this node. Something else changes its data"
            " directory, or a file system was mounted over it: find it and stop it; what is hidden counts again after"
            " an unmount and a restart. What was in the files can be read from a second copy, if there is one; new"
            " output goes to new files. To make room, lower output_keep or --output-keep-bytes",
            self._directory,
            names,
            len(paths),
            what,
        )

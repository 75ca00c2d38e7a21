"""Small files of a node that are there whole, or as they were before: over kill -9, loss of power, and a full disk."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path  # the supervisor loads this module, and all that it forks would be larger for it


def replace_whole(path: Path, data: bytes) -> None:
    """Puts `data` in the place of a file, for its owner alone, and returns when it is on the disk.

    Written beside under the suffix .new, flushed, renamed, and the directory flushed. Raises OSError: the file is as it
    was, unless it is only the directory that could not be flushed. For one caller at a time."""
    made = path.with_suffix(".new")
    try:
        fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        made.replace(path)
    except OSError:
        with suppress(OSError):
            made.unlink()  # half of it helps nobody, least of all on a full disk
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path | str) -> None:
    """Returns when the names in a directory are on the disk as they are now. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_at(fd: int, data: bytes | bytearray, offset: int) -> int:
    """Writes all of it there, and returns its length. Raises OSError."""
    done = 0
    with memoryview(data) as whole:
        while done < len(data):
            done += os.pwrite(fd, whole[done:], offset + done)
    return len(data)

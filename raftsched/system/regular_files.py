"""Reads files that others may have named, or put where this program looks: what is no regular file is not waited for.

A FIFO waits for a writer, a device may do anything when it is opened. What the process was started with stays: <(...)
of a shell and /dev/stdin name descriptors of its own, so nobody else put them there. Where a user names a file on
purpose to have it read as a stream (jobs apply and import, --file of a value), plain open is right.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

_OWN = re.compile("/dev/fd/[0-9]+|/proc/self/fd/[0-9]+|/dev/stdin")


def open_regular(path: Path | str) -> BinaryIO:
    """Returns a regular file, open for reading. Raises OSError, also for what is none."""
    name = os.fspath(path)
    if _OWN.fullmatch(name):
        return open(name, "rb")
    _require(name, os.stat(name).st_mode)
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _require(name, os.fstat(fd).st_mode)  # it may be another one by now
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_regular(path: Path | str, most: int = 16 << 20) -> bytes:
    """Returns the content of a regular file. Raises OSError, also for one of more than `most` bytes."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", os.fspath(path))
    return content


def require_regular(path: Path | str) -> None:
    """Raises OSError unless this is a regular file: for what opens it by its name only."""
    name = os.fspath(path)
    if not _OWN.fullmatch(name):
        _require(name, os.stat(name).st_mode)


def _require(name: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", name)

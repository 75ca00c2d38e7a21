"""Writes files that only their owner can read."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_SUFFIX = ".unfinished"


def write_private(file: Path, content: bytes) -> None:
    """Writes a file for its owner alone, whole or not at all: one beside it takes its place. Raises OSError."""
    with replacing(file) as out:
        out.write(content)


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """Gives a file to write to, for its owner alone. It takes the other's place when all went well and it is on
    the disk; else it is removed, and what a process left that was killed meanwhile is removed by the next. Raises
    OSError."""
    _sweep(file)
    out, beside = _created(file)
    try:
        with out:
            yield out
            out.flush()
            os.fsync(out.fileno())
            beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _sweep(file: Path) -> None:
    """Removes what was to take the file's place, and has no living process that writes it."""
    for left in list(file.parent.iterdir()):
        if left.name.startswith(_prefix(file)) and left.name.endswith(_SUFFIX):
            with suppress(OSError):
                _remove_left(left)


def _remove_left(left: Path) -> None:
    fd = os.open(left, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        left.unlink(missing_ok=True)
    finally:
        os.close(fd)


def _prefix(file: Path) -> str:
    return f".{file.name}."


def _created(file: Path) -> tuple[BinaryIO, Path]:
    """Returns a new file that is locked for as long as it is open, so that nobody takes it for one that was left."""
    while True:
        beside = file.with_name(f"{_prefix(file)}{secrets.token_hex(4)}{_SUFFIX}")
        out = os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
        try:
            fcntl.flock(out, fcntl.LOCK_EX)
            if os.fstat(out.fileno()).st_nlink:  # else it was taken for one that was left, before it was locked
                return out, beside
        except BaseException:
            out.close()
            raise
        out.close()

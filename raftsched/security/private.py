"""Keeps a data directory private to its owner: it holds jobs, keys and hashes of tokens. Wider permissions are
narrowed."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from raftsched.errors import StartupError
from raftsched.unfinished import RESTORING

log = logging.getLogger("raftsched.node")

UMASK = 0o077  # of a process that is there for a node
MADE = (
    "store",
    "output",
    "snapshots",
    RESTORING,
    "ends",
    "supervisor.lock",
    "local.token",
    "local.url",
    "cluster.key",
)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(data: Path) -> None:
    """Takes all permissions on the directory from other users, and says so in the log. Raises StartupError when it
    belongs to somebody else and others may write to it: they could put another store there."""
    if data.stat().st_mode & stat.S_ISVTX:
        raise StartupError(f"The data directory {data} is one that users share; give the node one of its own below it.")
    try:
        wide = wide_in(data)
        for path in wide:
            _narrow(path, data)
    except OSError as error:
        where = error.filename or data
        raise StartupError(f"The data directory {where} cannot be made private: {error.strerror}.") from None
    if wide:
        more = "" if len(wide) == 1 else f" and {len(wide) - 1} more files and directories"
        log.warning("%s%s could be used by other users; they are their owner's alone now", wide[0], more)


def wide_in(data: Path) -> list[Path]:
    """Returns the directory, and what a node makes in it, where other users have permissions."""
    return [path for path in _all(data) if _is_wide(path)]


def _all(data: Path) -> Iterator[Path]:
    """Gives the directory, and what a node makes in it; nothing that a link leads to."""
    yield data
    for name in MADE:
        path = data / name
        if path.is_symlink() or not path.exists():
            continue
        yield path
        for directory, directories, files in os.walk(path):
            for inner in (*directories, *files):
                if not Path(directory, inner).is_symlink():
                    yield Path(directory, inner)


def _is_wide(path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:  # gone meanwhile
        return False
    return bool(found.st_mode & _OTHERS) and (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode))


def _narrow(path: Path, data: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    try:
        path.chmod(mode & ~_OTHERS)
    except PermissionError:
        if path == data and mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StartupError(
                f"The data directory {data} is not this user's, and others may write to it; give it to the user that"
                f" runs the node: chown it, and chmod 700 {data}."
            ) from None
        if path == data:
            log.warning("%s is not this user's, and others may look into it: chmod 700 %s", data, data)

"""The directory of snapshot files: nothing in it outlives the process that made it."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

from raftsched.raft.writer import Writer

log = logging.getLogger(__name__)


def sent_path(directory: Path, number: int) -> Path:
    """Returns the path of the `number`th copy made by this process."""
    return directory / f"send-{number}.snap"


def received_path(directory: Path, index: int, sha256: bytes) -> Path:
    """Returns the path at which the snapshot of entry `index` with this checksum is gathered."""
    return directory / f"receive-{index}-{sha256.hex()[:16]}.snap"


def clear(directory: Path) -> None:
    """Makes the directory and deletes what an earlier run left in it. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for pattern in ("send-*.snap", "receive-*.snap", "backup-*.snap"):
        for path in directory.glob(pattern):
            path.unlink(missing_ok=True)


def require_room(directory: Path, size: int, reserve: int) -> None:
    """Raises OSError unless `size` more bytes leave `reserve` of them free: write batches need room as well."""
    stat = os.statvfs(directory)
    free = stat.f_bavail * stat.f_frsize
    if free < size + reserve:
        why = f"{size} bytes for a snapshot and {reserve} to spare are needed, {free} are free"
        raise OSError(errno.ENOSPC, why, str(directory))


def remove(side: Writer, path: Path) -> None:
    """Deletes the file after all jobs submitted before: freeing a large one takes a while."""

    def removed(_: None, error: BaseException | None) -> None:
        if error is not None:
            log.warning("%s could not be deleted: %s", path, error)

    side.submit(lambda: path.unlink(missing_ok=True), removed)

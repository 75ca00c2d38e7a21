"""The disk that a trial writes to. Without room on it the history gets holes, and nodes whose data lies there refuse
writes: both would be judged as if the cluster had failed, so the trial ends, without a verdict."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path

MIB = 1 << 20
FREE_MIN = 8 * MIB  # for history, logs, and what the jobs write
FREE_MIN_WITH_NODES = 96 * MIB  # nodes refuse writes when there are less than 64 MiB
LOOK_S = 0.5
_OF_DISKS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})


def check(directory: Path, least: int) -> None:
    """Raises OSError when fewer bytes are free there."""
    free = shutil.disk_usage(directory).free
    if free < least:
        raise OSError(errno.ENOSPC, f"{free // MIB} MiB are free, {least // MIB} MiB are the least", str(directory))


async def watch(directory: Path, least: int) -> None:
    """Until it raises what `check` does."""
    while True:
        check(directory, least)
        await asyncio.sleep(LOOK_S)


def why(error: BaseException) -> str | None:
    """What is wrong with the disk, when that is among what an error tells of; None: it is another one."""
    if isinstance(error, BaseExceptionGroup):
        return next((words for inner in error.exceptions if (words := why(inner)) is not None), None)
    if not isinstance(error, OSError) or error.errno not in _OF_DISKS:
        return None
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{os.strerror(error.errno)}" + (f" ({error.strerror})" if _more(error) else "")


def _more(error: OSError) -> bool:
    return error.errno is not None and error.strerror not in (None, os.strerror(error.errno))

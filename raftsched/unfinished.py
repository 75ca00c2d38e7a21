"""Keeps nodes from beginning in a data directory where a restore was killed: they would begin an empty cluster in the
place of the one that was to come back."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from raftsched.errors import StartupError

RESTORING = "restoring"  # in a data directory, from the first moment of a restore until its store is in place
_STORE = "store"

log = logging.getLogger("raftsched.node")


def unfinished_restore(data: Path) -> Path | None:
    """Returns what a restore left that has not ended. None: there is nothing of the kind, or there is a store, which a
    restore puts in its place whole."""
    left = data / RESTORING
    return left if os.path.lexists(left) and not os.path.lexists(data / _STORE) else None


def said_of(left: Path) -> str:
    """Returns what it is, and what to do, without a full stop."""
    return f"{left} is what a restore left that was killed; unless one is under way now, remove it and restore again"


def require_restored(data: Path) -> None:
    """Lets a node begin in the directory. Removes the empty mark of a restore that ended just after its store was in
    place. Raises StartupError."""
    left = unfinished_restore(data)
    if left is not None:
        raise StartupError(f"The node would begin without what was to be restored: {said_of(left)}.")
    mark = data / RESTORING
    if not os.path.lexists(mark):
        return
    try:
        mark.rmdir()
    except OSError:
        log.warning("%s is what a restore left; it is of no use beside a store: remove it", mark)

"""Finds words for the failure that ended a node."""

from __future__ import annotations

import shutil

from raftsched.config.node import NodeConfig
from raftsched.errors import StartupError

DISK_FULL = 2**20  # bytes: with less, a failure is put down to the disk


def describe(error: BaseException, config: NodeConfig) -> str:
    """Returns one line for the operator: the failure, and the disk where that is the cause."""
    if isinstance(error, StartupError):
        words = str(error)
    elif isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        words = f"node {config.id} cannot go on:{where} {error.strerror or error}."
    elif isinstance(error, MemoryError):
        words = f"node {config.id} stopped: it ran out of memory. What was acknowledged is kept; start it again."
    else:
        words = f"node {config.id} stopped: {type(error).__name__}: {error}"
    try:
        full = shutil.disk_usage(config.data).free < DISK_FULL
    except OSError:
        full = False
    if full:
        words += f" The disk of {config.data} is full; free some space and start again. What was acknowledged is kept."
    return words

"""Names what runs jobs: a node, by its node id, or a remote worker.

Sessions, attempts and rows of NODES carry one text for either: a node's id, or "worker/" and the worker's name. No node
id has a slash, so the two cannot be mistaken for each other.
"""

from __future__ import annotations

WORKER_PREFIX = "worker/"
WORKER_KEYS = (b"worker/", b"worker0")  # from, to: the rows of NODES of remote workers


def worker_key(name: str) -> str:
    """Returns the text that stands for the remote worker of this name."""
    return WORKER_PREFIX + name


EXECUTOR_MAX = len(WORKER_PREFIX) + 128  # bytes of what stands for one: a key


def executor_error(executor: str) -> bool:
    """Returns whether this text can stand for nobody."""
    return not 1 <= len(executor.encode()) <= EXECUTOR_MAX


def is_worker(executor: str) -> bool:
    """Returns whether this text stands for a remote worker."""
    return executor.startswith(WORKER_PREFIX)


def worker_name(executor: str) -> str | None:
    """Returns the name of the remote worker; None: it is a node."""
    return executor[len(WORKER_PREFIX) :] if executor.startswith(WORKER_PREFIX) else None


def node_name(executor: str) -> str | None:
    """Returns the node id; None: it is a remote worker, or nothing at all."""
    return None if not executor or executor.startswith(WORKER_PREFIX) else executor


def in_words(executor: str) -> str:
    """Returns it as it stands within a sentence: a node by its id alone."""
    return f"the worker {executor[len(WORKER_PREFIX) :]}" if executor.startswith(WORKER_PREFIX) else executor


def at_start(executor: str) -> str:
    """Returns the same for the beginning of a sentence."""
    return f"The worker {executor[len(WORKER_PREFIX) :]}" if executor.startswith(WORKER_PREFIX) else executor

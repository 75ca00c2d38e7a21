"""Queues the batches that all nodes proposed, for the leader's next entry."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from raftsched.core.commands import UNDECODABLE, Form, OpenLeadership, check
from raftsched.raft.options import RaftOptions
from raftsched.raft.proposals.proposer import OVERHEAD, Batch

_OPENING = (Form, OpenLeadership)  # only a leader itself says them


def unfit(commands: Sequence[bytes], options: RaftOptions) -> list[int]:
    """Returns the places of commands that must not get into the log: bytes that are no command, or commands that no
    other node may propose. All places, when the commands are more than an entry holds."""
    if len(commands) > options.entry_max_commands or sum(map(len, commands)) > options.entry_max_bytes:
        return list(range(len(commands)))
    return [place for place, raw in enumerate(commands) if not _fits(raw)]


def _fits(raw: bytes) -> bool:
    try:
        return not isinstance(check(raw), _OPENING)
    except UNDECODABLE:
        return False


class ProposalQueue:
    """Batches that wait for the next entry."""

    def __init__(self, options: RaftOptions) -> None:
        self._options = options
        self._batches: deque[tuple[Batch, int]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def room(self) -> int:
        """Bytes it still takes."""
        return self._options.queue_max_bytes - self._bytes

    def add(self, batch: Batch) -> None:
        size = sum(map(len, batch[2])) + OVERHEAD
        self._batches.append((batch, size))
        self._bytes += size

    def take(self, max_bytes: int) -> list[Batch]:
        """Takes the batches of one entry of about `max_bytes`, at least one if there is one."""
        options = self._options
        limit = min(options.entry_max_bytes, max_bytes)
        chosen: list[Batch] = []
        size = commands = 0
        while self._batches:
            batch, bytes_ = self._batches[0]
            over = size + bytes_ > limit or commands + len(batch[2]) > options.entry_max_commands
            if chosen and over:
                break
            self._batches.popleft()
            self._bytes -= bytes_
            chosen.append(batch)
            size += bytes_
            commands += len(batch[2])
        return chosen

    def clear(self) -> None:
        """Drops everything when leadership ended: the proposers send again to the next leader."""
        self._batches.clear()
        self._bytes = 0

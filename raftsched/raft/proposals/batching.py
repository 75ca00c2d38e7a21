"""The policy by which the leader makes entries of queued proposals.

Usually once per write batch of its store: meanwhile proposals are gathered, and the more there is to do the longer a
batch takes to write. A caller that sends one command after the other leaves nothing to gather. Its next create goes to
the followers at once, while the batch that applied the one before is still being written here. They learn that it is
committed from the entry after it, or when it is applied here, so that two write batches of theirs become one.
"""

from __future__ import annotations

from collections.abc import Sequence

from raftsched.raft.consensus.journal import Journal
from raftsched.raft.proposals.proposer import Batch, Proposer
from raftsched.raft.proposals.queue import ProposalQueue

FEW_CALLS = 4  # in an entry, and in the one before it, that are not worth gathering for
FEW_BYTES = 16 * 1024


class BatchPolicy:
    """Decides on the leader's next entry."""

    def __init__(self, queue: ProposalQueue, proposer: Proposer, journal: Journal) -> None:
        self._queue = queue
        self._proposer = proposer
        self._journal = journal
        self._lone = False  # there was next to nothing in the newest entry

    def due(self, busy: bool) -> bool:
        """Returns whether to make an entry now. `busy`: a write batch is being written."""
        return bool(self._queue) and (not busy or self._is_lone_caller())

    def _is_lone_caller(self) -> bool:
        journal = self._journal
        return self._lone and journal.commit_index == journal.last_index and self._are_few(self._queue.batches)

    def _are_few(self, batches: Sequence[Batch]) -> bool:
        """Returns whether these are next to nothing, and of callers of this node only, who need not wait for its
        disk."""
        calls = size = 0
        for batch in batches:
            calls_here = self._proposer.early_ack_calls(batch)
            if not calls_here:
                return False
            calls += calls_here
            size += sum(map(len, batch[2]))
        return calls <= FEW_CALLS and size <= FEW_BYTES

    def take(self, max_bytes: int) -> list[Batch]:
        """Takes the batches of the next entry, of about `max_bytes`."""
        batches = self._queue.take(max_bytes)
        self._lone = self._are_few(batches)
        return batches

    def commit_can_wait(self) -> bool:
        """Returns whether the followers can learn of the commit later: when it is applied here, or with the next
        entry."""
        return self._lone and self._journal.applied_index < self._journal.commit_index

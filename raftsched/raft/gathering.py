"""When the leader makes an entry of what was proposed to it.

Usually once per turn of its store: what comes meanwhile is gathered, and the more there is to do the longer turns take.
A caller who asks for one thing after the other leaves nothing to gather. His next create goes to the followers at once,
while the turn that applied the one before is still being written here; and they hear that it is committed from the
entry after it, or when it is applied here, so that two turns of theirs become one.
"""

from __future__ import annotations

from raftsched.raft.journal import Journal
from raftsched.raft.proposals import Batch, Intake, Proposer

ALONE_BYTES = 1_024  # of an entry, and of the one before it, that are not worth gathering for


class Gathering:
    """The leader's next entry."""

    def __init__(self, intake: Intake, proposer: Proposer, journal: Journal) -> None:
        self._intake = intake
        self._proposer = proposer
        self._journal = journal
        self._alone = False  # the newest entry was next to nothing, and nobody but callers of this node waits for it

    def due(self, busy: bool) -> bool:
        """Whether an entry is to be made now. `busy`: a turn is being written."""
        return bool(self._intake) and (not busy or self._asked_alone())

    def _asked_alone(self) -> bool:
        journal = self._journal
        return self._alone and self._intake.bytes <= ALONE_BYTES and journal.commit_index == journal.last_index

    def take(self) -> list[Batch]:
        """The batches of the next entry."""
        size = self._intake.bytes
        batches = self._intake.take()
        self._alone = size <= ALONE_BYTES and all(self._proposer.all_early(batch) for batch in batches)
        return batches

    def told_later(self) -> bool:
        """The followers need not hear of the commit yet: they will when it is applied here, or with the next entry."""
        return self._alone and self._journal.applied_index < self._journal.commit_index

"""Makes of a saved state the beginning of another cluster.

Jobs, instances, queues, settings stay as they are. Numbers that others may have seen from the old cluster after it was
saved (fencing tokens above all) go on far above where they were, so that none of them is given twice. The distance
depends on the time of the restore, so that a second cluster of the same backup goes on above the numbers that the first
one can have given by then.
"""

from __future__ import annotations

from typing import NamedTuple

from raftsched.bounds import MINUTE_MS
from raftsched.core.apply.cluster.backups import count_from
from raftsched.core.apply.cluster.cluster_notices import forget_node
from raftsched.core.apply.cluster.membership import forget_session
from raftsched.core.apply.resources.node_edits import forget_rules
from raftsched.core.apply.tx import Tx
from raftsched.core.subjects.cluster import Member
from raftsched.core.tables import Table, from_u64

TOKENS_AHEAD = 100_000_000_000  # a year of 3,000 starts a second
INDEX_AHEAD = 1_000_000_000  # entries of the log: numbers of events, and what min_index waits for
TERMS_AHEAD = 1_000
TOKENS_PER_MS, ENTRIES_PER_MS = 10, 2  # more than any cluster gives or writes
_BEGAN_MS = 1_735_689_600_000  # 2025-01-01: nothing was saved earlier


class Ahead(NamedTuple):
    """The distance between the numbers of a new cluster and those of the backup."""

    tokens: int
    entries: int
    terms: int


def ahead(now_ms: int) -> Ahead:
    """Returns the distance for a restore at `now_ms`, by the wall clock of the machine that restores."""
    since_ms = max(0, now_ms - _BEGAN_MS)
    return Ahead(
        TOKENS_AHEAD + since_ms * TOKENS_PER_MS,
        INDEX_AHEAD + since_ms * ENTRIES_PER_MS,
        TERMS_AHEAD + since_ms // MINUTE_MS,  # few: other nodes take no term that is 2^32 above their own
    )


def bootstrap_from_backup(
    tx: Tx, index: int, cluster_id: bytes, member: Member, tokens: int, *, paused: bool, now_ms: int
) -> None:
    """Makes the state that of a new cluster. `index`: of the entry that it counts as the state of from now on.
    `member`: the only one at first. `tokens`: the distance of the next fencing token from the last. `now_ms`: the wall
    clock; what changes from then on is in no backup yet.

    Open sessions stay open, and the first leader ends them, as those of dead nodes: their runs are lost then, and run
    again under a new token."""
    meta = tx.meta
    forget_rules(tx, meta.members, (member,))
    for before in meta.members:
        forget_node(tx, before.node)
    meta.cluster_id = cluster_id
    meta.members = (member,)
    meta.members_at = index
    meta.leader = ""
    count_from(tx, max(now_ms, meta.now_ms))
    meta.last_token += tokens
    meta.paused = meta.paused or paused
    for key, raw in list(tx.view.scan(Table.NODES)):
        session = tx.session(from_u64(raw))
        if session is not None and not session.open and key.decode() != member.node:
            forget_session(tx, session)
    tx.save()

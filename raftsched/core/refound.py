"""What changes in a saved state that becomes the beginning of another cluster.

Jobs, instances, queues, settings stay as they are. Numbers that others may have seen from the old cluster after it was
saved (fencing tokens above all) go on far above where they were: none of them is given twice. How far depends on when
it is done, so that a second cluster of the same backup goes on above what the first one can have given by then.
"""

from __future__ import annotations

from typing import NamedTuple

from raftsched.core.apply.cluster import forget_session
from raftsched.core.apply.nodes import forget_rules
from raftsched.core.apply.tx import Tx
from raftsched.core.cluster import Member
from raftsched.core.model import MINUTE_MS
from raftsched.core.tables import Table, from_u64

TOKENS_AHEAD = 100_000_000_000  # a year of 3,000 starts a second
INDEX_AHEAD = 1_000_000_000  # entries of the log: numbers of events, and what min_index waits for
TERMS_AHEAD = 1_000
TOKENS_PER_MS, ENTRIES_PER_MS = 10, 2  # more than any cluster gives or writes
_BEGAN_MS = 1_735_689_600_000  # 2025-01-01: nothing was saved earlier


class Ahead(NamedTuple):
    """By how much the numbers of a new cluster are above those of the backup."""

    tokens: int
    entries: int
    terms: int


def ahead(now_ms: int) -> Ahead:
    """`now_ms`: wall clock of who restores."""
    since_ms = max(0, now_ms - _BEGAN_MS)
    return Ahead(
        TOKENS_AHEAD + since_ms * TOKENS_PER_MS,
        INDEX_AHEAD + since_ms * ENTRIES_PER_MS,
        TERMS_AHEAD + since_ms // MINUTE_MS,  # few: other nodes take no term that is 2^32 above their own
    )


def refound(tx: Tx, index: int, cluster_id: bytes, member: Member, tokens: int, *, paused: bool) -> None:
    """`index`: of the entry that the state is said to be of from now on. `member`: the only one at first. `tokens`: how
    far the next fencing token is above the last.

    Sessions that were open stay so, and are ended by the first leader, as those of nodes that are dead: what ran is
    lost then, and runs again under a new token."""
    meta = tx.meta
    forget_rules(tx, meta.members, (member,))
    meta.cluster_id = cluster_id
    meta.members = (member,)
    meta.members_at = index
    meta.leader = ""
    meta.last_token += tokens
    meta.paused = meta.paused or paused
    for key, raw in list(tx.view.scan(Table.NODES)):
        session = tx.session(from_u64(raw))
        if session is not None and not session.open and key.decode() != member.node:
            forget_session(tx, session)
    tx.save()

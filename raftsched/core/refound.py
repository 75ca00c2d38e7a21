"""What changes in a saved state that becomes the beginning of another cluster.

Jobs, instances, queues, settings stay as they are. Numbers that others may have seen from the old cluster after it was
saved (fencing tokens above all) go on far above where they were: none of them is given twice.
"""

from __future__ import annotations

from raftsched.core.apply.cluster import forget_session
from raftsched.core.apply.nodes import forget_rules
from raftsched.core.apply.tx import Tx
from raftsched.core.cluster import Member
from raftsched.core.tables import Table, from_u64

TOKENS_AHEAD = 100_000_000_000  # a year of 3,000 starts a second
INDEX_AHEAD = 1_000_000_000  # entries of the log: numbers of events, and what min_index waits for
TERMS_AHEAD = 1_000


def refound(tx: Tx, index: int, cluster_id: bytes, member: Member, *, paused: bool) -> None:
    """`index`: of the entry that the state is said to be of from now on. `member`: the only one at first.

    Sessions that were open stay so, and are ended by the first leader, as those of nodes that are dead: what ran is
    lost then, and runs again under a new token."""
    meta = tx.meta
    forget_rules(tx, meta.members, (member,))
    meta.cluster_id = cluster_id
    meta.members = (member,)
    meta.members_at = index
    meta.leader = ""
    meta.last_token += TOKENS_AHEAD
    meta.paused = meta.paused or paused
    for key, raw in list(tx.view.scan(Table.NODES)):
        session = tx.session(from_u64(raw))
        if session is not None and not session.open and key.decode() != member.node:
            forget_session(tx, session)
    tx.save()

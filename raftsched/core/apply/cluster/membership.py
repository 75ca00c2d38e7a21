"""Applies commands about the cluster itself: formation, leadership, settings, sessions."""

from __future__ import annotations

from raftsched.bounds import BOOT_ID_MAX, WEIGHT_MAX
from raftsched.core.actions import (
    ClusterFormed,
    LeadershipOpened,
    LevelRaised,
    MembersChanged,
    SessionBound,
    SessionChanged,
    SettingsChanged,
)
from raftsched.core.apply.cluster.backups import count_from
from raftsched.core.apply.cluster.cluster_notices import forget_node, leader_changed, node_lost, node_opened
from raftsched.core.apply.resources.node_edits import forget_rules
from raftsched.core.apply.runs.attempts import hand_back, lose
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import (
    Accepted,
    Answer,
    Barrier,
    BindSession,
    CloseSession,
    EndSession,
    Form,
    OpenLeadership,
    OpenSession,
    OpenWorker,
    PutSettings,
    RaiseLevel,
    Rejected,
)
from raftsched.core.entry import check_level
from raftsched.core.levels import BACKUPS_ARE_NOTED
from raftsched.core.limits import settings_error, worker_error
from raftsched.core.rows import TERMS
from raftsched.core.rules.executors import is_worker, worker_name
from raftsched.core.subjects.cluster import LedTerm, Member, Session
from raftsched.core.tables import Table, after, from_u64, u64

TERMS_MAX = 200  # leaderships that are kept


def form(tx: Tx, c: Form) -> Answer:
    if tx.meta.cluster_id:
        return Rejected("stale", "The cluster is formed already.")
    check_level(c.level)
    tx.meta.cluster_id = c.cluster_id
    tx.meta.members = c.members
    tx.meta.level = max(0, c.level)
    count_from(tx, tx.now)
    tx.actions.append(ClusterFormed(c.cluster_id))
    return Accepted()


def raise_level(tx: Tx, c: RaiseLevel) -> Answer:
    """Raises NewerLog when this version does not know the level: it would not know what follows."""
    if c.level <= tx.meta.level:
        return Rejected("stale", f"The cluster is of level {tx.meta.level}.")
    if tx.meta.settings.upgrade_hold:
        return Rejected("stale", "The level is held by the setting upgrade_hold.")
    check_level(c.level)
    before, tx.meta.level = tx.meta.level, c.level
    if before < BACKUPS_ARE_NOTED:
        count_from(tx, tx.now)
    tx.forget_offers()
    tx.actions.append(LevelRaised(c.level))
    return Accepted()


def configure(tx: Tx, index: int, members: tuple[Member, ...]) -> None:
    """Makes the members of a committed configuration entry the members. The leader has checked it, and consensus obeys
    it since it was appended. An open session of a removed member ends as every other: when its lease has run out for
    certain."""
    gone = {m.node for m in tx.meta.members} - {m.node for m in members}
    forget_rules(tx, tx.meta.members, members)
    tx.meta.members = members
    tx.meta.members_at = index
    for node in sorted(gone):
        forget_node(tx, node)
        session = tx.session(tx.node_session(node))
        if session is not None and not session.open:
            forget_session(tx, session)
    tx.actions.append(MembersChanged(members))


def open_leadership(tx: Tx, c: OpenLeadership) -> Answer:
    if c.epoch <= tx.meta.epoch:
        return Rejected("stale", "A newer leadership was opened.")
    leader_changed(tx, c.leader, tx.meta.leader)
    tx.meta.epoch = c.epoch
    tx.meta.leader = c.leader
    _keep_term(tx, c)
    tx.actions.append(LeadershipOpened(c.epoch, c.leader))
    return Accepted()


def _keep_term(tx: Tx, c: OpenLeadership) -> None:
    """Writes down the leadership, and drops the oldest beyond as many as are kept."""
    kept = [key for key, _ in tx.view.scan(Table.TERMS)]
    for key in kept[: max(0, len(kept) + 1 - TERMS_MAX)]:
        tx.view.delete(Table.TERMS, key)
    TERMS.put(tx.view, LedTerm(c.leader, tx.now, tx.index), c.epoch)


def barrier(tx: Tx, c: Barrier) -> Answer:
    return Accepted()


def put_settings(tx: Tx, c: PutSettings) -> Answer:
    wrong = settings_error(c.settings)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    if c.was is not None and c.was != tx.meta.settings:
        return Rejected("stale", "The settings were changed meanwhile; read them again.")
    revision = tx.meta.settings_revision
    if c.if_revision is not None and c.if_revision != revision:
        return Rejected("stale-revision", f"The settings are at revision {revision} now; read them again.")
    if c.settings == tx.meta.settings:
        return Accepted(unchanged=True)
    tx.meta.settings = c.settings
    tx.meta.settings_revision = tx.new_revision()
    tx.actions.append(SettingsChanged(c.settings))
    return Accepted()


def open_session(tx: Tx, c: OpenSession) -> Answer:
    if all(m.node != c.node for m in tx.meta.members):
        return Rejected("illegal-transition", f"{c.node} is not a member of this cluster.")
    newest = tx.node_session(c.node)
    if newest != c.replaces:
        return Rejected("stale", f"The newest session of {c.node} is {newest}, not {c.replaces}.")
    earlier = tx.session(newest) if newest else None
    if earlier is not None:
        if earlier.open:
            # Only the same boot of the same machine can know that nothing of the earlier session runs any more.
            if earlier.boot_id != c.boot_id:
                return Rejected("illegal-transition", "The earlier session is open and was opened under another boot.")
            _end(tx, earlier)
        tx.drop_session(newest)
    node_opened(tx, c.node)
    return _begin(
        tx,
        Session(
            id=0,
            node=c.node,
            boot_id=c.boot_id,
            nonce=c.nonce,
            ttl_ms=tx.meta.settings.session_ttl_ms,
            opened_at_ms=tx.now,
            slots=c.slots,
            labels=c.labels,
            handlers=c.handlers,
            http=c.http,
            version=c.version,
            limits_whole_runs=c.limits_whole_runs,
            users=c.users,
            allowed=c.allowed,
            weight=max(1, min(c.weight, WEIGHT_MAX)),
            no_python=c.no_python,
        ),
    )


def open_worker(tx: Tx, c: OpenWorker) -> Answer:
    wrong = worker_error(c, tx.reading)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    newest = tx.node_session(c.worker)
    if newest != c.replaces:
        return Rejected("stale", f"The newest session of {c.worker} is {newest}, not {c.replaces}.")
    earlier = tx.session(newest) if newest else None
    if earlier is not None:  # and open: those of workers are forgotten as they end
        if not c.incarnation or earlier.boot_id != c.incarnation:
            name = worker_name(c.worker)
            return Rejected("name-taken", f"Another process works under the name {name}, or did a moment ago.")
        if c.opening <= earlier.opening:
            return Rejected("stale", "A later request of the same worker opened a session meanwhile.")
        _end(tx, earlier)
    if tx.meta.workers >= tx.meta.settings.workers_max:
        return Rejected("too-many", f"There are {tx.meta.workers} workers; workers_max allows no more.")
    tx.meta.workers += 1
    return _begin(
        tx,
        Session(
            id=0,
            node=c.worker,
            boot_id=c.incarnation,
            nonce=c.nonce,
            ttl_ms=tx.meta.settings.worker_ttl_ms,
            opened_at_ms=tx.now,
            slots=c.slots,
            labels=c.labels,
            handlers=c.handlers,
            version=c.version,
            users=c.users,
            allowed=c.allowed,
            queues=c.queues,
            namespaces=c.namespaces,
            weight=c.weight,
            opening=c.opening,
        ),
    )


def _begin(tx: Tx, session: Session) -> Accepted:
    """Gives a session its number, and makes it the newest of its node or worker."""
    tx.meta.last_session += 1
    session.id = tx.meta.last_session
    tx.put_session(session)
    tx.view.put(Table.NODES, session.node.encode(), u64(session.id))
    tx.actions.append(SessionChanged(session.id, session.node, True, tx.meta.epoch))
    return Accepted(number=session.id)


def end_session(tx: Tx, c: EndSession) -> Answer:
    # A stopped and deposed leader may wake up with old ends in its queue: only the newest leadership's word counts.
    if c.epoch != tx.meta.epoch:
        return Rejected("stale", "Declared by an older leadership.")
    session = tx.session(c.session)
    if session is None or not session.open:
        return Rejected("stale", "The session is over already.")
    _end(tx, session)
    if any(m.node == session.node for m in tx.meta.members):
        node_lost(tx, session.node)
    return Accepted()


def close_session(tx: Tx, c: CloseSession) -> Answer:
    session = tx.session(c.session)
    if session is None or not session.open:
        return Rejected("stale", "The session is over already.")
    _end(tx, session, frozenset(c.ran))
    return Accepted()


def bind_session(tx: Tx, c: BindSession) -> Answer:
    session = tx.session(c.session)
    if session is None or not session.open or not is_worker(session.node) or session.nonce != c.bound:
        return Rejected("stale", "The session is over already, or another token's.")
    if len(c.incarnation.encode()) > BOOT_ID_MAX:
        return Rejected("invalid-parameter", f"an incarnation takes {BOOT_ID_MAX} bytes.")
    session.nonce, session.boot_id = c.nonce, c.incarnation
    tx.put_session(session)
    tx.actions.append(SessionBound(session.id))
    return Accepted()


def forget_session(tx: Tx, session: Session) -> None:
    """Deletes the newest session of a node that is no member: otherwise nodes that come and go would leave rows for
    ever."""
    tx.drop_session(session.id)
    tx.view.delete(Table.NODES, session.node.encode())


def _end(tx: Tx, session: Session, closed: frozenset[int] | None = None) -> None:
    """Ends a session. Only now are its attempts lost: until here they may be running. `closed`: its own worker ended
    the session, after these attempts were begun."""
    session.open = False
    if is_worker(session.node):
        tx.meta.workers -= 1
    if any(m.node == session.node for m in tx.meta.members):
        tx.put_session(session)
    else:
        forget_session(tx, session)
    prefix = u64(session.id)
    live = list(tx.view.scan(Table.ASSIGNED, prefix, after(prefix)))
    for row, key in live:
        if closed is None:
            lose(tx, key, session.id)
        else:
            hand_back(tx, key, session.id, from_u64(row[8:]) in closed)
    tx.actions.append(SessionChanged(session.id, session.node, False, tx.meta.epoch))

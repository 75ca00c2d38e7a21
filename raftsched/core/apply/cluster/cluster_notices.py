"""Notifications about the cluster: another leader, a node lost and back, a disk that is nearly full.

A node that comes and goes, or leaders that follow one another, must not flood a receiver: of one event about one node
one is told in a time, and what came about meanwhile is told as one at the end of that time, with its number.
"""

from __future__ import annotations

from raftsched.bounds import MINUTE_MS
from raftsched.core.apply.indexes import move_watch
from raftsched.core.apply.runs.notices import deliver, webhooks
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer, NoteDisk
from raftsched.core.rows import NOTED
from raftsched.core.rules.executors import executor_error
from raftsched.core.subjects.notices import OF_CLUSTER, Event, Notice
from raftsched.core.subjects.webhook import Noted
from raftsched.core.tables import KEY_MAX, noted_key

QUIET_MS = {Event.DISK_SHORT: 5 * MINUTE_MS}  # between two of one event about one node; of others a minute
ABOUT = b"\xff"  # what the rest of a key in WATCHES begins with that is about a row of NOTED
_LOST, _BACK, _DISK = Event.NODE_LOST, Event.NODE_BACK, Event.DISK_SHORT


def leader_changed(tx: Tx, leader: str, before: str) -> None:
    if before and leader != before and not executor_error(leader):
        _note(tx, Event.LEADER_CHANGED, leader, _noted(tx, Event.LEADER_CHANGED, leader), before)


def node_lost(tx: Tx, node: str) -> None:
    """The leader ended the session of a node, which was a member then."""
    noted = _noted(tx, _LOST, node)
    noted.goes_on = True
    _note(tx, _LOST, node, noted)


def node_opened(tx: Tx, node: str) -> None:
    """A node has a session again. That is told of one that was lost."""
    noted = NOTED.get(tx.view, _LOST, node)
    if noted is not None and noted.goes_on:
        noted.goes_on = False
        NOTED.put(tx.view, noted, _LOST, node)
        _note(tx, _BACK, node, _noted(tx, _BACK, node))


def note_disk(tx: Tx, c: NoteDisk) -> Answer:
    if all(member.node != c.node for member in tx.meta.members):
        return STALE
    noted = _noted(tx, _DISK, c.node)
    if noted.goes_on == c.short:
        return STALE
    noted.goes_on = c.short
    if c.short:
        _note(tx, _DISK, c.node, noted)
    else:
        NOTED.put(tx.view, noted, _DISK, c.node)
    return Accepted()


def send_summary(tx: Tx, key: bytes, at_ms: int) -> Answer:
    """Tells as one what was left out for so long. `key`: of a row of NOTED."""
    raw = tx.view.get(NOTED.table, key) if 0 < len(key) <= KEY_MAX else None
    noted = None if raw is None else NOTED.decode(raw)
    if noted is None or noted.watch_at_ms != at_ms:
        return STALE
    event, node = Event(key[0]), key[1:].decode()
    _tell(tx, event, node, noted, max(0, noted.left_out - 1))
    return Accepted()


def forget_node(tx: Tx, node: str) -> None:
    """The node is no member any more."""
    for event in sorted(OF_CLUSTER):
        noted = NOTED.get(tx.view, event, node)
        if noted is not None:
            move_watch(tx, ABOUT + noted_key(event, node), noted.watch_at_ms, None)
            NOTED.delete(tx.view, event, node)


def _noted(tx: Tx, event: Event, node: str) -> Noted:
    return NOTED.get(tx.view, event, node) or Noted()


def _note(tx: Tx, event: Event, node: str, noted: Noted, before: str = "") -> None:
    """Tells of an event, now or later. Stores the row, where there is something to remember."""
    if not _asked(tx, event):
        if noted.goes_on or noted.told_at_ms:
            NOTED.put(tx.view, noted, event, node)
        return
    until_ms = noted.told_at_ms + QUIET_MS.get(event, MINUTE_MS)
    noted.before = before
    if not noted.told_at_ms <= tx.now < until_ms:
        _tell(tx, event, node, noted, noted.left_out)
        return
    noted.left_out += 1
    move_watch(tx, ABOUT + noted_key(event, node), noted.watch_at_ms, until_ms)
    noted.watch_at_ms = until_ms
    NOTED.put(tx.view, noted, event, node)


def _asked(tx: Tx, event: Event) -> bool:
    return any(webhook.spec.active and event in webhook.spec.on for webhook in webhooks(tx).values())


def _tell(tx: Tx, event: Event, node: str, noted: Noted, repeats: int) -> None:
    move_watch(tx, ABOUT + noted_key(event, node), noted.watch_at_ms, None)
    notice = Notice(id=tx.new_id(), at_ms=tx.now, event=event, node=node, reason=noted.before or None, repeats=repeats)
    noted.told_at_ms, noted.left_out, noted.watch_at_ms, noted.before = tx.now, 0, None, ""
    NOTED.put(tx.view, noted, event, node)
    for webhook in webhooks(tx).values():
        if webhook.spec.active and event in webhook.spec.on:
            deliver(tx, webhook, notice)

"""Notes in the state how far the log is kept elsewhere."""

from __future__ import annotations

from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.levels import BACKUPS_ARE_NOTED
from raftsched.core.rows import BACKUP
from raftsched.core.subjects.backups import BACKUP_KEY, BackupNote, NoteBackup


def count_from(tx: Tx, at_ms: int) -> None:
    """Notes that there is no backup yet, and since when that counts; not while the level is an earlier one."""
    if tx.meta.level >= BACKUPS_ARE_NOTED:
        BACKUP.put(tx.view, BackupNote(log_time_ms=at_ms), BACKUP_KEY)


def note_backup(tx: Tx, c: NoteBackup) -> Answer:
    if not 0 < c.index < tx.index:
        return Rejected("invalid-parameter", "A backup is of an entry of the log before this one.")
    row = BACKUP.get(tx.view, BACKUP_KEY) or BackupNote()
    if c.index <= row.index:
        return STALE
    row.index, row.log_time_ms = c.index, max(0, min(c.log_time_ms, tx.now))
    BACKUP.put(tx.view, row, BACKUP_KEY)
    return Accepted()

"""Defines the row that says how far backups keep the cluster's log, and the command that notes it.

It is a part of the state, so that nodes that are started anew know it: who watches is told that there was no backup for
long, or that there never was one, whatever else happens to the nodes.
"""

from __future__ import annotations

import msgspec

from raftsched.core.subjects.command import Command

BACKUP_KEY = b"backup"  # of the row, in META


class BackupNote(msgspec.Struct, array_like=True, kw_only=True):
    """The row. A cluster of a level before that of NoteBackup has none."""

    index: int = 0  # of the entry up to which all is kept; 0: there was no backup of this cluster
    log_time_ms: int = 0  # of that entry; before the first backup: since when it is noted that there was none


class NoteBackup(Command, frozen=True, tag=191):
    """Somebody has all up to this entry elsewhere. Stale where that is known of it, or of a later one."""

    index: int
    log_time_ms: int  # of that entry

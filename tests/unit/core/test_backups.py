"""When there was a backup is a part of the state."""

from __future__ import annotations

import pytest

from raftsched.core import commands as c
from raftsched.core.apply.tx import Tx
from raftsched.core.levels import BACKUPS_ARE_NOTED
from raftsched.core.rows import BACKUP
from raftsched.core.rules.new_cluster import bootstrap_from_backup
from raftsched.core.subjects.backups import BACKUP_KEY, BackupNote, NoteBackup
from raftsched.core.subjects.cluster import Member
from tests.support.memory_view import T0, World


def noted(world: World) -> BackupNote | None:
    return BACKUP.get(world.view, BACKUP_KEY)


def test_a_new_cluster_has_none_since_it_was_formed() -> None:
    assert noted(World()) == BackupNote(index=0, log_time_ms=T0)


def test_a_cluster_that_is_upgraded_has_none_since_then() -> None:
    world = World(level=BACKUPS_ARE_NOTED - 1)
    assert noted(world) is None, "nodes of before do not know this row"
    world.forward(1_000)
    world.ok(c.RaiseLevel(BACKUPS_ARE_NOTED))
    assert noted(world) == BackupNote(index=0, log_time_ms=T0 + 1_000)


def test_the_newest_is_noted() -> None:
    world = World()
    world.create()
    world.create()
    world.forward(60_000)
    at = world.index
    world.ok(NoteBackup(at, T0 + 5))
    assert noted(world) == BackupNote(index=at, log_time_ms=T0 + 5)
    for earlier in (at - 1, at):
        assert world.refused(NoteBackup(earlier, T0 + 9)) == "stale"
    assert noted(world) == BackupNote(index=at, log_time_ms=T0 + 5)


@pytest.mark.parametrize("ahead", [1, 2, 2**40])
def test_nobody_has_what_is_not_there_yet(ahead: int) -> None:
    world = World()
    assert world.refused(NoteBackup(world.index + ahead, T0)) == "invalid-parameter"
    assert world.refused(NoteBackup(0, T0)) == "invalid-parameter"
    assert world.refused(NoteBackup(-1, T0)) == "invalid-parameter"


def test_a_time_to_come_would_keep_the_alert_quiet() -> None:
    world = World()
    world.create()
    world.ok(NoteBackup(world.index, 2**62))
    assert noted(world) == BackupNote(index=world.index - 1, log_time_ms=world.now)
    world.create()
    world.ok(NoteBackup(world.index, -5))
    assert noted(world) == BackupNote(index=world.index - 1, log_time_ms=0)


@pytest.mark.parametrize("clock_ms, since_ms", [(7_000, 7_000), (-9_000, 0)])
def test_a_restored_cluster_has_none_since_it_was_restored(clock_ms: int, since_ms: int) -> None:
    """That which it was made of has all but what comes from then on."""
    world = World()
    world.create()
    world.ok(NoteBackup(world.index, T0))
    member = Member("n9", "n9:7501", b"n9")
    bootstrap_from_backup(
        Tx(world.view), world.index + 1_000, b"another", member, 10, paused=False, now_ms=T0 + clock_ms
    )
    assert noted(world) == BackupNote(index=0, log_time_ms=T0 + since_ms)

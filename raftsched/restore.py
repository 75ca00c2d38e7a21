"""Makes a data directory from a backup: of the only member of a new cluster, which the others join as new nodes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from raftsched.core import new_cluster
from raftsched.core.apply.tx import Tx
from raftsched.errors import StartupError
from raftsched.raft.membership.formation import alone
from raftsched.raft.snapshots.files import require_room
from raftsched.security.keyring import KEY_FILE, Keyring
from raftsched.store import backup, layout, records, snapshot
from raftsched.store.backup import Contents, NotABackup
from raftsched.store.environment import Environment
from raftsched.store.store import MAP_BYTES
from raftsched.store.view import WriteView

_UNDER_WAY = "restoring"  # in the data directory, until it is complete
_RESERVE = 64 << 20  # bytes
_NO_MATTER = frozenset({"lost+found", KEY_FILE})


@dataclass(frozen=True)
class Restored:
    contents: Contents
    cluster_id: str
    index: int  # where the new cluster's log begins


def restore(
    source: Path,
    data: Path,
    node: str,
    raft: str,
    *,
    paused: bool = False,
    progress: Callable[[int], None] = lambda done: None,
    rng: Random,
    now_ms: int,
    keys: Keyring | None = None,
) -> Restored:
    """Makes the directory. `raft`: host:port by which other nodes reach this one. `now_ms`: the wall clock. `keys`: see
    backup.verify.

    Raises StartupError; then the directory is as it was."""
    try:
        _require_empty(data)
        with source.open("rb") as opened:
            label = backup.read_label(opened, str(source))
        made = not data.exists()
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_room(data, 2 * label.size, _RESERVE)
        work = data / _UNDER_WAY
        work.mkdir(mode=0o700)
        try:
            found = _make(source, work, node, raft, paused=paused, progress=progress, rng=rng, now_ms=now_ms, keys=keys)
            os.rename(work / "store", data / "store")
            snapshot.sync_directory(data)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            if made:
                data.rmdir()
            raise
        work.rmdir()
    except NotABackup as error:
        raise StartupError(f"{error}.") from None
    except (OSError, ValueError) as error:
        what = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        raise StartupError(f"{source} cannot be restored to {data}: {what}.") from None
    return found


def _require_empty(data: Path) -> None:
    """Raises StartupError."""
    try:
        there = sorted({entry.name for entry in data.iterdir()} - _NO_MATTER)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise StartupError(f"{data} is not a directory.") from None
    if there:
        names = ", ".join(there[:3]) + (", ..." if len(there) > 3 else "")
        raise StartupError(f"{data} is not empty ({names}); a backup is restored to a directory of its own.")


def _make(
    source: Path,
    work: Path,
    node: str,
    raft: str,
    *,
    paused: bool,
    progress: Callable[[int], None],
    rng: Random,
    now_ms: int,
    keys: Keyring | None,
) -> Restored:
    copy = work / "copy"
    copy.touch(mode=0o600, exist_ok=False)  # whatever the umask of the command
    with copy.open("wb") as file:
        label = backup.verify(source, progress, file, keys)
    contents = backup.look(source)
    was = snapshot.SnapshotMeta(label.index, label.term, label.size, b"")
    store = work / "store"
    fresh = snapshot.unpack(copy, layout.tables_directory(store, 1), was, map_bytes=MAP_BYTES, sync=False)
    ahead = new_cluster.ahead(now_ms)
    index = label.index + ahead.entries
    cluster_id = rng.randbytes(16)
    member, own = alone(node, raft, rng)
    env = Environment(fresh.directory, map_bytes=MAP_BYTES, sync=False, shared=False)
    try:
        with env.lmdb.begin(write=True) as txn:
            tx = Tx(WriteView(txn, env.tables))
            term = max(label.term, tx.meta.epoch) + ahead.terms
            new_cluster.bootstrap_from_backup(tx, index, cluster_id, member, ahead.tokens, paused=paused)
    finally:
        env.close()
    log_state = records.LogState(
        term=term, commit_index=index, base_index=index, base_term=label.term, last_index=index, tables=1
    )
    rows = {}
    for name, value in own.items():
        key = records.OWN + name.encode()
        rows[key] = records.encode_own(key, value)
    state = records.State.of_tables(index, label.term)
    layout.make(store, state, log_state, rows, map_bytes=MAP_BYTES, sync=True)
    return Restored(contents, cluster_id.hex(), index)

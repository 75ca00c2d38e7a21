"""Makes a data directory from a backup and entries of the log behind it: of the only member of a new cluster, which the
others join as new nodes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from raftsched.core import new_cluster
from raftsched.core.apply.tx import Tx
from raftsched.errors import StartupError
from raftsched.raft.membership.formation import alone
from raftsched.raft.snapshots.files import require_room
from raftsched.regular_files import open_regular
from raftsched.security.keyring import KEY_FILE, Keyring
from raftsched.store import backup, layout, records, snapshot
from raftsched.store.backup import Contents, NotABackup
from raftsched.store.environment import Environment
from raftsched.store.rebuild import Rebuilt, rebuild
from raftsched.store.store import MAP_BYTES
from raftsched.store.view import WriteView
from raftsched.store.write_batch import LogEntry

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
    entries: Iterable[list[LogEntry]] = (),
) -> Restored:
    """Makes the directory. `raft`: host:port by which other nodes reach this one. `now_ms`: the wall clock. `keys`: see
    backup.verify. `entries` of the log, the first of which follows the backup's, are applied to it.

    Raises StartupError; then the directory is as it was."""
    try:
        _require_empty(data)
        with open_regular(source) as opened:
            label = backup.read_label(opened, str(source))
        made = not data.exists()
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_room(data, 2 * label.size, _RESERVE)
        work = data / _UNDER_WAY
        work.mkdir(mode=0o700)
        try:
            rebuilt = rebuild(
                source,
                work,
                layout.tables_directory(work / "store", 1),
                entries,
                map_bytes=MAP_BYTES,
                progress=progress,
                keys=keys,
            )
            with backup.reading(str(source)):
                found = _begin(rebuilt, work / "store", node, raft, paused=paused, rng=rng, now_ms=now_ms)
            os.rename(work / "store", data / "store")
            snapshot.sync_directory(data)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            if made:
                data.rmdir()
            raise
        work.rmdir()
    except NotABackup as error:
        raise StartupError(f"{error}.") from error
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
    if there == [_UNDER_WAY]:
        raise StartupError(
            f"{data / _UNDER_WAY} is what a restore left that was killed; unless one is under way now, remove it and"
            " restore again."
        )
    if there:
        names = ", ".join(there[:3]) + (", ..." if len(there) > 3 else "")
        raise StartupError(f"{data} is not empty ({names}); a backup is restored to a directory of its own.")


def _begin(rebuilt: Rebuilt, store: Path, node: str, raft: str, *, paused: bool, rng: Random, now_ms: int) -> Restored:
    """Makes the store of a new cluster around the tables."""
    ahead = new_cluster.ahead(now_ms)
    index = rebuilt.index + ahead.entries
    cluster_id = rng.randbytes(16)
    member, own = alone(node, raft, rng)
    env = Environment(rebuilt.directory, map_bytes=MAP_BYTES, sync=False, shared=False)
    try:
        with env.lmdb.begin(write=True) as txn:
            tx = Tx(WriteView(txn, env.tables))
            term = max(rebuilt.term, tx.meta.epoch) + ahead.terms
            new_cluster.bootstrap_from_backup(tx, index, cluster_id, member, ahead.tokens, paused=paused)
    finally:
        env.close()
    log_state = records.LogState(
        term=term, commit_index=index, base_index=index, base_term=rebuilt.term, last_index=index, tables=1
    )
    rows = {}
    for name, value in own.items():
        key = records.OWN + name.encode()
        rows[key] = records.encode_own(key, value)
    state = records.State.of_tables(index, rebuilt.term)
    layout.make(store, state, log_state, rows, map_bytes=MAP_BYTES, sync=True)
    return Restored(rebuilt.contents, cluster_id.hex(), index)

"""Makes a data directory from a backup and entries of the log behind it: of the only member of a new cluster, which the
others join as new nodes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from raftsched.backups.settling import Settled, settle
from raftsched.core.apply.tx import Tx
from raftsched.core.rules import new_cluster
from raftsched.errors import StartupError
from raftsched.raft.membership.formation import alone
from raftsched.raft.snapshots.files import require_room
from raftsched.security.keyring import KEY_FILE, Keyring
from raftsched.store import backup, layout, records, snapshot
from raftsched.store.backup import Contents, NotABackup
from raftsched.store.environment import Environment
from raftsched.store.rebuild import Rebuilt, rebuild
from raftsched.store.store import MAP_BYTES
from raftsched.store.tail import entries_behind
from raftsched.store.view import WriteView
from raftsched.store.write_batch import LogEntry
from raftsched.system.regular_files import open_regular
from raftsched.unfinished import RESTORING, said_of

_RESERVE = 64 << 20  # bytes
_NO_MATTER = frozenset({"lost+found", KEY_FILE})


@dataclass(frozen=True)
class Restored:
    contents: Contents
    cluster_id: str
    index: int  # where the new cluster's log begins
    settled: Settled
    behind: int = 0  # entries of the log that were applied to the backup


@contextmanager
def reserved(data: Path) -> Iterator[Path]:
    """Gives a directory in an empty data directory to make its store in. As long as it is there no node begins in the
    data directory: nor does one after a kill, or a loss of power, at any line of what goes on meanwhile.

    Raises StartupError; then, and when what goes on fails, the directory is as it was."""
    _require_empty(data)
    made, work = not data.exists(), data / RESTORING
    try:
        snapshot.make_directory(data)
        work.mkdir(mode=0o700)
        snapshot.sync_directory(data)
    except OSError as error:
        raise StartupError(f"Nothing can be restored to {data}: {_why(error)}.") from None
    try:
        yield work
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        if made:
            with suppress(OSError):
                data.rmdir()
        raise
    work.rmdir()


def restore(
    source: Path,
    data: Path,
    node: str,
    raft: str,
    *,
    work: Path | None = None,
    paused: bool = False,
    skip: bool = False,
    progress: Callable[[int], None] = lambda done: None,
    rng: Random,
    now_ms: int,
    keys: Keyring | None = None,
    entries: Iterable[list[LogEntry]] = (),
    log: Path | None = None,
) -> Restored:
    """Makes the directory. `raft`: host:port by which other nodes reach this one. `work`: what `reserved` gave, where
    the caller has reserved the directory before. `skip`: what was due since the backup was made is recorded as skipped,
    and not run. `now_ms`: the wall clock. `keys`: see backup.verify. `entries` of the
    log, the first of which follows the backup's, are applied to it; or those that the log of a store has, `log`.

    Raises StartupError; then the directory is as it was."""
    with reserved(data) if work is None else nullcontext(work) as place:
        try:
            with open_regular(source) as opened:
                label = backup.read_label(opened, str(source))
            require_room(data, 2 * label.size, _RESERVE)
            if log is not None:
                entries = [entries_behind(log, label.index, label.term)]
            rebuilt = rebuild(
                source,
                place,
                layout.tables_directory(place / "store", 1),
                entries,
                map_bytes=MAP_BYTES,
                progress=progress,
                keys=keys,
            )
            with backup.reading(str(source)):
                found = _begin(rebuilt, place / "store", node, raft, paused=paused, skip=skip, rng=rng, now_ms=now_ms)
            os.rename(place / "store", data / "store")
            snapshot.sync_directory(data)
        except NotABackup as error:
            raise StartupError(f"{error}.") from error
        except (OSError, ValueError) as error:
            raise StartupError(f"{source} cannot be restored to {data}: {_why(error)}.") from None
    return replace(found, behind=rebuilt.index - label.index)


def _why(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


def _require_empty(data: Path) -> None:
    """Raises StartupError."""
    try:
        there = sorted({entry.name for entry in data.iterdir()} - _NO_MATTER)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise StartupError(f"{data} is not a directory.") from None
    except OSError as error:
        raise StartupError(f"Nothing can be restored to {data}: {_why(error)}.") from None
    others = [name for name in there if name != RESTORING]
    names = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
    if RESTORING in there:
        beside = f" ({names} beside it is what a node made that was started there: remove that, too)" if others else ""
        raise StartupError(f"{said_of(data / RESTORING)}{beside}.")
    if there:
        raise StartupError(f"{data} is not empty ({names}); a backup is restored to a directory of its own.")


def _begin(
    rebuilt: Rebuilt, store: Path, node: str, raft: str, *, paused: bool, skip: bool, rng: Random, now_ms: int
) -> Restored:
    """Makes the store of a new cluster around the tables."""
    ahead = new_cluster.ahead(now_ms)
    index = rebuilt.index + ahead.entries
    cluster_id = rng.randbytes(16)
    member, own = alone(node, raft, rng)
    env = Environment(rebuilt.directory, map_bytes=MAP_BYTES, sync=False, shared=False)
    try:
        with env.lmdb.begin(write=True) as txn:
            tx = Tx(WriteView(txn, env.tables))
            settled = settle(tx, rebuilt.index, rebuilt.term, now_ms, skip=skip)
            term = max(rebuilt.term, tx.meta.epoch) + ahead.terms
            new_cluster.bootstrap_from_backup(tx, index, cluster_id, member, ahead.tokens, paused=paused, now_ms=now_ms)
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
    return Restored(rebuilt.contents, cluster_id.hex(), index, settled)

"""Reads what the log of a node that does not run has beyond a state that was saved.

A node applies what it knows to be committed. What a majority had on disk is committed, also where this node was not
told any more: it is in its log, and in nothing that was saved of its tables. So may be the newest that was asked for
and never acknowledged: with a majority lost, nobody can tell the two apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb

from raftsched.store import examination, records
from raftsched.store.backup import NotABackup
from raftsched.store.environment import BROKEN, DATA
from raftsched.store.layout import LOG
from raftsched.store.pages import Unsound, require_sound
from raftsched.store.records import STATE, Damaged, DamagedEntry
from raftsched.store.write_batch import LogEntry

_LONGEST = 1 << 46  # bytes of address space, as the file says itself


def entries_behind(store: Path, index: int, term: int) -> list[LogEntry]:
    """Returns the entries that follow the one of this index and term. Raises NotABackup: a node runs there, or its log
    is damaged, or none that goes on from there, or is not there; OSError."""
    where = store / LOG
    try:
        with examination.held(store):
            require_sound(where / DATA)
            return list(_read(where, index, term))
    except examination.InUse:
        raise NotABackup(f"{store} is in use; stop its node first") from None
    except OSError as error:
        raise NotABackup(
            f"there is no log of a node that can be read in {where}: {(error.strerror or str(error)).lower()}"
        ) from None
    except DamagedEntry as error:
        raise NotABackup(
            f"the log in {where} does not go on from entry {index}: entry {error.index}: {error}"
        ) from None
    except (Damaged, Unsound, lmdb.NotFoundError, *BROKEN) as error:
        raise NotABackup(f"the log in {where} is damaged: {error}") from None
    except records.UnknownFormat as error:
        raise NotABackup(f"the log in {where} {error}") from None
    except lmdb.Error as error:
        raise OSError(str(error)) from None


def _read(where: Path, index: int, term: int) -> Iterator[LogEntry]:
    found: list[LogEntry] = []
    env = lmdb.open(str(where), readonly=True, lock=False, create=False, max_dbs=64, map_size=_LONGEST, lib_version=0)
    try:
        with env.begin(buffers=False) as txn:
            own = env.open_db(b"local", txn=txn, create=False)
            state = records.decode_log_state(bytes(txn.get(STATE, db=own) or b""))

            def rows() -> Iterator[tuple[memoryview, memoryview]]:
                at = state.base_index
                for key, row in txn.cursor(env.open_db(b"log", txn=txn, create=False)):
                    at += 1
                    if at > index:
                        raw = bytes(row)
                        found.append(LogEntry(at, records.entry_term(raw), records.entry_data(raw)))
                    yield memoryview(key), memoryview(row)

            records.check_log(rows(), state, index, term)
    finally:
        env.close()
    yield from found

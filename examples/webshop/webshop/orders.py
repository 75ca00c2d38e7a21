"""Orders, in a SQLite file that all processes of the shop share. It stands for the database that a shop has anyway."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

BUSY_S = 10.0

_TABLES = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS reports (scheduled_at TEXT PRIMARY KEY, paid INTEGER NOT NULL);
"""


@contextmanager
def opened(file: str | Path) -> Iterator[sqlite3.Connection]:
    """The database within one transaction."""
    with closing(sqlite3.connect(file, timeout=BUSY_S)) as database, database:
        yield database


def prepare(file: str | Path) -> None:
    with opened(file) as database:
        database.executescript(_TABLES)


def place(file: str | Path, item: str) -> int:
    with opened(file) as database:
        number = database.execute("INSERT INTO orders (item, state) VALUES (?, 'open')", (item,)).lastrowid
    assert number is not None
    return number


def state_of(file: str | Path, order: int) -> str | None:
    with opened(file) as database:
        row = database.execute("SELECT state FROM orders WHERE id = ?", (order,)).fetchone()
    return None if row is None else str(row[0])


def change(file: str | Path, order: int, before: str, after: str) -> bool:
    """False when it was not in the state `before`: doing it twice is the same as once."""
    with opened(file) as database:
        changed = database.execute(
            "UPDATE orders SET state = ? WHERE id = ? AND state = ?", (after, order, before)
        ).rowcount
    return changed == 1


def report(file: str | Path, scheduled_at: str) -> int:
    """Notes how many orders are paid. One row for each time that was due, however often it was tried."""
    with opened(file) as database:
        (paid,) = database.execute("SELECT count(*) FROM orders WHERE state = 'paid'").fetchone()
        database.execute("INSERT OR REPLACE INTO reports VALUES (?, ?)", (scheduled_at, paid))
    return int(paid)


def reports(file: str | Path) -> list[int]:
    """The numbers of paid orders, oldest report first."""
    with opened(file) as database:
        return [int(paid) for (paid,) in database.execute("SELECT paid FROM reports ORDER BY scheduled_at")]

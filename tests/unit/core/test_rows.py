"""The rows of the tables: each table that holds structs has one codec, and it brings back what was stored."""

from __future__ import annotations

import pytest

from raftsched.core import rows
from raftsched.core.subjects.cluster import Meta, NodeRule
from raftsched.core.subjects.queue import Queue
from raftsched.core.tables import Table
from tests.support.memory_view import MemoryView

# values that are empty, or another key, and CHANGES, whose rows have a header of their own
NO_STRUCTS = {
    *(Table.NAMES, Table.DUE, Table.UNSCHEDULED, Table.BY_JOB, Table.READY, Table.ASSIGNED, Table.TIMERS, Table.PURGE),
    *(Table.NODES, Table.HELD, Table.KEY_TIMES, Table.DEAD, Table.AWAITED, Table.OPERATIONS_RUNNING, Table.TAGS),
    *(Table.TOKEN_IDS, Table.CHANGES, Table.DUE_LATER, Table.RESUMES, Table.WATCHES),
    *(Table.KEY_LINES, Table.KEY_TIMERS),
}
ROWS = {name: row for name, row in vars(rows).items() if isinstance(row, rows.Row)}


def test_each_table_of_structs_has_its_codec() -> None:
    assert {row.table for row in ROWS.values()} | NO_STRUCTS == set(Table)
    assert not {row.table for row in ROWS.values()} & NO_STRUCTS


@pytest.mark.parametrize("name", ROWS)
def test_rows_bear_the_names_of_their_tables(name: str) -> None:
    under_keys = {("OIDC", Table.ACCESS), *((name, Table.META) for name in ("OPEN_MINUTE", "ZONES", "BACKUP"))}
    assert name == ROWS[name].table.name or (name, ROWS[name].table) in under_keys


def test_a_row_is_stored_read_and_deleted_under_its_name() -> None:
    view = MemoryView()
    queue = Queue(name="mail", lane=3)
    assert rows.QUEUES.get(view, "mail") is None
    rows.QUEUES.put(view, queue, "mail")
    assert rows.QUEUES.get(view, "mail") == queue
    assert list(rows.QUEUES.all(view)) == [queue]
    assert rows.QUEUES.delete(view, "mail")
    assert not rows.QUEUES.delete(view, "mail")


def test_rows_that_do_not_exist_have_defaults_where_one_is_always_meant() -> None:
    assert rows.read_meta(MemoryView()) == Meta()
    assert not rows.decode_access(None).required
    assert rows.decode_oidc(None).content == b""
    assert rows.NODE_RULES.get(MemoryView(), "n1") is None
    assert rows.NODE_RULES.decode(rows.encode_row(NodeRule(drained=True))).drained

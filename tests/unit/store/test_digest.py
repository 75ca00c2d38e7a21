"""Rows as this version reads them: its own as they are, and those of earlier versions as it would write them."""

from __future__ import annotations

import msgspec

from raftsched.core.subjects.namespace import PutNamespace
from raftsched.core.tables import Table
from raftsched.store.digest import as_read
from tests.support.memory_view import World


def test_what_this_version_wrote_stays_as_it_is() -> None:
    world = World()
    world.session("n1")
    world.create(name="tick", namespace="ops")
    seen = set()
    for table in Table:
        for key, raw in world.view.scan(table):
            assert as_read(table, key, raw) == raw, (table, key)
            seen.add(table)
    assert seen >= {Table.META, Table.JOBS, Table.SESSIONS, Table.CHANGES}


def test_a_row_without_its_last_field_says_the_default() -> None:
    world = World()
    world.do(PutNamespace("ops", b"{}"))
    ((key, raw),) = world.view.scan(Table.NAMESPACES)
    earlier = msgspec.msgpack.encode(msgspec.msgpack.decode(raw)[:-1])
    assert as_read(Table.NAMESPACES, key, earlier) == raw
    world.do(PutNamespace("ops", b"{}", output_copies=2))
    ((key, other),) = world.view.scan(Table.NAMESPACES)
    assert as_read(Table.NAMESPACES, key, other) == other != raw


def test_what_cannot_be_read_stays_as_it_is() -> None:
    for table in Table:
        for raw in (b"", b"\xc1", b"\x93\xa1x"):
            assert as_read(table, b"meta", raw) == raw

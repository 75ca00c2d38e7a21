"""What a namespace may keep of its output is what the tables say when it is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from raftsched.core.namespaces import Namespace
from raftsched.core.rows import encode_row
from raftsched.core.tables import ReadView, Table
from raftsched.worker.output_shares import shares
from tests.support.memory_view import MemoryView


def test_what_the_tables_say_now() -> None:
    view = MemoryView()

    @contextlib.contextmanager
    def read() -> Iterator[ReadView]:
        yield view

    share_of = shares(read)
    assert (share_of("billing"), share_of("")) == (None, None)
    view.put(Table.NAMESPACES, b"billing", encode_row(Namespace(name="billing", output_bytes=5 << 20)))
    assert (share_of("billing"), share_of("other")) == (5 << 20, None)
    view.put(Table.NAMESPACES, b"billing", encode_row(Namespace(name="billing")))
    assert share_of("billing") is None


def test_an_end_is_told_also_where_the_tables_are_closed() -> None:
    def read() -> contextlib.AbstractContextManager[ReadView]:
        raise RuntimeError("the store is closed")

    assert shares(read)("billing") is None

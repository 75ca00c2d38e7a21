"""What tests put into stores of output."""

from __future__ import annotations

from collections.abc import Callable

from raftsched.core.model import OutputRef
from raftsched.output.format.spool import STDOUT, pack
from raftsched.output.keeping.store import OutputStore, Record

Opened = Callable[..., OutputStore]


def put_record(store: OutputStore, record: Record) -> OutputRef:
    (ref,) = store.append([record])
    assert ref is not None
    return ref


def put(store: OutputStore, text: bytes, token: int = 1, namespace: str = "") -> OutputRef:
    """Puts the output of a run that printed this, and returns its place."""
    return put_record(store, Record(token, 1_000, pack(STDOUT, text), namespace=namespace))

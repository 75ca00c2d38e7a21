"""Outputs that are kept together, each of which stands for itself."""

from __future__ import annotations

from collections.abc import Sequence

from raftsched.core.model import OutputRef
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.system import background


def append_each(store: OutputStore, records: Sequence[Record]) -> list[OutputRef | Exception | None]:
    """Returns for each record where it is kept, None for one without any output, or the error: one that cannot be kept
    costs the others nothing. With one fdatasync, where all can be kept; blocks."""
    try:
        return list(store.append(records))
    except OSError as error:  # the disk takes none of them
        return [error] * len(records)
    except Exception as error:
        if len(records) > 1:
            return [kept for record in records for kept in append_each(store, [record])]
        background.note("output", error, f"attempt {records[0].token}")
        return [error]

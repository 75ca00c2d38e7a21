"""The parts of a run, as the API shows them."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.api.runs.raw import shown_raw
from raftsched.core.model import FINAL, Instance, InstanceState
from raftsched.core.rows import decode_instance
from raftsched.core.tables import ReadView, Table
from raftsched.error_texts import telling_line
from raftsched.surface.runs import PartResult, PartsOut, ShardOut

RESULTS_MAX_BYTES = 256 * 1024  # of the results and errors that one answer shows
ERROR_SHOWN = 256  # characters of the line of an error beside a result
_RUNNING = (InstanceState.LAUNCHED, InstanceState.RUNNING)


def shown_shard(row: Instance) -> ShardOut | None:
    """Returns None for what is no shard: a part for one node is none."""
    return ShardOut(row.shard_index, row.shard_count) if row.shard_count else None


def shown_parts(row: Instance) -> PartsOut | None:
    """Returns what the row of a parent says of its parts; None: it has none."""
    parts = row.parts
    return None if parts is None else PartsOut(parts.total, parts.succeeded, parts.failed, parts.killed)


def rows_of_parts(view: ReadView, row: Instance, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yields (instance key, row) of the parts of a run in their order, behind the key `after`."""
    parts = row.parts
    if parts is not None and parts.made:
        low, high = parts.key(row, 0), parts.key(row, parts.made)
        yield from view.scan(Table.INSTANCES, low if after is None else max(low, after + b"\0"), high)


def summed_up(view: ReadView, row: Instance) -> PartsOut | None:
    """Returns the parts of a run with what each came to, as far as one answer holds."""
    found = shown_parts(row)
    if found is None:
        return None
    found.running = found.waiting = 0
    found.results = []
    room = RESULTS_MAX_BYTES
    for _, raw in rows_of_parts(view, row):
        part = decode_instance(raw)
        if part.state in _RUNNING:
            found.running += 1
        elif part.state not in FINAL:
            found.waiting += 1
        last = part.attempts[-1] if part.attempts else None
        result = None if last is None else last.result
        error = None if part.error is None else telling_line(part.error)[:ERROR_SHOWN]
        room -= 64 + len(result or b"") + 4 * len(error or "")
        if room < 0:
            found.results_cut = True
        elif part.state in FINAL:
            found.results.append(PartResult(part.shard_index, part.state.name, shown_raw(result), error))
    if row.parts is not None:
        found.waiting += row.parts.total - row.parts.made if row.state not in FINAL else 0
    return found

"""Remembers which proposals were applied: one small row per proposing process makes proposing again harmless.

A row keeps a floor (every number up to it counts as applied) and a bitmap of the numbers above it. Numbers come nearly
in order; when a gap stays open for WINDOW numbers the floor moves over it, and what then turns up late counts as
applied: refusing it is the safe side, its proposer answers "unknown outcome".
"""

from __future__ import annotations

from itertools import chain, islice

from raftsched.bounds import DAY_MS
from raftsched.core import rows
from raftsched.core.subjects.cluster import Origin
from raftsched.core.tables import ReadView, Table, View, u64

WINDOW = 4096
KEEP_MS = DAY_MS  # a stopped process may wake up and propose again what was applied long ago
SCAN = 64  # rows that one command looks at


def claim(view: View, origin: int, seq: int, now_ms: int) -> bool:
    """Remembers (origin, seq), and returns whether it was seen for the first time. No proposer has a negative
    number."""
    if origin < 0:
        return False
    row = rows.ORIGINS.get(view, origin) or Origin()
    if seq <= row.floor:
        return False
    bits = int.from_bytes(row.above, "little")
    over = seq - row.floor - WINDOW
    if over > 0:
        row.floor += over
        bits >>= over
    bit = 1 << (seq - row.floor - 1)
    if bits & bit:
        return False
    bits |= bit
    while bits & 1:
        bits >>= 1
        row.floor += 1
    row.above = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    row.used_at_ms = now_ms
    rows.ORIGINS.put(view, row, origin)
    return True


def idle_origins(view: ReadView, before_ms: int, start: int) -> list[bytes]:
    """Keys of proposers not heard of since, among SCAN rows from the number `start` on, round the end.

    Origins are random numbers: with another start each time all of them come by sooner or later."""
    found = islice(chain(view.scan(Table.ORIGINS, u64(start)), view.scan(Table.ORIGINS, b"", u64(start))), SCAN)
    return [k for k, v in found if rows.ORIGINS.decode(v).used_at_ms < before_ms]

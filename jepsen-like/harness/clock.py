"""The one clock that everything is written down by: nanoseconds since boot, the same for all processes of a machine,
set by nobody. Due times are wall-clock times; the history says how the two belong together."""

from __future__ import annotations

import time
from datetime import UTC, datetime

SECOND = 1_000_000_000


def boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def rfc3339(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def parse_ms(text: str) -> int:
    """Of an RFC 3339 time."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)

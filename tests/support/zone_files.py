"""Time zone data that tests make: zones by POSIX rules (TZ strings), in directories that Python takes them from."""

from __future__ import annotations

import struct
import sys
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

import raftsched.schedule  # noqa: F401  its caches are cleared


def write_zone(place: Path, name: str, rule: str) -> None:
    """Writes the file of a zone (RFC 9636) that has no transitions of its own: the rule, such as "<Z>-0:02", says all.
    Python looks at nothing else of such a file."""
    block = struct.pack(">lBB", 0, 0, 0) + b"Z\0"
    header = b"TZif2" + bytes(15) + struct.pack(">6L", 0, 0, 0, 0, 1, 2)
    file = place / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(header + block + header + block + f"\n{rule}\n".encode())


@contextmanager
def zones_of(place: Path) -> Iterator[None]:
    """Has this process take its zones from there, as one that starts anew."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[place.absolute()])
    _forget()
    try:
        yield
    finally:
        zoneinfo.reset_tzpath(to=before)
        _forget()


def _forget() -> None:
    ZoneInfo.clear_cache()
    rooms = [module for name, module in sys.modules.items() if name.startswith("raftsched.schedule")]
    for kept in [value for module in rooms for value in vars(module).values() if hasattr(value, "cache_clear")]:
        kept.cache_clear()

"""The depth to which JSON may nest. Whoever reads a value later, in another program or further down its own stack, may
have less room than whoever took it in."""

from __future__ import annotations

from typing import Any

import msgspec

DEPTH_MAX = 64  # of objects and lists, one in the other


def nests_deeper(value: Any, limit: int = DEPTH_MAX) -> bool:
    """Returns whether objects and lists nest deeper than the limit in a decoded value."""
    if isinstance(value, dict):
        return limit == 0 or any(nests_deeper(v, limit - 1) for v in value.values())
    if isinstance(value, list):
        return limit == 0 or any(nests_deeper(v, limit - 1) for v in value)
    return False


def json_nests_deeper(raw: bytes) -> bool:
    """Returns whether objects and lists nest deeper than DEPTH_MAX in JSON. Raises ValueError for what is none."""
    if raw.count(b"[") + raw.count(b"{") <= DEPTH_MAX:
        return False  # nearly always, and nothing needs to be decoded
    try:
        return nests_deeper(msgspec.json.decode(raw))
    except RecursionError:
        return True

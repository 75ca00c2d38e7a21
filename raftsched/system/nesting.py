"""The depth to which JSON may nest. Whoever reads a value later, in another program or further down its own stack, may
have less room than whoever took it in."""

from __future__ import annotations

from typing import Any

import msgspec

DEPTH_MAX = 64  # of objects and lists, one in the other
_ALIKE = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def nests_deeper(value: Any, limit: int = DEPTH_MAX) -> bool:
    """Returns whether objects and lists nest deeper than the limit in a decoded value."""
    if isinstance(value, dict):
        return limit == 0 or any(nests_deeper(v, limit - 1) for v in value.values())
    if isinstance(value, list):
        return limit == 0 or any(nests_deeper(v, limit - 1) for v in value)
    return False


def text_nests_deeper(raw: bytes) -> bool:
    """Returns whether objects and lists nest deeper than DEPTH_MAX in what is JSON, without making objects of it."""
    if raw.count(b"[") + raw.count(b"{") <= DEPTH_MAX:
        return False
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = b"".join(raw.split(b'"')[::2]).translate(_ALIKE, _OTHERS)  # outside of strings
    for _ in range(DEPTH_MAX):  # the innermost ones go, then those around them
        left = left.replace(b"[]", b"")
        if not left:
            return False
    return True


def json_nests_deeper(raw: bytes) -> bool:
    """Returns whether objects and lists nest deeper than DEPTH_MAX in JSON. Raises ValueError for what is none."""
    if raw.count(b"[") + raw.count(b"{") <= DEPTH_MAX:
        return False  # nearly always, and nothing needs to be decoded
    try:
        return nests_deeper(msgspec.json.decode(raw))
    except RecursionError:
        return True

"""Merging a change into what there is: RFC 7396."""

from __future__ import annotations

from typing import Any


def merge(target: Any, change: Any) -> Any:
    """Section 2: null takes a field out, objects are merged, anything else is replaced."""
    if not isinstance(change, dict):
        return change
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged

"""Merging a change into what there is: RFC 7396."""

from __future__ import annotations

from collections.abc import Mapping
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


def merge_retry(given: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is given, without the field that `change` replaces by another: of `delays` and `exponential` only
    one can be given, and a change that names one does not mean both."""
    there, wanted = given.get("retry"), change.get("retry")
    if not isinstance(there, dict) or not isinstance(wanted, dict):
        return dict(given)
    ways = {"delays": "exponential", "exponential": "delays"}
    gone = {other for one, other in ways.items() if wanted.get(one) is not None and other not in wanted}
    return {**given, "retry": {name: value for name, value in there.items() if name not in gone}}

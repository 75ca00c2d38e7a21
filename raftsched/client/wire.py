"""Writes and reads the parts of requests and answers: paths, queries, headers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

LEADER = "raftsched-leader"  # header: the id of the leader; empty: there is none
INDEX = "raftsched-index"  # header: the index of the log that the answer has seen


def segment(text: str) -> str:
    """Returns the text as one part of a path."""
    return quote(text, safe="")


def at(path: str, **parts: str) -> str:
    """Returns the path with its parts, such as {id}, filled in."""
    return path.format_map({name: segment(text) for name, text in parts.items()})


def said(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values without those that are None."""
    return {name: value for name, value in values.items() if value is not None}


def query_text(query: Mapping[str, Any] | None) -> str:
    """Returns the query with its `?`, or "". None is left out, a list is repeated; booleans, times and durations are
    written as JSON writes them."""
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, bool):
                pairs.append((name, str(item).lower()))
            elif item is not None:
                pairs.append((name, _text(item)))
    return f"?{urlencode(pairs)}" if pairs else ""


def _text(value: Any) -> str:
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return f"PT{value.total_seconds():f}S" if hasattr(value, "total_seconds") else str(value)


def own_key() -> dict[str, str]:
    """Returns a new Idempotency-Key, as headers."""
    return {"Idempotency-Key": os.urandom(16).hex()}


def condition(version: int | str | None) -> dict[str, str]:
    """Returns the headers that let a change happen only to this version, which is what an ETag has between its quotes;
    None: to any."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def conditions(only_new: bool, version: int | str | None) -> dict[str, str]:
    """Returns the headers that let a thing be put only where there is none yet, or only over this version of it."""
    return {"If-None-Match": "*"} if only_new else condition(version)


def log_index(headers: Mapping[str, str]) -> int:
    """Returns the index of the log that an answer names; 0 when it names none."""
    text = headers.get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds of Retry-After (RFC 9110, section 10.2.3); None when there are none, or a date, which no node
    sends."""
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None

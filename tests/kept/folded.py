"""JSON as text in which a difference is seen: what fits a line is in one line, all else has a line for each part, but
that numbers share lines."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

WIDTH = 110


def folded(value: Any, indent: str = "") -> str:
    """Returns the value as JSON, in the order of its keys."""
    return "\n".join(_lines(value, indent, ""))


def _lines(value: Any, indent: str, before: str) -> Iterator[str]:
    """`before`: stands before the value in its first line."""
    one = f"{indent}{before}{json.dumps(value, ensure_ascii=False)}"
    if len(one) <= WIDTH or not value or not isinstance(value, dict | list):
        yield one
        return
    marks = "{}" if isinstance(value, dict) else "[]"
    yield f"{indent}{before}{marks[0]}"
    if isinstance(value, list) and not any(isinstance(part, str | dict | list) for part in value):
        yield from textwrap.wrap(
            one[len(indent + before) + 1 : -1], WIDTH, initial_indent=indent + " ", subsequent_indent=indent + " "
        )
        yield f"{indent}{marks[1]}"
        return
    if isinstance(value, dict):
        parts = [(f"{json.dumps(key, ensure_ascii=False)}: ", part) for key, part in value.items()]
    else:
        parts = [("", part) for part in value]
    for number, (name, part) in enumerate(parts):
        *lines, last = _lines(part, indent + " ", name)
        yield from lines
        yield last if number == len(parts) - 1 else last + ","
    yield f"{indent}{marks[1]}"

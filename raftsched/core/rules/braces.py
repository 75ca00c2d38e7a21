"""Finds names in braces, in a text: in the keys of runs (`key_templates.py`) and in handlers
(`raftsched/templates.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

# A doubled brace, a name between two braces, a brace that has no partner.
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def pieces(text: str) -> Iterator[tuple[str, str | None]]:
    """Yields the text piece by piece, and with it the name where the piece is one in braces. Where it is none, it is
    doubled braces, one brace without a partner, or text that has none."""
    end = 0
    for found in _TOKEN.finditer(text):
        if found.start() > end:
            yield text[end : found.start()], None
        yield found[0], found[1]
        end = found.end()
    if end < len(text):
        yield text[end:], None

"""Tables and texts in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_MARKS = re.compile(r"([\\*_<>\[\]|])")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; "" without rows. Cells are Markdown in one line."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *lines, "", ""]) if lines else ""


def plain(text: str) -> str:
    """Returns Markdown that shows the text as it is, in one line; what is in backticks is code."""
    pieces = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(piece if piece.startswith("`") else _MARKS.sub(r"\\\1", piece) for piece in pieces)


def code(text: str) -> str:
    return f"`{text}`"

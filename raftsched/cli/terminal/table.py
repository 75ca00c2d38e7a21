"""A table on a terminal: as wide as the terminal at most, with long cells in several lines, in colours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

import click

_GAP = "  "
_WORD = re.compile(r"\S+\s*|\s+")
_WITHOUT_STYLES = ("dumb", "unknown")  # as TERM
_STYLES: dict[str, dict[str, bool | str]] = {
    "SUCCEEDED": {"fg": "green"},
    "RUNNING": {"fg": "cyan"},
    "LAUNCHED": {"fg": "cyan"},
    "FAILED": {"fg": "red"},
    "TIMED_OUT": {"fg": "red"},
    "KILLED": {"fg": "yellow"},
    "RETRYING": {"fg": "yellow"},
    "SUSPENDED": {"fg": "yellow"},
    "leader": {"bold": True},
}
_HEADER: dict[str, bool | str] = {"bold": True}


def table_lines(titles: Sequence[str], rows: Sequence[Sequence[str]], columns: int) -> Iterator[str]:
    """Yields the lines of a table for a terminal of so many columns. NO_COLOR takes the colours out, a terminal that
    knows no styles all of them."""
    cells = [[text.expandtabs().split("\n") for text in row] for row in (titles, *rows)]
    widest = [max(cell_width(line) for row in cells for line in row[at]) for at in range(len(titles))]
    widths = narrowed(widest, columns - len(_GAP) * (len(titles) - 1))
    for number, row in enumerate(cells):
        folded = [
            [piece for line in cell for piece in fold(line, width)] for cell, width in zip(row, widths, strict=True)
        ]
        styles = [_HEADER if number == 0 else _STYLES.get("\n".join(cell), {}) for cell in row]
        for at in range(max(map(len, folded))):
            yield _GAP.join(
                _styled((cell[at] if at < len(cell) else ""), width, style)
                for cell, width, style in zip(folded, widths, styles, strict=True)
            ).rstrip()


def _styled(text: str, width: int, style: dict[str, bool | str]) -> str:
    padded = text + " " * (width - cell_width(text))
    if (
        not (style and text)
        or os.environ.get("TERM") in _WITHOUT_STYLES
        or ("fg" in style and os.environ.get("NO_COLOR"))
    ):
        return padded
    return click.style(padded, **style)  # type: ignore[arg-type]


def narrowed(widths: Sequence[int], room: int) -> list[int]:
    """Returns the widths of columns that share the room: the widest give way, each keeps one column of the terminal."""
    found = list(widths)
    while sum(found) > room and max(found) > 1:
        found[found.index(max(found))] -= 1
    return found


def fold(line: str, width: int) -> list[str]:
    """Returns the line in pieces of at most that width, cut between words, and within a word that is wider."""
    if cell_width(line) <= width:
        return [line]
    pieces, piece = [], ""
    for word in _WORD.findall(line):
        if piece and cell_width(piece + word.rstrip()) > width:
            pieces.append(piece.rstrip())
            piece = ""
        piece += word
        while (at := _fitting(piece, width)) < len(piece.rstrip()):
            pieces.append(piece[:at])
            piece = piece[at:]
    return [*pieces, piece.rstrip()]


def _fitting(text: str, width: int) -> int:
    """Returns how many characters of the text fit, one at least."""
    taken = 0
    for at, character in enumerate(text):
        taken += cell_width(character)
        if taken > width and at > 0:
            return at
    return len(text)


def cell_width(text: str) -> int:
    """Returns how many columns of a terminal a text takes: two for a wide character of East Asia or an emoji, none for
    one that goes onto the one before it."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in text)
    return len(text) + wide - sum(unicodedata.category(character) in ("Mn", "Me", "Cf") for character in text)

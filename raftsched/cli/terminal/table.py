"""A table: what its columns are, and how they share the width of a terminal.

Ids, times, states and figures are shown whole or not at all. Names and texts are cut with an ellipsis, prose is folded
between words. Where there is no room for all columns, those of the highest rank are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from raftsched.cli.terminal import values

Kind = Literal["id", "time", "state", "name", "text", "prose", "number", "size", "duration"]


class Column(NamedTuple):
    """A column of a table, and what it shows. `get` returns its value of a row: of a time RFC 3339, of a duration
    milliseconds, of a size bytes. `rank`: 1 is the most important."""

    title: str
    get: Callable[[Mapping[str, Any]], Any]
    kind: Kind = "text"
    rank: int = 5


class Look(NamedTuple):
    """The way in which a table is shown. `room`: the width of the terminal, None: no end. `now_ms`: times are told from
    there; None: as they are. `bold`, `coloured`: whether the header and the states may be."""

    room: int | None = None
    now_ms: int | None = None
    bold: bool = False
    coloured: bool = False


_GAP = "  "
_GIVES_WAY = ("name", "text", "prose")
_RIGHT = ("number", "size", "duration")
_FIRST = 4  # as many columns, by rank, are shown also where texts are cut to
_FLOOR = 12
_FAIR = 24  # a further one is shown where it has so much, and those before it, by kind,
_GOOD = {"name": 24, "text": 40, "prose": 40}
_ALWAYS = 2
_TOGETHER = 1_000  # rows that are measured together: a long list is never held as a whole
_WORD = re.compile(r"\S+\s*|\s+")
_HEADER: dict[str, Any] = {"bold": True}


def table_lines(
    columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], look: Look, together: int = _TOGETHER
) -> Iterator[str]:
    """Yields the lines of a table, the header first. It is laid out for `together` rows at a time; later rows may widen
    columns, and where other columns fit then, the header is shown again."""
    left = iter(rows)
    widest = [values.cell_width(column.title) for column in columns]
    told: tuple[int, ...] = ()
    while (block := list(islice(left, together))) or not told:
        cells = [[_text(column, row, look) for column in columns] for row in block]
        for at in range(len(columns)):
            widest[at] = max([widest[at], *(values.cell_width(line) for row in cells for line in row[at].split("\n"))])
        widths = fitted(columns, widest, look.room)
        shown = tuple(widths)
        titles = [column.title for column in columns]
        for number, row in enumerate([titles, *cells] if shown != told else cells):
            yield from _lines(columns, row, widths, look, header=number == 0 and shown != told)
        told = shown


def _text(column: Column, row: Mapping[str, Any], look: Look) -> str:
    text = values.shown(values.text_of(column.get(row), column.kind, look.now_ms))
    return text.expandtabs() if column.kind == "prose" else text


def fitted(columns: Sequence[Column], widest: Sequence[int], room: int | None) -> dict[int, int]:
    """Returns the width of each column that is shown, by its place. The two of the lowest rank always are."""
    if room is None:
        return dict(enumerate(widest))
    gives = [column.kind in _GIVES_WAY for column in columns]
    least = [min(width, _FLOOR) if way else width for width, way in zip(widest, gives, strict=True)]
    fair = [min(width, _FAIR) if way else width for width, way in zip(widest, gives, strict=True)]
    good = [min(width, _GOOD.get(column.kind, width)) for width, column in zip(widest, columns, strict=True)]
    taken: list[int] = []
    for place, at in enumerate(sorted(range(len(columns)), key=lambda at: columns[at].rank)):
        before, own = (least, least) if place < _FIRST else (good, fair)
        if place < _ALWAYS or sum(before[one] for one in taken) + own[at] + len(_GAP) * len(taken) <= room:
            taken.append(at)
    taken.sort()
    found = {at: min(widest[at], room) if gives[at] else widest[at] for at in taken}
    over = sum(found.values()) + len(_GAP) * (len(taken) - 1) - room
    while over > 0:
        give = [at for at in taken if gives[at] and found[at] > least[at]]
        if not give:
            break
        found[max(give, key=lambda at: found[at])] -= 1
        over -= 1
    return found


def _lines(
    columns: Sequence[Column], row: Sequence[str], widths: Mapping[int, int], look: Look, *, header: bool
) -> Iterator[str]:
    pieces = {at: _pieces(columns[at], row[at], width, folds=look.room is not None) for at, width in widths.items()}
    for line in range(max(map(len, pieces.values()))):
        cells = []
        for at, width in widths.items():
            text = pieces[at][line] if line < len(pieces[at]) else ""
            blank = " " * (width - values.cell_width(text))
            style = _HEADER if header else values.style_of(row[at]) if columns[at].kind == "state" else {}
            styled = _styled(text, style, look)
            cells.append(blank + styled if columns[at].kind in _RIGHT else styled + blank)
        yield _GAP.join(cells).rstrip()


def _styled(text: str, style: Mapping[str, Any], look: Look) -> str:
    if not text or not (look.coloured if "fg" in style else look.bold and style):
        return text
    import click

    return click.style(text, **style)


def _pieces(column: Column, text: str, width: int, *, folds: bool) -> list[str]:
    if column.kind == "prose":
        return [piece for line in text.split("\n") for piece in (fold(line, width) if folds else [line])]
    return [cut(text, width) if column.kind in _GIVES_WAY else text]


def cut(text: str, width: int) -> str:
    """Returns the text, or as much of it as fits with an ellipsis."""
    if values.cell_width(text) <= width:
        return text
    return text[: _fitting(text, width - 1)].rstrip() + "…" if width > 1 else "…"[:width]


def fold(line: str, width: int) -> list[str]:
    """Returns the line in pieces of at most that width, cut between words, and within a word that is wider."""
    if values.cell_width(line) <= width:
        return [line]
    pieces, piece = [], ""
    for word in _WORD.findall(line):
        if piece and values.cell_width(piece + word.rstrip()) > width:
            pieces.append(piece.rstrip())
            piece = ""
        piece += word
        while (at := max(1, _fitting(piece, width))) < len(piece.rstrip()):
            pieces.append(piece[:at])
            piece = piece[at:]
    return [*pieces, piece.rstrip()]


def _fitting(text: str, width: int) -> int:
    """Returns how many characters of the text fit."""
    taken = 0
    for at, character in enumerate(text):
        taken += values.cell_width(character)
        if taken > width:
            return at
    return len(text)

"""Lines of output that hold a text, found by reading: there is no index of them.

An index would be as large as the output, would have to be written with each end of a run, on the disk that the run
waits for, and would be asked once in a while. Reading takes a second for some hundred megabytes, and costs nothing
before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from raftsched.output.reading.text import PIECE, Text

LINE_MAX = 64 * 1024  # bytes; a longer line is looked at in parts of this size
SHOWN_MAX = 400  # characters of a line, around what was found


class Match(NamedTuple):
    """A line that holds it. `line` counts from 1, `offset` the bytes of the output before the line."""

    line: int
    offset: int
    text: str


class Needle:
    """The text that is searched for."""

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        self._raw = text.encode("utf-8", "surrogateescape")
        self._folded = text.casefold() if ignore_case else None

    def is_in(self, data: bytes) -> bool:
        if self._folded is None:
            return data.find(self._raw) >= 0
        return self._folded in data.decode("utf-8", "replace").casefold()

    def shown(self, line: bytes) -> str:
        """Returns the line, or the part of a long one around the first place where it is."""
        text = line.decode("utf-8", "replace").rstrip("\r")
        if len(text) <= SHOWN_MAX:
            return text
        plain = self._raw.decode("utf-8", "replace")
        at = text.find(plain) if self._folded is None else _find_folded(text, self._folded)
        begin = max(0, min(at - SHOWN_MAX // 4, len(text) - SHOWN_MAX))
        return text[begin : begin + SHOWN_MAX]


def _find_folded(text: str, folded: str) -> int:
    """Returns where a text begins whose case does not matter: a character may be several when it is folded."""
    whole = text.casefold()
    at = whole.find(folded)
    if len(whole) == len(text) or at < 0:
        return at
    passed = 0
    for place, character in enumerate(text):
        passed += len(character.casefold())
        if passed > at:
            return place
    return at


def found_in(text: Text, needle: Needle) -> Iterator[Match]:
    """Yields the lines of an output that hold it."""
    line, begin, at, rest = 1, 0, 0, b""  # of the first line of `rest`, which is not whole yet
    while at < text.size:
        piece = text.read(at, PIECE)
        if not piece:
            return
        at += len(piece)
        data = rest + piece
        end = len(data) if at >= text.size else data.rfind(b"\n") + 1
        if not end and len(data) >= LINE_MAX:
            end = len(data)
        whole, rest = data[:end], data[end:]
        if whole and needle.is_in(whole):
            yield from _lines(whole, line, begin, needle)
        line += whole.count(b"\n")
        begin += len(whole)


def _lines(data: bytes, line: int, begin: int, needle: Needle) -> Iterator[Match]:
    for one in data.split(b"\n"):
        if needle.is_in(one):
            yield Match(line, begin, needle.shown(one))
        line += 1
        begin += len(one) + 1

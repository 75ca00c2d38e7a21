"""Values of secrets are taken out of what a run prints, of its error and of its result.

As they are, and as they stand in JSON (RAFTSCHED_PARAMS is that) and in Python's repr (errors are made of it): what a
job encodes, cuts or spells otherwise is shown. Very short values are left alone; they would take half of the output
with them, and be told by the holes. Of a value of several lines (a key in PEM, a file of settings) each line is hidden
for itself, too, unless it is short.

What it costs grows with the output, whatever the values are: they are the job's, and processes that redact have others
to look after.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

import msgspec
from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

SHORTEST = 4  # bytes of a value that is hidden
SHORTEST_LINE = 8  # bytes of a line, of a value of several
LINES_MAX = 512  # of all values of a run, in turn; further ones are hidden with all of their value only
SHOWN = b"***"
_ARMOUR = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")  # RFC 7468: says what is in between
_TRIES = 64  # places in one piece that are looked at in full; the next one waits as if a value had begun there
_GATHERED = 1024  # bytes that wait: beyond, they are searched again only when a share of them is to be shown,
_SHARE = 16  # which is this part of them
_BETWEEN = "\udfff"  # of texts that are searched together: UTF-8 has no such character, and so no value


def spellings(values: Sequence[str]) -> list[str]:
    """All that is hidden, the longest first."""
    found: set[str] = set()
    hidden = [value for value in values if len(value.encode()) >= SHORTEST]
    for one in (*hidden, *_lines(hidden)):
        found |= {one, msgspec.json.encode(one)[1:-1].decode(), repr(one)[1:-1]}
    return sorted(found, key=len, reverse=True)


def _lines(values: Sequence[str]) -> Iterator[str]:
    """The first line of each value of several, then the second ones, and so on."""
    rows = zip_longest(*(value.split("\n") for value in values if "\n" in value), fillvalue="")
    lines = dict.fromkeys(line.strip() for row in rows for line in row)
    told = (line for line in lines if len(line.encode()) >= SHORTEST_LINE and not _ARMOUR.fullmatch(line))
    return islice(told, LINES_MAX)


class Redactor:
    """Redacts the streams of one run, as they come."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = sorted(value.encode() for value in spellings(values))
        self._longest = max(map(len, self._values), default=0)
        self._begins = {value[:size] for value in self._values for size in range(1, SHORTEST + 1)}
        # All of them in one pass (Aho and Corasick, 1975). A DFA's table would take the square of a value's length.
        self._matches = BytesAhoCorasick(
            self._values, MatchKind.LeftmostLongest, Implementation.ContiguousNFA
        ).find_matches_as_indexes
        self._held: dict[int, tuple[bytes, int]] = {}  # by stream: what waits, and where in it a value may have begun

    def feed(self, stream: int, data: bytes) -> bytes:
        """Returns the data that may be shown. Data that may be the beginning of a value waits for what follows."""
        if not self._values or not data:
            return data
        held, begun = self._held.pop(stream, (b"", 0))
        data = held + data
        end = self._begun(data, max(begun, len(data) - self._longest + 1))
        waiting = len(data) - end
        if end == 0 or (waiting > _GATHERED and end < waiting // _SHARE):
            self._held[stream] = (data, end)
            return b""
        shown, at = self._hidden(data, end)
        if at < len(data):
            self._held[stream] = (data[at:], 0)
        return shown

    def _begun(self, data: bytes, at: int) -> int:
        """Returns the first place, from `at` on, where a value may have begun that is not over with the data."""
        tries = 0
        while at < len(data):
            if data[at : at + SHORTEST] in self._begins:
                if tries == _TRIES or self._goes_on(data[at:]):
                    break
                tries += 1
            at += 1
        return at

    def _goes_on(self, begin: bytes) -> bool:
        """Returns whether a value begins with it, and has more."""
        at = bisect_right(self._values, begin)
        return at < len(self._values) and self._values[at].startswith(begin)

    def _hidden(self, data: bytes, end: int) -> tuple[bytes, int]:
        """Returns the data, without the values that begin before `end`, and up to where it is."""
        parts: list[bytes] = []
        at = 0
        for _, start, stop in self._matches(data):
            if start >= end:
                break
            parts += (data[at:start], SHOWN)
            at = stop
        if at < end:
            parts.append(data[at:end])
            at = end
        return b"".join(parts), at

    def rest(self) -> Iterator[tuple[int, bytes]]:
        """(stream, bytes) of what waited: nothing follows."""
        held, self._held = self._held, {}
        for stream, (data, _) in held.items():
            yield stream, self._hidden(data, len(data))[0]


def redact_text(text: str | None, values: Sequence[str]) -> str | None:
    return _without(text, values) if text else text


def redact_json(raw: bytes | None, values: Sequence[str]) -> bytes | None:
    """Hides values in the strings of JSON; what is no JSON is dropped."""
    if not raw or not values:
        return raw
    try:
        found = msgspec.json.decode(raw)
        shown = iter(_without(_BETWEEN.join(_strings(found)), values).split(_BETWEEN))
        return msgspec.json.encode(_with(found, shown))
    except (ValueError, RecursionError):
        return None


def _strings(value: Any) -> Iterator[str]:
    """Those of a value of JSON, keys included, in their order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _with(value: Any, strings: Iterator[str]) -> Any:
    """Returns the value with these in place of its strings."""
    if isinstance(value, str):
        return next(strings)
    if isinstance(value, dict):
        return {next(strings): _with(item, strings) for item in value.values()}
    if isinstance(value, list):
        return [_with(item, strings) for item in value]
    return value


def _without(text: str, values: Sequence[str]) -> str:
    """Hides values in texts of a few KiB, which are searched for one value after the other."""
    for one in spellings(values):
        text = text.replace(one, SHOWN.decode())
    return text

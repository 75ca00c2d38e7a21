"""Values of secrets are taken out of what a run prints, of its error and of its result.

As they are, and as they stand in JSON (RAFTSCHED_PARAMS is that) and in Python's repr (errors are made of it): what a
job encodes, cuts or spells otherwise is shown. Very short values are left alone; they would take half of the output
with them, and be told by the holes. Of a value of several lines (a key in PEM, a file of settings) each line is hidden
for itself, too, unless it is short.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

SHORTEST = 4  # bytes of a value that is hidden
SHORTEST_LINE = 8  # bytes of a line, of a value of several
LINES_MAX = 256  # of one value; the others are hidden with all of it only
SHOWN = b"***"
_ARMOUR = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")  # RFC 7468: says what is in between


def spellings(values: Sequence[str]) -> list[str]:
    """All that is hidden, the longest first."""
    found: set[str] = set()
    for value in values:
        if len(value.encode()) >= SHORTEST:
            for one in (value, *_lines(value)):
                found |= {one, msgspec.json.encode(one)[1:-1].decode(), repr(one)[1:-1]}
    return sorted(found, key=len, reverse=True)


def _lines(value: str) -> list[str]:
    lines = [line.strip() for line in value.split("\n")] if "\n" in value else []
    return [line for line in lines if len(line.encode()) >= SHORTEST_LINE and not _ARMOUR.fullmatch(line)][:LINES_MAX]


class Redactor:
    """Redacts the streams of one run, as they come."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = sorted((value.encode() for value in spellings(values)), key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._values))) if self._values else None
        self._held: dict[int, bytes] = {}

    def feed(self, stream: int, data: bytes) -> bytes:
        """Returns the data that may be shown. Data that may be the beginning of a value waits for what follows."""
        if self._pattern is None:
            return data
        data = self._held.pop(stream, b"") + data
        end = len(data) - self._begun(data)
        parts: list[bytes] = []
        at = 0
        for match in self._pattern.finditer(data):
            if match.start() >= end:
                break
            parts += (data[at : match.start()], SHOWN)
            at = match.end()
        end = max(end, at)
        parts.append(data[at:end])
        if end < len(data):
            self._held[stream] = data[end:]
        return b"".join(parts)

    def _begun(self, data: bytes) -> int:
        """Bytes at the end that are the beginning of a value, and not all of it; as many as there are."""
        longest = 0
        for value in self._values:
            start = max(0, len(data) - len(value) + 1)
            found = data.find(value[:1], start)
            while found >= 0:
                if value.startswith(data[found:]):
                    longest = max(longest, len(data) - found)
                    break
                found = data.find(value[:1], found + 1)
        return longest

    def rest(self) -> Iterator[tuple[int, bytes]]:
        """(stream, bytes) of what waited: nothing follows."""
        held, self._held = self._held, {}
        for stream, data in held.items():
            yield stream, data if self._pattern is None else self._pattern.sub(SHOWN, data)


def redact_text(text: str | None, values: Sequence[str]) -> str | None:
    return _without(text, spellings(values)) if text else text


def redact_json(raw: bytes | None, values: Sequence[str]) -> bytes | None:
    """In its strings; what is no JSON is dropped."""
    if not raw or not values:
        return raw
    try:
        return msgspec.json.encode(_hidden(msgspec.json.decode(raw), spellings(values)))
    except (ValueError, RecursionError):
        return None


def _hidden(value: Any, spelled: Sequence[str]) -> Any:
    if isinstance(value, str):
        return _without(value, spelled)
    if isinstance(value, dict):
        return {_without(key, spelled): _hidden(item, spelled) for key, item in value.items()}
    if isinstance(value, list):
        return [_hidden(item, spelled) for item in value]
    return value


def _without(text: str, spelled: Sequence[str]) -> str:
    for one in spelled:
        text = text.replace(one, SHOWN.decode())
    return text

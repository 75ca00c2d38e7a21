"""The names of what a repository holds, in a folder of the cluster's id: full-INDEX-TERM-TIME.backup and
log-FIRST-LAST-TERM-FROM-TO.segment. Times are those of the log, the term is the last entry's.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INDEX, _TERM, _TIME = r"(\d{16})", r"(\d{1,19})", r"(\d{8}T\d{9}Z)"
_FULL = re.compile(rf"([0-9a-f]{{32}})/full-{_INDEX}-{_TERM}-{_TIME}\.backup", re.ASCII)
_SEGMENT = re.compile(rf"([0-9a-f]{{32}})/log-{_INDEX}-{_INDEX}-{_TERM}-{_TIME}-{_TIME}\.segment", re.ASCII)


class Full(NamedTuple):
    """A whole state, as of one entry."""

    cluster: str
    index: int  # type: ignore[assignment]  # hides tuple.index on purpose
    term: int
    at_ms: int  # the log's time in it
    size: int = 0  # bytes of the file

    @property
    def key(self) -> str:
        return f"{self.cluster}/full-{self.index:016d}-{self.term}-{_text(self.at_ms)}.backup"


class Segment(NamedTuple):
    """Entries of the log, one after the other."""

    cluster: str
    first: int
    last: int
    term: int  # of the last one
    from_ms: int  # the earliest time of an entry, and the latest
    to_ms: int
    size: int = 0

    @property
    def key(self) -> str:
        times = f"{_text(self.from_ms)}-{_text(self.to_ms)}"
        return f"{self.cluster}/log-{self.first:016d}-{self.last:016d}-{self.term}-{times}.segment"


def parse(key: str, size: int) -> Full | Segment | None:
    """Returns what a name says; None: it is not one of these."""
    try:
        if found := _FULL.fullmatch(key):
            cluster, index, term, at = found.groups()
            return Full(cluster, int(index), int(term), _ms(at), size)
        if found := _SEGMENT.fullmatch(key):
            cluster, first, last, term, begins, ends = found.groups()
            if int(first) <= int(last):
                return Segment(cluster, int(first), int(last), int(term), _ms(begins), _ms(ends), size)
    except ValueError:  # a time that is none
        return None
    return None


def _text(at_ms: int) -> str:
    at = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{at:%Y%m%dT%H%M%S}{at_ms % 1000:03d}Z"


def _ms(text: str) -> int:
    at = datetime.strptime(text[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return int((at - _EPOCH).total_seconds()) * 1000 + int(text[15:18])

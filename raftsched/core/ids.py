"""Ids and row keys, and their text forms.

A job id is a 64-bit number made by apply from the entry's time, so ids sort by creation and are never reused. Its text
form is 13 characters of Crockford base32, lower case. An instance is named by its job and its nominal time
("0d3k...@1763600400000"); a manual run has the request's number as well ("0d3k...@1763600400000-9f03c2...").
Row keys are big-endian, so that byte order is time order.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from raftsched.core.rules.ascii import is_number

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]  # ten bits each
_VALUES = {c: i for i, c in enumerate(_ALPHABET)}
_MAX = 2**64 - 1
_KEY = struct.Struct(">QQQ")

BACKFILL = int.from_bytes(b"backfill", "big")  # the number of the request of every backfilled run

pack_instance = _KEY.pack  # instance_key() for those who know all three: this is the way of every row of an instance
InstanceKey = bytes  # 24 bytes: nominal_at_ms, job id, request


def job_text(job_id: int) -> str:
    """13 characters."""
    return _start(job_id >> 20) + _PAIRS[job_id >> 10 & 1023] + _PAIRS[job_id & 1023]


@lru_cache(maxsize=1_024)
def _start(number: int) -> str:
    """Returns the upper 44 bits: they are the same for ids that were made at about the same time."""
    pairs = _PAIRS
    return (
        _ALPHABET[number >> 40]
        + pairs[number >> 30 & 1023]
        + pairs[number >> 20 & 1023]
        + pairs[number >> 10 & 1023]
        + pairs[number & 1023]
    )


def parse_job(text: str) -> int | None:
    """The id, or None when the text is not one."""
    if len(text) != 13:
        return None
    value = 0
    for c in text:
        digit = _VALUES.get(c)
        if digit is None:
            return None
        value = value << 5 | digit
    return value if value <= _MAX else None


def instance_key(nominal_at_ms: int, job_id: int, request: int = 0) -> InstanceKey:
    """Time first, so that inserts stay near the end of the tree."""
    return _KEY.pack(nominal_at_ms, job_id, request)


def split_instance(key: InstanceKey) -> tuple[int, int, int]:
    """(nominal_at_ms, job_id, request)"""
    nominal, job_id, request = _KEY.unpack(key)
    return nominal, job_id, request


def instance_text(key: InstanceKey) -> str:
    nominal, job_id, request = _KEY.unpack(key)
    tail = f"-{request:016x}" if request else ""
    return f"{job_text(job_id)}@{nominal}{tail}"


def parse_instance(text: str) -> InstanceKey | None:
    """The row key, or None when the text is not an instance id."""
    head, at, rest = text.partition("@")
    job_id = parse_job(head)
    when, dash, request = rest.partition("-")
    if job_id is None or not at or not is_number(when) or len(when) > 16:
        return None
    number = 0
    if dash:
        if len(request) != 16 or any(c not in "0123456789abcdef" for c in request):
            return None
        number = int(request, 16)
        if not number:
            return None
    key = _KEY.pack(int(when), job_id, number)
    return key if instance_text(key) == text else None

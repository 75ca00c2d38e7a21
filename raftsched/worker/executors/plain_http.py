"""Makes usual requests, and reads usual answers, exactly as h11 does, for a tenth of what that costs.

What is not of the strict form below, or may be read in more than one way, gets None here, and is h11's. Tests hold both
functions to h11: where they say anything, it says the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))  # HEAD and CONNECT have other answers
WITHOUT_BODY = (204, 304)  # whatever their headers say (RFC 9112, section 6.3)
_NAME = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_VALUE = rb"(?:[!-~]+(?: [!-~]+)*)?"
_LINE = re.compile(rb"(" + _NAME + rb"): " + _VALUE)
_TARGET = re.compile(r"[!-~]+")
_HEAD = re.compile(
    rb"HTTP/1\.[01] ([2-5][0-9]{2}) (" + _VALUE + rb")\r\n((?:" + _NAME + rb": ?" + _VALUE + rb"\r\n)*)\r\n"
)
_HEAD_MAX = 8 * 1024  # bytes; longer ones, which take a while, are h11's
_LENGTH = re.compile(rb"[0-9]{1,15}")


class Plain(NamedTuple):
    """An answer that came as a whole. Names of headers are in lower case."""

    status: int
    reason: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


def request(method: str, target: str, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bytes | None:
    """Returns the bytes of a request whose headers frame the body."""
    if method not in METHODS or _TARGET.fullmatch(target) is None:
        return None
    values: dict[bytes, bytes] = {}
    lines: list[bytes] = []
    for name, value in headers:
        line = b"%s: %s" % (name, value)
        found = _LINE.fullmatch(line)
        if found is None or found[1] != name:
            return None
        lower = name.lower()
        values[lower] = value
        lines.insert(0 if lower == b"host" else len(lines), line)
    size = values.get(b"content-length", None if body else b"0")
    if len(values) != len(headers) or b"host" not in values or b"transfer-encoding" in values or size != _number(body):
        return None
    return b"\r\n".join((f"{method} {target} HTTP/1.1".encode(), *lines, b"", body))


def _number(body: bytes) -> bytes:
    return str(len(body)).encode()


def answer(data: bytes, headers_max: int) -> Plain | None:
    """Reads what came first of the answer to a request by one of METHODS. Beyond its end there may be more."""
    end = data.find(b"\r\n\r\n", 0, _HEAD_MAX)
    head = _HEAD.match(data, 0, end + 4) if end >= 0 else None
    if head is None:
        return None
    status, reason, lines = head.groups()
    headers: list[tuple[bytes, bytes]] = []
    length = None
    for line in lines.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip()
        if name == b"transfer-encoding" or (name == b"content-length" and length is not None):
            return None
        if name == b"content-length":
            length = value
        headers.append((name, value))
    if len(headers) > headers_max or (length is not None and _LENGTH.fullmatch(length) is None):
        return None
    if int(status) in WITHOUT_BODY:
        return Plain(int(status), reason, headers, b"")
    begin = head.end()
    if length is None or len(data) < begin + int(length):
        return None
    return Plain(int(status), reason, headers, data[begin : begin + int(length)])

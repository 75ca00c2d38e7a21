"""Decides by their heads which requests are for the fast path: POST /v1/jobs with no headers but these
(fastpath.py)."""

from __future__ import annotations

import re

from raftsched.api.auth.access import bearer_of, digest_of
from raftsched.api.http.problems import Problem
from raftsched.api.http.requests import HostCheck
from raftsched.surface.jobs import CREATE

START = f"POST {CREATE.path} HTTP/1.1\r\n".encode()
_VERDICTS_MAX = 512
_HEADER = re.compile(rb"([A-Za-z-]{1,40}):[ \t]*([\x20-\x7e]*?)[ \t]*")
_ABOUT_THE_CLIENT = frozenset({b"user-agent", b"accept", b"accept-language", b"accept-encoding"})
_ONCE = frozenset({b"authorization", b"host", b"content-type", b"content-length", b"origin", b"connection"})
_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})
_LENGTH = re.compile(rb"[0-9]{1,7}")
_UNSUITABLE = (-1, b"", "")


class Heads:
    """Judges heads, and remembers its verdicts: most clients send the same one again and again."""

    def __init__(self, check: HostCheck) -> None:
        self._check = check
        self._verdicts: dict[bytes, tuple[int, bytes, str]] = {}

    def __call__(self, head: bytes) -> tuple[int, bytes, str]:
        """Returns the length of the body that follows this head (without its last line break), negative when the
        request is not for the fast path; the hash of its token; and the token when it may be an issuer's."""
        verdict = self._verdicts.get(head)
        if verdict is None:
            if not head.startswith(START):
                return _UNSUITABLE
            verdict = self._classify(head)
            if len(self._verdicts) >= _VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[head] = verdict
        return verdict

    def _classify(self, head: bytes) -> tuple[int, bytes, str]:
        seen: dict[bytes, bytes] = {}
        for line in head[len(START) :].split(b"\r\n"):
            match = _HEADER.fullmatch(line)
            if match is None:
                return _UNSUITABLE
            name = match[1].lower()
            if name in seen or (name not in _ONCE and name not in _ABOUT_THE_CLIENT):
                return _UNSUITABLE
            seen[name] = match[2]
        if seen.get(b"content-type", b"").lower() not in _JSON:
            return _UNSUITABLE
        if seen.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            return _UNSUITABLE
        if not _LENGTH.fullmatch(seen.get(b"content-length", b"")):
            return _UNSUITABLE
        origin = seen.get(b"origin")
        try:
            self._check(seen.get(b"host", b"").decode(), None if origin is None else origin.decode())
        except Problem:
            return _UNSUITABLE
        authorization = seen.get(b"authorization")
        shown = None if authorization is None else authorization.decode()
        return int(seen[b"content-length"]), digest_of(shown), bearer_of(shown)

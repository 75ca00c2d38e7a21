"""The body of a request -> what the audit keeps of it: what was asked for, without secrets and what jobs run."""

from __future__ import annotations

from typing import Any

import msgspec

from raftsched.core.subjects.access import CHANGE_MAX

BODY_MAX = 64 * 1024  # bytes: of longer bodies (many jobs at once) nothing is kept
HIDDEN = "***"
_TEXT_MAX = 200  # characters of one text
_EXACT = 1 << 53  # greater integers are no numbers to every reader of JSON
# Fields whose values are secrets, or are programs and data of jobs: those stand in the job's revisions.
_SECRET = frozenset({"value", "secret", "secrets", "password", "token", "client_secret", "handler", "params", "body"})
_VALUES = frozenset({"headers", "env"})  # names are shown, values are not

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


def change_of(body: bytes | None) -> bytes:
    """Canonical JSON of at most CHANGE_MAX bytes: an object, or the names of its fields where it is too long; empty:
    the body is none, or not worth it."""
    if not body or len(body) > BODY_MAX or body.lstrip()[:1] != b"{":
        return b""
    try:
        asked = _decode(body)
        raw = _encode(_shown(asked))
        if len(raw) > CHANGE_MAX:
            raw = _encode({"fields": sorted(asked)})
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return b""
    return raw if len(raw) <= CHANGE_MAX else b""


def _shown(value: Any, hidden: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            str(key)[:_TEXT_MAX]: HIDDEN if hidden or key in _SECRET else _field(str(key), item)
            for key, item in value.items()
        }
    if hidden:
        return HIDDEN
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, str):
        if "://" in value and "?" in value:
            value = f"{value.partition('?')[0]}?{HIDDEN}"  # queries of addresses often have a key in them
        return value if len(value) <= _TEXT_MAX else f"{value[:_TEXT_MAX]}..."
    if isinstance(value, float) or (isinstance(value, int) and abs(value) >= _EXACT):
        return str(value)  # numbers that are not written alike everywhere
    return value


def _field(key: str, value: Any) -> Any:
    """Returns what is shown of a field that is not secret as a whole."""
    if key == "url" and isinstance(value, str):
        return _without_path(value)
    if key == "smtp" and isinstance(value, dict) and "user" in value:
        value = {**value, "user": HIDDEN}
    return _shown(value, key in _VALUES)


def _without_path(url: str) -> str:
    """Returns an address without its path: that is a secret where a webhook is one of Slack."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    shown = f"{scheme}{separator}{host}{slash}{HIDDEN if path else ''}" if separator else HIDDEN
    return str(_shown(shown))

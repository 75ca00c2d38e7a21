"""Cursors of lists: opaque to users, checked when they come back.

A cursor holds the key of the last row that was looked at and a fingerprint of the filters, so that it cannot be used
with other ones by mistake. It holds nothing secret and needs no signature: a forged one reads what may be read anyway.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping

import msgspec

_VERSION = 1
_KEY_MAX = 400  # bytes; the longest key of a listed table is one of runs, with its namespace: 393


class _Cursor(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    version: int
    filters: int
    key: bytes


_decoder = msgspec.msgpack.Decoder(_Cursor)


def _fingerprint(listing: str, filters: Mapping[str, str]) -> int:
    text = "\0".join([listing, *(f"{k}={filters[k]}" for k in sorted(filters))])
    return zlib.crc32(text.encode())


def encode_cursor(listing: str, filters: Mapping[str, str], key: bytes) -> str:
    raw = msgspec.msgpack.encode(_Cursor(_VERSION, _fingerprint(listing, filters), key))
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_cursor(listing: str, filters: Mapping[str, str], text: str) -> bytes:
    """The key after which the list goes on. ValueError: not a cursor of this list with these filters."""
    try:
        if len(text) > 2 * _KEY_MAX:
            raise ValueError
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = _decoder.decode(raw)
        if cursor.version != _VERSION or len(cursor.key) > _KEY_MAX:
            raise ValueError
    except (ValueError, binascii.Error):
        raise ValueError('is not a cursor; take it from "next" of the page before, or leave it out') from None
    if cursor.filters != _fingerprint(listing, filters):
        raise ValueError("belongs to a list with other filters; keep the filters of the first page")
    return cursor.key

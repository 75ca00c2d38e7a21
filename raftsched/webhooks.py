"""Signatures of webhooks, as Standard Webhooks has them (github.com/standard-webhooks/standard-webhooks): made by the
node that sends, checked by whoever receives.

    from raftsched import webhooks

    event = webhooks.verify(secret, request.headers, request.body)

A receiver needs nothing else of raftsched; every library for Standard Webhooks will do as well.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from typing import Any

from raftsched.system.clock import SystemClock

PREFIX = "whsec_"
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE_S = 300

__all__ = ["VerificationError", "decode_secret", "encode_secret", "sign", "verify"]


class VerificationError(Exception):
    """The request cannot be trusted; the message says why."""


def verify(
    secret: str | Iterable[str],
    headers: Mapping[str, str],
    body: bytes | str,
    tolerance_s: float = TOLERANCE_S,
    *,
    now_s: float | None = None,
) -> Any:
    """Returns the decoded event.

    `secret`: one, or several of which one has to fit. `headers`: of the request, in upper or lower case. `body`: as it
    was received, not decoded and encoded again. `tolerance_s`: seconds by which it may have been signed too long ago,
    or in the future; `now_s`: the time to compare with, unless it is this machine's.

    Raises VerificationError; ValueError for a secret that is none."""
    raw = body.encode() if isinstance(body, str) else bytes(body)
    keys = [decode_secret(text) for text in ((secret,) if isinstance(secret, str) else secret)]
    given = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]
    if missing:
        raise VerificationError(f"the request has no header {missing[0]}; it was not signed")
    ident, stamp = given[ID], given[TIMESTAMP]
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 15:
        raise VerificationError(f"the header {TIMESTAMP} is no number of seconds")
    now = SystemClock().wall_ms() / 1000 if now_s is None else now_s
    if abs(now - int(stamp)) > tolerance_s:
        raise VerificationError("it was signed too long ago, or the clocks differ; an old request may be sent again")
    fits = False
    for key in keys:
        expected = sign(key, ident, int(stamp), raw).encode()
        for one in given[SIGNATURE].split():
            fits |= hmac.compare_digest(expected, one.encode("utf-8", "replace"))
    if not fits:
        raise VerificationError("no signature fits; the body was changed, or the secret is another one")
    try:
        return json.loads(raw)
    except ValueError:
        raise VerificationError("the body is signed, but is not JSON") from None


def sign(secret: bytes, ident: str, timestamp_s: int, body: bytes) -> str:
    """Returns one signature for the header `webhook-signature`."""
    content = f"{ident}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, content, hashlib.sha256).digest()).decode()


def encode_secret(raw: bytes) -> str:
    return PREFIX + base64.b64encode(raw).decode()


def decode_secret(text: str) -> bytes:
    """Returns the bytes of a secret, with its prefix or without. Raises ValueError, which does not quote it."""
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"is no secret of a webhook; that is {PREFIX} and base64") from None

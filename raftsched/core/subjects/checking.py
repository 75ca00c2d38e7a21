"""The message with which the leader asks workers to look at conditions, beside the log. A msgpack array."""

from __future__ import annotations

import msgspec

from raftsched.core.model import Condition


class Check(msgspec.Struct, array_like=True, frozen=True):
    """Leader to worker; what it finds comes back as ReportConditions."""

    instance: bytes
    until_ms: int  # when the wait ends that this is about
    conditions: tuple[Condition, ...]
    applied: int = 0  # the index of the log at which the leader has read this; 0: leaders of before 0.3.0 do not say


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Check)


def encode(check: Check) -> bytes:
    return _encode(check)


def decode(raw: bytes) -> Check:
    """Raises msgspec.DecodeError."""
    return _decoder.decode(raw)

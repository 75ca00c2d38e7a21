"""The two small messages of leases, beside the log: workers ask to hold on, the leader grants. msgpack arrays."""

from __future__ import annotations

import msgspec


class Heartbeat(msgspec.Struct, array_like=True, frozen=True):
    """Worker to leader, every half second."""

    session: int
    holds: bool  # whether its lease had not run out when this was sent
    sent_ms: int  # the worker's boot clock: what is granted counts from here
    wall_ms: int
    short_of_disk: bool = False  # its disk is nearly full: it takes no more writes from clients


class Grant(msgspec.Struct, array_like=True, frozen=True):
    """Leader to worker."""

    session: int
    sent_ms: int  # echoed
    d_ms: int  # from sent_ms on
    short_of_disk: bool = False  # the cluster as a whole takes no more writes from clients


_encode = msgspec.msgpack.Encoder().encode
_heartbeat = msgspec.msgpack.Decoder(Heartbeat)
_grant = msgspec.msgpack.Decoder(Grant)


def encode(message: Heartbeat | Grant) -> bytes:
    return _encode(message)


def decode_heartbeat(raw: bytes) -> Heartbeat:
    """Raises msgspec.DecodeError."""
    return _heartbeat.decode(raw)


def decode_grant(raw: bytes) -> Grant:
    """Raises msgspec.DecodeError."""
    return _grant.decode(raw)

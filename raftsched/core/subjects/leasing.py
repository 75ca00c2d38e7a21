"""The small messages between workers and leader beside the log: workers ask to hold on, the leader grants; workers say
what is over before the log does. msgpack arrays. Nodes pass on what remote workers ask for, many in one message."""

from __future__ import annotations

import msgspec

from raftsched.bounds import POLL_MAX_MS

# K: so long before its lease ends a worker begins to kill what runs under it, and a leader gives leadership away before
# the last of its grants could end.
KILL_BEFORE_MS = 500

# Without an open poll for so long, a remote worker is quiet: it is given nothing new. One that reads an answer is
# between two polls for less.
QUIET_AFTER_MS = 1_000


class DiskUse(msgspec.Struct, array_like=True, frozen=True):
    """Bytes of the file system that a node's data directory is on, and what the node takes of it."""

    free: int  # to this process
    total: int
    store: int
    output: int


class Heartbeat(msgspec.Struct, array_like=True, frozen=True):
    """Worker to leader, every half second."""

    session: int  # 0: it has none; then this only says how its node is
    holds: bool  # whether its lease had not run out when this was sent
    sent_ms: int  # the worker's boot clock: what is granted counts from here
    wall_ms: int
    short_of_disk: bool = False  # its disk is nearly full: it takes no more writes from clients
    pause_ms: int = 0  # for so long it is to be given nothing: it could not start what it was given
    trouble: str = ""  # why it starts nothing, for people
    disk: DiskUse | None = None  # None: its disk does not say
    level: int = 1  # the newest set of commands that its version knows (core.levels)
    zones: str = ""  # its time zone data (core.subjects.zones); "": it does not say


class Grant(msgspec.Struct, array_like=True, frozen=True):
    """Leader to worker."""

    session: int
    sent_ms: int  # echoed
    d_ms: int  # from sent_ms on
    short_of_disk: bool = False  # the cluster as a whole takes no more writes from clients


class AttemptsFinished(msgspec.Struct, array_like=True, frozen=True):
    """Worker to leader, with the reports of these attempts' ends: nothing of them runs any more. The leader may give
    their slots to others at once, in the same entry of the log; whether the message comes changes nothing else."""

    session: int
    tokens: tuple[int, ...]


class WorkerBeat(msgspec.Struct, array_like=True, frozen=True):
    """A remote worker asks to hold on, by a request that a node got; its lease has not run out."""

    session: int
    request: int  # the node's number for the request: it counts the grant from when the worker sent this one
    pause_ms: int = 0  # for so long it is to be given nothing
    trouble: str = ""  # why, for people


class WorkerBeats(msgspec.Struct, array_like=True, frozen=True):
    """Node to leader: what remote workers asked of it, and who of them asks no more; at most BEATS_MAX of each."""

    beats: tuple[WorkerBeat, ...]
    left: tuple[tuple[int, int], ...] = ()  # sessions without an open poll at this node, and for how many ms


class WorkerGrants(msgspec.Struct, array_like=True, frozen=True):
    """Leader to node, the answer."""

    grants: tuple[tuple[int, int, int], ...]  # session, request, ms that it may hold on for from when it sent this one
    over: tuple[int, ...] = ()  # sessions that this leader knows nothing of, or has declared over


BEATS_MAX = 1_000  # of one message


def longest_poll_ms(ttl_ms: int) -> int:
    """Returns how long a poll waits at most under a session with this TTL, so that the lease is renewed in time."""
    return min(ttl_ms // 4, POLL_MAX_MS)


_encode = msgspec.msgpack.Encoder().encode
_heartbeat = msgspec.msgpack.Decoder(Heartbeat)
_grant = msgspec.msgpack.Decoder(Grant)
_over = msgspec.msgpack.Decoder(AttemptsFinished)


_beats = msgspec.msgpack.Decoder(WorkerBeats)
_grants = msgspec.msgpack.Decoder(WorkerGrants)


def encode(message: Heartbeat | Grant | AttemptsFinished | WorkerBeats | WorkerGrants) -> bytes:
    return _encode(message)


def decode_heartbeat(raw: bytes) -> Heartbeat:
    """Raises msgspec.DecodeError."""
    return _heartbeat.decode(raw)


def decode_grant(raw: bytes) -> Grant:
    """Raises msgspec.DecodeError."""
    return _grant.decode(raw)


def decode_finished(raw: bytes) -> AttemptsFinished:
    """Raises msgspec.DecodeError."""
    return _over.decode(raw)


def decode_beats(raw: bytes) -> WorkerBeats:
    """Raises msgspec.DecodeError."""
    return _beats.decode(raw)


def decode_grants(raw: bytes) -> WorkerGrants:
    """Raises msgspec.DecodeError."""
    return _grants.decode(raw)

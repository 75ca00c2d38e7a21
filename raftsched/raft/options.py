"""Sets limits and times of the raft room. Everything that can grow has a limit here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KIB = 1024
MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class RaftOptions:
    """Times are milliseconds; see each field for what it must fit."""

    # elections
    election_min_ms: int = 1_000  # at least three heartbeats
    election_max_ms: int = 2_000  # above election_min_ms
    election_lost_min_ms: int = 200  # the leader's connection ended: a reset one is dialled again before this
    election_lost_max_ms: int = 500  # above election_lost_min_ms
    heartbeat_ms: int = 100
    leader_fallback_ms: int = 0  # 0: twice election_max_ms; no majority heard for so long: step down
    tick_ms: int = 20  # period of the timers

    # proposals
    entry_max_bytes: int = 512 * KIB  # one entry of the log; half of append_max_bytes at most
    entry_max_commands: int = 4_000
    waiting_max_bytes: int = 64 * MIB  # proposals of this node without an answer yet
    leader_wait_ms: int = 0  # time for which a proposal waits for a leader; 0: until its deadline
    queue_max_bytes: int = 32 * MIB  # leader: batches that wait for an entry

    # replication
    append_max_bytes: int = 4 * MIB  # one entry
    append_bytes: int = 256 * KIB  # entries of one message, if there is more than one
    inflight_max_bytes: int = 8 * MIB  # per peer, sent and not acknowledged
    window_first_bytes: int = 256 * KIB  # of these, at the start of a connection (window.py)
    window_min_bytes: int = 64 * KIB  # of these, however slow the connection is
    inflight_max_messages: int = 256
    apply_max_bytes: int = 128 * KIB  # entries applied at once; other events have their turn between

    # log kept in memory in front of the store, and kept in the store below the applied index
    memory_max_bytes: int = 32 * MIB
    memory_max_entries: int = 10_000
    keep_entries: int = 50_000
    keep_bytes: int = 64 * MIB

    # snapshots
    snapshot_chunk_bytes: int = 256 * KIB
    snapshot_window_bytes: int = MIB  # per peer, sent and not acknowledged; heartbeats wait behind it in the connection
    snapshot_bytes_per_s: int = 64 * MIB  # to all peers together; 0: as fast as they take it in
    snapshot_retry_ms: int = 5_000  # nothing moved for so long: it is offered again
    snapshot_keep_ms: int = 60_000  # the leader's copy, after its last use
    snapshot_reserve_bytes: int = 128 * MIB  # left free on the disk by copies and by what is received
    snapshot_dir: Path | None = None  # None: a directory of its own under the system's temporary directory

    # transport
    frame_max_bytes: int = 16 * MIB
    send_buffer_bytes: int = 64 * MIB  # a peer that reads slower loses its connection
    dead_peer_ms: int = 3_000  # nothing heard for so long: the connection is closed
    keepalive_ms: int = 500
    handshake_ms: int = 5_000
    connect_min_ms: int = 50  # first pause before dialling again; doubled up to connect_max_ms, with jitter
    connect_max_ms: int = 1_000
    connect_late_ms: int = 2_000  # a node with a higher id dials when it was not dialled for so long
    pending_handshakes: int = 64  # connections that have not proved who they are, from where no member is known to be
    pending_per_address: int = 16
    handshakes_per_s: float = 100.0  # begun by strangers together, and by each address of members

    def __post_init__(self) -> None:
        if not 3 * self.heartbeat_ms <= self.election_min_ms < self.election_max_ms:
            raise ValueError("need 3 * heartbeat_ms <= election_min_ms < election_max_ms")
        if not self.connect_min_ms < self.election_lost_min_ms < self.election_lost_max_ms:
            raise ValueError("need connect_min_ms < election_lost_min_ms < election_lost_max_ms")
        if self.entry_max_bytes * 2 > self.append_max_bytes:
            raise ValueError("entry_max_bytes must be at most half of append_max_bytes")
        if max(self.append_max_bytes, self.append_bytes) * 2 > self.frame_max_bytes:
            raise ValueError("append_max_bytes and append_bytes must be at most half of frame_max_bytes")
        if not 0 < self.snapshot_chunk_bytes <= min(self.snapshot_window_bytes, self.frame_max_bytes // 2):
            raise ValueError("need 0 < snapshot_chunk_bytes <= snapshot_window_bytes, at most half of frame_max_bytes")

    @property
    def fallback_ms(self) -> int:
        return self.leader_fallback_ms or 2 * self.election_max_ms


def elections(timeout_ms: int) -> dict[str, int]:
    """Returns the times of elections, by their fields, that follow from the one that a cluster is given. Heartbeats
    stay as they are: a leader that was given less than its followers must not be too quiet for them. A silent
    connection is not given up before: its end would begin an election."""
    return {
        "election_min_ms": timeout_ms,
        "election_max_ms": 2 * timeout_ms,
        "election_lost_min_ms": timeout_ms // 5,
        "election_lost_max_ms": timeout_ms // 2,
        "dead_peer_ms": max(RaftOptions.dead_peer_ms, timeout_ms),
    }

"""The parts of a node that the API uses, as values of functions: the log, the cluster, members, copies, and security.

`node.Node` makes them, and tests make others; handlers reach them through `context.ApiContext`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raftsched.core.commands import Answer
from raftsched.core.subjects.leasing import DiskUse
from raftsched.errors import RaftschedError
from raftsched.security.keyring import Keyring

if TYPE_CHECKING:
    from pathlib import Path

    from raftsched.api.http.tls import PeerTrust
    from raftsched.raft import Change, JoinRequest, MemberStatus
    from raftsched.security.sealing import Sealer
    from raftsched.store import LogEntry, SnapshotMeta

Reply = Callable[[list[Answer] | None, RaftschedError | None], None]  # one of the two
ProposeThen = Callable[[Sequence[bytes], float, Reply], None]


@dataclass(slots=True)
class LogPort:
    """The replicated log as this node reaches it. Timeouts are in seconds.

    `propose` returns one answer for each command, as applied on this node; it raises NoLeader, UnknownOutcome or
    Overloaded. `propose_then` is for callers that are no task: it raises at once what `propose` would raise at once,
    and gives everything else to `reply`. After `barrier` this node has applied all that was committed before; it raises
    NoLeader or Overloaded. `wait_applied` returns True as soon as this node has applied the index, False when the time
    is over. `committed` returns what the leader had committed, without an entry in the log; None: it did not answer in
    time."""

    propose: Callable[[Sequence[bytes], float], Awaitable[list[Answer]]]
    barrier: Callable[[float], Awaitable[None]]
    wait_applied: Callable[[int, float], Awaitable[bool]]
    propose_then: ProposeThen | None = None  # None: by way of `propose`
    committed: Callable[[float], Awaitable[int | None]] | None = None  # None: what is applied is all there is
    applied_index: Callable[[], int] | None = None  # None: as ClusterPort.status has it
    position: Callable[[], tuple[str | None, int, int]] | None = None  # see ApiContext.cluster_position


@dataclass(frozen=True, slots=True)
class Peer:
    """Another member as this node sees it."""

    node_id: str
    connected: bool
    match_index: int | None = None  # known to the leader only
    clock_offset_ms: float | None = None
    http: str | None = None  # host:port of its API, when known


@dataclass(slots=True)
class ClusterStatus:
    """This node's view of the cluster."""

    node_id: str
    leader: str | None
    term: int
    role: str  # "leader", "follower", "candidate"
    commit_index: int
    applied_index: int
    formed: bool
    waits_for: str | None = None  # what a node without a leader waits for, and what its operator should do
    log_index: int = 0  # of the newest entry of its log, committed or not, and its term
    log_term: int = 0


@dataclass(slots=True)
class MembersPort:
    """The cluster's members, to be seen and changed; see raft.facade.Raft, whose methods these are. `change` and
    `transfer` raise NoLeader, UnknownOutcome and RaftschedError with codes of their own."""

    list: Callable[[], Sequence[MemberStatus]]
    join_requests: Callable[[], Sequence[JoinRequest]]
    change: Callable[[Change, str, bytes | None, float], Awaitable[None]]  # what, whom, its disk, timeout in seconds
    transfer: Callable[[str | None, float], Awaitable[str]]  # to whom, timeout in seconds; the new leader


@dataclass(slots=True)
class CopyPort:
    """`copy(file)` writes the state as of the newest `publish`, in any thread; it raises OSError. `publish` belongs to
    the event loop. `directory` is where such files go; nothing in it outlives the process. In any thread, too:
    `entries(first, bytes)` returns what the log has from an index on, `term(index)` the term of an entry, None when it
    is not known here."""

    directory: Path
    publish: Callable[[], None]
    copy: Callable[[Path], SnapshotMeta]
    entries: Callable[[int, int], Sequence[LogEntry]]
    term: Callable[[int], int | None]


@dataclass(slots=True)
class ClusterPort:
    """The other nodes as this node sees them."""

    status: Callable[[], ClusterStatus]
    peers: Callable[[], Sequence[Peer]]
    members: MembersPort
    heartbeat_ages: Callable[[], Mapping[str, int]] = dict  # ms since the newest, by node; on the leader only
    troubles: Callable[[], Mapping[str, str]] = dict  # why nodes start nothing, by id: this one; on the leader all
    quiet_workers: Callable[[], Mapping[str, int]] = dict  # ms without an open poll, by worker; on the leader only
    disks: Callable[[], Mapping[str, DiskUse]] = dict  # what is used and free, by id: this one; on the leader all
    levels: Callable[[], Mapping[str, int]] = dict  # the newest that nodes know, by id: this one; on the leader all


@dataclass(slots=True)
class Security:
    """The node's protection, and its keys."""

    guarded: bool = False  # requests need tokens whatever the cluster says: other machines reach this node
    open: bool = False  # other machines reach it, and it was started to be open to them
    strict_transport: bool = False  # browsers are told to come by TLS only
    local_digest: bytes = b""  # of the secret that lies in the data directory; empty: there is none
    peer_trust: PeerTrust | None = None  # for calls to other nodes by TLS; None: as the system has it
    sealer: Sealer | None = None  # for the values of secrets; None: the cluster has no key
    keys: Keyring = field(default_factory=Keyring)  # of the cluster; empty: it has none
    peer_keys: Sequence[bytes] = ()  # see peer_proof.py; none: the cluster has no key

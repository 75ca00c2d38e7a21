"""The cluster itself: who leads, its members, what is wrong with it, and what is kept of it elsewhere."""

from __future__ import annotations

from typing import Literal

import msgspec

from raftsched.surface.kinds import action
from raftsched.surface.operation import READ, WRITES, Operation, PageOf, Reply
from raftsched.surface.scalars import NodeId, StoreId, Time
from raftsched.surface.sdk import Arg, Sdk, record

BACKUP = "application/vnd.raftsched.backup"
SEGMENT = "application/vnd.raftsched.segment"  # of the log
SNAPSHOT_INDEX = "Raftsched-Snapshot-Index"  # header

FindingState = Literal["ok", "warn", "fail"]


# ---------------------------------------------------------------- its state


@record("DiskUse")
class DiskOut(msgspec.Struct):
    """Bytes of the file system that the data directory is on: `free` to the node, of `total`; `store` and `output` are
    what the node takes of it for its state and for what runs printed."""

    free: int
    total: int
    store: int
    output: int


@record(
    "ClusterNode",
    since={
        **dict.fromkeys(("http", "raft", "applied_index", "commit_index", "lag", "clock_offset_ms", "version")),
        **{"voter": True, "running": 0, "slots": 0, "session_open": False},
    },
)
class NodeOut(msgspec.Struct):
    """A member as the node that answers knows it. `http`, `raft`: host:port. `applied_index` of another node is known
    to the leader only (a follower asks it): how far its log is known to agree with the leader's own; `lag`: entries of
    the log. A member that does not vote is catching up, and votes by itself when it is done. `trouble`: why it starts
    no runs now; of another node the leader knows it. `last_heartbeat_at`: when the leader got the newest word of its
    worker, by the leader's clock; null where no leader answers, or when it got none yet. `disk` of another node the
    leader knows, too; null where it is not known. `level`: the newest that its version knows, which of another node the
    leader knows; the cluster's rises to the lowest of them (docs/upgrading.md). `raft_announced`: where a member says
    that its Raft port is, while the members have another address of it (`raft`): the leader takes that over
    (docs/runbook.md, a node's address that changes). `log_index`, `log_term`: of the newest entry in the log of the
    node that answers, committed or not; null of others. By term, then index, they say who has most where a majority is
    lost."""

    id: str
    role: str
    voter: bool
    raft: str | None
    http: str | None
    alive: bool
    applied_index: int | None
    commit_index: int | None
    lag: int | None
    clock_offset_ms: float | None
    running: int
    slots: int
    version: str | None
    session_open: bool
    drained: bool = False
    trouble: str | None = None
    last_heartbeat_at: Time | None = None
    disk: DiskOut | None = None
    level: int | None = None
    raft_announced: str | None = None
    log_index: int | None = None
    log_term: int | None = None


@record("WaitingNode")
class WaitingOut(msgspec.Struct):
    """A node that asks to be let in. `why`: "new", "other-disk" for one that has not the disk of the member of its
    name, or "disk-went-back" for a member whose disk is in an earlier state than it was: it is let in with an empty
    one only."""

    id: str
    raft: str
    http: str
    store: str
    why: str


@record("ClusterView", since={"cluster_id": None, "waits_for": None, "waiting": []})
class ClusterOut(msgspec.Struct):
    """The cluster as the node that answers sees it. `level`: what may be used, for all members know it. `level_held`:
    it is not raised (setting `upgrade_hold`)."""

    node: str
    leader: str | None
    term: int
    formed: bool
    cluster_id: str | None
    waits_for: str | None
    nodes: list[NodeOut]
    waiting: list[WaitingOut]
    paused: bool = False
    level: int = 0
    level_held: bool = False


STATUS = Operation(
    "cluster_get",
    "GET",
    "/v1/cluster",
    "Read the state of the cluster",
    {200: ClusterOut},
    query=READ,
    role="viewer",
    scope="shared",
    sdk=Sdk(
        "Cluster.status",
        says="Returns the cluster as the answering node sees it, also when there is no leader.",
        own=False,
    ),
)


@record("Finding", since={"why": "", "see": ""})
class FindingOut(msgspec.Struct):
    """The result of one check. `detail`: what was found; `do`: what would make it right, null when all is well.
    `nodes`: those it is about. `why`: what happens where it is not well. `see`: the section of the documents."""

    check: str
    state: FindingState
    detail: str
    do: str | None
    nodes: list[str]
    why: str
    see: str


@record("Doctor")
class DoctorOut(msgspec.Struct):
    """`state`: that of the worst finding. `node`: from where the cluster was looked at."""

    state: FindingState
    node: str
    items: list[FindingOut]


DOCTOR = Operation(
    "doctor_get",
    "GET",
    "/v1/cluster/doctor",
    "Check the cluster",
    {200: DoctorOut},
    query=READ,
    role="viewer",
    says=(
        "Each check is `ok`, `warn` (it works, but not as it should, or not for long) or `fail`. The node that is "
        "asked asks the others for their metrics, at most every two seconds, and waits a second for them. `raftsched "
        "doctor` shows the same, looks from its machine whether nodes answer, and at that machine, too."
    ),
    sdk=Sdk(
        "Cluster.doctor",
        says=(
            "Returns what is wrong with the cluster, or soon will be, and what would make it right, also when there is "
            "no leader."
        ),
        own=False,
    ),
)


@record("Term")
class TermOut(msgspec.Struct):
    """A leadership. It began `at` by its leader's clock, with the entry of this `index` in the log, and lasted until
    the next one began, or less long."""

    term: int
    leader: str
    at: Time
    index: int


TERMS = Operation(
    "terms_list_all",
    "GET",
    "/v1/cluster/terms",
    "List the newest leaderships",
    {200: PageOf(TermOut)},
    query=READ,
    role="viewer",
    scope="shared",
    says="The newest 200 leaderships, the newest first. Terms in which nobody came to lead are left out.",
    sdk=Sdk("Cluster.terms"),
)


# ---------------------------------------------------------------- its members


@record("Members", without=("next",))
class MemberList(msgspec.Struct):
    """The members, and the nodes that ask to be let in."""

    items: list[NodeOut]
    waiting: list[WaitingOut]
    next: None


MEMBERS = Operation(
    "members_list_all",
    "GET",
    "/v1/cluster/members",
    "List the members",
    {200: MemberList},
    query=READ,
    role="viewer",
    scope="shared",
    says="The nodes of GET /v1/cluster, and those that are waiting to join.",
    sdk=Sdk("Cluster.members", says="Returns the members of the cluster, and the nodes that ask to join."),
)


class MemberIn(msgspec.Struct, forbid_unknown_fields=True):
    """A node that asks to be let in. `store`: only with this disk, as GET /v1/cluster names it."""

    id: NodeId | None = None
    replace: bool = False
    store: StoreId | None = None


class MemberLetIn(msgspec.Struct):
    """More of it follows as in GET /v1/cluster, once this node knows it."""

    id: str
    voter: bool


ADD_MEMBER = action(
    "members_add",
    "/v1/cluster/members",
    "Add a member",
    {202: Reply(MemberLetIn, "It is a member.", ("Location",))},
    body=MemberIn,
    codes=("not-waiting", "membership-busy", "no-such-member", "not-possible", "name-taken"),
    role="admin",
    says=(
        "Adds a node that is waiting to join, as a member without a vote: it first receives all data, and gets its "
        'vote when it has caught up. With "replace" it takes the place of the member of the same name, whose disk is '
        "lost."
    ),
    sdk=Sdk(
        "Cluster.add_member",
        (Arg("id", "str"), "*", Arg("store", "str | None", None), "replace"),
        also=(
            '`store`: only the one with this disk, as `members` shows it. ConflictError "not-waiting" when it does not '
            'ask, "membership-busy" while another change is under way.'
        ),
        gives="",
    ),
)
REMOVE_MEMBER = Operation(
    "members_remove",
    "DELETE",
    "/v1/cluster/members/{id}",
    "Remove a member",
    {204: None},
    codes=(*WRITES, "no-such-member", "membership-busy", "last-member", "not-possible"),
    role="admin",
    says="Removes a member. If it leads, leadership is transferred first.",
    sdk=Sdk("Cluster.remove_member"),
)


class TransferIn(msgspec.Struct, forbid_unknown_fields=True):
    to: NodeId | None = None


@record("Leadership")
class Transferred(msgspec.Struct):
    """The leader after a transfer, and the term."""

    leader: str | None
    term: int


TRANSFER = action(
    "members_transfer",
    "/v1/cluster/leader",
    "Transfer leadership",
    {200: Transferred},
    body=TransferIn,
    codes=("no-such-member", "membership-busy", "not-possible"),
    body_required=False,
    role="operator",
    scope="shared",
    says=(
        'Transfers leadership to the member in "to", or to the voting member with the most complete log. With an '
        "Idempotency-Key a repeat answers with the same member and transfers nothing again."
    ),
)


# ---------------------------------------------------------------- what is kept of it elsewhere

SNAPSHOT = Operation(
    "snapshot_get",
    "GET",
    "/v1/cluster/snapshot",
    "Download a backup of the whole state",
    {
        200: Reply(
            {"type": "string", "format": "binary"}, "The backup.", (SNAPSHOT_INDEX, "Content-Disposition"), BACKUP
        )
    },
    query=READ,
    codes=("overloaded", "disk-full"),
    role="admin",
    says=(
        "All tables of this node as of one log entry, which say the same on every node; the bytes may differ. A node "
        "makes one backup at a time and sends it at up to 64 MiB a second. The last 1024 bytes describe it and hold "
        "the SHA-256 of everything before; a backup that was cut off lacks them. Ask `/v1/cluster/log` with its index "
        "as `after` once it is kept: metrics count from when somebody says so. It contains everything the cluster "
        "knows: keep it secret."
    ),
)
LOG = Operation(
    "log_segments_get",
    "GET",
    "/v1/cluster/log",
    "Download a segment of the log",
    {
        200: Reply({"type": "string", "format": "binary"}, "The segment.", media=SEGMENT),
        204: Reply(None, "This node has applied nothing behind that entry."),
    },
    query=("after", *READ),
    schemas={"after": {"type": "integer", "minimum": 0, "maximum": 2**53, "default": 0}},
    codes=("overloaded", "log-gone"),
    role="admin",
    work=True,
    says=(
        "The entries behind the one with the index `after`, about 8 MiB of them at most, compressed, with a checksum, "
        "and signed where the cluster has a key. Ask again with the index of the last one until the answer is 204. "
        "With a backup as of `after` they make the state after any of them. Who asks says that all up to `after` is "
        "kept elsewhere. A node keeps the newest part of its log: 410 `log-gone` says that the entry is older, and "
        "that another backup is needed; 503 `behind` that this node has not applied that entry. They contain "
        "everything that was asked of the cluster: keep them secret."
    ),
)

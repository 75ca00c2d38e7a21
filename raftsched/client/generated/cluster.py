"""Made from surface/cluster.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

FindingState = Literal["ok", "warn", "fail"]


class DiskUse(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the file system that the data directory is on: `free` to the node, of `total`; `store` and `output` are
    what the node takes of it for its state and for what runs printed."""

    free: int
    total: int
    store: int
    output: int


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """A member as the node that answers knows it. `http`, `raft`: host:port. `applied_index` of another node is known
    to the leader only (a follower asks it): how far its log is known to agree with the leader's own; `lag`: entries of
    the log. A member that does not vote is catching up, and votes by itself when it is done. `trouble`: why it starts
    no runs now; of another node the leader knows it. `last_heartbeat_at`: when the leader got the newest word of its
    worker, by the leader's clock; None where no leader answers, or when it got none yet. `disk` of another node the
    leader knows, too; None where it is not known. `level`: the newest that its version knows, which of another node the
    leader knows; the cluster's rises to the lowest of them (docs/upgrading.md). `raft_announced`: where a member says
    that its Raft port is, while the members have another address of it (`raft`): the leader takes that over
    (docs/runbook.md, a node's address that changes). `log_index`, `log_term`: of the newest entry in the log of the
    node that answers, committed or not; None of others. By term, then index, they say who has most where a majority is
    lost."""

    id: str
    role: str
    voter: bool = True
    raft: str | None = None
    http: str | None = None
    alive: bool
    applied_index: int | None = None
    commit_index: int | None = None
    lag: int | None = None
    clock_offset_ms: float | None = None
    running: int = 0
    slots: int = 0
    version: str | None = None
    session_open: bool = False
    drained: bool = False
    trouble: str | None = None
    last_heartbeat_at: datetime | None = None
    disk: DiskUse | None = None
    level: int | None = None
    raft_announced: str | None = None
    log_index: int | None = None
    log_term: int | None = None


class WaitingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that asks to be let in. `why`: "new", "other-disk" for one that has not the disk of the member of its
    name, or "disk-went-back" for a member whose disk is in an earlier state than it was: it is let in with an empty one
    only."""

    id: str
    raft: str
    http: str
    store: str
    why: str


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as the node that answers sees it. `level`: what may be used, for all members know it. `level_held`:
    it is not raised (setting `upgrade_hold`)."""

    node: str
    leader: str | None
    term: int
    formed: bool
    cluster_id: str | None = None
    waits_for: str | None = None
    nodes: list[ClusterNode]
    waiting: list[WaitingNode] = []
    paused: bool = False
    level: int = 0
    level_held: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check. `detail`: what was found; `do`: what would make it right, None when all is well.
    `nodes`: those it is about. `why`: what happens where it is not well. `see`: the section of the documents."""

    check: str
    state: str
    detail: str
    do: str | None
    nodes: list[str]
    why: str = ""
    see: str = ""


class Doctor(msgspec.Struct, frozen=True, kw_only=True):
    """`state`: that of the worst finding. `node`: from where the cluster was looked at."""

    state: str
    node: str
    items: list[Finding]


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A leadership. It began `at` by its leader's clock, with the entry of this `index` in the log, and lasted until
    the next one began, or less long."""

    term: int
    leader: str
    at: datetime
    index: int


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """The members, and the nodes that ask to be let in."""

    items: list[ClusterNode]
    waiting: list[WaitingNode]


class Leadership(msgspec.Struct, frozen=True, kw_only=True):
    """The leader after a transfer, and the term."""

    leader: str | None
    term: int

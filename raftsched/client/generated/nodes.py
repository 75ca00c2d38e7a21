"""Made from surface/nodes.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime

import msgspec

from raftsched.client.generated.cluster import DiskUse


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Its right to run jobs."""

    id: int
    open: bool
    opened_at: datetime


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """The commands, directories and addresses that jobs may name there. Null: anything. `http_allow` and `http_deny`
    are exceptions to the rule that requests go to public addresses only. `env_allow`: the variables that jobs may set;
    None: none where `exec_allow` or `python_allow` restricts, or only handlers by name are called."""

    exec_allow: list[str] | None = None
    cwd_allow: list[str] | None = None
    python_allow: list[str] | None = None
    http_allow: list[str] = []
    http_deny: list[str] = []
    env_allow: list[str] | None = None


class NodeDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A member as it runs jobs. `own_slots` and `own_labels` are those that it was started with; `slots` and `labels`
    hold. Null, or empty, of one that never ran. `limits_whole_runs`: a handler's limits.memory holds for all processes
    of a run together, not for each. `users`: as whom jobs may ask to run there, as "namespace:user"; "default" is for
    all that it does not name. `revision`: of what is said here about it; 0: nothing is. `trouble`: why it starts no
    runs now: it cannot start processes, or waits for those of an earlier run to end. `last_heartbeat_at`: when the
    leader got the newest word of its worker; None where no leader answers. `allowed`: what jobs may name there; None of
    one that never ran, or does not say. `disk`: None where no leader answers, but of this node. `runs`: false of one
    that was started with --no-run: it votes and serves the API. `weight`: of its slots, beside those of others."""

    id: str
    role: str
    voter: bool
    alive: bool
    http: str | None
    raft: str | None
    version: str | None
    drained: bool
    running: int
    slots: int
    own_slots: int | None
    labels: dict[str, str]
    own_labels: dict[str, str]
    handlers: list[str]
    limits_whole_runs: bool
    users: list[str] = []
    session: Session | None
    revision: int = 0
    trouble: str | None = None
    last_heartbeat_at: datetime | None = None
    allowed: Allowed | None = None
    disk: DiskUse | None = None
    runs: bool = True
    weight: int = 1

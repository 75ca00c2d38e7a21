"""The facts by which a cluster is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raftsched.doctor.samples import Samples


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Tokens that hold, without their names: who may see findings need not be an admin."""

    required: bool = False
    expire_in_ms: Sequence[int] = ()  # of those that do, the first ones to expire
    never: int = 0  # expire
    exact: bool = True  # else there are more than were looked at


@dataclass(frozen=True, kw_only=True)
class Pauses:
    """Pauses, and the level that is held: what somebody stopped by hand. Milliseconds since then; None: nobody knows
    any more."""

    cluster: bool = False
    cluster_for_ms: int | None = None
    level_held_for_ms: int | None = None
    queues: Sequence[tuple[str, int | None]] = ()  # since they were changed last


@dataclass(frozen=True, kw_only=True)
class WorkerSeen:
    """A remote worker with an open session."""

    name: str
    version: str = ""
    silent_ms: int | None = None  # None: nobody knows
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """`cluster`: the answer of `GET /v1/cluster`. `samples`: by node that answers. `silent`: the address of each node
    whose API did not answer to `asker`. `elected_ms_ago`: the newest leaderships, the newest first."""

    asker: str
    now_ms: int = 0
    cluster: Mapping[str, Any]
    samples: Mapping[str, Samples]
    silent: Mapping[str, str] = field(default_factory=dict)
    clock_limit_ms: int = 500
    worker_ttl_ms: int = 10_000
    users: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by node: "namespace:user", as whom jobs may run
    namespaces: Sequence[str] = ()  # that hold something, or are declared
    newest_level: int = 0  # that the version of the asker knows
    elected_ms_ago: Sequence[int] = ()
    tokens: Tokens = Tokens()
    pauses: Pauses = Pauses()
    waiting: int = 0  # instances, all that wait for a worker, for a permit of their key or for another run of their job
    workers: Sequence[WorkerSeen] = ()
    unreadable: int = 0  # secrets that are sealed with a key which the asker does not have
    # Kinds of notes of the audit that `audit_max` cuts short, with the age of the oldest; and how old they should get
    audit_short_ms: Mapping[str, int] = field(default_factory=dict)
    audit_keep_ms: int = 0

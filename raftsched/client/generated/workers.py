"""Made from surface/workers.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A remote worker that has a session, whose number `session` is. `queues` and `namespaces`: whose runs it takes;
    None: of all. Of the namespaces those are shown that the caller may see. `weight`: what one of its slots counts for,
    beside those of others. `running`: the runs that it was given and that have not ended. `last_heartbeat_at`: when the
    leader got its newest word, by the leader's clock; None where no leader answers, or when it got none yet. `trouble`:
    why it starts no runs now, in its own words, which the leader knows. `quiet_since`: since when it has had no poll
    open at any node, so that it is given no new runs until its next one; None while it has, and where no leader
    says."""

    name: str
    session: int
    labels: dict[str, str]
    slots: int
    weight: int
    queues: list[str] | None
    namespaces: list[str] | None
    handlers: list[str]
    running: int
    last_heartbeat_at: datetime | None
    version: str | None
    opened_at: datetime
    trouble: str | None = None
    quiet_since: datetime | None = None


class WorkerRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was given to a worker: `token` is the fencing token of the attempt."""

    id: str
    job_id: str
    token: int
    started_at: datetime | None


class WorkerDetail(Worker, frozen=True, kw_only=True):
    """A worker and its runs. `runs`: of the namespaces that the caller may see, by their tokens. `runs_left_out`: there
    are more."""

    runs: list[WorkerRun]
    runs_left_out: bool = False

"""The remote workers that have a session: machines that work without voting."""

from __future__ import annotations

import msgspec

from raftsched.surface.kinds import listing
from raftsched.surface.operation import READ, Operation
from raftsched.surface.scalars import Time
from raftsched.surface.sdk import Sdk, record


@record("Worker")
class WorkerOut(msgspec.Struct):
    """A remote worker that has a session, whose number `session` is. `queues` and `namespaces`: whose runs it takes;
    null: of all. Of the namespaces those are shown that the caller may see. `weight`: what one of its slots counts for,
    beside those of others. `running`: the runs that it was given and that have not ended. `last_heartbeat_at`: when the
    leader got its newest word, by the leader's clock; null where no leader answers, or when it got none yet. `trouble`:
    why it starts no runs now, in its own words, which the leader knows. `quiet_since`: since when it has had no poll
    open at any node, so that it is given no new runs until its next one; null while it has, and where no leader
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
    last_heartbeat_at: Time | None
    version: str | None
    opened_at: Time
    trouble: str | None = None
    quiet_since: Time | None = None


@record("WorkerRun")
class WorkerRunOut(msgspec.Struct):
    """A run that was given to a worker: `token` is the fencing token of the attempt."""

    id: str
    job_id: str
    token: int
    started_at: Time | None


@record("WorkerDetail", since={"runs_left_out": False})
class WorkerDetail(WorkerOut, kw_only=True):
    """A worker and its runs. `runs`: of the namespaces that the caller may see, by their tokens. `runs_left_out`: there
    are more."""

    runs: list[WorkerRunOut]
    runs_left_out: bool


LIST = listing(
    "workers_list_all",
    "/v1/workers",
    "List the workers",
    WorkerOut,
    "A page of the remote workers that have a session, by name.",
    scope="shared",
    says="Machines that work without voting. The nodes themselves are under /v1/nodes.",
    sdk=Sdk("Workers.list", (), says="Yields the remote workers with a session by name, at most `most` (None: all)."),
)
GET = Operation(
    "workers_get",
    "GET",
    "/v1/workers/{name}",
    "Read a worker",
    {200: WorkerDetail},
    query=READ,
    codes=("not-found",),
    role="viewer",
    scope="shared",
    says="Its own words about itself, and its runs.",
    sdk=Sdk("Workers.get", also="NotFoundError: there is no worker of this name with an open session."),
)

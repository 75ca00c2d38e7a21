"""Jobs that follow one another in answers."""

from __future__ import annotations

import msgspec

from raftsched.surface.operation import READ, Operation
from raftsched.surface.sdk import record


@record("GraphJob", types={"state": "JobState | None"})
class GraphJobOut(msgspec.Struct):
    """A job. `id`, `state` and `when` are null for one that does not exist, or is not for the caller to see."""

    name: str
    id: str | None = None
    state: str | None = None
    when: str | None = None


@record("GraphEdge")
class GraphEdgeOut(msgspec.Struct):
    """`to` waits for `from_`. `kind`: "after" or "condition". `on`: the end that starts it. `mode`: "one"; "all" or
    "any" of several."""

    from_: str = msgspec.field(name="from")
    to: str
    kind: str
    on: str
    mode: str


@record("Graph")
class GraphOut(msgspec.Struct):
    """`complete`: false where there is more than one answer holds: then those nearest to `job`, or first in their
    order, are here."""

    jobs: list[GraphJobOut]
    edges: list[GraphEdgeOut]
    complete: bool


GRAPH = Operation(
    "jobs_graph",
    "GET",
    "/v1/jobs:graph",
    "Read which jobs follow which",
    {200: GraphOut},
    query=("namespace", "job", *READ),
    codes=("not-found",),
    role="viewer",
    says='With `job`, an id or "namespace/name": that one, what it waits for and what follows it, directly or by way '
    "of others. Else all jobs that wait for others, of a namespace or of all. What waits by a condition is found from "
    "the side of the job that waits.",
)

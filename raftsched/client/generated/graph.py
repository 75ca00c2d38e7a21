"""Made from surface/graph.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

import msgspec

from raftsched.client.generated.read_states import JobState


class GraphJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job. `id`, `state` and `when` are None for one that does not exist, or is not for the caller to see."""

    name: str
    id: str | None = None
    state: JobState | None = None
    when: str | None = None


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    """`to` waits for `from_`. `kind`: "after" or "condition". `on`: the end that starts it. `mode`: "one"; "all" or
    "any" of several."""

    from_: str = msgspec.field(name="from")
    to: str
    kind: str
    on: str
    mode: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """`complete`: false where there is more than one answer holds: then those nearest to `job`, or first in their
    order, are here."""

    jobs: list[GraphJob]
    edges: list[GraphEdge]
    complete: bool

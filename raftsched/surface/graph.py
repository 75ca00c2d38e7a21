"""Jobs that follow one another in answers."""

from __future__ import annotations

import msgspec


class GraphJobOut(msgspec.Struct):
    """A job. `id`, `state` and `when` are null for one that does not exist, or is not for the caller to see."""

    name: str
    id: str | None = None
    state: str | None = None
    when: str | None = None


class GraphEdgeOut(msgspec.Struct):
    """`to` waits for `from_`. `kind`: after, or condition. `on`: the end that starts it. `mode`: one; all or any of
    several."""

    from_: str = msgspec.field(name="from")
    to: str
    kind: str
    on: str
    mode: str


class GraphOut(msgspec.Struct):
    """`complete`: false where there is more than one answer holds: then those nearest to `job`, or first in their
    order, are here."""

    jobs: list[GraphJobOut]
    edges: list[GraphEdgeOut]
    complete: bool

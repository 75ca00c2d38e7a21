"""The state of one node, for those who watch it: their addresses have no version."""

from __future__ import annotations

from typing import Literal

import msgspec

from raftsched.surface.operation import TEXT, Operation, Reply


class Checks(msgspec.Struct):
    formed: bool
    leader: bool
    caught_up: bool


class Alive(msgspec.Struct):
    alive: bool


class Ready(msgspec.Struct):
    """`trouble`: why this node starts no runs, while it takes requests."""

    ready: Literal[True]
    checks: Checks
    trouble: str | None = None


class NotReady(msgspec.Struct):
    ready: Literal[False]
    checks: Checks
    waits_for: str
    trouble: str | None = None


LIVEZ = Operation(
    "health_livez",
    "GET",
    "/livez",
    "Check that the process is alive",
    {200: Alive},
    role="open",
    says="Answers 200 as long as the process answers.",
)
READYZ = Operation(
    "health_readyz",
    "GET",
    "/readyz",
    "Check that the node is ready",
    {200: Reply(Ready, "It is."), 503: Reply(NotReady, "It is not.", ("Retry-After",))},
    role="open",
    says=(
        "Answers 200 when requests can be served: the cluster is formed, has a leader, and this node is not far "
        "behind. Otherwise `waits_for` says what is missing and what the operator should do. A node that takes "
        "requests but starts no runs is ready; `trouble` says why it starts none."
    ),
)
METRICS = Operation(
    "health_metrics",
    "GET",
    "/metrics",
    "Metrics for Prometheus",
    {200: Reply({"type": "string"}, "Text format.", (), TEXT)},
    role="viewer",
    says=(
        "Metrics in the text format of Prometheus, at most a second old. They name nodes, queues, namespaces and "
        "webhooks. With the setting `metrics_open` at 1 they need no token."
    ),
)

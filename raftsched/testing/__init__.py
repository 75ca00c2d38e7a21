"""Starts clusters for tests: real nodes on loopback in the process of the test, in a temporary directory, gone
afterwards.

In asyncio programs:

    async with raftsched.testing.cluster(3) as nodes:
        job = await nodes[0].jobs.create(trigger={"manual": True}, handler={"shell": "echo hello"})

Without an event loop, and as the pytest fixture `raftsched_cluster` (plugin.py):

    with raftsched.testing.running_cluster(3) as cluster:
        job = cluster.client.jobs.create(trigger={"manual": True}, handler={"shell": "echo hello"})

Without any cluster `inline` runs what a test enqueues at once, in its own process (the fixture `raftsched_inline`):

    with raftsched.testing.inline() as runs:
        send_invoice.enqueue(7)
        assert runs[0].result == {"sent": 7}

What is tested on a cluster is the product: consensus, disks and supervised processes are those of a real node. Only
the machine is shared.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raftsched.testing.inline_runs import Enqueued, InlineRuns, inline
    from raftsched.testing.running import RunningCluster, running_cluster
    from raftsched.testing.temporary_nodes import Cluster, cluster

_PUBLIC = {
    "Cluster": "raftsched.testing.temporary_nodes",
    "Enqueued": "raftsched.testing.inline_runs",
    "InlineRuns": "raftsched.testing.inline_runs",
    "RunningCluster": "raftsched.testing.running",
    "cluster": "raftsched.testing.temporary_nodes",
    "inline": "raftsched.testing.inline_runs",
    "running_cluster": "raftsched.testing.running",
}

__all__ = ["Cluster", "Enqueued", "InlineRuns", "RunningCluster", "cluster", "inline", "running_cluster"]


def __getattr__(name: str) -> Any:
    """Imports late: pytest loads the plugin in every run, also where no test needs a cluster."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)

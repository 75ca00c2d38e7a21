"""A cluster beside tests that have no event loop: its nodes live in a thread."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from raftsched.client.sync.client import Client
from raftsched.client.sync.loop import LoopThread
from raftsched.testing.temporary_nodes import Cluster

if TYPE_CHECKING:
    from raftsched.embedded.node import Node

_T = TypeVar("_T")


class RunningCluster:
    """`client` asks any of the nodes, over HTTP like every program; `servers` are their addresses, for clients of other
    kinds. What the nodes themselves can do is done in their thread by `run`."""

    def __init__(self, nodes: Cluster, thread: LoopThread, client: Client) -> None:
        self.nodes = nodes
        self.client = client
        self._thread = thread

    @property
    def servers(self) -> str:
        return self.nodes.servers

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Waits for a coroutine in the nodes' event loop: `cluster.run(cluster.nodes[0].stop())`."""
        return self._thread.run(work)

    def leader(self) -> Node:
        """Returns the node that all running ones take for the leader, waiting for one."""
        return self.run(self.nodes.leader())

    def stop(self, node: Node) -> None:
        """Stops a node in good order. The others go on as long as they are a majority."""
        self.run(node.stop())

    def start(self, node: Node) -> None:
        """Starts a node that was stopped, and waits until it is ready."""
        self.run(self.nodes.start(node))
        self.run(node.ready())


@contextmanager
def running_cluster(size: int = 3, *, directory: Path | None = None, **settings: Any) -> Iterator[RunningCluster]:
    """Gives nodes that are ready, until the block is left. `directory` and `settings` as for Cluster."""
    thread = LoopThread()
    try:
        nodes = Cluster(size, directory=directory, **settings)
        thread.run(nodes.__aenter__())
        try:
            with Client(nodes.servers) as client:
                yield RunningCluster(nodes, thread, client)
        finally:
            thread.run(nodes.__aexit__(None, None, None))
    finally:
        thread.stop()

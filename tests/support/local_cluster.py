"""Nodes on loopback in the process of the tests, for end-to-end tests in which no node is ended by a signal.

They cost a tenth of what processes of their own do. Consensus, disks, sockets and the supervised processes of runs are
those of a real node."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from raftsched.client.sync.loop import LoopThread
from raftsched.embedded.logs import TextFormatter
from raftsched.embedded.node import Node
from raftsched.security.keyring import KEY_FILE
from raftsched.testing.temporary_nodes import Cluster as Nodes
from tests.support.api_nodes import ApiCluster, ApiNode
from tests.support.started import started

_T = TypeVar("_T")
_LOGGER = logging.getLogger("raftsched")


class LocalNode(ApiNode):
    def __init__(self, cluster: LocalCluster, node: Node) -> None:
        self.cluster = cluster
        self.node = node
        self.id = node.id
        self.http_port = int(node.url.rpartition(":")[2])
        self.data = cluster.directory / node.id
        self.log = cluster.log

    @property
    def alive(self) -> bool:
        return self.node.running

    def stop(self) -> None:
        """Ends it in good order, as SIGTERM does."""
        self.cluster.run(self.node.stop())

    def start(self) -> None:
        """Starts it again where it was; it is ready when `ready` says so."""
        self.cluster.run(self.cluster.inside.start(self.node))


class LocalCluster(ApiCluster[LocalNode]):
    """`with LocalCluster(3) as cluster:` starts and waits; leaving stops every node. The log is one of all nodes."""

    def __init__(
        self, size: int = 3, *, directory: Path | None = None, pythonpath: Path | None = None, **settings: Any
    ) -> None:
        """`settings`: of all nodes, by the names that they have in the file of a node. Jobs run as the user of the
        tests, also where that is root."""
        self._temporary = tempfile.TemporaryDirectory(prefix="raftsched-") if directory is None else None
        self.directory = Path(self._temporary.name) if self._temporary else directory or Path()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.key_file = self.directory / KEY_FILE
        self.log = self.directory / "nodes.log"
        self.nodes: list[LocalNode] = []
        path = {} if pythonpath is None else {"pythonpath": [str(pythonpath)]}
        user = {"run_as": "root"} if os.geteuid() == 0 else {}  # those of others are the user's own: `Nodes` says it
        self.inside = Nodes(size, directory=self.directory, **{"http_allow": "loopback", **path, **user, **settings})
        self._thread: LoopThread | None = None
        self._parts = ExitStack()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Waits for a coroutine in the event loop of the nodes."""
        assert self._thread is not None
        return self._thread.run(work)

    def __enter__(self) -> LocalCluster:
        started("cluster in the process of the tests")
        with ExitStack() as parts:
            if self._temporary is not None:
                parts.callback(self._temporary.cleanup)
            self._keep_log(parts)
            self._thread = LoopThread()
            parts.callback(self._thread.stop)
            self.run(self.inside.__aenter__())
            parts.callback(lambda: self.run(self.inside.__aexit__(None, None, None)))
            self.nodes = [LocalNode(self, node) for node in self.inside]
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def _keep_log(self, parts: ExitStack) -> None:
        handler = logging.FileHandler(self.log)
        handler.setFormatter(TextFormatter())
        level = _LOGGER.level
        _LOGGER.addHandler(handler)
        _LOGGER.setLevel(logging.INFO)

        def end() -> None:
            _LOGGER.removeHandler(handler)
            _LOGGER.setLevel(level)
            handler.close()

        parts.callback(end)

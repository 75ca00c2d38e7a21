"""The share of the output that each node keeps of a namespace's runs, as its tables say now."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

from raftsched.config.node import NodeConfig
from raftsched.core.rows import decode_namespace
from raftsched.core.tables import ReadView, Table
from raftsched.worker.output import OutputStore

log = logging.getLogger(__name__)


def output_of(config: NodeConfig, read: Callable[[], AbstractContextManager[ReadView]]) -> OutputStore:
    """The node's store of output. `read`: opens its tables."""
    return OutputStore(
        config.data / "output",
        max_attempt_bytes=config.output_max,
        keep_bytes=config.output_keep_bytes,
        share_of=shares(read),
    )


def shares(read: Callable[[], AbstractContextManager[ReadView]]) -> Callable[[str], int | None]:
    """Returns a function that says how many bytes a namespace may have; None: no such limit. May be asked from any
    thread. Where the tables cannot be read it says None: an attempt's end is told with its output, whatever befell the
    tables."""

    def share_of(namespace: str) -> int | None:
        if not namespace:
            return None
        try:
            with read() as view:
                raw = view.get(Table.NAMESPACES, namespace.encode())
        except Exception as error:
            log.warning("what the namespace %s may keep of its output is not known: %s", namespace, error)
            return None
        return None if raw is None else decode_namespace(raw).output_bytes

    return share_of

"""`raftsched node`: a process that is there for one Node, and nothing more."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from raftsched.config.differences import TAKEN_BY_NODE
from raftsched.config.node import NodeConfig
from raftsched.embedded.node import Node
from raftsched.embedded.reload import Source
from raftsched.embedded.service import Service

log = logging.getLogger("raftsched.node")

# How long one thread may keep another from the interpreter. What waits for the event loop mostly is the thread that
# writes the log: it needs the interpreter between any two calls of LMDB, and all callers wait for it.
SWITCH_S = 0.000_3
GC_THRESHOLDS = (20_000, 20, 50)  # objects made and not freed before each look; young before older, older before old


def run(config: NodeConfig, source: Source | None = None) -> int:
    """Runs a node until it ends, and returns the exit code. `source`: see Service."""
    service = Service(config, config.id, source)
    sys.setswitchinterval(SWITCH_S)  # not in a process that does other things as well
    return service.run(lambda: _serve(config, service))


async def _serve(config: NodeConfig, service: Service[NodeConfig]) -> None:
    node = Node.of(config, own_process=True)
    async with service.of(node, TAKEN_BY_NODE):
        _import_node()
        starting = await service.started(node.start())
        if starting is not None:
            await node.stop()
            await asyncio.gather(starting, return_exceptions=True)
            return
        _settle_down()
        log.info("node %s: http %s, raft %s, data %s", config.id, config.http, config.raft, config.data)
        service.ready(lambda: node.standing)
        waiting = asyncio.create_task(node.wait())
        await asyncio.wait([waiting, service.asked], return_when=asyncio.FIRST_COMPLETED)
        service.stopping()
        await node.stop()
        await waiting


def _import_node() -> None:
    """Imports what a node is made of, without the collector of cycles: what is imported stays. Looking at it over and
    over, here and when the node has started, is a tenth of what a start costs."""
    gc.disable()
    with _without_authorities():
        import raftsched.node  # noqa: F401

    gc.freeze()
    gc.enable()


@contextmanager
def _without_authorities() -> Iterator[None]:
    """Keeps aiohttp from reading the system's authorities, which it does twice when it is imported, for contexts that
    no part of a node uses: each connection is given what it trusts. It is nearly a tenth of a start."""
    names = ssl.get_default_verify_paths()
    before = {name: os.environ.get(name) for name in (names.openssl_cafile_env, names.openssl_capath_env)}
    os.environ.update(dict.fromkeys(before, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _settle_down() -> None:
    """Tells the collector of cycles to leave alone what was made at the start, and to look less often at the rest:
    commands and rows hold no cycles, and are most of that."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)

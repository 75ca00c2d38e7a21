"""`raftsched node`: a process that is there for one Node, and nothing more."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys

from raftsched.config.differences import TAKEN_BY_NODE
from raftsched.config.node import NodeConfig
from raftsched.embedded.logs import configure, write_as
from raftsched.embedded.node import Node, NodeFailed
from raftsched.embedded.reload import Reload, Source, hear, hear_no_more
from raftsched.embedded.systemd import Systemd
from raftsched.errors import StartupError
from raftsched.system import background, descriptors

log = logging.getLogger("raftsched.node")

# How long one thread may keep another from the interpreter. What waits for the event loop mostly is the thread that
# writes the log: it needs the interpreter between any two calls of LMDB, and all callers wait for it.
SWITCH_S = 0.000_3
GC_THRESHOLDS = (20_000, 20, 50)  # objects made and not freed before each look; young before older, older before old


def run(config: NodeConfig, source: Source | None = None) -> int:
    """Runs a node until it ends, and returns the exit code. Uses uvloop where it is installed. `source`: where the
    configuration is from, for SIGHUP; None: it stays as it is."""
    handler = configure(config.log_format, config.id)
    systemd = Systemd.of(os.environ)
    # Not in a process that does other things as well:
    descriptors.raise_limit()
    sys.setswitchinterval(SWITCH_S)
    try:
        try:
            import uvloop
        except ImportError:
            return asyncio.run(serve(config, systemd, source, handler))
        code: int = uvloop.run(serve(config, systemd, source, handler))
        return code
    finally:
        hear_no_more()


async def serve(
    config: NodeConfig, systemd: Systemd, source: Source | None = None, handler: logging.Handler | None = None
) -> int:
    """Runs a node until SIGTERM or SIGINT; a second one ends what runs at once. SIGHUP has it read its files and its
    configuration again. Returns the exit code."""
    node = Node.of(config, own_process=True)
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(background.on_unhandled)

    def on_signal() -> None:
        if asked.is_set():
            node.hurry()
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)

    def take(new: NodeConfig, names: tuple[str, ...]) -> None:
        nonlocal config
        config = new
        if "log_format" in names and handler is not None:
            write_as(handler, new.log_format, new.id)
        node.take(new)

    reload = Reload(source, TAKEN_BY_NODE, take, node.read_files_again, systemd)
    hear(reload.ask)
    stopping = asyncio.create_task(asked.wait())
    systemd.status("starts")
    try:
        _import_node()
        starting = asyncio.create_task(node.start())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            systemd.stopping(0)
            await node.stop()
            await asyncio.gather(starting, return_exceptions=True)
            return 0
        starting.result()
        _settle_down()
        log.info("node %s: http %s, raft %s, data %s", config.id, config.http, config.raft, config.data)
        # Not only when the cluster has a leader: that takes other nodes, which systemd may be yet to start.
        systemd.ready(lambda: node.standing)
        reload.start()
        waiting = asyncio.create_task(node.wait())
        await asyncio.wait([waiting, stopping], return_when=asyncio.FIRST_COMPLETED)
        systemd.stopping(config.grace_ms / 1000)
        await node.stop()
        await waiting
    except (StartupError, NodeFailed) as error:
        systemd.status(error.detail)
        print(f"raftsched: {error.detail}", file=sys.stderr)
        return int(error.exit) if isinstance(error, StartupError) else 1
    finally:
        stopping.cancel()
        await reload.stop()
        systemd.close()
    return 0


def _import_node() -> None:
    """Imports what a node is made of, without the collector of cycles: what is imported stays. Looking at it over and
    over, here and when the node has started, is a tenth of what a start costs."""
    gc.disable()
    import raftsched.node  # noqa: F401

    gc.freeze()
    gc.enable()


def _settle_down() -> None:
    """Tells the collector of cycles to leave alone what was made at the start, and to look less often at the rest:
    commands and rows hold no cycles, and are most of that."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)

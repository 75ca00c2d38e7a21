"""`raftsched worker`: a process that is there for one remote worker, and nothing more."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys

from raftsched.config.differences import TAKEN_BY_WORKER
from raftsched.config.worker import WorkerConfig
from raftsched.embedded.logs import configure, write_as
from raftsched.embedded.reload import Reload, Source, hear, hear_no_more
from raftsched.embedded.systemd import Systemd
from raftsched.errors import StartupError
from raftsched.remote.process import RemoteWorker
from raftsched.system import background, descriptors

TOKEN_FROM = "--token-file (or RAFTSCHED_TOKEN, --token)"  # as --help has it  # nosec B105

log = logging.getLogger("raftsched.worker")


def run(config: WorkerConfig, source: Source | None = None) -> int:
    """Runs a worker until it is told to stop, and returns the exit code. Uses uvloop where it is installed. `source`:
    where the configuration is from, for SIGHUP; None: it stays as it is."""
    handler = configure(config.log_format, config.name)
    systemd = Systemd.of(os.environ)
    descriptors.raise_limit()
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
    config: WorkerConfig, systemd: Systemd, source: Source | None = None, handler: logging.Handler | None = None
) -> int:
    """Runs a worker until SIGTERM or SIGINT; a second one ends what runs at once. SIGHUP has it read its files and its
    configuration again. Returns the exit code."""
    worker = RemoteWorker(config, own_process=True, token_from=TOKEN_FROM)
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(background.on_unhandled)

    def on_signal() -> None:
        if asked.is_set():
            worker.hurry()
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)

    def take(new: WorkerConfig, names: tuple[str, ...]) -> None:
        nonlocal config
        config = new
        if "log_format" in names and handler is not None:
            write_as(handler, new.log_format, new.name)
        worker.take(new)

    reload = Reload(source, TAKEN_BY_WORKER, take, worker.read_files_again, systemd)
    hear(reload.ask)
    stopping = asyncio.create_task(asked.wait())
    systemd.status("starts")
    try:
        starting = asyncio.create_task(worker.start())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            systemd.stopping(0)
            starting.cancel()
            await asyncio.wait([starting])
            return 0
        starting.result()
        gc.collect()
        gc.freeze()
        log.info("worker %s: %s, data %s", config.name, ", ".join(map(str, config.servers)), config.data)
        systemd.ready(lambda: _standing(worker))  # also where no node answers: it waits for one
        reload.start()
        await stopping
        systemd.stopping(config.grace_ms / 1000)
    except StartupError as error:
        systemd.status(error.detail)
        print(f"raftsched: {error.detail}", file=sys.stderr)
        return int(error.exit)
    finally:
        stopping.cancel()
        await reload.stop()
        await worker.stop()
        systemd.close()
    return 0


def _standing(worker: RemoteWorker) -> str:
    return f"session {worker.session}" if worker.session else "waits for a session"

"""`raftsched worker`: a process that is there for one remote worker, and nothing more."""

from __future__ import annotations

import asyncio
import gc
import logging

from raftsched.config.differences import TAKEN_BY_WORKER
from raftsched.config.worker import WorkerConfig
from raftsched.embedded.reload import Source
from raftsched.embedded.service import Service
from raftsched.remote.process import RemoteWorker

TOKEN_FROM = "--token-file (or RAFTSCHED_TOKEN, --token)"  # as --help has it  # nosec B105

log = logging.getLogger("raftsched.worker")


def run(config: WorkerConfig, source: Source | None = None) -> int:
    """Runs a worker until it is told to stop, and returns the exit code. `source`: see Service."""
    service = Service(config, config.name, source)
    return service.run(lambda: _serve(config, service))


async def _serve(config: WorkerConfig, service: Service[WorkerConfig]) -> None:
    worker = RemoteWorker(config, own_process=True, token_from=TOKEN_FROM)
    async with service.of(worker, TAKEN_BY_WORKER):
        try:
            starting = await service.started(worker.start())
            if starting is not None:
                starting.cancel()
                await asyncio.wait([starting])
                return
            gc.collect()
            gc.freeze()
            log.info("worker %s: %s, data %s", config.name, ", ".join(map(str, config.servers)), config.data)
            service.ready(lambda: f"session {worker.session}" if worker.session else "waits for a session")
            await service.asked
            service.stopping()
        finally:
            await worker.stop()

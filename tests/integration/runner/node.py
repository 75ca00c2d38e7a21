"""A node process reduced to its runner, for tests that stop or kill it: launches one job and holds a lease for long.

Arguments: data directory, FIFO for pids, lease in ms, mark; more are let pass. Tells the supervisor's pid through the
FIFO first.
"""

import asyncio
import os
import sys
from pathlib import Path

from raftsched.output.keeping.store import OutputStore
from raftsched.system.clock import SystemClock
from raftsched.worker.processes.runner import Runner, RunSpec
from raftsched.worker.processes.wire import Exec
from tests.integration.runner.bed import AS_IT_IS, LONG_MS, MARK, SCATTERED


async def main(directory: Path, fifo: str, lease_ms: int, mark: str) -> None:
    clock = SystemClock()
    runner = Runner(directory, OutputStore(directory / "output"), clock, options=AS_IT_IS)
    await runner.start()
    runner.set_lease(1, clock.boot_ms() + lease_ms)
    fd = os.open(fifo, os.O_WRONLY)
    os.write(fd, f"{runner.pid}\n".encode())
    os.close(fd)
    task = Exec((sys.executable, "-S", "-c", SCATTERED, fifo), {MARK: mark})
    runner.launch(RunSpec(token=1, session=1, task=task, timeout_ms=LONG_MS))
    await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))

"""A node process reduced to its runner, alone in the cgroup that it is given: prints the error of a run whose processes
take more memory together than it may have, each less. Argument: the cgroup."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from raftsched.worker.processes import cgroup
from raftsched.worker.processes.wire import Exec, Limits
from tests.integration.runner.bed import Bed

MIB = 2**20
TAKES = "x = bytearray(40 << 20); __import__('time').sleep(60)"


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with Bed(Path(directory), cgroups=cgroup.take()) as bed:
            one = f'{sys.executable} -S -c "{TAKES}"'
            end = await bed.run(Exec(("/bin/sh", "-c", f"{one} & {one} & {one}; wait"), {}, None, Limits(64 * MIB)))
            print((end.error or "").splitlines()[0])


Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
asyncio.run(main())
